"""What does an outage of the receivers cost? One is away, one hangs, one drips, one wants deltas and is away as well.

    sudo .venv/bin/python -m tests.bench.outage [MINUTES]

Prints the memory of the exporter, its ticks and its slowest scrape, and how many of all calls the two that come back have got.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import target
from tests.bench.exporter_cost import Running, running, total_of
from tests.bench.target import FUNCTIONS, Target
from tests.support import otlp
from tests.support.receiver import Entry, Receiver, Request, answer, drip, drop, hang, receiver

RANKS = 8
WARM_UP_SECONDS = 30
COUNTED = "gpustall.cuda.operations"
CONFIGURATION = """\
[otlp.receiver.away]
endpoint = "{away}"
interval = "1s"
timeout = "2s"
[otlp.receiver.delta]
endpoint = "{delta}"
interval = "1s"
timeout = "2s"
temporality = "delta"
protocol = "http/protobuf"
[otlp.receiver.hanging]
endpoint = "{hanging}"
interval = "1s"
timeout = "2s"
[otlp.receiver.dripping]
endpoint = "{dripping}"
interval = "1s"
timeout = "2s"
"""


@dataclass
class _Switch:
    """Closes every connection without an answer until it is turned on."""

    is_on: bool = False

    def entry(self) -> Entry:
        """For the script of a receiver."""

        def say(connection: object, request: Request) -> None:
            chosen = answer() if self.is_on else drop()
            assert chosen.say is not None
            chosen.say(connection, request)  # type: ignore[arg-type] # whatever the receiver passes

        return Entry(say)


def main(arguments: Sequence[str]) -> int:
    """arguments: minutes."""
    minutes = float(arguments[0]) if arguments else 10.0
    if os.geteuid() != 0:
        print("tests.bench.outage: needs root, to load BPF programs", file=sys.stderr)
        return 3
    target.build()
    switch = _Switch()
    with ExitStack() as stack:
        scripts = {"away": switch.entry(), "delta": switch.entry(), "hanging": hang(), "dripping": drip(1.0)}
        receivers = {name: stack.enter_context(receiver([entry])) for name, entry in scripts.items()}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "exporter.toml").write_text(CONFIGURATION.format(**{name: r.url for name, r in receivers.items()}))
        exporter = stack.enter_context(running(f"--config.file={folder}/exporter.toml"))
        stack.enter_context(Target())
        exporter.wait_until_attached()
        targets = [stack.enter_context(Target(RANK=str(rank))) for rank in range(RANKS)]
        made = sum(one.do("each 1")[0] for one in targets)
        more, slowest_seconds, ticks, rss = _outage(exporter, targets, minutes * 60)
        made += more
        failed = total_of("gpustall_exporter_pushes_total", exporter.scrape())
        switch.is_on = True
        got = _received_after(receivers, switched_at=time.monotonic(), made=made)
    print(
        f"{minutes:g} minutes, {RANKS} processes x {len(FUNCTIONS)} operations, 4 receivers, a push a second to each:"
    )
    print(f"  {failed:,} failed pushes; RSS {rss[0]:.1f} MiB after {WARM_UP_SECONDS} s, {rss[1]:.1f} MiB at the end")
    print(f"  {ticks:.2f} ticks a second; slowest scrape {slowest_seconds * 1e3:.0f} ms")
    print(f"  calls made {made:,}; afterwards received {got}")
    return 0


def _outage(
    exporter: Running, targets: Sequence[Target], seconds: float
) -> tuple[int, float, float, tuple[float, float]]:
    """(calls made, seconds of the slowest scrape, ticks a second, RSS after the warm-up and at the end)."""
    begun, made, slowest, early_mib = time.monotonic(), 0, 0.0, 0.0
    ticks_before = total_of("gpustall_exporter_ticks_total", exporter.scrape())
    while (elapsed := time.monotonic() - begun) < seconds:
        made += sum(one.do("each 1")[0] for one in targets)
        scraped_at = time.monotonic()
        exporter.scrape()
        slowest = max(slowest, time.monotonic() - scraped_at)
        if not early_mib and elapsed > WARM_UP_SECONDS:
            early_mib = exporter.rss_mib()
        time.sleep(1)
    ticks = (total_of("gpustall_exporter_ticks_total", exporter.scrape()) - ticks_before) / (time.monotonic() - begun)
    return made, slowest, ticks, (early_mib, exporter.rss_mib())


def _received_after(receivers: dict[str, Receiver], switched_at: float, made: int) -> str:
    """What the cumulative totals are now, and what all deltas taken add up to, once they have caught up."""
    until = time.monotonic() + 60
    while True:
        totals = _counted(_since(receivers["away"], switched_at)[-1:], otlp.read_json)
        deltas = _counted(_since(receivers["delta"], switched_at), otlp.read_protobuf)
        if (totals >= made and deltas >= made) or time.monotonic() > until:
            return (
                f"{totals:,} by cumulative totals, {deltas:,} by deltas, {time.monotonic() - switched_at:.1f} s later"
            )
        time.sleep(0.1)


def _since(one: Receiver, moment: float) -> list[Request]:
    return [request for request in one.requests if request.arrived_seconds > moment]


def _counted(requests: Sequence[Request], read: object) -> int:
    points = [point for request in requests for point in read(request.content)]  # type: ignore[operator]
    return sum(int(point.value) for point in points if point.name == COUNTED)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
