/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Runnable time that delayed the return of synchronising calls. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_EXPOSURE_H
#define GPUSTALL_ABI_EXPOSURE_H

#include <linux/types.h>

/*
 * Known exactly after a sleep that the GPU may have ended: the wait for a CPU since the wake-up. While the thread spins or polls with
 * time-outs, the GPU may have finished at any moment of the last wait for a CPU: max_ns is the upper bound, and user space narrows it
 * by the duration of clean calls.
 */
struct exposure {
	__u64 exact_ns;
	__u64 max_ns;
	__u64 calls;	/* calls that max_ns is part of */
	__u64 total_ns; /* their duration */
	__u64 clean_calls; /* synchronising calls without any wait for a CPU */
	__u64 clean_ns;
	__u64 runnable_ns; /* all waits for a CPU in synchronising calls */
	__u64 throttled_ns;
};

#endif
