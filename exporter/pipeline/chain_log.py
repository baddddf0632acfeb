"""The log as a sink of chain events: one line each, with fields that machines read."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent

log = logging.getLogger(__name__)


class ChainLog:
    """Adds the remedy when a chain opens, and stacks once they are known."""

    def on_chain_event(self, event: ChainEvent) -> None:
        """Writes it. A lasting change is no warning."""
        fields = event.fields()
        if event.change is Change.EVIDENCE:
            fields["evidence"] = _on_one_line(event.evidence)
        if event.change is Change.OPENED:
            fields |= {"remedy": event.remedy, "commands": "; ".join(event.commands)}
        is_information = event.change is Change.RESOLVED or event.cause is Cause.CHANGED
        level = logging.INFO if is_information else logging.WARNING
        log.log(level, f"chain {event.change.value}: %s", event.sentence, extra={"fields": fields})


def _on_one_line(evidence: Iterable[str]) -> str:
    """("called by", "  inner", "  outer", "it is at", "  read") -> `called by inner < outer; it is at read`."""
    joined = ""
    was_frame = True
    for line in evidence:
        is_frame = line.startswith(" ")
        joined += (" < " if was_frame else " ") + line.strip() if is_frame else f"; {line}"
        was_frame = is_frame
    return joined.removeprefix("; ")
