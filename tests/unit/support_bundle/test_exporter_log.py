"""support_bundle.exporter_log: lines of the journal."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.support_bundle.exporter_log import exporter_log
from exporter.support_bundle.machine import Machine


class Journal(Machine):
    """journalctl prints these lines."""

    text = ""

    def output_of(self, command: Sequence[str]) -> str:
        assert command[0] == "journalctl"
        return self.text


def log_of(text: str) -> str:
    class Here(Journal):
        pass

    Here.text = text
    return exporter_log(Here())


class TestExporterLog:
    def test_lines_about_chains_are_left_out(self) -> None:
        """In both formats of the log: they name programs and commands."""
        assert (
            log_of(
                'ts=1 level=info msg="attached to libcudart.so.12"\n'
                'ts=2 level=warning msg="chain opened: lost to culprit"\n'
                '{"ts": "3", "msg": "chain resolved: lost to culprit"}\n'
            )
            == 'ts=1 level=info msg="attached to libcudart.so.12"\n'
        )

    def test_empty_journal_has_a_line_about_it(self) -> None:
        assert log_of("") == "no lines in the journal of the unit gpu-stall-exporter\n"
