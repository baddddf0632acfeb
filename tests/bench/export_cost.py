"""What does it cost to export a timeline? Of a day of eight ranks: time, memory, bytes, and slices as Perfetto counts them.

`python -m tests.bench.export_cost` prints the rows of docs/measurements.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.day import RANKS, WINDOWS, make_day
from tests.support.exporter_process import COMMAND
from tests.support.measured import runner
from tests.support.trace_processor import ERRORS, answers, counted

SPANS = ("1h", "24h")
FORMATS = ("perfetto", "chrome")
SLICES = "select category, count(*) from slice group by 1"


def rows() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, runner() as measured:
        path, trace = Path(folder, "history.sqlite"), Path(folder, "trace")
        make_day(path, time.time_ns())
        yield f"A history of {RANKS} ranks and {WINDOWS:,} windows each, {path.stat().st_size >> 20} MiB."
        for span in SPANS:
            for form in FORMATS:
                flags = (f"--since={span}", f"--format={form}", f"--history.path={path}", f"--output={trace}")
                done = measured.run(*COMMAND, "export", *flags)
                if done.code:
                    yield f"| {span}, {form} | failed: {done.stderr.strip()} |"
                    continue
                size_mib = trace.stat().st_size / (1 << 20)
                cost = f"{done.cpu_seconds:.1f} s of CPU, {done.peak_mib:.0f} MiB, a file of {size_mib:.1f} MiB"
                errors, slices = answers(trace.read_bytes(), ERRORS, SLICES)
                yield f"| {span}, {form} | {cost}; {counted(slices).total():,} slices, {len(errors)} errors |"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
    sys.exit(0)
