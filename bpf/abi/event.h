/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Records of the ring `events`, and attachments. Read by exporter/kernel/events.py and attachment_numbers.py. */
#ifndef GPUSTALL_ABI_EVENT_H
#define GPUSTALL_ABI_EVENT_H

#include <linux/types.h>

enum event_kind {
	EVENT_PROCESS_TRACKED = 1, /* first call */
	EVENT_PROCESS_ENDED = 2,   /* exit, or exec of another program */
	EVENT_ATTACHMENT_SURPLUS = 3, /* one call arrived through two attachments; sent once for each second one */
};

struct event {
	__u32 kind;
	__u32 process;
	__u32 attachment; /* the surplus one; else 0 */
	__u32 first;	  /* the one that the call arrived through first; else 0 */
};

enum attachment_limits {
	ATTACHMENTS = 256,
};

/* The key is the attachment's number. is_live is written by user space, before probes are placed and after they are removed. */
struct attachment_row {
	__u64 echoes; /* calls that had already arrived through another attachment, and were not counted again */
	__u64 is_live;
};

#endif
