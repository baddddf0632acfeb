// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Whose TCP sockets had to send again? Counted for the control group that made the socket, and not for the task that a timer or a
 * packet happened to interrupt.
 * Attach points: tp_btf tcp_retransmit_skb, tcp_retransmit_synack.
 * Maps written: retransmits; read by exporter/kernel/retransmit_rows.py.
 * Lost: what a full table keeps out, counted under LOSS_IN_NETWORK. Older kernels, such as 6.1, do not show those that a
 *   queue of this machine dropped.
 * Cost: a look-up for each segment that any socket sends again; bpf/README.md.
 */
#define LOSS_PROGRAM LOSS_IN_NETWORK
#include "lib/kernel.bpf.h"
#include "lib/loss.bpf.h"

#define AF_INET6 10
#define TCP_SYN_SENT 2
#define MAPPED_IPV4 0xffff0000 /* the third word of ::ffff:0:0/96, big-endian */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* preallocated: written by timers */
	__type(key, struct retransmit_key);
	__type(value, struct retransmit_row);
} retransmits SEC(".maps");

static const struct retransmit_row no_retransmits;

static __always_inline u64 group_of_socket(struct sock *socket)
{
	if (!bpf_core_field_exists(socket->sk_cgrp_data.cgroup))
		return 0;
	struct cgroup *group = socket->sk_cgrp_data.cgroup;

	return group ? group->kn->id : 0;
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
	struct retransmit_key key = {.cgroup_id = group_of_socket(socket), .family = family_of(common)};
	struct retransmit_row *row = bpf_map_lookup_elem(&retransmits, &key);

	if (!row) {
		bpf_map_update_elem(&retransmits, &key, &no_retransmits, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&retransmits, &key);
	}
	if (!row) {
		lose(LOSS_RETRANSMITS_FULL);
		return 0;
	}
	__sync_fetch_and_add(&row->segments, segments);
	if (is_handshake)
		__sync_fetch_and_add(&row->handshakes, segments);
	return 0;
}

/* On newer kernels the event comes with a result, and also where nothing was sent, such as while the first attempt is still queued. */
static __always_inline bool is_sent(u64 *context)
{
	struct trace_event_raw_tcp_retransmit_skb *event = NULL;

	return !bpf_core_field_exists(event->err) || (s32)context[2] >= 0;
}

/* One buffer may hold many segments, which the device cuts: the kernel's own counter has as many. */
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

/* The socket is the listener's: the connection has none of its own yet. */
SEC("tp_btf/tcp_retransmit_synack")
int network_synack(u64 *context)
{
	struct sock *socket = (void *)context[0];
	struct request_sock *request = (void *)context[1];

	return sent_again(socket, &request->__req_common, 1, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
