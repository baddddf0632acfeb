/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* TCP segments that sockets sent again. Read by exporter/kernel/retransmit_rows.py. */
#ifndef GPUSTALL_ABI_NETWORK_H
#define GPUSTALL_ABI_NETWORK_H

#include <linux/types.h>

enum ip_family {
	FAMILY_IPV4 = 0, /* on the wire: also an IPv6 socket whose peer has an IPv4 address */
	FAMILY_IPV6 = 1,
};

struct retransmit_key {
	__u64 cgroup_id; /* of the group that created the socket, unified hierarchy; 0: none */
	__u32 family;
	__u32 padding;
};

struct retransmit_row {
	__u32 owner; /* place in `owners`; first, as lib/group_share.bpf.h writes it */
	__u32 padding;
	__u64 segments;
	__u64 handshakes; /* those of the segments that open a connection: SYN, and SYN with ACK */
};

#endif
