/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Some arrays have one place for each process: process number % FEEDING_PLACES. A process gets a number whose place is free, and holds it
 * in all of these arrays until user space has read it for the last time. `feeding` says who holds a place.
 * Map written: feeding, read by exporter/kernel/thread_rows.py and gpu_rows.py.
 */
#ifndef GPUSTALL_PLACES_BPF_H
#define GPUSTALL_PLACES_BPF_H

#include "../abi/feeding.h"

#define PLACES_TRIED 16 /* with half of them taken, one of so many is free but for one time in 65,536 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct feeding_row);
} feeding SEC(".maps");

static __always_inline struct feeding_row *place_row(u32 process)
{
	u32 place = process & (FEEDING_PLACES - 1);

	return bpf_map_lookup_elem(&feeding, &place);
}

/* Whether a process holds its place. */
static __always_inline bool place_is_held(u32 process)
{
	struct feeding_row *row = place_row(process);

	return row && process && row->process == process;
}

/* The number so far ahead of the last one, if its place is free, which it then holds; else 0. */
static __noinline u32 place_try(u64 *last, u32 ahead)
{
	u32 number = __sync_fetch_and_add(last, ahead) + ahead;
	struct feeding_row *row = place_row(number);

	return row && number && !__sync_val_compare_and_swap(&row->process, 0, number) ? number : 0;
}

/*
 * A new number. It holds its place unless all that were tried are taken: the next one, then any ones, because processes that have started
 * together hold places in a row.
 */
static __always_inline u32 place_new_number(u64 *last)
{
	u32 number = place_try(last, 1);

	_Pragma("clang loop unroll(full)") for (int i = 1; i < PLACES_TRIED; i++)
	{
		if (!number)
			number = place_try(last, 1 + (bpf_get_prandom_u32() & (FEEDING_PLACES - 1)));
	}
	return number ? number : __sync_fetch_and_add(last, 1) + 1;
}

/* A process that has not done anything yet gives its place back. */
static __always_inline void place_give_back(u32 process)
{
	struct feeding_row *row = place_row(process);

	if (row)
		__sync_val_compare_and_swap(&row->process, process, 0);
}

#endif
