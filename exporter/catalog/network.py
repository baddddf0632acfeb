"""Sockets of workloads, and the interfaces below them."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

RETRANSMITS = Metric(
    "gpustall_network_retransmits_total",
    "gpustall.network.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("family", "kind"),
    "TCP segments that any socket of this machine sent again, traced or not, by the container in which the socket was made; of a"
    " handshake those that open a connection. The machine's own have no container.",
)
SOCKETS = Metric(
    "gpustall_network_sockets",
    "gpustall.network.sockets",
    "{socket}",
    Kind.GAUGE,
    ("peer",),
    "Connected TCP sockets of traced processes and of those they have started, by the port of the other end; only in the"
    " exporter's own network namespace, unless --collector.network.namespaces is set.",
)
SOCKET_SEGMENTS = Metric(
    "gpustall_network_socket_segments_total",
    "gpustall.network.socket.segments",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "TCP segments that these sockets sent, from when each was made to when it was last seen; a socket that is open between two"
    " scrapes alone is not seen.",
)
SOCKET_RETRANSMITS = Metric(
    "gpustall_network_socket_retransmits_total",
    "gpustall.network.socket.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "Of these segments those that were sent again.",
)
SOCKET_ROUND_TRIP = Metric(
    "gpustall_network_socket_round_trip_seconds",
    "gpustall.network.socket.round_trip",
    "s",
    Kind.GAUGE,
    ("peer",),
    "Time from sending a segment to its acknowledgement, as TCP smooths it: the longest of these sockets.",
)
SOCKET_WINDOW = Metric(
    "gpustall_network_socket_congestion_window",
    "gpustall.network.socket.congestion_window",
    "{segment}",
    Kind.GAUGE,
    ("peer",),
    "Segments that may be on their way unacknowledged: the smallest congestion window of these sockets.",
)
UNREAD = Metric(
    "gpustall_network_unread_total",
    "gpustall.network.unread",
    "{process}",
    Kind.COUNTER,
    ("reason",),
    "Times that the sockets of a traced process were not read, or not all of them, when somebody scraped.",
)
INTERFACE_DROPS = Metric(
    "gpustall_network_interface_drops_total",
    "gpustall.network.interface.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets that an interface of the exporter's network namespace dropped or missed since it was made; at most 16 interfaces,"
    " and `other` for all else and for those of containers.",
)
INTERFACE_ERRORS = Metric(
    "gpustall_network_interface_errors_total",
    "gpustall.network.interface.errors",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets with errors, likewise.",
)
QUEUE_DROPS = Metric(
    "gpustall_network_queue_drops_total",
    "gpustall.network.queue.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets that the queueing discipline at the root of an interface dropped since it was made, with those below it; of what is"
    " received, those that a filter there dropped.",
)

METRICS = (
    RETRANSMITS,
    SOCKETS,
    SOCKET_SEGMENTS,
    SOCKET_RETRANSMITS,
    SOCKET_ROUND_TRIP,
    SOCKET_WINDOW,
    UNREAD,
    INTERFACE_DROPS,
    INTERFACE_ERRORS,
    QUEUE_DROPS,
)
