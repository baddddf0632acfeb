// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What the kernel itself takes to run a program at these places: the scheduler programs without their work. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tp_btf/sched_switch")
int sched_switch(void *context)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int sched_waking(void *context)
{
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(void *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
