/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Has another attachment seen this call already? Two attachments on one file, known by two names, both see each of its calls;
 * so do those on two files of which one passes a call on by a jump. It is counted once, by whichever sees it first.
 * Map written: attachments, whose numbers user space gives. What is found is told to user space, once for each attachment.
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
 * Whether a call is the one on record, entered at the same stack pointer. Through the same attachment it is a new one: the
 * other was left without a return. So it is when that attachment has been removed, or when this one has passed by before:
 * each sees every call once.
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
		announce_about(EVENT_ATTACHMENT_SURPLUS, process, number, first);
	return true;
}

/* A call was counted whose return will not be seen. */
static __always_inline void note_counted(struct counted_call *counted, u64 entered, u64 stack_pointer, u64 cookie)
{
	counted->stack_pointer = stack_pointer;
	counted->cookie = cookie;
	counted->echoes = 0;
	counted->entered = entered;
}

/* Whether this is the call that was counted last, seen again through another attachment: nothing was entered in between. */
static __always_inline bool is_counted(struct counted_call *counted, u32 process, u64 entered, u64 stack_pointer, u64 cookie)
{
	return counted->stack_pointer == stack_pointer && counted->entered == entered &&
	       is_echo(process, counted->cookie, &counted->echoes, cookie);
}

#endif
