"""`assets`: lists files without a folder, writes them with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.assets.documents import PROJECT
from exporter.assets.writing import SOURCE_TREE, Assets

INSTRUCTIONS = "alerts/README.md, dashboards/README.md and docs/deployment.md there are the instructions\n"


class TestAssets:
    def test_without_a_folder_they_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A path per line, so that a script can read it."""
        code = main(["assets"])

        assert code == 0
        assert capsys.readouterr().out.splitlines() == list(Assets.of_installation().names)

    def test_written_files_are_those_of_the_tree(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Byte for byte, but for links of documents to sources, and the output says how many there are."""
        code = main(["assets", f"--output={tmp_path}/folder"])
        names = Assets.of_installation().names

        assert code == 0
        assert capsys.readouterr().out == f"wrote {len(names)} files to {tmp_path}/folder\n{INSTRUCTIONS}"
        written = {name: (tmp_path / "folder" / name).read_bytes() for name in names}
        assert [
            name
            for name in names
            if written[name] != (SOURCE_TREE / name).read_bytes()
            and not (name.endswith(".md") and PROJECT.encode() in written[name])
        ] == []

    @pytest.mark.parametrize(
        ("argv", "line"),
        [
            (["--force"], "--force needs --output"),
            (["--runbook-url=https://wiki/x"], "--runbook-url needs --output"),
            (
                ["--output=a", "--runbook-url="],
                "--runbook-url: want an http or https URL without #, such as https://wiki.example.com/gpu-stalls",
            ),
            (["--output="], "--output: want a folder"),
            (["--output=/dev/null"], "cannot write /dev/null/alerts/README.md: Not a directory"),
        ],
    )
    def test_bad_input_is_one_line(self, argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["assets", *argv]) == 2
        assert capsys.readouterr() == ("", f"gpu-stall-exporter: {line}\n")

    def test_what_was_there_already_is_counted(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main(["assets", f"--output={tmp_path}"])
        (tmp_path / "docs" / "faq.md").unlink()
        capsys.readouterr()
        main(["assets", f"--output={tmp_path}"])
        others = len(Assets.of_installation().names) - 1

        assert capsys.readouterr().out == f"wrote 1 files to {tmp_path}, {others} were there already\n{INSTRUCTIONS}"

    def test_alerts_link_to_the_given_runbook(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Every file of rules, and a second time nothing is written."""
        argv = ["assets", f"--output={tmp_path}", "--runbook-url=https://wiki.example.com/gpu-stalls"]
        codes = (main(argv), main(argv))
        links = {
            line.strip()
            for pattern in ("*.rules.yaml", "prometheusrule.yaml")
            for path in tmp_path.rglob(pattern)
            for line in path.read_text(encoding="utf-8").splitlines()
            if "runbook_url" in line
        }

        assert codes == (0, 0)
        assert "wrote 0 files" in capsys.readouterr().out
        assert len(links) > 30
        assert all(link.startswith("runbook_url: https://wiki.example.com/gpu-stalls#gpustall") for link in links)
