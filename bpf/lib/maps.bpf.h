/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A value of a map, created if it is missing. Two CPUs may create it at the same time: the second finds the value of the first. Rows of
 * processes are created and deleted here alone, so that each is booked to its owner.
 */
#ifndef GPUSTALL_MAPS_BPF_H
#define GPUSTALL_MAPS_BPF_H

#include "share.bpf.h"

/* The value at `key`, or `empty` inserted there; NULL if the map is full, which is counted under `reason`. */
static __always_inline void *lookup_or_create(void *map, const void *key, const void *empty, enum drop_reason reason)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	bpf_map_update_elem(map, key, empty, BPF_NOEXIST);
	value = bpf_map_lookup_elem(map, key);
	if (!value)
		drop(reason);
	return value;
}

/* Inserts a row of a process at a key that is not there; false if another CPU was faster, or if there is no room (counted). */
static __always_inline bool create_row(void *map, const void *key, const void *value, u32 process, enum share_table table,
				       enum drop_reason reason)
{
	u32 answer = share_take(process, table);
	long failed;

	if (answer != SHARE_GRANTED) {
		if (answer == SHARE_REFUSED)
			drop(reason);
		return false;
	}
	failed = bpf_map_update_elem(map, key, value, BPF_NOEXIST);
	if (!failed)
		return true;
	share_book(process, table, -1);
	if (failed != -EEXIST)
		drop(reason);
	return false;
}

/* As lookup_or_create(), for a row of a process; NULL also if the process has ended. */
static __always_inline void *own_row(void *map, const void *key, const void *empty, u32 process, enum share_table table,
				     enum drop_reason reason)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	create_row(map, key, empty, process, table, reason);
	return bpf_map_lookup_elem(map, key);
}

/* Whether a row of a process was deleted. */
static __always_inline bool delete_row(void *map, const void *key, u32 process, enum share_table table)
{
	if (bpf_map_delete_elem(map, key))
		return false;
	share_book(process, table, -1);
	return true;
}

#endif
