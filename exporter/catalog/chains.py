"""Causal chains: cause, effect, severity."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

CHAINS = Metric(
    "gpustall_chains_total",
    "gpustall.chains",
    "{chain}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains opened: incidents in which a workload was slower than its baseline, stood still, failed or has a"
    " new normal, by cause, by effect (what takes longer) and by severity at opening.",
)
ESCALATIONS = Metric(
    "gpustall_chain_escalations_total",
    "gpustall.chain.escalations",
    "{escalation}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains that became worse, by their new severity.",
)
ACTIVE = Metric(
    "gpustall_chain_active",
    "gpustall.chain.active",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "1 while a causal chain is open; 0 from its end until the process ends. Several may be open, one for each cause.",
)
SEVERITY = Metric(
    "gpustall_chain_severity",
    "gpustall.chain.severity",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "Severity of the open causal chain: 1 low, 2 medium, 3 high, 4 critical; 0 once it is resolved.",
)
LOST = Metric(
    "gpustall_chain_lost_ratio",
    "gpustall.chain.lost",
    "1",
    Kind.GAUGE,
    ("chain_id", "cause"),
    "Share of its time that a workload loses now to the cause of an open causal chain: in the last ten seconds, or since"
    " the onset if that is shorter. Of the chains in gpustall_chain_info.",
)
LOST_AT_WORST = Metric(
    "gpustall_chain_worst_lost_ratio",
    "gpustall.chain.worst_lost",
    "1",
    Kind.GAUGE,
    ("chain_id", "cause"),
    "The same share in the worst ten seconds of an open causal chain up to now: the ratio severity is computed from. Of the"
    " chains in gpustall_chain_info.",
)
INFO = Metric(
    "gpustall_chain_info",
    "gpustall.chain.info",
    "",
    Kind.INFO,
    ("chain_id", "cause", "culprit"),
    "Open causal chains, at most 64, the worst ones: the chain id, which is also the trace id, and the program or rank"
    " most to blame, empty if none is known. A workload has one for each cause.",
)
COLD_START = Metric(
    "gpustall_cold_start_seconds",
    "gpustall.cold_start",
    "s",
    Kind.GAUGE,
    ("effect",),
    "Extra seconds that the first steps of a process spent in launches, allocations and graphs compared with as"
    " many steady ones, from the first observed call until steps recurred regularly; written once, 3 s later.",
)

METRICS = (
    CHAINS,
    ESCALATIONS,
    ACTIVE,
    SEVERITY,
    LOST,
    LOST_AT_WORST,
    INFO,
    COLD_START,
)

LEVELS = (ACTIVE, SEVERITY)
"""For several processes of one workload the highest value is exported, not the sum."""
