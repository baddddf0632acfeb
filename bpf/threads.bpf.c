// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Where has the time of every living thread gone, the open call or gap included? And which threads that started before the exporter
 *   belong to a traced job?
 * Attach points: none; user space runs the iterators iter/task threads_read and threads_adopt.
 * Maps written: row_scratch (this file); blame, of waits that go on; threads, by threads_adopt; readers is only read. exporter/kernel/thread_rows.py reads the output of threads_read.
 * Dropped: threads without storage, counted under DROP_IN_SCHED.
 * Cost: about 0.2 us for each task of the machine and 1 us for each tracked thread, per run; docs/measurements.md.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/blame.bpf.h"
#include "lib/throttle.bpf.h"
#include "lib/readers.bpf.h"
#include "abi/operation.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread_row);
} row_scratch SEC(".maps");

/* Splits the open gap of a thread at the moment when it became idle. */
static __always_inline void fill_gap(const struct thread *thread, struct thread_row *row)
{
	const struct account *account = &thread->account;
	bool is_idle = thread->idle_at_ns && row->read_ns >= thread->idle_at_ns;
	bool is_known = account->idle_of_ns == thread->mark_ns;

	EACH_STATE(i)
	{
		u64 idle_ns = is_idle && is_known ? row->booked_ns[i] - account->idle_total_ns[i] : 0;

		/* Nothing was booked since then, so the state is still the same. */
		if (is_idle && !is_known && i == account->state)
			idle_ns = elapsed_ns(thread->idle_at_ns, row->read_ns);
		if (idle_ns > row->open_ns[i])
			idle_ns = row->open_ns[i];
		row->idle_ns[i] = thread->idle_ns[i] + idle_ns;
		row->gaps_ns[i] = thread->gaps_ns[i] + row->open_ns[i] - idle_ns;
	}
}

static __always_inline void fill(const struct thread *thread, struct thread_row *row)
{
	const struct account *account = &thread->account;

	row->process = thread->process ? thread->process : thread->group;
	row->victim = victim_kind(thread);
	row->state = account->state;
	row->operation = thread->depth ? (u16)thread->calls[0].cookie : OPERATION_NONE;
	row->opened_ns = thread->mark_ns;
	row->calls = thread->entered;
	row->voluntary = account->voluntary;
	row->involuntary = account->involuntary;
	row->wakes = account->wakes;
	row->read_ns = bpf_ktime_get_ns();
	account_read((struct account *)account, row->read_ns, (struct states *)row->booked_ns);
	EACH_STATE(i)
	{
		u64 ns = row->booked_ns[i] - thread->mark_total_ns[i];

		row->open_ns[i] = (s64)ns > 0 ? ns : 0; /* another CPU may be writing */
		row->gaps_ns[i] = thread->gaps_ns[i];
		row->idle_ns[i] = thread->idle_ns[i];
	}
	if (!thread->depth)
		fill_gap(thread, row);
}

#define OPEN_WAIT_NS 100000000 /* a shorter one is charged when it ends */

/*
 * Charges the open wait for a CPU. The scheduler programs do so at its end, and a thread that gets no CPU has none. If its wait ends at
 * this very moment, a part of it may be charged twice.
 */
static __always_inline void charge_open_wait(struct thread *thread, struct task_struct *task)
{
	struct account *account = &thread->account;
	struct wait wait = {
		.since_ns = account->blame_ns,
		.until_ns = bpf_ktime_get_ns(),
		.allowed = (u64)task->cpus_ptr,
		.cpu = account->wait_cpu,
		.tgid = task->tgid,
	};
	u64 wait_ns = elapsed_ns(wait.since_ns, wait.until_ns);
	struct run other_run = {}; /* not in a map: the scheduler may run in the middle of this program */

	if (account->state != STATE_RUNNABLE || !account->is_waiting || wait_ns < OPEN_WAIT_NS)
		return;
	if (throttled_of_wait(account, (u64)task->se.cfs_rq, wait_ns) || throttled_until_now_ns(task->se.cfs_rq))
		return;
	if (__sync_val_compare_and_swap(&account->blame_ns, wait.since_ns, wait.until_ns) == wait.since_ns)
		blame_open_wait(thread, cpu_runs_of(wait.cpu), &wait, &other_run);
}

static __always_inline void fill_reader(const struct thread *thread, struct thread_row *row)
{
	struct output_key key = thread->account.output;
	struct awaited_by *reader = thread->account.state == STATE_OUTPUT ? bpf_map_lookup_elem(&readers, &key) : NULL;

	row->reader = reader ? *reader : (struct awaited_by){};
}

SEC("iter/task")
int threads_read(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u32 zero = 0;
	struct thread_row *row = bpf_map_lookup_elem(&row_scratch, &zero);

	if (!task || !row)
		return 0;
	struct thread *thread = tracked_thread(task);

	if (!thread)
		return 0;
	charge_open_wait(thread, task);
	fill(thread, row);
	row->tid = visible_tid(task);
	row->tgid = visible_tid(BPF_CORE_READ(task, group_leader));
	row->run_delay_ns = BPF_CORE_READ(task, sched_info.run_delay) - thread->account.first_run_delay_ns +
			    thread->account.stolen_ns + thread->account.interrupted_ns;
	BPF_CORE_READ_STR_INTO(&row->comm, task, comm);
	fill_reader(thread, row);
	bpf_seq_write(context->meta->seq, row, sizeof(*row));
	return 0;
}

static __always_inline u32 number_of(u32 tgid)
{
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);

	return known ? known->number : 0;
}

/* Tracks threads of traced processes, and of processes that those have forked before they were traced. */
SEC("iter/task")
int threads_adopt(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;

	if (!task)
		return 0;
	u32 group = number_of(task->tgid);
	bool is_inside = group;

	if (!group)
		group = number_of(BPF_CORE_READ(task, real_parent, tgid));
	if (!group)
		return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		drop(DROP_THREAD_STORAGE);
		return 0;
	}
	if (thread->is_tracked)
		return 0;
	thread->group = group;
	thread->is_inside = is_inside;
	thread->account.is_unknown = true;
	account_begin(thread, task, STATE_OTHER);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
