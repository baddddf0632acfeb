"""query: flags, what is refused before anything is read, and formats."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from exporter.__main__ import PROGRAM, main
from tests.support.investigated import an_hour
from tests.support.requirements import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
DEADLINE = "--deadline=20s"
"""Enough on a busy machine."""


PAGE = (ROOT / "docs/query.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.M | re.S) for line in block.splitlines()]
EXAMPLES = [line for line in LINES if "cluster.sqlite" not in line]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"--history.path={an_hour(tmp_path_factory.mktemp('command'))}"


class TestOutput:
    def test_statement(self, history: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", history, DEADLINE, "select rank, steps from steps"]) == 0
        assert capsys.readouterr() == ("rank  steps\n3      3000\n4      3000\n", "")

    def test_span_may_end_in_the_past(self, history: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Five of six windows have 500 steps less."""
        assert main(["query", history, DEADLINE, "--at=9s", "select rank, steps from steps"]) == 0
        assert capsys.readouterr() == ("rank  steps\n3      2500\n4      2500\n", "")

    def test_name(self, history: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", history, DEADLINE, "--name=failed-calls", "--format=jsonl"]) == 0
        assert json.loads(capsys.readouterr().out)["operation"] == "ncclAllReduce"

    def test_named_query_has_a_resolution_of_its_own(self, history: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A flag replaces that of steps-over-time, a minute: six windows of two ranks."""
        assert main(["query", history, DEADLINE, "--name=steps-over-time", "--resolution=1s", "--format=csv"]) == 0
        assert capsys.readouterr().out.count("\n") == 13

    @pytest.mark.parametrize(("flag", "first"), [("--list", "open-chains "), ("--schema", "views, version 1;")])
    def test_lists_need_no_history(self, flag: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", flag, "--history.path=/nonexistent"]) == 0
        assert capsys.readouterr().out.startswith(first)


class TestRefusal:
    """One line, nothing on standard output."""

    @pytest.mark.parametrize(
        ("arguments", "code", "line"),
        [
            ([], 2, "want a SELECT, or --name, and not both"),
            (["select 1", "--name=stacks"], 2, "want a SELECT, or --name, and not both"),
            (["select 1", "--since=soon"], 2, "--since: invalid value 'soon'"),
            (["select 1", "--resolution=fine"], 2, "--resolution: invalid value 'fine'"),
            (["select 1", "--deadline=61s"], 2, "--deadline: want at most 60s"),
            (["select 1", "--history.path=/nonexistent"], 3, "no history at /nonexistent"),
            (["select * from node", "--history.path=/etc/passwd"], 3, "/etc/passwd is not a history of this program"),
            (["select 1", "--merge=select 1"], 2, "--merge without --nodes"),
            (["select 1", "--nodes=a", "--history.path=x"], 2, "--history.path cannot be combined with --nodes"),
            (["select 1", "--nodes=a", "--nodes.deadline=11m"], 2, "--nodes.deadline: want at most 600s"),
            (["select 1", "--nodes=a:b"], 2, "--nodes: "),
            (["select stps from steps", "--nodes=a", DEADLINE], 2, "no such column: stps; did you mean steps?"),
            (["select 1 as x", "--nodes=a", DEADLINE, "--merge=select y from rows"], 2, "no such column: y;"),
            (["select 1", "--nodes=a", "--nodes.token-file=/none"], 2, "--nodes.token-file: cannot read /none"),
            (["select stps from steps", DEADLINE], 2, "no such column: stps; did you mean steps?"),
        ],
    )
    def test_line(self, arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", *arguments]) == code
        printed = capsys.readouterr()

        assert printed.out == ""
        assert printed.err.startswith(f"gpu-stall-exporter: {line}")
        assert printed.err.count("\n") == 1

    def test_unknown_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            main(["query", "--name=slow"])

        assert raised.value.code == 2
        assert "invalid choice: 'slow'" in capsys.readouterr().err


class TestPage:
    """docs/query.md."""

    @pytest.mark.parametrize("example", EXAMPLES)
    def test_example_can_be_run(self, example: str, history: str, capsys: pytest.CaptureFixture[str]) -> None:
        program, *arguments = shlex.split(example, comments=True)

        assert program == PROGRAM
        assert main([*arguments, history, DEADLINE]) == 0
        assert capsys.readouterr().out

    def test_examples_of_several_nodes_can_be_run_in_their_order(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for node in ("gpu7", "gpu8"):
            an_hour(tmp_path / node).rename(tmp_path / f"{node}.sqlite")
        examples = [shlex.split(line) for line in LINES if "cluster.sqlite" in line]

        assert [main(arguments[1:]) for arguments in examples] == [0, 0, 0]
        assert [arguments[1] for arguments in examples] == ["merge", "query", "explain"]
        assert "2 files" in capsys.readouterr().out

    def test_there_are_examples(self) -> None:
        assert len(EXAMPLES) >= 10
