/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The shape of every histogram: exponential buckets of scale 3 over units of 2^-30 s (0.93 ns). */
#ifndef GPUSTALL_ABI_HIST_H
#define GPUSTALL_ABI_HIST_H

#include <linux/types.h>

/*
 * Slot k holds durations in (2^((k-1)/8), 2^(k/8)] units. 42 octaves reach 2^12 s = 4,096 s; anything longer goes to the last slot,
 * which only le="+Inf" includes.
 */
enum hist_limits {
	HIST_OCTAVES = 42,
	HIST_SLOTS = 8 * HIST_OCTAVES + 2, /* + slot 0 for (0, 1] + one overflow */
};

#endif
