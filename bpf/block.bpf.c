// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do requests wait for a disk, how long does the disk take, and which processes and cgroups cause them?
 * Attach points: tp_btf block_getrq, block_rq_complete, writeback_mark_inode_dirty, sched_process_exec.
 * Maps written: disks, disk_users (exporter/kernel/disk_rows.py); owners, share_totals (lib/share.bpf.h); completions (lib/disk.bpf.h); inode_writers, group_users
 *   (lib/owner.bpf.h); disk_requests (this file).
 * Dropped: rows if a map is full, or the owner of a cgroup has its share of `disks`, counted under DROP_IN_BLOCK; the owner of a request, if 16,384 others came later (not counted).
 * Cost: three hash look-ups and an insertion for each request, one array look-up for each page that is made dirty, a hash look-up for each exec; docs/measurements.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_BLOCK
#include "lib/disk.bpf.h"
#include "lib/group_share.bpf.h"
#include "lib/hist.bpf.h"
#include "lib/maps.bpf.h"
#include "lib/owner.bpf.h"

#define OPERATION_BITS 0xff /* REQ_OP_MASK of include/linux/blk_types.h */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct disk_key);
	__type(value, struct disk_row);
} disks SEC(".maps");

/* Address of a request's first bio -> its owner. The entry of a request that was merged into another stays until it is evicted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct disk_user);
} disk_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct disk_user_key);
	__type(value, struct disk_use);
} disk_users SEC(".maps");

static const struct disk_row empty_disk;
static const struct disk_use empty_use;

static __always_inline u32 direction_of(u32 operation)
{
	switch (operation) { /* enum req_op */
	case 0: return DISK_READ;
	case 1: return DISK_WRITE;
	case 2: return DISK_FLUSH;
	case 3: case 5: return DISK_DISCARD;
	case 9: return DISK_WRITE; /* of zeros */
	default: return DISK_OTHER;
	}
}

static __always_inline u32 device_of(struct request *request)
{
	struct gendisk *disk = request->q->disk;

	return disk ? (u32)disk->major << 20 | (u32)disk->first_minor : 0;
}

SEC("tp_btf/block_getrq")
int block_getrq(u64 *context)
{
	u64 bio = context[0];
	struct disk_user user = owner_of((void *)bio);

	bpf_map_update_elem(&disk_requests, &bio, &user, BPF_ANY);
	return 0;
}

SEC("tp_btf/writeback_mark_inode_dirty")
int block_mark_inode_dirty(u64 *context)
{
	owner_note_dirty(context[0]);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int block_exec(u64 *context)
{
	owner_note_exec(bpf_get_current_task_btf());
	return 0;
}

static __always_inline void use(u32 device, u64 bio, u64 device_ns)
{
	struct disk_user *user = bpf_map_lookup_elem(&disk_requests, &bio);

	if (!user)
		return;
	struct disk_user_key key = {.device = device, .user = *user};
	struct disk_use *row = lookup_or_create(&disk_users, &key, &empty_use, DROP_DISKS_FULL);

	bpf_map_delete_elem(&disk_requests, &bio);
	if (!row)
		return;
	__sync_fetch_and_add(&row->requests, 1);
	__sync_fetch_and_add(&row->device_ns, device_ns);
}

static __always_inline void count(u64 *slots, u64 duration_ns)
{
	u32 slot = hist_slot(duration_units(duration_ns));

	if (slot < HIST_SLOTS)
		__sync_fetch_and_add(&slots[slot], 1);
}

SEC("tp_btf/block_rq_complete")
int block_rq_complete(u64 *context)
{
	struct request *request = (void *)context[0];
	u32 error = context[1], bytes = context[2], zero = 0;
	u64 now_ns = bpf_ktime_get_ns();
	u32 device = device_of(request);
	struct completion *last = bpf_map_lookup_elem(&completions, &zero);
	struct cgroup *group = group_of_bio(request->bio);
	struct disk_key key = {
		.cgroup_id = group ? BPF_CORE_READ(group, kn, id) : 0,
		.device = device,
		.direction = direction_of(request->cmd_flags & OPERATION_BITS),
	};

	if (!device)
		return 0; /* a command to a device that is not a disk */
	if (last) {
		last->at_ns = now_ns;
		last->task = bpf_get_current_task();
		last->device = device;
	}
	struct disk_row *row = group_row(&disks, &key, &empty_disk, group, SHARE_DISKS, DROP_DISKS_FULL);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->bytes, bytes);
	if (error)
		__sync_fetch_and_add(&row->errors, 1);
	if (bytes < request->__data_len)
		return 0; /* the rest completes later */
	u64 issued_ns = request->io_start_time_ns, made_ns = request->start_time_ns;

	__sync_fetch_and_add(&row->requests, 1);
	if (!issued_ns || !made_ns)
		return 0; /* statistics of this disk are switched off */
	u64 queue_ns = elapsed_ns(made_ns, issued_ns), device_ns = elapsed_ns(issued_ns, now_ns);

	__sync_fetch_and_add(&row->queue_ns, queue_ns);
	__sync_fetch_and_add(&row->device_ns, device_ns);
	count(row->queue_slots, queue_ns);
	count(row->device_slots, device_ns);
	use(device, (u64)request->bio, device_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
