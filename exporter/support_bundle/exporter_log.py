"""The last log lines of the exporter's systemd unit."""

from __future__ import annotations

import re

from exporter.support_bundle.machine import LOG_LINES_MAX, Machine

_CHAIN_LINE = re.compile(r'"?msg"?[=:] ?"?chain ')


def exporter_log(machine: Machine) -> str:
    """Without lines about chains, which name programs and commands."""
    text = machine.output_of(
        ["journalctl", "--unit=gpu-stall-exporter", f"--lines={LOG_LINES_MAX}", "--no-pager", "--quiet", "--output=cat"]
    )
    lines = [line for line in text.splitlines() if not _CHAIN_LINE.search(line)]
    return "\n".join(lines) + "\n" if lines else "no lines in the journal of the unit gpu-stall-exporter\n"
