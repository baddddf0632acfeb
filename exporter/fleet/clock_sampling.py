"""How far the clock of a node is off, asked over a connection that has just brought an answer.

In: the connection. Out: ClockOffset, or None where the node does not say, or not in time: an older exporter, a proxy that closes
the connection, a node that hangs after its answer. Nothing of that is a failure of the node: its answer is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from exporter.fleet.access import NodeAccess
from exporter.fleet.clock_offset import ClockOffset, ClockSample, clock_offset
from exporter.fleet.clock_reading import CLOCK_PATH, clock_of, clock_reading
from exporter.fleet.exchange import NodeRequest
from exporter.host.kernel_clock import kernel_clock
from exporter.http_client.client import HttpConnection
from exporter.http_client.errors import HttpFailure
from exporter.text import untrusted
from exporter.text.untrusted import Untrusted

SAMPLES_MAX: Final = 5
GOOD_TRIP_NS: Final = 5_000_000
"""A sample whose round trip is no longer says enough: the bound is a quarter of the offset that is warned of."""
GAIN_MIN: Final = 0.25
"""Share by which a further sample is to shorten the shortest round trip: one that does not is the last. The way itself is long
then, or this machine is busy with the answers of other nodes, and each further request keeps it busy.
"""

_REQUEST: Final = NodeRequest(CLOCK_PATH)
_BODY_BYTES_MAX: Final = 4096


def sampled_offset(connection: HttpConnection, access: NodeAccess) -> ClockOffset | None:
    """Until the deadline of the connection."""
    samples: list[ClockSample] = []
    with suppress(HttpFailure, Untrusted):  # samples before it count
        while not is_enough([one.trip_ns for one in samples]):
            samples.append(_sample(connection, access))
    try:
        return clock_offset(samples, kernel_clock()) if samples else None
    except Untrusted:
        return None


def is_enough(trips_ns: Sequence[int]) -> bool:
    """Whether a further sample is not worth its request. trips_ns: of the samples so far, in their order."""
    if not trips_ns:
        return False
    *earlier, last = trips_ns
    if last <= GOOD_TRIP_NS or len(trips_ns) >= SAMPLES_MAX:
        return True
    return bool(earlier) and last > (1 - GAIN_MIN) * min(earlier)


def _sample(connection: HttpConnection, access: NodeAccess) -> ClockSample:
    """Raises HttpFailure and Untrusted."""
    headers = {**_REQUEST.headers, **access.headers}
    sent = clock_reading()
    response = connection.request(_REQUEST.method, _REQUEST.target, headers)
    body = response.read(_BODY_BYTES_MAX)
    received = clock_reading()
    if response.status != HTTPStatus.OK:
        raise Untrusted(f"status {response.status}")
    return ClockSample(sent, clock_of(untrusted.small_json_value(bytes(body))), received)
