"""toml_file: the configuration file as texts of flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config import SETTINGS, toml_file
from tests.unit.config.command_line import refused, toml


def texts(folder: Path, content: str) -> dict[str, str]:
    """Flag -> text."""
    path = folder / "exporter.toml"
    path.write_text(content, encoding="utf-8")
    return {flag: text for flag, (text, _) in toml_file.texts(path, SETTINGS).items()}


class TestKeys:
    def test_table_and_dotted_key_are_the_same(self, tmp_path: Path) -> None:
        assert texts(tmp_path, "web.max-requests = 5") == {"web.max-requests": "5"}
        assert texts(tmp_path, "[web]\nmax-requests = 5") == {"web.max-requests": "5"}

    def test_switch_of_a_table_is_its_key_enabled(self, tmp_path: Path) -> None:
        content = "[collector.memory]\nenabled = false\npage-allocations = true"

        assert texts(tmp_path, content) == {"collector.memory": "false", "collector.memory.page-allocations": "true"}

    def test_switch_without_a_table_is_a_plain_key(self, tmp_path: Path) -> None:
        assert texts(tmp_path, "[collector]\nmemory = false") == {"collector.memory": "false"}

    @pytest.mark.parametrize(
        ("content", "key"),
        [
            ('[tick]\nintervall = "1s"\n', "tick.intervall"),
            ('[ticks]\ninterval = "1s"\n', "ticks.interval"),
            ("[web]\nenabled = true\n", "web.enabled"),
        ],
    )
    def test_unknown_key_is_refused(self, tmp_path: Path, content: str, key: str) -> None:
        assert refused(toml(tmp_path, content)) == (
            f"--config.file: unknown key {key!r} in {tmp_path}/exporter.toml; `run --help` lists all settings"
        )


class TestValues:
    def test_repeatable_setting_takes_a_list(self, tmp_path: Path) -> None:
        assert texts(tmp_path, 'web.listen-address = [":1", ":2"]') == {"web.listen-address": ":1,:2"}

    def test_other_settings_take_none(self, tmp_path: Path) -> None:
        assert "node in " in (line := refused(toml(tmp_path, 'node = ["a", "b"]\n')))
        assert line.endswith(" must be a single value")


class TestFile:
    @pytest.mark.parametrize("content", ["node = ", "node = 'a'\nnode = 'b'\n", "{}"])
    def test_invalid_toml_is_refused(self, tmp_path: Path, content: str) -> None:
        assert f"--config.file: {tmp_path}/exporter.toml is not TOML: " in refused(toml(tmp_path, content))

    def test_other_encoding_than_utf_8_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "bad.toml").write_bytes(b'node = "\xff"\n')

        assert "is not TOML" in refused(f"--config.file={tmp_path}/bad.toml")

    @pytest.mark.parametrize("path", ["/nonexistent/exporter.toml", "/", ""])
    def test_unreadable_file_is_refused(self, path: str) -> None:
        """Missing, a directory, or an empty name, which a shell makes of an unset variable."""
        assert refused(f"--config.file={path}").startswith("--config.file: cannot read")
