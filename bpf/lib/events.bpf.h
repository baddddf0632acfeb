/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Rare news for user space: a process became tracked, a tracked process ended, an attachment is surplus. Never one per call.
 */
#ifndef GPUSTALL_EVENTS_BPF_H
#define GPUSTALL_EVENTS_BPF_H

#include "loss.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024); /* 2,700 events: 50 starts a second are read four times a second */
} events SEC(".maps");

static __always_inline void announce_about(enum event_kind kind, u32 process, u32 attachment, u32 first)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		lose(LOSS_EVENTS_FULL);
		return;
	}
	event->kind = kind;
	event->process = process;
	event->attachment = attachment;
	event->first = first;
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void announce(enum event_kind kind, u32 process)
{
	announce_about(kind, process, 0, 0);
}

#endif
