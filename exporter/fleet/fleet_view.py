"""The workloads of all nodes in one View, which `top` shows as that of one exporter.

In: a NodeView or a failure of each node. Out: a View, in which every identity has the name of its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from exporter.fleet.asking import NodeAnswer
from exporter.fleet.failure import NodeFailure
from exporter.fleet.node_view import SPAN_SECONDS, NodeView
from exporter.model import Identity
from exporter.scrape.view import FailedNode, OpenChain, View, Workload


def fleet_view(results: Iterable[NodeAnswer[NodeView] | NodeFailure], at_unix_seconds: float) -> View:
    """at_unix_seconds: by the clock of this machine."""
    workloads: list[Workload] = []
    chains: list[OpenChain] = []
    failures: list[FailedNode] = []
    silent: list[str] = []
    for one in results:
        if isinstance(one, NodeFailure):
            failures.append(FailedNode(one.node.name, one.kind.value, one.message))
            continue
        name = one.node.name
        workloads += (replace(each, identity=_on(name, each.identity)) for each in one.document.workloads)
        chains += (each._replace(identity=_on(name, each.identity)) for each in one.document.chains)
        if not one.document.is_recording:
            silent.append(name)
    return View(
        at_unix_seconds,
        float(SPAN_SECONDS),
        tuple(sorted(workloads, key=lambda each: each.identity.values())),
        tuple(sorted(chains, key=lambda each: (-each.severity, each.identity.values(), each.cause, each.effect))),
        tuple(f"{name}: no exporter writes its history now" for name in silent),
        tuple(failures),
    )


def _on(node: str, identity: Identity) -> Identity:
    return replace(identity, node=node)
