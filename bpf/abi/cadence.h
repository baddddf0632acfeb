/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What recurs in every step of a training job. Read by exporter/kernel/cadence_rows.py. */
#ifndef GPUSTALL_ABI_CADENCE_H
#define GPUSTALL_ABI_CADENCE_H

#include <linux/types.h>

enum cadence_limits {
	BEATS = 128,
};

/* A collective, or a copy to the GPU. */
struct beat {
	__u64 at_ns; /* when the call returned */
	__u64 signature;
};

struct cadence_row {
	__u64 beats; /* so far; beat n is last[n % BEATS] */
	struct beat last[BEATS];
};

#endif
