"""named_sites: slow calls with the names of their stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.kernel.call_site_rows import CallSiteRow
from exporter.kernel.python_frames import CodeFrame
from exporter.python.call_site import OTHER_STACKS, CallSite, CallStack, PythonFrame
from exporter.stacks.named_sites import NAMED_AT_ONCE, TRIES_MAX, NamedSites
from tests.support.call_site_rows import a_key, a_row
from tests.support.stacks import SECOND

STEP = PythonFrame("/srv/job/train.py", "step", 142)
STACK = CallStack("/srv/job", (STEP,))


class Stacks:
    """PythonStacks whose code objects have lines by address. dead: threads that have ended."""

    def __init__(self) -> None:
        self.dead: set[int] = set()
        self.lines = {0x1000: 142}
        self.reads = 0

    def named(self, _tgid: int, tid: int, _place: int, frames: Sequence[CodeFrame]) -> tuple[PythonFrame, ...]:
        self.reads += 1
        if tid in self.dead or any(frame.code not in self.lines for frame in frames):
            return ()
        return tuple(STEP._replace(line=self.lines[frame.code]) for frame in frames)


def sites_of(stacks: Stacks, **options: Any) -> NamedSites:
    fake: Any = stacks
    return NamedSites(fake, lambda _tgid: "/srv/job", **options)


def at_line(code: int, calls: int = 1, total_ns: int = 100) -> CallSiteRow:
    return a_row(calls, total_ns, frames=(CodeFrame(code, code + 16, 0x77),))


class TestNames:
    def test_new_stack_is_named_and_then_known(self) -> None:
        stacks = Stacks()
        sites = sites_of(stacks)

        assert sites.update({a_key(): a_row(4, 900)}, SECOND)
        assert sites.call_sites(1) == ()

        sites.name_new()

        assert sites.call_sites(1) == (CallSite("runtime", "cudaMalloc", 200_000, 4, 900, STACK),)
        assert not sites.update({a_key(): a_row(5, 1000)}, SECOND)
        assert (sites.call_sites(1)[0].calls, stacks.reads) == (5, 1)

    def test_memory_is_read_through_the_main_thread_when_the_caller_has_ended(self) -> None:
        stacks = Stacks()
        stacks.dead = {4711}
        sites = sites_of(stacks)
        sites.update({a_key(): a_row()}, SECOND)
        sites.name_new()

        assert sites.call_sites(1)[0].stack == STACK

    def test_stack_that_cannot_be_read_is_tried_again_and_then_one_of_the_others(self) -> None:
        """No slow call is left out of the sums."""
        stacks = Stacks()
        sites = sites_of(stacks)
        sites.update({a_key(1): at_line(0x6660, 2), a_key(2): at_line(0x7770, 3)}, SECOND)
        for _ in range(TRIES_MAX - 1):
            sites.name_new()
            assert sites.call_sites(1) == ()
        sites.name_new()

        assert [(one.calls, one.stack) for one in sites.call_sites(1)] == [(5, OTHER_STACKS)]
        assert sites.stack_of(a_key(1), at_line(0x6660)) is None

    def test_instructions_of_one_line_are_one_place(self) -> None:
        """The kernel has a row for each address."""
        stacks = Stacks()
        stacks.lines[0x2000] = 142
        sites = sites_of(stacks)
        sites.update({a_key(1): at_line(0x1000, 2, 100), a_key(2): at_line(0x2000, 3, 50)}, SECOND)
        sites.name_new()

        assert [(one.calls, one.total_ns) for one in sites.call_sites(1)] == [(5, 150)]

    def test_many_new_stacks_are_named_in_parts(self) -> None:
        """Stuck threads of a chain are sampled in between."""
        stacks = Stacks()
        sites = sites_of(stacks)
        rows = {a_key(number): a_row() for number in range(NAMED_AT_ONCE + 3)}
        sites.update(rows, SECOND)
        sites.name_new()

        assert stacks.reads == NAMED_AT_ONCE
        assert sites.update(rows, SECOND)

    def test_folders_are_left_out_on_request(self) -> None:
        sites = sites_of(Stacks(), with_paths=False)
        sites.update({a_key(): a_row()}, SECOND)
        sites.name_new()

        assert sites.call_sites(1)[0].stack == CallStack("", (STEP._replace(file="train.py"),))

    def test_processes_have_their_own_sums(self) -> None:
        sites = sites_of(Stacks())
        sites.update({a_key(process=1): a_row(2), a_key(process=2): a_row(3)}, SECOND)
        sites.name_new()

        assert [sites.call_sites(process)[0].calls for process in (1, 2)] == [2, 3]
        assert sites.call_sites(3) == ()

    def test_rows_that_the_kernel_does_not_have_any_more_are_forgotten(self) -> None:
        sites = sites_of(Stacks())
        sites.update({a_key(): a_row()}, SECOND)
        sites.name_new()
        sites.update({}, SECOND)

        assert sites.call_sites(1) == ()
