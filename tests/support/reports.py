"""Events of one chain for tests, from its opening to its end, at seconds since it began."""

from __future__ import annotations

from typing import Any

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity
from exporter.chains.event import ChainEvent
from exporter.model import Identity

SECOND = 1_000_000_000
BEGAN_UNIX_NS = 1_790_000_000 * SECOND
CHAIN_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "0af7651916cd43dd"
RANK = Identity(node="gpu7", rank="3", container="0123456789ab")
SENTENCE = "cpu_contention: 50 % of the time is lost to it, steps take 2.0 times as long, culprit stress-ng (90 %)"
SENTENCE_OF_WORST = SENTENCE.replace("50 % of", "up to 50 % of")
"""Once it is over."""
REMEDY = "Pin it elsewhere."
COMMANDS = ("taskset -acp 0-3 100", "renice -n 19 -p 777")


def a_report(change: Change = Change.OPENED, at_seconds: float = 1.0, **changes: Any) -> ChainEvent:
    """An event of a chain of rank 3 with severity high, 2 ms after the tick that found it."""
    duration_ns = round(at_seconds * SECOND)
    known: dict[str, Any] = {
        "change": change,
        "at_unix_ns": BEGAN_UNIX_NS + duration_ns + 2_000_000,
        "chain_id": CHAIN_ID,
        "cause": Cause.CPU_CONTENTION,
        "effect": Effect.GAP,
        "severity": Severity.HIGH,
        "began_unix_ns": BEGAN_UNIX_NS,
        "duration_ns": duration_ns,
        "slowdown": 1.0,
        "usual_step_ns": 14_000_000,
        "lost_share": 0.5,
        "contribution": 0.97,
        "shares": (("cpu_contention", 0.97),),
        "culprits": (("stress-ng", 0.9), ("other", 0.1)),
        "peer": "",
        "is_chronic": False,
        "end": End.RECOVERED if change is Change.RESOLVED else None,
        "identity": RANK,
        "tgid": 100,
        "cgroup": "/docker/abc",
        "culprit_tgids": (777,),
        "remedy": REMEDY,
        "commands": COMMANDS,
    }
    return ChainEvent(**(known | changes))
