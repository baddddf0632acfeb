// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Drops every EVERY-th packet that carries data of a TCP connection, where it arrives. For the rig alone: tc puts it on a veth.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* Bytes of data in the packet; 0 for one without, and for what is no TCP. */
static __always_inline int data_bytes(struct __sk_buff *packet)
{
	int headers = ETH_HLEN;
	struct tcphdr tcp;

	if (packet->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(packet, ETH_HLEN, &ip, sizeof(ip)) || ip.protocol != IPPROTO_TCP)
			return 0;
		headers += ip.ihl * 4;
	} else if (packet->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(packet, ETH_HLEN, &ip, sizeof(ip)) || ip.nexthdr != IPPROTO_TCP)
			return 0;
		headers += sizeof(ip);
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes(packet, headers, &tcp, sizeof(tcp)))
		return 0;
	return (int)packet->len - headers - tcp.doff * 4;
}

SEC("tc")
int drop(struct __sk_buff *packet)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&seen, &zero);

	if (!count || data_bytes(packet) <= 0)
		return TC_ACT_OK;
	return (__sync_fetch_and_add(count, 1) + 1) % EVERY ? TC_ACT_OK : TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
