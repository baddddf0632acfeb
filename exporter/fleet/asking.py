"""One request to many nodes at once, until one deadline: an answer or a failure of each, in the order of the nodes.

In: nodes, a request, and a function that reads an answer. Out: a list with an NodeAnswer or a NodeFailure for each node.

Each node has a thread, so that none waits for another; beyond AT_ONCE_MAX nodes a thread has several. The caller waits for
their results rather than for the threads: what cannot be cancelled, such as getaddrinfo(), is left behind in a daemon thread,
which ends when the call returns or with the process. Threads bring bytes. The caller's own thread reads them, one answer at a
time: a decoder holds the interpreter for as long as it runs, and 200 of them would hold it far beyond the deadline.

Clocks are compared after the answer is there, over the same connection: nothing that happens then is a failure of the node.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from exporter.errors import NotPossibleHere
from exporter.fleet.access import NodeAccess
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.clock_sampling import sampled_offset
from exporter.fleet.exchange import AnswerBounds, ByteBudget, NodeRequest, client_for, connection_of, exchanged
from exporter.fleet.failure import NodeFailure, NodeFailureKind, NodeUnusable
from exporter.fleet.node import Node
from exporter.http_client.client import HttpClient
from exporter.http_client.deadline import Deadline
from exporter.text.untrusted import Untrusted

ANSWER_BYTES_MAX: Final = 4 << 20
ALL_BYTES_MAX: Final = 64 << 20
AT_ONCE_MAX: Final = 512
"""Requests in flight: half of the files that a process may have open by default."""
CLOCK_SECONDS: Final = 1.0
"""For comparing the clock of a node, after its answer and before the deadline."""

T = TypeVar("T")


class NodeAnswer(NamedTuple, Generic[T]):
    """document: as it was read. seconds: from the look-up of the name to the last byte.

    clock: how far that of the node is off; None: not known, or not asked for.
    """

    node: Node
    document: T
    seconds: float
    clock: ClockOffset | None = None


class Asked(NamedTuple):
    """The same for all nodes. bytes_max: of one answer; all_bytes_max: of all together."""

    request: NodeRequest
    access: NodeAccess
    deadline: Deadline
    bytes_max: int = ANSWER_BYTES_MAX
    all_bytes_max: int = ALL_BYTES_MAX
    compares_clocks: bool = False


class _Arrived(NamedTuple):
    """at: position of the node. body: or why there is none. seconds: that it took."""

    at: int
    body: bytearray | NodeUnusable
    seconds: float


class _Done(NamedTuple):
    """Comes last of each node. clock: None: not known."""

    at: int
    clock: ClockOffset | None


_Found = queue.SimpleQueue["_Arrived | _Done"]


def ask(nodes: Sequence[Node], asked: Asked, read: Callable[[bytearray], T]) -> list[NodeAnswer[T] | NodeFailure]:
    """Returns at the deadline, or as soon as the last node is done. Raises NotPossibleHere if no thread can be started.

    read: what a body says. It may raise NodeUnusable, or Untrusted for an answer that is not readable.
    """
    deadline = asked.deadline
    clients = [client_for(node, asked.access) for node in nodes]
    arrived: _Found = queue.SimpleQueue()
    waiting = deque(range(len(nodes)))
    bounds = AnswerBounds(asked.bytes_max, ByteBudget(asked.all_bytes_max, len(nodes)))

    def work() -> None:
        while (at := _next(waiting)) is not None:
            arrived.put(_Done(at, _visit(at, clients[at], asked, bounds, arrived)))

    _start(work, min(len(nodes), AT_ONCE_MAX))
    results: dict[int, NodeAnswer[T] | NodeFailure] = {}
    missing = set(range(len(nodes)))
    while missing:
        left_seconds = deadline.at - deadline.clock()
        try:
            one = arrived.get(timeout=max(left_seconds, 0.0))
        except queue.Empty:
            break
        if isinstance(one, _Done):
            missing.discard(one.at)
            found = results.get(one.at)
            if isinstance(found, NodeAnswer):
                results[one.at] = found._replace(clock=one.clock)
        elif isinstance(one.body, NodeUnusable):
            results[one.at] = one.body.of(nodes[one.at])
        elif left_seconds > 0:
            results[one.at] = _read(nodes[one.at], one.body, one.seconds, read)
    waiting.clear()
    for at in missing:
        clients[at].cancel()
    late = NodeUnusable(NodeFailureKind.TOO_SLOW, deadline.missed)
    return [results.get(at) or late.of(node) for at, node in enumerate(nodes)]


def known_clocks(results: Sequence[NodeAnswer[T] | NodeFailure]) -> Mapping[str, ClockOffset]:
    """By name of the node, in the order of the nodes."""
    return {one.node.name: one.clock for one in results if isinstance(one, NodeAnswer) and one.clock is not None}


def _read(node: Node, body: bytearray, seconds: float, read: Callable[[bytearray], T]) -> NodeAnswer[T] | NodeFailure:
    try:
        return NodeAnswer(node, read(body), seconds)
    except NodeUnusable as error:
        return error.of(node)
    except Untrusted as error:
        return NodeUnusable(NodeFailureKind.NOT_READABLE, str(error)).of(node)


def _next(waiting: deque[int]) -> int | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _visit(at: int, client: HttpClient, asked: Asked, bounds: AnswerBounds, arrived: _Found) -> ClockOffset | None:
    own = replace(asked.deadline)  # that of the clock comes earlier
    began = own.clock()
    try:
        with connection_of(client, own) as connection:
            body = exchanged(connection, asked.request, asked.access, bounds)
            ended = own.clock()
            arrived.put(_Arrived(at, body, ended - began))
            own.at = min(own.at, ended + CLOCK_SECONDS)
            return sampled_offset(connection, asked.access) if asked.compares_clocks else None
    except NodeUnusable as error:
        arrived.put(_Arrived(at, error, own.clock() - began))
        return None


def _start(work: Callable[[], None], threads: int) -> None:
    """As many as can be started: those do all of the work. Raises NotPossibleHere if there is none."""
    for started in range(threads):
        try:
            threading.Thread(target=work, name="node", daemon=True).start()
        except RuntimeError:
            if not started:
                raise NotPossibleHere(
                    "no thread can be started to ask the nodes", remedy="raise the limit of processes (ulimit -u)"
                ) from None
            return
