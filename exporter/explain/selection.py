"""Whom is it about? In: the text of --workload. Out: a Selection of processes. Raises BadInput for text that means nothing."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.catalog import COMMON_LABELS
from exporter.errors import BadInput
from exporter.model import Identity

_PID = "pid"


@dataclass(frozen=True, slots=True)
class Selection:
    """wanted: label or pid -> value, all of which must be so. text: a rank, or the begin of a container or a pod. "" for all."""

    wanted: tuple[tuple[str, str], ...] = ()
    text: str = ""

    @classmethod
    def of(cls, text: str) -> Selection:
        """`rank=3,container=0123` or `3`."""
        if "=" not in text:
            return cls(text=text.strip())
        wanted = []
        for pair in text.split(","):
            key, equals, value = (word.strip() for word in pair.partition("="))
            if not equals or key not in (*COMMON_LABELS, _PID):
                raise BadInput(
                    f"--workload: {pair!r} selects nothing",
                    remedy=f"want KEY=VALUE of {', '.join((*COMMON_LABELS, _PID))}",
                )
            wanted.append((key, value))
        return cls(tuple(wanted))

    def matches(self, identity: Identity | None, pid: int) -> bool:
        """Whether a process is among them. identity: None where it is not named."""
        labels = identity or Identity()
        if self.text:
            begins = (labels.container, labels.pod)
            return self.text == labels.rank or any(name.startswith(self.text) for name in begins)
        return all(value == (str(pid) if key == _PID else getattr(labels, key)) for key, value in self.wanted)
