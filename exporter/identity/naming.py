"""What is a process called in the labels? In: what the other modules of this folder found out. Out: one Identity."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from exporter.identity.container import Container, container_label
from exporter.identity.rank import Rank

VALUE_CHARACTERS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Identity:
    """The labels every series of a process carries, always all of them; "" for unknown.

    Whatever is passed in, the values are printable, encode as UTF-8 and have at most VALUE_CHARACTERS_MAX characters.
    """

    node: str = ""
    rank: str = ""
    container: str = ""
    namespace: str = ""
    pod: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, label_value(getattr(self, field.name)))


def label_value(text: str) -> str:
    """`text` cut to a label's length; control characters, newlines and lone surrogates become U+FFFD."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:VALUE_CHARACTERS_MAX])


def name_process(*, node: str, rank: Rank, communicator_rank: str, container: Container) -> Identity:
    """The identity of one process.

    rank: from the environment; it comes first, since it holds for the whole life of the process and for the whole job.
    communicator_rank: from NCCL; its largest communicator may still be a part of the job when the question is asked.
    namespace and pod stay empty: only the kubelet knows them for sure; a process may set POD_NAME to anything.
    """
    return Identity(node=node, rank=rank.rank or communicator_rank, container=container_label(container))
