"""What does a statement of `query` take over a day of eight ranks, and what do attacks take until they are refused?"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.day import make_day
from tests.support.exporter_process import COMMAND
from tests.support.measured import Measured, Runner, runner
from tests.support.statements import REFUSED

ROUNDS = 5
SHORT = "--name=slow-operations"
IDLE = "select count(*) from operations"
NODES = 64
_ATTACKED_WINDOWS = 60


class QueryCosts(NamedTuple):
    """hour, day: the query that reads most, medians. attack: the slowest one, beyond a statement that ends at once."""

    hour_seconds: float
    hour_cpu_seconds: float
    day_seconds: float
    day_cpu_seconds: float
    day_peak_mib: float
    attacks: int
    attack_seconds: float
    attack_peak_mib: float


def query_costs() -> QueryCosts:
    with tempfile.TemporaryDirectory() as folder, runner() as measured:
        day = Path(folder) / "day" / "history.sqlite"
        make_day(day, time.time_ns())
        hours = [_queried(measured, day, "--since=1h", SHORT) for _ in range(ROUNDS)]
        days = [_queried(measured, day, "--since=24h", SHORT) for _ in range(ROUNDS)]
        attacked = Path(folder) / "attacked" / "history.sqlite"
        make_day(attacked, time.time_ns(), windows=_ATTACKED_WINDOWS)
        idle = min(_queried(measured, attacked, IDLE).seconds for _ in range(ROUNDS))
        file = str(Path(folder) / "written")
        attacks = [_queried(measured, attacked, text.replace("{file}", file)) for text in REFUSED.values()]
    return QueryCosts(
        median(done.seconds for done in hours),
        median(done.cpu_seconds for done in hours),
        median(done.seconds for done in days),
        median(done.cpu_seconds for done in days),
        max(done.peak_mib for done in days),
        len(attacks),
        max(done.seconds for done in attacks) - idle,
        max(done.peak_mib for done in attacks),
    )


def _queried(measured: Runner, path: Path, *arguments: str) -> Measured:
    return measured.run(*COMMAND, "query", f"--history.path={path}", *arguments)


class MergeCosts(NamedTuple):
    """One `merge` of the days of NODES nodes. output_mib: of the new file."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    output_mib: float


def merge_costs() -> MergeCosts:
    with tempfile.TemporaryDirectory() as folder, runner() as measured:
        days = [Path(folder) / f"node-{number}" / "history.sqlite" for number in range(NODES)]
        make_day(days[0], time.time_ns())
        for number, day in enumerate(days[1:], 1):
            day.parent.mkdir()
            shutil.copy(days[0], day)
            with closing(sqlite3.connect(day)) as connection, connection:
                for column in (
                    "runs.began_unix_ns",
                    "windows.ended_unix_ns",
                ):  # no two exporters do something at one time
                    table, _, name = column.partition(".")
                    connection.execute(f"update {table} set {name} = {name} + ?", (number,))  # noqa: S608 - names of our own
        output = Path(folder) / "cluster.sqlite"
        done = measured.run(*COMMAND, "merge", f"--output={output}", *map(str, days))
        assert done.code == 0, done.stderr
        return MergeCosts(done.seconds, done.cpu_seconds, done.peak_mib, output.stat().st_size / (1 << 20))
