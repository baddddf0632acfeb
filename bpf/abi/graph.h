/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What a process does with CUDA graphs. Read by exporter/kernel/gpu_rows.py. */
#ifndef GPUSTALL_ABI_GRAPH_H
#define GPUSTALL_ABI_GRAPH_H

#include <linux/types.h>

struct graph_key {
	__u32 process;
	__u32 is_executable;
	__u64 address;
};

struct graph {
	__u64 kernels; /* captured */
	__u64 launches;
};

struct graph_row {
	__u64 captures; /* begun */
	__u64 captured; /* ended with a graph */
	__u64 failed;	/* ended without a graph */
	__u64 capture_ns; /* from the return of the begin call to that of the end call, of both */
	__u64 began_ns; /* the last capture, CLOCK_MONOTONIC */
	__u64 instantiated;
	__u64 instantiate_ns;
	__u64 first_launches; /* of executable graphs whose instantiation was traced */
	__u64 dropped;	      /* such graphs destroyed before their first launch */
	__u64 launches;
	__u64 kernels; /* in the launched graphs */
};

#endif
