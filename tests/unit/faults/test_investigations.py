"""Investigations without a job: what the procedure asks and reads, and what is right."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.investigations.cases import CASES, Case
from tests.faults.investigations.document import document
from tests.faults.investigations.investigator import Call, Findings, Line, investigate
from tests.faults.investigations.judged import Judged, source_of
from tests.faults.shapes.shape import PROGRAMS

EPISODE = {"tool": "episode", "arguments": {"chain_id": "1111"}}
STACKS = {"tool": "stacks", "arguments": {"chain_id": "1111"}}
CASE = Case(
    "fio", "fio reads the disk", "hf-trainer", "fio", ("fio",), lines=("os.preadv(self._file, [self._batch], at)",)
)


def a_chain(**changes: Any) -> dict[str, Any]:
    """fio's, without a line."""
    known = {"cause": "block_io", "who": "pid 1", "remedy": "move it", "culprits": [{"name": "fio"}]}
    return {**known, "lines_with_most_time": [], "evidence": [], "lines": [], **changes}


class Server:
    """Answers in turn; a client of it."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = list(documents)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((name, arguments))
        document = self.documents[min(len(self.asked), len(self.documents)) - 1]
        return SimpleNamespace(content=[SimpleNamespace(text="a" * 300)], structured_content=document)

    def investigated(self) -> Findings:
        client: Any = self
        return asyncio.run(investigate(client))


def preadv() -> Line:
    """Where the extra work of a shape reads its file."""
    lines = (PROGRAMS / "extra.py").read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "os.preadv" in line)
    return Line("Extra._read", "programs/extra.py", number)


class TestProcedure:
    def test_it_ends_with_the_chain_in_full_and_a_line(self) -> None:
        """Among the fields that name lines the first one counts first."""
        places = {"lines_with_most_time": ["at read (extra.py:42)"], "lines": [{"place": "call (gpu.py:71)"}]}
        server = Server({"chains": [a_chain()], "next": EPISODE}, {"chain": a_chain(**places), "next": STACKS})
        found = server.investigated()

        assert server.asked == [("explain", {}), ("episode", {"chain_id": "1111"})]
        assert (found.cause, found.culprit) == ("block_io", "fio")
        assert found.lines == [Line("read", "extra.py", 42), Line("call", "gpu.py", 71)]
        assert found.tokens == 200

    def test_without_a_line_it_asks_on_as_answers_say(self) -> None:
        """Four times at most."""
        server = Server(
            {"chains": [a_chain()], "next": EPISODE},
            {"chain": a_chain(), "next": STACKS},
            {"stacks": [], "next": EPISODE},
        )

        assert server.investigated().lines == []
        assert [name for name, _ in server.asked] == ["explain", "episode", "stacks", "episode"]

    def test_without_a_chain_it_has_no_cause(self) -> None:
        """And ends where no answer names another call."""
        server = Server(
            {"chains": [], "next": {"tool": "operations", "arguments": {}}}, {"operations": [], "next": None}
        )

        assert server.investigated().cause == ""
        assert len(server.asked) == 2


class TestCases:
    def test_there_are_ten_of_different_kinds(self) -> None:
        assert len({case.fault for case in CASES}) == len({case.shape for case in CASES}) == len(CASES) == 10

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_true_lines_are_lines_of_the_programs(self, case: Case) -> None:
        sources = {
            line.strip() for path in PROGRAMS.glob("*.py") for line in path.read_text(encoding="utf-8").splitlines()
        }

        assert set(case.lines) <= sources


class TestJudged:
    @pytest.mark.parametrize(
        ("changes", "is_right"),
        [
            ({}, True),
            ({"cause": "cpu_contention"}, False),
            ({"cause": ""}, False),
            ({"culprit": "outside"}, False),
            ({"calls": [Call("explain", {}, "")] * 5}, False),
            ({"calls": [Call("explain", {}, "a" * 36_003)]}, False),
        ],
    )
    def test_cause_and_culprit_in_few_calls_and_tokens(self, changes: dict[str, Any], is_right: bool) -> None:
        found = Findings(**{"calls": [Call("explain", {}, "")], "cause": "block_io", "culprit": "fio", **changes})

        assert Judged(CASE, found).is_right is is_right

    def test_the_first_line_of_the_jobs_program_counts(self) -> None:
        """One of a library is none."""
        library = Line("_worker", "concurrent/futures/thread.py", 81)

        assert source_of(library) is None
        assert Judged(CASE, Findings(lines=[library, preadv()])).has_line
        assert not Judged(CASE, Findings(lines=[preadv()._replace(number=1), preadv()])).has_line
        assert not Judged(CASE, Findings()).has_line

    def test_the_late_one_of_several_ranks_is_the_culprit(self) -> None:
        case = Case("slow-rank", "a late rank", "torch-ddp", "straggler", rank=1)

        assert Judged(case, Findings(who="rank 1 (pid 7)")).has_culprit
        assert not Judged(case, Findings(who="rank 0 (pid 6)")).has_culprit


class TestDocument:
    def test_a_transcript_has_questions_and_the_fields_that_matter(self) -> None:
        text = "status: slow\nworkloads: 1\nchains:\n- chain_id: 1111\n  cause: x\n  culprits:\n  - name: fio\n  state: open"
        page = document([Judged(CASE, Findings([Call("explain", {}, text)], "block_io", "fio"))])
        shown = page.partition("```text\n")[2].partition("```")[0]

        assert shown == "> explain {}\nstatus: slow\n  cause: x\n  culprits:\n  - name: fio\n"
        assert "1 of 1 are right; 0 of 1 lines are." in page

    def test_long_line_is_cut_after_a_word(self) -> None:
        """9 characters of its name, 38 words of 8, and the mark: 314; with one more they would be 322."""
        text = "summary: " + " ".join(["program"] * 60)
        page = document([Judged(CASE, Findings([Call("explain", {}, text)]))])
        (line,) = (one for one in page.splitlines() if one.startswith("summary"))

        assert line == "summary: " + "program " * 38 + "…"
