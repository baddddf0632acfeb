"""Sockets of workloads, and the interfaces below them."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

RETRANSMITS = Metric(
    "gpustall_network_retransmits_total",
    "gpustall.network.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("family", "kind"),
    "TCP segments retransmitted by any socket of this machine, traced or not, by the container in which the socket"
    " was made, empty for the machine's own; for kind `handshake` those that open a connection.",
)
SOCKETS = Metric(
    "gpustall_network_sockets",
    "gpustall.network.sockets",
    "{socket}",
    Kind.GAUGE,
    ("peer",),
    "Connected TCP sockets of traced processes and their descendants, by the port of the other end; only in the"
    " exporter's own network namespace, unless --collector.network.namespaces is set.",
)
SOCKET_SEGMENTS = Metric(
    "gpustall_network_socket_segments_total",
    "gpustall.network.socket.segments",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "TCP segments sent by the sockets of gpustall_network_sockets, from the creation of a socket until it was last"
    " read; a socket that is open only between two scrapes is missed.",
)
SOCKET_RETRANSMITS = Metric(
    "gpustall_network_socket_retransmits_total",
    "gpustall.network.socket.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "TCP segments retransmitted by the sockets of gpustall_network_sockets, included in"
    " gpustall_network_socket_segments_total.",
)
SOCKET_ROUND_TRIP = Metric(
    "gpustall_network_socket_round_trip_seconds",
    "gpustall.network.socket.round_trip",
    "s",
    Kind.GAUGE,
    ("peer",),
    "Longest TCP round-trip time of the sockets of gpustall_network_sockets in seconds, from sending a segment to"
    " its acknowledgement, as smoothed by TCP.",
)
SOCKET_WINDOW = Metric(
    "gpustall_network_socket_congestion_window",
    "gpustall.network.socket.congestion_window",
    "{segment}",
    Kind.GAUGE,
    ("peer",),
    "Smallest TCP congestion window of the sockets of gpustall_network_sockets, in segments that may be in flight.",
)
UNREAD = Metric(
    "gpustall_network_unread_total",
    "gpustall.network.unread",
    "{process}",
    Kind.COUNTER,
    ("reason",),
    "Scrapes at which the sockets of a traced process were not read, or not all of them, by reason.",
)
INTERFACE_DROPS = Metric(
    "gpustall_network_interface_drops_total",
    "gpustall.network.interface.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets that an interface of the exporter's network namespace dropped or missed since it was created; at most"
    " 16 interfaces, then `other`, which also has the interfaces of containers.",
)
INTERFACE_ERRORS = Metric(
    "gpustall_network_interface_errors_total",
    "gpustall.network.interface.errors",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets with errors on an interface of the exporter's network namespace since it was created; at most 16"
    " interfaces, then `other`, which also has the interfaces of containers.",
)
QUEUE_DROPS = Metric(
    "gpustall_network_queue_drops_total",
    "gpustall.network.queue.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets dropped by the queueing discipline at the root of an interface, and those below it, since it was"
    " created; for direction `received`, packets that an ingress filter dropped.",
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
