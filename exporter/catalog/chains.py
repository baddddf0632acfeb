"""Episodes: what made a job wait, how badly, since when."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

CHAINS = Metric(
    "gpustall_chains_total",
    "gpustall.chains",
    "{chain}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains opened: episodes in which a workload was slower than usual, by the reason, by what took longer, and by how bad"
    " it was when the chain was opened.",
)
ESCALATIONS = Metric(
    "gpustall_chain_escalations_total",
    "gpustall.chain.escalations",
    "{escalation}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains that became worse, by the severity that they have since then.",
)
ACTIVE = Metric(
    "gpustall_chain_active",
    "gpustall.chain.active",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "1 while a causal chain is open; 0 from its end to that of the process.",
)
SEVERITY = Metric(
    "gpustall_chain_severity",
    "gpustall.chain.severity",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "How bad the open causal chain is: 1 low, 2 medium, 3 high, 4 critical; 0 when it is resolved.",
)
INFO = Metric(
    "gpustall_chain_info",
    "gpustall.chain.info",
    "",
    Kind.INFO,
    ("chain_id", "cause", "culprit"),
    "Causal chains that are open, at most 64: the id, which is a trace id as well, and the program or rank that is most to blame,"
    " empty where none is known.",
)
COLD_START = Metric(
    "gpustall_cold_start_seconds",
    "gpustall.cold_start",
    "s",
    Kind.GAUGE,
    ("effect",),
    "What the first steps of a process spent in launches, allocations and graphs beyond as many steady ones, from the"
    " first call that was seen until their rhythm was known; written 3 s later, and from then on the same.",
)

METRICS = (
    CHAINS,
    ESCALATIONS,
    ACTIVE,
    SEVERITY,
    INFO,
    COLD_START,
)

LEVELS = (ACTIVE, SEVERITY)
"""Of several processes of one workload the highest counts, not the sum."""
