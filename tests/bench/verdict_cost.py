"""What does `explain --nodes` take of 200 nodes, and how often is its verdict about a job right?

The nodes are listeners of one process, with TLS, which answer with reports of simulated jobs and with their clocks. The labelled
faults are of shapes that no rule was found on, with clocks that are off by up to five minutes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from exporter.fleet.clock_reading import CLOCK_PATH, clock_document, node_clock
from exporter.service.certificate import make_certificate
from tests.support.labelled_jobs import KINDS, labelled
from tests.support.rank_reports import a_node, a_place
from tests.support.serving import COMMAND
from tests.unit.fleet.test_job_verdict import late, victims

NODES, RANKS_OF_NODE = 200, 8
ROUNDS = 5
SEEDS = range(10_000, 10_020)


class FleetCosts(NamedTuple):
    """The slowest of some rounds. cpu_seconds: of the command, without those of the nodes. resident_mib: at most."""

    seconds: float
    cpu_seconds: float
    resident_mib: float


class VerdictShares(NamedTuple):
    """Shares of the labelled faults, and how many there were."""

    right_rank_ratio: float
    right_cause_ratio: float
    cases: int


def fleet_costs() -> FleetCosts:
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(Path(folder) / "certificate", ("localhost", "127.0.0.1"))
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("fork").Process(target=_serve, args=(Path(folder), theirs), daemon=True)
        server.start()
        try:
            ports = ours.recv()
            costs = [_asked(Path(folder), ports) for _ in range(1 + ROUNDS)][1:]  # the first one compiles
        finally:
            server.kill()
            server.join()
    return FleetCosts(*map(max, zip(*costs, strict=True)))


def _asked(folder: Path, ports: Sequence[int]) -> FleetCosts:
    nodes = ",".join(f"127.0.0.1:{port}" for port in ports)
    flags = (f"--nodes={nodes}", f"--nodes.ca={folder / 'certificate' / 'serve.crt'}", "--format=json")
    # With its bytecode, as it is installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    began = time.monotonic()
    with subprocess.Popen([*COMMAND, "explain", *flags], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    length = time.monotonic() - began
    (job,) = found["jobs"]
    assert (process.returncode, job["kind"], job["ranks_seen"]) == (0, "slow_rank", NODES * RANKS_OF_NODE)
    return FleetCosts(length, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _serve(folder: Path, connection: Connection) -> None:
    """A listener for each node. The last rank of the job is late."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate" / "serve.crt", folder / "certificate" / "serve.key")
    ports = []
    for node in range(NODES):
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(_report(node)))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ports.append(server.server_port)
    connection.send(ports)
    threading.Event().wait()


def _report(node: int) -> bytes:
    numbers = range(node * RANKS_OF_NODE, (node + 1) * RANKS_OF_NODE)
    last = NODES * RANKS_OF_NODE - 1
    ranks = [
        replace(
            late(number) if number == last else victims(number)[0], places=(a_place(number, NODES * RANKS_OF_NODE),)
        )
        for number in numbers
    ]
    return json.dumps(a_node(*ranks).to_document()).encode()


def _handler(body: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = json.dumps(clock_document(node_clock())).encode() if self.path == CLOCK_PATH else body
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler


def verdict_shares() -> VerdictShares:
    cases = [labelled(seed, kind, is_held_out=True) for kind in KINDS for seed in SEEDS]
    cases += [
        labelled(seed, kind, is_held_out=True, with_silent_node=True)
        for kind in ("slow_rank", "hang")
        for seed in SEEDS
    ]
    found = [(case, case.verdict()) for case in cases]
    right = sum(case.is_right_rank(one) for case, one in found)
    causes = sum(case.is_right_rank(one) and case.is_right_cause(one) for case, one in found)
    return VerdictShares(right / len(found), causes / len(found), len(found))


if __name__ == "__main__":
    print(fleet_costs())
    print(verdict_shares())
