"""Names that this program gives to what is no program, and programs, containers and cgroups that call themselves so.

In: a name that a tenant chose. Out: the same name, or one with a mark: `hypervisor (program)`. A value of the label `culprit` or
`container` that is not marked then means what docs/accounting.md says of it, whatever runs on the machine.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from typing import Final

RESERVED: Final = frozenset(
    {
        "other",
        "outside",
        "hypervisor",
        "gpu-stall-exporter",
        "exporter",
        "none",
        "unknown",
        "unresolved",
        "kernel",
        "idle",
        "irq",
        "own",
        "self",
        "node",
        "host",
        "machine",
        "all",
        "total",
    }
)
"""Values with a meaning of their own in some label, and words that a reader would take for one."""

_OF_ANOTHER_KIND: Final = re.compile(
    r".*\)"  # `make (children)`, and every mark
    r"|.*\.(?:service|scope|slice|socket|mount|swap)"  # a systemd unit
    r"|[0-9a-f]{12}"  # a container
    r"|job_[0-9]+(?:\[[0-9]+\])?|s[0-9a-hjkmnp-tv-z]{13}"  # a batch job of Slurm, LSF or OAR
    r"|[0-9]+(?:\[[0-9]*\])?\..*|[0-9a-f]{8}\..*|[a-z]+[0-9]+(?:_[0-9]+)?@.*"  # of PBS, Nomad, HTCondor
    r"|[^/]+/[^/]+",  # a namespace and a pod
    re.DOTALL,
)


class NameOf(enum.StrEnum):
    """What has chosen a name; the value is the mark."""

    PROGRAM = "program"
    CONTAINER = "container"
    CGROUP = "cgroup"


def marked(name: str, kind: NameOf) -> str:
    """`hypervisor (program)` for a reserved name, whatever its case and spaces; `stress-ng` for any other."""
    return f"{name} ({kind})" if _is_reserved(name) else name


def marked_word(name: str, kind: NameOf) -> str:
    """As marked(); a name in the form of a unit, a container, a pod or of another mark is marked as well."""
    plain = _folded(name)
    return f"{name} ({kind})" if plain in RESERVED or _OF_ANOTHER_KIND.fullmatch(plain) else name


def _is_reserved(name: str) -> bool:
    return _folded(name) in RESERVED


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip(" \u00a0\ufffd").casefold()
