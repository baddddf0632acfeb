// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which control groups have TCP sockets that send segments again? Counted for the group that created the socket, not for the task that a
 *   timer or a packet has interrupted.
 * Attach points: tp_btf tcp_retransmit_skb, tcp_retransmit_synack.
 * Maps written: retransmits (exporter/kernel/retransmit_rows.py); owners, share_totals (lib/share.bpf.h).
 * Dropped: groups if the map is full or their owner has its share, counted under DROP_IN_NETWORK. Older kernels, such as 6.1, have no event for segments that a queue
 *   of this machine has dropped.
 * Cost: a look-up for each segment that any socket sends again; bpf/README.md.
 */
#define DROP_PROGRAM DROP_IN_NETWORK
#include "lib/group_share.bpf.h"
#include "abi/network.h"

#define AF_INET6 10
#define TCP_SYN_SENT 2
#define MAPPED_IPV4 0xffff0000 /* the third word of ::ffff:0:0/96, big-endian */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048); /* preallocated: written by timers */
	__type(key, struct retransmit_key);
	__type(value, struct retransmit_row);
} retransmits SEC(".maps");

static const struct retransmit_row empty_retransmits;

/* NULL: unknown. */
static __always_inline struct cgroup *group_of_socket(struct sock *socket)
{
	return bpf_core_field_exists(socket->sk_cgrp_data.cgroup) ? BPF_CORE_READ(socket, sk_cgrp_data.cgroup) : NULL;
}

static __always_inline enum ip_family family_of(struct sock_common *common)
{
	if (common->skc_family != AF_INET6)
		return FAMILY_IPV4;
	if (!bpf_core_field_exists(common->skc_v6_daddr))
		return FAMILY_IPV6;
	struct in6_addr peer = {};

	bpf_core_read(&peer, sizeof(peer), &common->skc_v6_daddr);
	u32 *words = peer.in6_u.u6_addr32;

	return !words[0] && !words[1] && words[2] == MAPPED_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
}

static __always_inline int sent_again(struct sock *socket, struct sock_common *common, u32 segments, bool is_handshake)
{
	struct cgroup *group = group_of_socket(socket);
	struct retransmit_key key = {.cgroup_id = group ? BPF_CORE_READ(group, kn, id) : 0, .family = family_of(common)};
	struct retransmit_row *row =
		group_row(&retransmits, &key, &empty_retransmits, group, SHARE_RETRANSMITS, DROP_RETRANSMITS_FULL);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->segments, segments);
	if (is_handshake)
		__sync_fetch_and_add(&row->handshakes, segments);
	return 0;
}

/* On newer kernels the event has a result, and also fires if nothing was sent, for example while the first attempt is still queued. */
static __always_inline bool is_sent(u64 *context)
{
	struct trace_event_raw_tcp_retransmit_skb *event = NULL;

	return !bpf_core_field_exists(event->err) || (s32)context[2] >= 0;
}

/* One buffer may hold many segments, which the NIC splits. The kernel's own counter counts segments as well. */
SEC("tp_btf/tcp_retransmit_skb")
int network_retransmit(u64 *context)
{
	if (!is_sent(context))
		return 0;
	struct sock *socket = (void *)context[0];
	struct sk_buff *buffer = (void *)context[1];
	struct tcp_skb_cb *control = (void *)&buffer->cb;
	u32 segments = BPF_CORE_READ(control, tcp_gso_segs);
	bool is_handshake = socket->__sk_common.skc_state == TCP_SYN_SENT;

	return sent_again(socket, &socket->__sk_common, segments ? segments : 1, is_handshake);
}

/* The socket is the listener: the connection has no socket of its own yet. */
SEC("tp_btf/tcp_retransmit_synack")
int network_synack(u64 *context)
{
	struct sock *socket = (void *)context[0];
	struct request_sock *request = (void *)context[1];

	return sent_again(socket, &request->__req_common, 1, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
