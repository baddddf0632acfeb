"""Holds processes for a moment, through a guardian that lets go of them whatever becomes of this process.

In: Facts of processes that may be held. Out: a block in which they are.
"""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from exporter.confirm.eligibility import ProcessFacts
from exporter.confirm.freezer import Frozen, Lightened
from exporter.errors import ExporterError

GUARDIAN = Path(__file__).with_name("freezer.py")
_SPARE_SECONDS = 2.0
_END_SECONDS = 5.0


class How(enum.StrEnum):
    """FREEZE stops them; WEIGHT leaves them the CPUs that nobody else of their control group wants."""

    FREEZE = "freeze"
    WEIGHT = "weight"


class NotHeld(ExporterError):
    """The guardian did not begin."""


@contextmanager
def held(subjects: Sequence[ProcessFacts], how: How, seconds: float) -> Iterator[None]:
    """While the block lasts, but never longer than `seconds` and two more. Raises NotHeld."""
    guardian = subprocess.Popen(
        [sys.executable, "-I", str(GUARDIAN)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guardian.stdin is not None  # noqa: S101 - a pipe
    assert guardian.stdout is not None  # noqa: S101
    asked = {
        "how": how.value,
        "seconds": seconds + _SPARE_SECONDS,
        "processes": [(one.tgid, one.start_time_ticks) for one in subjects],
    }
    try:
        guardian.stdin.write(json.dumps(asked).encode() + b"\n")
        guardian.stdin.flush()
        if guardian.stdout.readline() != b"held\n":
            raise NotHeld("the process that was to hold the culprits has ended")
        yield
    except BrokenPipeError:
        raise NotHeld("the process that was to hold the culprits has ended") from None
    finally:
        with suppress(BrokenPipeError):
            guardian.stdin.close()
        guardian.stdout.close()
        if guardian.wait(_END_SECONDS) != 0:  # somebody has killed it
            _let_go(subjects, how)


def _let_go(subjects: Sequence[ProcessFacts], how: How) -> None:
    """What the guardian can no longer do; of what they were before, nothing is known here."""
    holder: Frozen | Lightened = Frozen() if how is How.FREEZE else Lightened()
    for one in subjects:
        holder.adopt(one.tgid, one.start_time_ticks)
    holder.let_go()
