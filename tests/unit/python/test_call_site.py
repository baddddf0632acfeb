"""python.call_site: stacks as they are shown and stored."""

from __future__ import annotations

import json

import pytest

from exporter.python.call_site import FRAMES_MAX, OTHER_STACKS, STACK_NUMBER_MAX, CallStack, PythonFrame
from exporter.text.untrusted import Untrusted
from tests.support.history import a_call_site, a_stack

FORWARD = PythonFrame("/opt/venv/lib/python3.11/site-packages/torch/nn/linear.py", "Linear.forward", 114)
STEP = PythonFrame("/srv/job/train.py", "Trainer.step", 142)
MAIN = PythonFrame("/srv/job/train.py", "main", 9)


class TestPlace:
    def test_line_is_of_the_job_s_own_code_and_then_of_the_package(self) -> None:
        stack = CallStack("/srv/job", (FORWARD, STEP, MAIN))

        assert stack.place == "Trainer.step (train.py:142) through Linear.forward (torch/nn/linear.py:114)"

    def test_own_code_that_makes_the_call_stands_alone(self) -> None:
        assert CallStack("/srv/job", (STEP, MAIN)).place == "Trainer.step (train.py:142)"

    def test_package_alone_is_named_by_its_innermost_function(self) -> None:
        """A program that consists of packages only."""
        assert CallStack("/", (FORWARD, FORWARD)).place == "Linear.forward (torch/nn/linear.py:114)"

    def test_instruction_without_a_line_has_none(self) -> None:
        assert CallStack("/srv/job", (STEP._replace(line=None),)).place == "Trainer.step (train.py)"

    def test_other_stacks_have_no_line(self) -> None:
        assert OTHER_STACKS.place == "other stacks"


class TestStored:
    @pytest.mark.parametrize(
        "stack", [a_stack(), OTHER_STACKS, CallStack("/中", (STEP._replace(line=None),) * FRAMES_MAX)]
    )
    def test_stack_survives(self, stack: CallStack) -> None:
        assert CallStack.decoded(stack.encoded()) == stack

    def test_equal_stacks_have_one_number(self) -> None:
        assert a_stack(7).number == a_stack(7).number != a_stack(8).number
        assert 0 < a_stack().number <= STACK_NUMBER_MAX

    def test_names_are_printable(self) -> None:
        """Whichever program wrote them."""
        raw = json.dumps(["/\x1b", [["a\nb", "\u202e", 1]]]).encode()

        assert CallStack.decoded(raw) == CallStack("/\ufffd", (PythonFrame("a\ufffdb", "\ufffd", 1),))

    @pytest.mark.parametrize(
        "document",
        [
            [],
            {},
            "stack",
            ["/", [["f", "g"]]],
            ["/", [["f", "g", -1]]],
            ["/", [["f", 1, 1]]],
            [1, []],
            ["/", [["f", "g", 1]] * (FRAMES_MAX + 1)],
        ],
    )
    def test_other_documents_are_refused(self, document: object) -> None:
        with pytest.raises(Untrusted):
            CallStack.decoded(json.dumps(document).encode())


class TestSums:
    def test_sum_has_the_later_bound(self) -> None:
        found = a_call_site(calls=4, each_ns=10, slow_from_ns=5).plus(a_call_site(calls=2, each_ns=20, slow_from_ns=7))

        assert (found.calls, found.total_ns, found.slow_from_ns) == (6, 80, 7)
