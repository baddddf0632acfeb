"""Parts of docs/window-record.md: the table of attributes, and an example."""

from __future__ import annotations

import json

from docs.generate.markdown import table
from exporter.history.window import CommunicatorWindow, OperationTime, ProcessLabels, Switches, Window
from exporter.model import Identity
from exporter.output.otlp.window_records import ATTRIBUTES, window_record
from exporter.totals import Counts, HistogramTotal
from exporter.units import NANOSECONDS

_MS = 1_000_000
_ENDED_UNIX_NS = 1_800_000_000 * NANOSECONDS
_WINDOW = Window(
    process=5,
    labels=ProcessLabels(Identity("gpu-17", "3", "0123456789ab", "training", "trainer-0"), 4032, "python"),
    began_unix_ns=_ENDED_UNIX_NS - 10 * NANOSECONDS,
    ended_unix_ns=_ENDED_UNIX_NS,
    steps=HistogramTotal(Counts.of((310, 120, 3), 196), 9_030 * _MS),
    lost_ns={"cpu_contention": 913 * _MS, "lock": 88 * _MS},
    culprits_ns=(("cpu_contention", "stress-ng", 900 * _MS),),
    states_ns={"on_cpu": 4_000 * _MS, "gpu_wait": 5_000 * _MS, "runnable": 913 * _MS, "lock": 88 * _MS},
    switches=Switches(900, 100),
    operations=(
        OperationTime("runtime", "cudaStreamSynchronize", 433, 0, HistogramTotal(Counts.of((433,), 190), 5_000 * _MS)),
        OperationTime("runtime", "cudaLaunchKernel", 25_600, 0, HistogramTotal(Counts.of((400,), 110), 2 * _MS)),
    ),
    communicators=(CommunicatorWindow(0x5A1F3C2B9D8E7F60, 3, 16, 17_320, 70 * _MS),),
    probe_cost_ns=91 * _MS,
)


def attributes() -> str:
    """Each with its type and meaning."""
    return table(("attribute", "type", "meaning"), ((f"`{one.name}`", one.kind, one.meaning) for one in ATTRIBUTES))


def example() -> str:
    """A line for each attribute."""
    found = window_record(_WINDOW, "00c0ffee00c0ffee").attributes.items()
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found)
    return "```json\n{\n" + ",\n".join(lines) + "\n}\n```"
