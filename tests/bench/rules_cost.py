"""How long does Prometheus take for the rules that find a slow rank, where a cluster has tens of thousands of series?"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.support.prometheus_server import Prometheus, serving
from tests.support.requirements import ROOT, need_command
from tests.support.traced import eventually

NODES = 100
RANKS_PER_NODE = 200
"""20,000 ranks with two series each: how long it waits, and in which communicator. So many on a node make few scrapes."""
RANKS_PER_COMMUNICATOR = 64
STRAGGLERS = NODES * RANKS_PER_NODE // RANKS_PER_COMMUNICATOR
GROUP = "gpustall-ranks"
EVALUATIONS = 8


class RulesCost(NamedTuple):
    """median_seconds, slowest_seconds: of evaluations of the group. stragglers: ranks that it found."""

    series: int
    median_seconds: float
    slowest_seconds: float
    stragglers: int


def evaluated() -> RulesCost:
    """Costs with real scrapes, over a minute and a half."""
    with _nodes() as address, tempfile.TemporaryDirectory() as folder:
        text = _configuration(address)
        with serving(need_command("prometheus", "prometheus"), text, Path(folder)) as prometheus:
            eventually(lambda: _count(prometheus, "up == 1") == NODES, "every node was scraped", 120)
            evaluations = []
            for _ in range(EVALUATIONS):
                time.sleep(10)
                evaluations.append(_group(prometheus)["evaluationTime"])
            series = _count(prometheus, '{__name__=~"gpustall_nccl_(wait_seconds_sum|communicator_info)"}')
            found = _count(prometheus, "rank:gpustall_straggling:ratio")
            return RulesCost(series, median(evaluations[1:]), max(evaluations[1:]), found)


def _configuration(address: str) -> str:
    nodes = "".join(
        f"      - targets: ['{address}']\n        labels: {{__metrics_path__: /{node}, instance: 'n{node}:10478'}}\n"
        for node in range(NODES)
    )
    return (
        "global: {scrape_interval: 10s, evaluation_interval: 10s}\n"
        f"rule_files: ['{ROOT}/alerts/chains.rules.yaml', '{ROOT}/alerts/nccl.rules.yaml']\n"
        "scrape_configs:\n"
        "  - job_name: gpu-stall-exporter\n"
        "    honor_labels: true\n"
        f"    static_configs:\n{nodes}"
    )


def _count(prometheus: Prometheus, expression: str) -> int:
    found = prometheus.query(f"count({expression})")
    return int(float(found[0]["value"][1])) if found else 0


def _group(prometheus: Prometheus) -> Any:
    groups = prometheus.get("/api/v1/rules")["groups"]
    return next(group for group in groups if group["name"] == GROUP)


@contextmanager
def _nodes() -> Iterator[str]:
    """A server whose page N is like that of the exporter of node N."""
    began = time.monotonic()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = _page(int(self.path.strip("/")), time.monotonic() - began).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _page(node: int, seconds: float) -> str:
    """Every rank waits 40 % of its time, but the last of each communicator."""
    lines = []
    for local in range(RANKS_PER_NODE):
        rank = node * RANKS_PER_NODE + local
        job, place = divmod(rank, RANKS_PER_COMMUNICATOR)
        share = 0.02 if place == RANKS_PER_COMMUNICATOR - 1 else 0.4
        labels = f'node="n{node}",rank="{rank}",container="",namespace="",pod="",communicator="0"'
        lines.append(f"gpustall_nccl_wait_seconds_sum{{{labels}}} {share * seconds:.3f}\n")
        known = f'{labels},hash="{job:016x}",communicator_rank="{place}",nranks="{RANKS_PER_COMMUNICATOR}"'
        lines.append(f"gpustall_nccl_communicator_info{{{known}}} 1\n")
    return "".join(lines)
