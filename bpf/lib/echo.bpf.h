/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Did this call already arrive through another attachment? Each call arrives twice if one file is attached under two names, or if one
 * attached file forwards its calls to another by a jump. It is counted once, for the attachment it arrived through first.
 * Map written: attachments, whose numbers user space assigns (exporter/kernel/attachment_numbers.py). User space gets one event for each
 * surplus attachment.
 */
#ifndef GPUSTALL_ECHO_BPF_H
#define GPUSTALL_ECHO_BPF_H

#include "events.bpf.h"
#include "thread.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ATTACHMENTS);
	__type(key, u32);
	__type(value, struct attachment_row);
} attachments SEC(".maps");

/*
 * Whether a call is the recorded one, entered at the same stack pointer. It is a new call if it came through the same attachment (the
 * recorded one never returned), if the recorded attachment has been removed, or if this attachment has echoed the recorded call before:
 * each call arrives once through each attachment.
 */
static __noinline bool is_echo(u32 process, u64 recorded, u64 *echoes, u64 cookie)
{
	u32 first = recorded >> COOKIE_ATTACHMENT, number = cookie >> COOKIE_ATTACHMENT;
	u64 bit = 1ULL << (number & 63);

	if (first == number || (u16)recorded != (u16)cookie || *echoes & bit)
		return false;
	struct attachment_row *row = bpf_map_lookup_elem(&attachments, &first);

	if (!row || !row->is_live)
		return false;
	row = bpf_map_lookup_elem(&attachments, &number);
	if (!row)
		return false;
	*echoes |= bit;
	if (__sync_fetch_and_add(&row->echoes, 1) == 0)
		event_send_about(EVENT_ATTACHMENT_SURPLUS, process, number, first);
	return true;
}

/* Records a call that was counted and whose return is not probed. */
static __always_inline void note_counted(struct counted_call *counted, u64 entered, u64 stack_pointer, u64 cookie)
{
	counted->stack_pointer = stack_pointer;
	counted->cookie = cookie;
	counted->echoes = 0;
	counted->entered = entered;
}

/* Whether this is the call that was counted last, arriving through another attachment: no call was entered in between. */
static __always_inline bool is_counted(struct counted_call *counted, u32 process, u64 entered, u64 stack_pointer, u64 cookie)
{
	return counted->stack_pointer == stack_pointer && counted->entered == entered &&
	       is_echo(process, counted->cookie, &counted->echoes, cookie);
}

#endif
