// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The obvious alternative: remember the entry by thread, send one record per call to user space. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

struct record {
	__u64 cookie, duration_ns;
	__u32 tgid, tid;
	__s64 code;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} started SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

static __always_inline int on_enter(void)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&started, &tid, &now, BPF_ANY);
	return 0;
}

static __always_inline int on_exit(void *context)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id, zero = 0;
	__u64 *entry = bpf_map_lookup_elem(&started, &tid);

	if (!entry)
		return 0;
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__u64 *count = bpf_map_lookup_elem(&dropped, &zero);

		if (count)
			__sync_fetch_and_add(count, 1);
		return 0;
	}
	record->cookie = bpf_get_attach_cookie(context);
	record->duration_ns = bpf_ktime_get_ns() - *entry;
	record->tgid = id >> 32;
	record->tid = tid;
	record->code = 0;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

extern _Bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe")
int cuda_session(void *context)
{
	return bpf_session_is_return() ? on_exit(context) : on_enter();
}

SEC("uprobe")
int cuda_enter(void *context)
{
	return on_enter();
}

SEC("uretprobe")
int cuda_exit(void *context)
{
	return on_exit(context);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
