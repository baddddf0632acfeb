"""Which processes --workload selects."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.catalog import COMMON_LABELS
from exporter.errors import BadInput
from exporter.model import Identity

_PID = "pid"


@dataclass(frozen=True, slots=True)
class Selection:
    """wanted: label or pid and its value; all must match. text: a rank, or a prefix of a container or pod; "" selects all."""

    wanted: tuple[tuple[str, str], ...] = ()
    text: str = ""

    @classmethod
    def of(cls, text: str) -> Selection:
        """`rank=3,container=0123` or `3`. Raises BadInput."""
        if "=" not in text:
            return cls(text=text.strip())
        wanted = []
        for pair in text.split(","):
            key, equals, value = (word.strip() for word in pair.partition("="))
            if not equals or key not in (*COMMON_LABELS, _PID):
                raise BadInput(
                    f"--workload: {pair!r} is not KEY=VALUE with a known key",
                    remedy=f"use one of {', '.join((*COMMON_LABELS, _PID))}",
                )
            wanted.append((key, value))
        return cls(tuple(wanted))

    def matches(self, identity: Identity | None, tgid: int) -> bool:
        """identity: None if the labels of the process are not known."""
        labels = identity or Identity()
        if self.text:
            names = (labels.container, labels.pod)
            return self.text == labels.rank or any(name.startswith(self.text) for name in names)
        return all(value == (str(tgid) if key == _PID else getattr(labels, key)) for key, value in self.wanted)
