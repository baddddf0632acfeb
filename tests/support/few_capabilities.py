"""Programs with few capabilities: commands that run one so, and the child of the exporter that opens perf events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exporter.host.capabilities import Capability


def only_with(*wanted: Capability) -> Sequence[str]:
    """A command that runs another one as root with only these capabilities."""
    names = ",".join(["-all", *(f"+{one.name.lower()}" for one in wanted)])
    return ("setpriv", f"--bounding-set={names}", f"--inh-caps={names}")


def event_openers(tgid: int) -> list[int]:
    """Children of an exporter that open perf events for it: one, or none where it may open them itself."""
    found = Path(f"/proc/{tgid}/task/{tgid}/children").read_text(encoding="ascii").split()
    return [int(one) for one in found if b"event_program" in Path(f"/proc/{one}/cmdline").read_bytes()]
