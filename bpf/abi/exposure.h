/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Waits for the GPU, and what may have made them later. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_EXPOSURE_H
#define GPUSTALL_ABI_EXPOSURE_H

#include <linux/types.h>

/*
 * Waits of one operation after about as much work: what they usually take is learned for each of these. work: 0 where no kernel was launched
 * since the last wait, else 1 more than the binary logarithm of how many.
 */
struct exposure_key {
	__u32 process;
	__u16 operation;
	__u16 work;
};

/*
 * A return from a synchronising call is delayed by a time that is known exactly after a sleep that the GPU may have ended: the wait for a CPU
 * since the wake-up. While the thread spins, polls with time-outs or is stopped, the GPU may have finished at any moment of the last wait for
 * a CPU, or of a stop: max_ns and stopped_ns are upper bounds. Late stalls before the wait (struct feeding_row) may have been hidden, and the
 * wait is shorter for it. User space narrows all that by the duration of clean calls.
 */
struct exposure {
	__u64 exact_ns;
	__u64 exact_throttled_ns; /* part of exact_ns: throttled by the quota of the own cgroup */
	__u64 calls; /* that may have been delayed, or were late */
	__u64 total_ns; /* their duration without exact_ns */
	__u64 late_ns; /* late stalls before them */
	__u64 max_ns;
	__u64 max_throttled_ns; /* part of max_ns */
	__u64 stopped_ns;
	__u64 clean_calls; /* the other calls, which returned as soon as the GPU was done, but for exact_ns */
	__u64 clean_ns;	   /* their duration without exact_ns, and late stalls too short to count, which made it shorter */
};

#endif
