/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Outputs of a serving engine: what it has copied to the host after work of the GPU. Read by exporter/kernel/output_rows.py. */
#ifndef GPUSTALL_ABI_OUTPUTS_H
#define GPUSTALL_ABI_OUTPUTS_H

#include <linux/types.h>

enum output_limits {
	OUTPUTS = 128,
};

struct output {
	__u64 at_ns;	 /* return of the call that found it complete */
	__u64 paused_ns; /* since the output before: gaps of at least a second between calls of step threads */
};

/* The place after the last output may be half written. */
struct output_row {
	__u64 outputs;	 /* so far; output n is last[n % OUTPUTS] */
	__u64 copied;	 /* copies enqueued, those not yet complete included */
	__u64 work_ns;	 /* when a thread enqueued work, first after its last copy or after a pause */
	__u64 quiet_ns;	 /* end of the last output or pause: the next pause begins no earlier */
	__u64 paused_ns; /* of the next output */
	struct output last[OUTPUTS];
};

#endif
