"""What does the store of a fleet take? 1,000 nodes of 8 ranks, each with a request in ten seconds: 100 requests a second.

The load comes from a process of its own, over TLS with kept connections, in protobuf or as the exporter sends by default, in JSON
with gzip.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.bench.serve_cost import cpu_seconds, resident_mib
from tests.support.otlp_requests import json_logs, protobuf_logs
from tests.support.storing import JSON, PROTOBUF, Storing, storing

NODES, RANKS, WINDOW_SECONDS = 1000, 8, 10.0
CONNECTIONS = 32
SECONDS = 60.0
WARM_UP_SECONDS = 10.0


class ClusterCosts(NamedTuple):
    """cpu_ratio: of one CPU. answer: from sending a request until its rows are on the disk. bytes_per_window: on the disk."""

    requests_per_second: float
    cpu_ratio: float
    answer_p50_seconds: float
    answer_p99_seconds: float
    resident_mib: float
    refused: int
    bytes_per_window: float


def cluster_costs(form: str = PROTOBUF, seconds: float = SECONDS) -> ClusterCosts:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with storing(folder / "store", folder) as server:
            command = [sys.executable, "-m", "tests.bench.cluster_cost", "--form", form, "--seconds", str(seconds)]
            command += [
                "--url",
                server.url,
                "--certificate",
                str(server.certificate),
                "--token",
                server.tokens["fleet"],
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
                time.sleep(WARM_UP_SECONDS)
                before, began = cpu_seconds(server.process.pid), time.monotonic()
                assert load.stdout is not None
                answers = [line.split() for line in load.stdout]
                cpu_ratio = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - began)
            return _costs(server, answers, cpu_ratio, seconds)


def _costs(server: Storing, answers: list[list[str]], cpu_ratio: float, seconds: float) -> ClusterCosts:
    took = [float(one[1]) for one in answers if one[0] == "200"]
    percentiles = quantiles(took, n=100)
    windows = server.metric("gpustall_cluster_stored_rows_total")
    return ClusterCosts(
        len(took) / seconds,
        cpu_ratio,
        percentiles[49],
        percentiles[98],
        resident_mib(server.process.pid),
        len(answers) - len(took),
        server.metric("gpustall_cluster_store_bytes") / windows,
    )


def _requests(form: str) -> Iterator[bytes]:
    """For ever, of one node after another; what differs are the ids and the times."""
    round_number = 0
    while True:
        round_number += 1
        for node in range(NODES):
            now = time.time_ns()
            records = [_record(node, rank, now, round_number) for rank in range(RANKS)]
            resource = {"service.name": "gpu-stall-exporter", "host.name": f"gpu{node}"}
            yield (
                protobuf_logs(records, resource) if form == PROTOBUF else gzip.compress(json_logs(records, resource), 1)
            )


def _record(node: int, rank: int, now: int, round_number: int) -> dict[str, Any]:
    """As large as that of a job with many operations."""

    def amount(number: int) -> float:
        return (node * 7919 + rank * 104729 + round_number * 1299709 + number * 15485863) % 10**9 / 10**9

    began = now - int(WINDOW_SECONDS * 10**9)
    return {
        "event_name": "gpustall.window",
        "time_unix_ns": now,
        "attributes": {
            "node": f"gpu{node}",
            "rank": str(node * RANKS + rank),
            "container": f"{node:012x}",
            "namespace": "ml",
            "pod": f"trainer-{node}",
            "process.pid": 4000 + rank,
            "process.command": "python",
            "gpustall.window.id": f"{node:016x}-{rank}-{began}",
            "gpustall.window.duration": WINDOW_SECONDS,
            "gpustall.steps": 50,
            "gpustall.step.time": 9.9,
            "gpustall.step.buckets": {"first": 161, "counts": [3, 0, 4, 20, 10, 13]},
            "gpustall.lost": {"cpu_contention": amount(1), "io": amount(2), "gc": amount(3)},
            "gpustall.culprits": [
                {"cause": "cpu_contention", "culprit": f"program-{one}", "lost": amount(4 + one)} for one in range(4)
            ],
            "gpustall.thread_time": {
                state: amount(10 + number) for number, state in enumerate(("running", "runnable", "blocked", "disk"))
            },
            "gpustall.communicators": [
                {
                    "hash": f"{one:016x}",
                    "rank": rank,
                    "ranks": NODES * RANKS,
                    "operations": round_number,
                    "lag": amount(20),
                }
                for one in range(3)
            ],
            "gpustall.calls": [
                {"api": "cuda", "operation": f"cudaOperation{one}", "calls": 1000, "time": amount(30 + one)}
                for one in range(9)
            ],
            "gpustall.overhead": amount(40),
        },
    }


def _load(arguments: argparse.Namespace) -> None:
    """Prints `STATUS SECONDS` for each request. Each connection sends in turn, at the rate of the fleet."""
    bodies, lock = _requests(arguments.form), threading.Lock()
    interval_seconds = WINDOW_SECONDS / NODES * CONNECTIONS
    until = time.monotonic() + arguments.seconds

    def push(number: int) -> None:
        address = urlsplit(arguments.url)
        context = ssl.create_default_context(cafile=arguments.certificate)
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context, timeout=60)
        headers = {"Content-Type": arguments.form, "Authorization": f"Bearer {arguments.token}"}
        headers |= {"Content-Encoding": "gzip"} if arguments.form == JSON else {}
        next_at = time.monotonic() + interval_seconds * number / CONNECTIONS
        while next_at < until:
            time.sleep(max(next_at - time.monotonic(), 0.0))
            next_at += interval_seconds
            with lock:
                body = next(bodies)
            began = time.monotonic()
            connection.request("POST", "/v1/logs", body, headers)
            response = connection.getresponse()
            response.read()
            sys.stdout.write(f"{response.status} {time.monotonic() - began:.4f}\n")

    threads = [threading.Thread(target=push, args=(number,)) for number in range(CONNECTIONS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for flag in ("form", "url", "certificate", "token"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    _load(parser.parse_args())
