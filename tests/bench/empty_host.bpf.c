// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What the kernel itself takes to run a program at these places: those of the collectors of the machine, without their work. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EMPTY(name)                                                                                                           \
	SEC("tp_btf/" #name)                                                                                                  \
	int name(void *context)                                                                                               \
	{                                                                                                                     \
		return 0;                                                                                                     \
	}

EMPTY(block_getrq)
EMPTY(block_rq_complete)
EMPTY(sched_process_exit)
EMPTY(sched_process_fork)
EMPTY(irq_handler_entry)
EMPTY(irq_handler_exit)
EMPTY(softirq_entry)
EMPTY(softirq_exit)
EMPTY(tcp_retransmit_skb)
EMPTY(tcp_retransmit_synack)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
