/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A value of a map, created if it is missing. Two CPUs may create it at the same time: the second finds the value of the first.
 */
#ifndef GPUSTALL_MAPS_BPF_H
#define GPUSTALL_MAPS_BPF_H

#include "drop.bpf.h"

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

#endif
