/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* NCCL communicators. Read by exporter/kernel/process_rows.py. */
#ifndef GPUSTALL_ABI_COMMUNICATOR_H
#define GPUSTALL_ABI_COMMUNICATOR_H

#include <linux/types.h>

enum communicator_limits {
	RANK_UNKNOWN = -1,
	COMMUNICATOR_ORDINALS = 16, /* of a process; all later communicators share COMMUNICATOR_OTHER */
	COMMUNICATOR_OTHER = COMMUNICATOR_ORDINALS + 1,
};

struct communicator_key {
	__u32 process;
	__u32 padding;
	__u64 address;
};

struct communicator_row {
	__u64 hash; /* of the unique id, equal on every rank; 0 if its creation was not traced */
	__u64 created_ns;
	__s32 rank;
	__u32 ranks;
	__u32 ordinal;
	__u32 splits; /* communicators split from it so far, equal on every rank */
};

#endif
