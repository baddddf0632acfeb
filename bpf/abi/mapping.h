/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* One mapping of a file, as mappings_read writes it. Read by exporter/kernel/mapped_files.py. */
#ifndef GPUSTALL_ABI_MAPPING_H
#define GPUSTALL_ABI_MAPPING_H

#include <linux/types.h>

/* The file is the one that uprobes are placed in, below every overlay. */
struct mapping_row {
	__u64 start;
	__u64 end;
	__u64 address; /* of the kernel's inode, which a uprobe is bound to; unique as long as the inode is held */
	__u64 inode;
	__u64 size_bytes;
	__u64 changed_ns; /* last change of content or metadata, time of day */
	__u32 generation; /* of the inode number, on file systems that have one */
	__u32 device;	  /* the kernel's number */
	__u16 is_own;	  /* of the reading process, or of a child of it */
	__u16 is_in_user_namespace; /* the file system was mounted in a user namespace */
	__u32 file_system; /* its magic number */
};

#endif
