// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The floor of every comparison: the same attachment, programs that do nothing. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("uprobe")
int cuda_session(void *context)
{
	return 0;
}

SEC("uprobe")
int cuda_enter(void *context)
{
	return 0;
}

SEC("uretprobe")
int cuda_exit(void *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
