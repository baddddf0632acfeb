"""app.wanted_programs: whether libraries may be probed on this architecture."""

from __future__ import annotations

import pytest

from exporter.app.wanted_programs import may_probe
from tests.unit.config.command_line import loaded


class TestMayProbe:
    def test_x86_64_is_probed_without_a_word(self, caplog: pytest.LogCaptureFixture) -> None:
        assert may_probe(loaded(), "x86_64")
        assert caplog.records == []

    def test_arm64_is_not_probed_and_the_flag_is_named(self, caplog: pytest.LogCaptureFixture) -> None:
        assert not may_probe(loaded(), "aarch64")
        (record,) = caplog.records
        assert record.getMessage().startswith("no library is probed: on arm64, a kernel fault")
        assert record.getMessage().endswith("; set --probes.on-arm64 to probe anyway")

    def test_flag_allows_arm64_with_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        assert may_probe(loaded("--probes.on-arm64"), "aarch64")
        (record,) = caplog.records
        assert record.getMessage().startswith("probing libraries because of --probes.on-arm64, although on arm64")
