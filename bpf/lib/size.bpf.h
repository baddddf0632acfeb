/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Sizes that a program passes. One that no machine can have is not added, but counted as dropped, so that sums never overflow.
 */
#ifndef GPUSTALL_SIZE_BPF_H
#define GPUSTALL_SIZE_BPF_H

#include "drop.bpf.h"

#define SIZE_MOST (1ULL << 47) /* bytes: the address space of a program */
#define SIZE_SUM_MOST (1ULL << 62)

/* count elements of so many bytes; 0 if that is implausible. */
__noinline u64 size_of(u64 count, u64 bytes)
{
	if (!bytes || count <= SIZE_MOST / bytes)
		return count * bytes;
	drop(DROP_IMPLAUSIBLE_SIZE);
	return 0;
}

/* Adds to a sum that is not full. */
static __always_inline void size_add(u64 *sum, u64 bytes)
{
	if (*sum < SIZE_SUM_MOST)
		__sync_fetch_and_add(sum, bytes);
	else if (bytes)
		drop(DROP_IMPLAUSIBLE_SIZE);
}

#endif
