"""A trial under the exporter as its users run it: chains from its log, in place of a recording that is replayed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Effect, Severity
from exporter.units import NANOSECONDS
from tests.faults.diagnosed import Event
from tests.faults.trials.plan import PlannedTrial
from tests.faults.trials.trial import Trial, perform, run_from
from tests.support.exporter_process import running

PREFIX = "chain "


def play_live(planned: PlannedTrial, libraries: Path) -> Trial:
    """libraries: of private_standin(). Raises what trial.play() does."""
    with running("--log.format=json") as exporter:
        steps, moments_ns = perform(planned, libraries)
        lines = exporter.logs.splitlines()
    clock_ns = time.time_ns() - time.monotonic_ns()
    run = run_from(steps, moments_ns)
    return Trial(planned, run, reported=tuple(events_from(lines, run.tgids, clock_ns)))


def events_from(lines: Iterable[str], tgids: Mapping[int, int], clock_ns: int) -> Iterator[Event]:
    """Changes of chains of these ranks. clock_ns: the time of day when the monotonic clock was 0."""
    ranks = {str(tgid): rank for rank, tgid in tgids.items()}
    opened_ns: dict[str, int] = {}
    for line in lines:
        fields = json.loads(line)
        change, _, _ = fields["msg"].removeprefix(PREFIX).partition(":")
        if not fields["msg"].startswith(PREFIX) or change == Change.EVIDENCE or fields.get("pid") not in ranks:
            continue
        now_ns = round(datetime.fromisoformat(fields["ts"]).timestamp() * NANOSECONDS) - clock_ns
        opened_ns.setdefault(fields["chain_id"], now_ns)
        chain = _chain(fields, now_ns, opened_ns[fields["chain_id"]])
        yield Event(now_ns, ranks[fields["pid"]], Change(change), chain)


def _chain(fields: Mapping[str, str], now_ns: int, opened_ns: int) -> Chain:
    """As much as the log says."""
    culprit = fields.get("culprit", "")
    return Chain(
        id=fields["chain_id"],
        process=int(fields["pid"]),
        cause=Cause(fields["cause"]),
        effect=Effect(fields["effect"]),
        severity=Severity[fields["severity"].upper()],
        began_ns=now_ns - round(float(fields["open_seconds"]) * NANOSECONDS),
        opened_ns=opened_ns,
        updated_ns=now_ns,
        slowdown=None,
        usual_step_ns=0,
        lost_share=float(fields["lost_share"]),
        contribution=float(fields["contribution"]),
        lost_ns=round(float(fields.get("lost_seconds", 0)) * NANOSECONDS),
        culprits=((culprit, 1.0),) if culprit else (),
    )
