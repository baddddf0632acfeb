/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who read last from a pipe or terminal that threads of jobs write to.
 * Map written: readers, by sched.bpf.c; read there and by threads.bpf.c.
 */
#ifndef GPUSTALL_READERS_BPF_H
#define GPUSTALL_READERS_BPF_H

#include "thread.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct output_key);
	__type(value, struct awaited_by);
} readers SEC(".maps");

#endif
