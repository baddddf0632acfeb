// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which file does a process really run code from? /proc shows the name that an overlay gives to a file, but a uprobe is placed in the
 * file below it.
 * Attach points: none; user space runs the iterator iter/task_vma mappings_read on one process.
 * Maps written: none; exporter/kernel/mapped_files.py reads the iterator's output.
 * Dropped: nothing.
 * Cost: 25 us a run, 0.2 us for each mapping and 2 us for each executable one, including Python; docs/measurements.md.
 */
#include "lib/kernel.bpf.h"
#include "abi/mapping.h"

#define NANOSECONDS_MASK 0x7fffffff /* since 6.13 the highest bit says that a program has asked for the time */

/* When the content or the metadata of a file has last changed, in nanoseconds; the member's name depends on the kernel. */
static u64 changed_ns(struct inode *inode)
{
	struct inode___before_6_11 *since_6_6 = (void *)inode;
	struct inode___before_6_6 *older = (void *)inode;

	if (bpf_core_field_exists(inode->i_ctime_sec))
		return BPF_CORE_READ(inode, i_ctime_sec) * SECOND_NS + (BPF_CORE_READ(inode, i_ctime_nsec) & NANOSECONDS_MASK);
	if (bpf_core_field_exists(since_6_6->__i_ctime))
		return BPF_CORE_READ(since_6_6, __i_ctime.tv_sec) * SECOND_NS + BPF_CORE_READ(since_6_6, __i_ctime.tv_nsec);
	return BPF_CORE_READ(older, i_ctime.tv_sec) * SECOND_NS + BPF_CORE_READ(older, i_ctime.tv_nsec);
}

SEC("iter/task_vma")
int mappings_read(struct bpf_iter__task_vma *context)
{
	struct vm_area_struct *vma = context->vma;
	struct task_struct *task = context->task;

	if (!vma || !task)
		return 0;
	struct file *file = vma->vm_file;
	int reader = bpf_get_current_pid_tgid() >> 32;
	bool is_own = task->tgid == reader || BPF_CORE_READ(task, real_parent, tgid) == reader;

	if (!file)
		return 0;
	/* All mappings of the exporter and its children: they map a file to find out which inode a uprobe on it would be in. */
	if (!(vma->vm_flags & VM_EXEC) && !is_own)
		return 0;
	struct inode *inode = file->f_inode;
	struct mapping_row row = {
		.start = vma->vm_start,
		.end = vma->vm_end,
		.address = (u64)inode,
		.inode = inode->i_ino,
		.size_bytes = BPF_CORE_READ(inode, i_size),
		.changed_ns = changed_ns(inode),
		.generation = inode->i_generation,
		.device = inode->i_sb->s_dev,
		.is_own = is_own,
		.is_in_user_namespace = BPF_CORE_READ(inode, i_sb, s_user_ns, level) > 0,
		.file_system = BPF_CORE_READ(inode, i_sb, s_magic),
	};

	bpf_seq_write(context->meta->seq, &row, sizeof(row));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
