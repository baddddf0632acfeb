// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Turns durations into slots with bpf/lib/hist.bpf.h, for comparison with exporter/units.py. */
#include "../../bpf/lib/hist.bpf.h"

#define DURATIONS 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DURATIONS);
	__type(key, u32);
	__type(value, u64); /* in: nanoseconds; out: slot */
} durations SEC(".maps");

static long turn(u32 i, void *context)
{
	u32 key = i;
	u64 *value = bpf_map_lookup_elem(&durations, &key);

	if (value && !(*value >> 63))
		*value = hist_slot(duration_units(*value)) | 1ULL << 63;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int hist_slots(void *context)
{
	bpf_loop(DURATIONS, turn, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
