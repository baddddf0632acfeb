/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The feeding timeline of a process. Read by exporter/kernel/thread_rows.py and gpu_rows.py. */
#ifndef GPUSTALL_ABI_FEEDING_H
#define GPUSTALL_ABI_FEEDING_H

#include "thread.h"

enum feeding_limits {
	FEEDING_PLACES = 4096,
};

/*
 * A process is stalled while none of its step threads is on a CPU or waits for the GPU. A stall is booked to the states of the thread
 * that ends it, so a lock held by another step thread counts as what that thread did. The GPU is dry from the return of a synchronising
 * call to the next launch: a stall is then lost in full. A later stall (`late`) is lost only as far as the next wait is not shorter.
 * An array with one place for each process, see lib/places.bpf.h.
 */
struct feeding_row {
	__u32 process; /* that holds this place; 0: free */
	__s32 feeding; /* step threads that feed the GPU now */
	__u64 stalled_since_ns; /* 0: not stalled */
	__u32 is_dry;
	__u32 has_collectives; /* bits of lib/progress.bpf.h; 0: no NCCL operation can be pending */
	__u64 dry_ns[THREAD_STATES];
	__u64 late_ns[THREAD_STATES];
	__u64 cycle_late_ns; /* since the last cycle ended */
	__u64 cycle_kernels; /* `kernels` when it ended */
	__u64 waits;	     /* synchronising calls; `exposures` has them */
	/* Probe hits, added when a thread has collected HITS_PER_UPDATE of them. */
	__u64 timed_calls;
	__u64 counted_calls;	/* counted without timing */
	__u64 left_out_launches; /* those of the counted calls that sampling left out */
	__u64 kernels; /* launched one by one and not into a graph; nested calls count once */
	__u32 open_captures; /* begun and not ended */
	__u32 event_waits; /* in a row, see lib/feeding.bpf.h */
};

/* How often the launches of a process are timed: an array with the places of `feeding`, written by user space alone. */
struct launch_sampling {
	__u32 process;
	__u32 mask;    /* one launch in mask + 1 is timed, the others are only counted; 0: all are timed */
};

#endif
