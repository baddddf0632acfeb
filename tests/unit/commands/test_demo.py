"""demo: output of replays, and invalid flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.demo.scenarios import SCENARIOS

ALL = pytest.mark.parametrize("name", SCENARIOS)

OPENED = {
    "incident": ("chain opened: dataloader", "chain opened: cpu_contention"),
    "cold-start": (),
    "memcpy-bottleneck": ("chain opened: pageable_copy",),
    "periodic-spike": ("chain opened: cpu_contention",),
    "cpu-contention": ("chain opened: cpu_contention",),
    "gpu-steal": ("chain opened: gpu",),
    "dataloader": ("chain opened: dataloader",),
    "straggler": ("chain opened: slow_rank", "chain opened: peer_rank"),
    "hang": ("chain opened: nccl_hang",),
}
"""The chains that each recorded scenario opens, and no others."""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output of a command that succeeds."""
    assert main(["demo", *arguments]) == 0
    return capsys.readouterr().out


class TestReplay:
    """The recordings that are installed with the program, through the detection engine."""

    @ALL
    def test_engine_opens_the_expected_chains(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """One chain per cause, and none for a warm-up."""
        opened = [line for line in printed(capsys, name, "--replay").splitlines() if "chain opened" in line]

        assert len(opened) == len(OPENED[name])
        assert all(any(wanted in line for line in opened) for wanted in OPENED[name])

    @ALL
    def test_output_names_the_recording(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert printed(capsys, name, "--replay").splitlines()[1].startswith("Replaying a recording.")

    def test_neighbours_are_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        """In the explanation at the end."""
        assert "noisy-neighbour" in printed(capsys, "cpu-contention", "--replay")

    def test_recording_by_its_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A file that an exporter wrote."""
        output = printed(capsys, f"--replay={SCENARIOS['dataloader'].recording}")

        assert output.startswith("Replaying dataloader.capsule.")

    def test_standard_output_is_json_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The other lines go to standard error."""
        assert main(["demo", "hang", "--replay", "--format=json"]) == 0
        printed = capsys.readouterr()

        assert json.loads(printed.out)["status"] == "slow"
        assert "never comes" in printed.err


class TestRefusal:
    """One line each, and exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["nonsense"], "unknown scenario 'nonsense'; choose one of incident, cold-start"),
            (["--duration=5s"], "--duration: invalid value '5s': want 22s to 55s"),
            (["--duration=soon"], "--duration: invalid value 'soon': want a positive duration"),
            (["hang", "--replay=/nonexistent"], "--replay RECORDING cannot be combined with a scenario"),
            (["--replay=/nonexistent"], "cannot read /nonexistent: No such file"),
            (["hang", "--replay", "--save=x"], "--save cannot be combined with --replay"),
            (["hang", "incident", "--save=x"], "--save takes one scenario, not 2"),
        ],
    )
    def test_bad_usage(self, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["demo", *arguments]) == 2
        assert words in capsys.readouterr().err

    def test_edited_recording(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`explain` refuses it, too."""
        raw = SCENARIOS["hang"].recording.read_bytes()
        path = tmp_path / "edited.capsule"
        path.write_bytes(raw[:-10] + bytes(10))

        assert main(["demo", f"--replay={path}"]) == 2
        assert main(["explain", f"--recording={path}"]) == 2
        assert capsys.readouterr().err.count("was edited or damaged") == 2
