"""Shapes: what each offers and needs, and what a diagnosis of it may name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.injectors import NotPossible
from tests.faults.shapes import SHAPES
from tests.faults.shapes.expected import EXPECTED
from tests.faults.shapes.running import LoggedStep, read_log
from tests.faults.shapes.shape import DECOYS, PROGRAMS, InsideFault, Shape, environment, missing, ready

ROOT = Path(__file__).parents[3]
LACKING = Shape("lacking", "needs what is nowhere", ("true",), 0.1, frozenset(), needs=("/nowhere/x:python3-x",))


class TestShapes:
    """The registry."""

    def test_a_shape_is_found_by_its_name(self) -> None:
        assert [name for name, shape in SHAPES.items() if name != shape.name] == []

    def test_held_out_shapes_come_after_all_tuned_ones(self) -> None:
        """At least eight, and fewer than there are tuned ones: a shape that was used to change the engine moves to these."""
        held_out = [shape.is_held_out for shape in SHAPES.values()]

        assert held_out == sorted(held_out)
        assert 8 <= held_out.count(True) <= held_out.count(False)

    def test_no_two_shapes_run_the_same_program_in_the_same_way(self) -> None:
        assert len({shape.command for shape in SHAPES.values()}) == len(SHAPES)

    def test_held_out_shape_has_a_program_of_its_own(self) -> None:
        """Which no tuned shape runs."""
        tuned, held_out = (
            {shape.source or Path(shape.command[1]).name for shape in SHAPES.values() if shape.is_held_out is kind}
            for kind in (False, True)
        )

        assert tuned & held_out == set()

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
    def test_its_program_exists(self, shape: Shape) -> None:
        """A file of PROGRAMS: a script, or the source of one that is built."""
        assert (PROGRAMS / (shape.source or Path(shape.command[1]).name)).is_file()

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
    def test_only_several_ranks_have_a_straggler(self, shape: Shape) -> None:
        """And only they have one that does not enter a collective."""
        of_ranks = {InsideFault.STRAGGLER, InsideFault.HANG}

        assert shape.offers & of_ranks == (of_ranks if shape.ranks > 1 else set())

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
    def test_make_faults_installs_what_it_needs(self, shape: Shape) -> None:
        """FAULT_NEEDS of the Makefile names it."""
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

        assert [need for need in shape.needs if need not in makefile] == []

    @pytest.mark.parametrize("kind", InsideFault)
    def test_every_fault_is_offered_by_a_tuned_and_by_a_held_out_shape(self, kind: InsideFault) -> None:
        """So that the two halves can be compared."""
        assert {shape.is_held_out for shape in SHAPES.values() if kind in shape.offers} == {False, True}

    def test_held_out_shapes_have_steps_of_all_lengths(self) -> None:
        """From a few milliseconds to most of a second, and one to four ranks."""
        held_out = [shape for shape in SHAPES.values() if shape.is_held_out]
        lengths = sorted(shape.step_seconds for shape in held_out)

        assert lengths[0] <= 0.005
        assert lengths[-1] >= 0.5
        assert {1, 2, 4} <= {shape.ranks for shape in held_out}


class TestNeeds:
    """A missing package is one clear line."""

    def test_a_file_that_is_missing_names_its_package(self) -> None:
        assert missing(LACKING) == ["python3-x"]

    def test_a_shape_that_lacks_a_package_is_not_possible(self) -> None:
        with pytest.raises(NotPossible, match=r"^lacking needs python3-x: apt-get install python3-x$"):
            ready(LACKING)

    def test_environment_has_the_places_of_the_files(self, tmp_path: Path) -> None:
        """Those of this run replace the ones of the caller."""
        found = environment(tmp_path, Path("/libraries"), 7, {"SEED": "1", "HOME": "/root"})

        assert (found["STEP_LOG"], found["FAULT_FILE"]) == (f"{tmp_path}/steps.jsonl", f"{tmp_path}/fault.json")
        assert (found["LD_LIBRARY_PATH"], found["SEED"], found["HOME"]) == ("/libraries", "7", "/root")


class TestExpected:
    """The causes that may be named."""

    def test_every_fault_has_an_entry(self) -> None:
        assert set(EXPECTED) == set(InsideFault)

    def test_a_fault_has_a_cause(self) -> None:
        """Only a decoy may have none."""
        assert {kind for kind in InsideFault if not EXPECTED[kind]} <= DECOYS

    def test_programs_know_every_fault_and_no_other(self) -> None:
        """They run under another interpreter and import nothing of this tree."""
        line = "import inside, json; print(json.dumps(sorted(inside.KINDS)))"
        done = subprocess.run([sys.executable, "-c", line], cwd=PROGRAMS, capture_output=True, text=True, check=True)

        assert json.loads(done.stdout) == sorted(InsideFault)


class TestStepLog:
    """The log that a program writes."""

    def test_a_line_is_a_step(self, tmp_path: Path) -> None:
        """42 ms long."""
        log = tmp_path / "steps.jsonl"
        log.write_text('{"rank": 1, "step": 3, "tgid": 17, "start_ns": 1000, "end_ns": 42001000}\n', encoding="ascii")

        assert read_log(log) == [LoggedStep(1, 3, 17, 1000, 42_001_000)]
        assert read_log(log)[0].seconds == pytest.approx(0.042)

    def test_a_line_without_its_end_is_left_out(self, tmp_path: Path) -> None:
        """The program is about to write the rest."""
        log = tmp_path / "steps.jsonl"
        log.write_text('{"rank": 0, "step": 0, "tgid": 17, "start_ns": 1, "end_ns": 2}\n{"rank": 0', encoding="ascii")

        assert [step.step for step in read_log(log)] == [0]

    def test_there_are_no_steps_before_the_file(self, tmp_path: Path) -> None:
        assert read_log(tmp_path / "steps.jsonl") == []
