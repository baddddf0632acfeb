/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Rare events that user space acts on at once: a process became tracked or ended, an attachment is surplus. Never one per call.
 * Map written: events, read by exporter/kernel/events.py.
 */
#ifndef GPUSTALL_EVENTS_BPF_H
#define GPUSTALL_EVENTS_BPF_H

#include "drop.bpf.h"
#include "../abi/event.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024); /* 2,700 events: enough for 50 starts a second, read four times a second */
} events SEC(".maps");

static __always_inline void event_send_about(enum event_kind kind, u32 process, u32 attachment, u32 first)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		drop(DROP_EVENTS_FULL);
		return;
	}
	event->kind = kind;
	event->process = process;
	event->attachment = attachment;
	event->first = first;
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void event_send(enum event_kind kind, u32 process)
{
	event_send_about(kind, process, 0, 0);
}

#endif
