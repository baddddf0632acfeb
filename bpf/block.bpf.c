// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do requests wait for a disk, how long does it take for them, whose are they, and who fills it?
 * Attach points: tp_btf block_getrq, block_rq_complete.
 * Maps written: disks, disk_users, completions; read by exporter/kernel/disk_rows.py, and by lib/disk.bpf.h.
 * Lost: rows that a full map keeps out, counted under LOSS_IN_BLOCK; who made a request, where 16,384 others came since.
 * Cost: two hash look-ups and an insertion a request; bpf/README.md, measured by `make bench`.
 */
#define LOSS_PROGRAM LOSS_IN_BLOCK
#include "lib/disk.bpf.h"
#include "lib/hist.bpf.h"
#include "lib/runs.bpf.h"

#define OPERATION_BITS 0xff /* REQ_OP_MASK of include/linux/blk_types.h */
#define DISK_OUTSIDE (~0U)  /* group of whoever is_outside() */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct disk_key);
	__type(value, struct disk_row);
} disks SEC(".maps");

/* Who made a request: address of its first bio -> who. A request that is merged into another one stays until it is pushed out. */
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

/* Of the one who asked for it, be it written back by the kernel long after. */
static __always_inline u64 group_of_request(struct request *request)
{
	struct bio *bio = request->bio;

	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	return bio->bi_blkg->blkcg->css.cgroup->kn->id;
}

SEC("tp_btf/block_getrq")
int block_getrq(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = watched(task);
	struct disk_user user = {.group = thread ? thread->group : is_outside(task) ? DISK_OUTSIDE : 0};
	u64 bio = context[0];

	if (user.group != DISK_OUTSIDE)
		BPF_CORE_READ_STR_INTO(&user.comm, task, group_leader, comm);
	if (!user.group)
		user.tgid = task->tgid;
	bpf_map_update_elem(&disk_requests, &bio, &user, BPF_ANY);
	return 0;
}

static __always_inline void use(u32 device, u64 bio, u64 device_ns)
{
	struct disk_user *user = bpf_map_lookup_elem(&disk_requests, &bio);

	if (!user)
		return;
	struct disk_user_key key = {.device = device, .user = *user};
	struct disk_use *row = bpf_map_lookup_elem(&disk_users, &key);

	bpf_map_delete_elem(&disk_requests, &bio);
	if (!row) {
		bpf_map_update_elem(&disk_users, &key, &empty_use, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&disk_users, &key);
	}
	if (!row) {
		lose(LOSS_DISKS_FULL);
		return;
	}
	__sync_fetch_and_add(&row->requests, 1);
	__sync_fetch_and_add(&row->device_ns, device_ns);
}

static __always_inline struct disk_row *row_of(struct disk_key *key)
{
	struct disk_row *row = bpf_map_lookup_elem(&disks, key);

	if (row)
		return row;
	bpf_map_update_elem(&disks, key, &empty_disk, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&disks, key);
	if (!row)
		lose(LOSS_DISKS_FULL);
	return row;
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
	struct disk_key key = {
		.cgroup_id = group_of_request(request),
		.device = device,
		.direction = direction_of(request->cmd_flags & OPERATION_BITS),
	};

	if (!device)
		return 0; /* a command to a device that is no disk */
	if (last) {
		last->at_ns = now_ns;
		last->task = bpf_get_current_task();
		last->device = device;
	}
	struct disk_row *row = row_of(&key);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->bytes, bytes);
	if (error)
		__sync_fetch_and_add(&row->errors, 1);
	if (bytes < request->__data_len)
		return 0; /* the rest of it is to come */
	u64 issued_ns = request->io_start_time_ns, made_ns = request->start_time_ns;

	__sync_fetch_and_add(&row->requests, 1);
	if (!issued_ns || !made_ns)
		return 0; /* the device has its statistics switched off */
	u64 queue_ns = elapsed_ns(made_ns, issued_ns), device_ns = elapsed_ns(issued_ns, now_ns);

	__sync_fetch_and_add(&row->queue_ns, queue_ns);
	__sync_fetch_and_add(&row->device_ns, device_ns);
	count(row->queue_slots, queue_ns);
	count(row->device_slots, device_ns);
	use(device, (u64)request->bio, device_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
