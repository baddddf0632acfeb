// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Where does the time of a traced job's threads go? Running, waiting for a CPU (held by which process), or asleep (for what, woken by
 *   which thread).
 * Attach points: tp_btf sched_switch, sched_waking, sched_wakeup, sched_wakeup_new, sched_migrate_task, sched_process_fork.
 * Maps written: blame, feeding, wakeups (exporter/kernel/thread_rows.py); awaited (awaited_rows.py); disk_waits (disk_rows.py); forks
 *   (end_rows.py); threads, groups, readers, cpu_runs (programs only).
 * Dropped: rows if a map is full, and missed events (DROP_HEALED), counted under DROP_IN_SCHED.
 * Cost: for a switch between unrelated tasks and for one between tracked threads: docs/measurements.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/awaited.bpf.h"
#include "lib/blame.bpf.h"
#include "lib/blocked.bpf.h"
#include "lib/wakeup.bpf.h"
#include "lib/disk.bpf.h"
#include "lib/feeding.bpf.h"
#include "lib/maps.bpf.h"
#include "lib/steal.bpf.h"
#include "lib/throttle.bpf.h"
#include "lib/waker.bpf.h"
#include "abi/exit.h"

/* What an event says about its thread. A struct, because global functions are verified without their callers. */
struct transition {
	u64 now_ns;
	u64 run_delay_ns;
	u64 last_queued_ns; /* by the clock of its run queue; 0: it is not waiting */
	u64 queue;	    /* address of the thread's run queue */
	u64 allowed;	    /* address of the thread's CPU mask */
	u32 cpu;
	u32 tgid;
	u32 state; /* that begins */
	u32 padding;
};

static __always_inline struct transition transition_of(struct task_struct *task, u32 cpu, u64 now_ns, u32 state)
{
	return (struct transition){
		.now_ns = now_ns,
		.run_delay_ns = task->sched_info.run_delay,
		.last_queued_ns = task->sched_info.last_queued,
		.queue = (u64)task->se.cfs_rq,
		.allowed = (u64)task->cpus_ptr,
		.cpu = cpu,
		.tgid = task->tgid,
		.state = state,
	};
}

/* ---- waiting for a CPU ---- */

/* For blame_wait(): the programs that use it run one at a time on a CPU, with interrupts off. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct run);
} other_run_scratch SEC(".maps");

static __always_inline struct run *other_run(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&other_run_scratch, &zero);
}

static __always_inline void begin_wait(struct account *account, u64 queue, u32 cpu, u64 now_ns)
{
	struct cpu_runs *runs = cpu_runs_of(cpu);

	account->runnable_ns = now_ns;
	account->blame_ns = now_ns;
	account->wait_cpu = cpu;
	if (runs && !account->is_waiting) {
		account->is_waiting = true;
		if (__sync_fetch_and_add(&runs->waiters, 1) == 0)
			runs->irq_ns = 0; /* from before the first wait */
	}
	begin_throttle_watch(account, queue);
}

/* ---- switches ---- */

/* How long a thread that comes onto a CPU has waited since it was last seen. The kernel adds the last wait to its sum after this event. */
static __always_inline u64 waited_unseen_ns(struct account *account, struct transition *transition)
{
	struct cfs_rq *queue = (void *)transition->queue;
	u64 waited_ns = elapsed_ns(account->run_delay_ns, transition->run_delay_ns);

	if (transition->last_queued_ns)
		waited_ns += elapsed_ns(transition->last_queued_ns, BPF_CORE_READ(queue, rq, clock));
	return waited_ns;
}

/*
 * The account says that the thread is not on the CPU which it leaves now: its switch-in was missed. The kernel's sum says how much of
 * the time it waited for a CPU; the rest it ran or slept.
 */
__noinline int sched_heal_running(struct thread *thread, u64 run_delay_ns, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 missed_ns = elapsed_ns(account->since_ns, now_ns), waited_ns = elapsed_ns(account->run_delay_ns, run_delay_ns);
	u64 charged_ns = account->state == STATE_RUNNABLE ? elapsed_ns(account->runnable_ns, account->blame_ns) : 0;

	if (waited_ns > missed_ns)
		waited_ns = missed_ns;
	/* It has been feeding since it ran or woke up. */
	if (thread->is_step && account->is_member && account->running_state == STATE_ON_CPU) {
		if (account->state == STATE_RUNNABLE)
			feeding_resume(thread, account->runnable_ns, 0, account->since_ns + waited_ns);
		else
			feeding_resume(thread, now_ns - waited_ns, 0, now_ns);
	}
	account->version++;
	barrier();
	account->total_ns[STATE_RUNNABLE] += waited_ns;
	if (account->state == STATE_RUNNABLE)
		account->total_ns[STATE_ON_CPU] += missed_ns - waited_ns;
	else
		account->total_ns[state_index(account->state)] += missed_ns - waited_ns;
	account->since_ns = now_ns;
	account->state = account->running_state;
	barrier();
	account->version++;
	blame_nobody(thread, CULPRIT_UNKNOWN, elapsed_ns(charged_ns, waited_ns));
	drop(DROP_HEALED);
	return 0;
}

__noinline int sched_switched_out(struct thread *thread, struct transition *transition)
{
	if (!thread || !transition)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = transition->now_ns, stopped_ns = now_ns;
	bool is_known = !account->is_unknown;

	if (is_known && is_running(account) && transition->state == STATE_FAULT && account->fault_ns &&
	    account->fault_ns >= account->since_ns && account->fault_ns < now_ns)
		stopped_ns = account->fault_ns; /* since then it has been handling the fault */
	wakeup_keep_bases(thread, stopped_ns);
	account->is_unknown = false;
	if (is_known && is_running(account)) {
		steal_book(thread, transition->queue, stopped_ns);
	} else if (is_known) {
		end_wait(account);
		sched_heal_running(thread, transition->run_delay_ns, now_ns);
	}
	if (stopped_ns < now_ns) {
		account_book(thread, stopped_ns);
		account->state = STATE_FAULT;
		wakeup_keep_bases(thread, now_ns);
	}
	account_book(thread, now_ns);
	account->run_delay_ns = transition->run_delay_ns;
	account->state = transition->state;
	if (transition->state == STATE_RUNNABLE) {
		account->involuntary++;
		begin_wait(account, transition->queue, transition->cpu, now_ns);
	} else {
		account->sleep_state = transition->state;
		account->sleep_ns = now_ns;
		account->since_wake_ns = 0;
		account->since_wake_throttled_ns = 0;
		account->voluntary++;
		wakeup_open_window(thread, now_ns);
	}
	if (thread->is_step && !is_waiting_for_gpu(thread) && account->state != STATE_GPU_WAIT)
		feeding_stop(thread, stopped_ns);
	return 0;
}

__noinline int sched_switched_in(struct thread *thread, struct transition *transition)
{
	if (!thread || !transition)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = transition->now_ns, throttled_ns = 0, runnable_ns = account->runnable_ns;

	if (is_running(account)) /* its switch-out was missed: what happened since is unknown */
		return 0;
	if (account->is_unknown) {
		account->is_unknown = false;
		account->runnable_ns = account->blame_ns = runnable_ns = now_ns;
	} else if (account->state != STATE_RUNNABLE) {
		/* Its wake-up was missed: the kernel says how long it has waited. */
		u64 queued_ns = waited_unseen_ns(account, transition), unseen_ns = elapsed_ns(account->since_ns, now_ns);

		if (queued_ns > unseen_ns)
			queued_ns = unseen_ns;
		wakeup_keep_bases(thread, now_ns - queued_ns);
		account_book(thread, now_ns - queued_ns);
		account->wakes++;
		account->state = STATE_RUNNABLE;
		account->blame_ns = account->runnable_ns = runnable_ns = now_ns - queued_ns;
		if (account->is_leading)
			wakeup_close_window(thread, runnable_ns);
		drop(DROP_HEALED);
	} else {
		throttled_ns = throttled_of_wait(account, transition->queue, elapsed_ns(account->since_ns, now_ns));
	}
	u64 wait_ns = elapsed_ns(runnable_ns, now_ns), since_ns = account->since_ns + throttled_ns;

	wakeup_keep_bases(thread, now_ns);
	account->version++;
	barrier();
	account->total_ns[STATE_THROTTLED] += throttled_ns;
	account->since_ns = since_ns;
	barrier();
	account->version++;
	account_book(thread, now_ns);
	account->state = account->running_state;
	account->since_wake_ns += wait_ns;
	account->since_wake_throttled_ns += throttled_ns;
	account->last_wait_ns = wait_ns;
	account->last_throttled_ns = throttled_ns;
	account->resumed_ns = now_ns;
	account->run_delay_ns = transition->run_delay_ns;
	account->stolen_before_ns = stolen_time_ns((void *)transition->queue);
	account->fault_run_ns = 0;
	if (account->blame_ns + throttled_ns < now_ns) {
		struct wait wait = {
			.since_ns = account->blame_ns + throttled_ns,
			.until_ns = now_ns,
			.allowed = transition->allowed,
			.cpu = transition->cpu,
			.tgid = transition->tgid,
		};

		blame_wait(thread, cpu_runs_of(transition->cpu), &wait, other_run());
	}
	end_wait(account);
	if (thread->is_step && account->is_member && account->running_state == STATE_ON_CPU)
		feeding_resume(thread, runnable_ns, throttled_ns, now_ns);
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *context)
{
	bool is_preempted = context[0];
	struct task_struct *previous = (void *)context[1], *next = (void *)context[2];
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_runs *runs = cpu_runs_of(cpu);
	u64 now_ns = 0;

	if (!runs)
		return 0;
	struct thread *leaving = tracked_thread(previous), *coming = tracked_thread(next);

	if (runs->waiters) {
		now_ns = bpf_ktime_get_ns();
		write_run(runs, previous, leaving ? leaving->group : 0, now_ns);
	}
	if (leaving) {
		if (!now_ns)
			now_ns = bpf_ktime_get_ns();
		/* Preemption on the way to user mode does not set the flag, but the state shows it. */
		u32 state = context[3];
		bool is_runnable = is_preempted || !state;
		struct transition transition = transition_of(previous, cpu, now_ns, is_runnable ? STATE_RUNNABLE : sleep_state(previous, state));

		awaited_begin(leaving, previous, transition.state);
		sched_switched_out(leaving, &transition);
	}
	if (coming) {
		if (!now_ns)
			now_ns = bpf_ktime_get_ns();
		struct transition transition = transition_of(next, cpu, now_ns, STATE_ON_CPU);

		sched_switched_in(coming, &transition);
	}
	runs->task = (u64)next;
	runs->task_group = coming ? coming->group : 0;
	return 0;
}

/* ---- wake-ups ---- */

/* A thread is about to be woken. The waker is known here, but not in sched_wakeup, which may run on another CPU. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct task_struct *current = bpf_get_current_task_btf();
	struct thread *thread = tracked_thread(task), *waker = tracked_thread(current);

	if (waker && waker != thread)
		awaited_note_reader(current, task, thread && thread->group == waker->group);
	if (!thread)
		return 0;
	u64 now_ns = bpf_ktime_get_ns();

	thread->account.waking_ns = now_ns;
	if (thread->account.state == STATE_IO || thread->account.state == STATE_FAULT)
		disk_book_wait(thread, now_ns);
	/* A thread that feeds the GPU and hands over to another one has delayed nothing. */
	bool is_handed_over = waker && waker->is_step && waker->group == thread->group;

	if (is_awaiting(thread) && !is_handed_over) {
		struct awaited_by by = {};
		struct other other = {.task = (u64)current, .tgid = task->tgid, .is_of_job = waker && waker->group == thread->group};
		bool is_other_writer = thread->account.state == STATE_OUTPUT && is_writer(sleep_class_of(current));

		if (!is_other_writer && is_by_current(current, false))
			awaited_describe(&by, &other);
		awaited_book(thread, &by, now_ns);
	}
	if (!waker || waker == thread || waker->group != thread->group)
		return 0;
	u32 state = thread->account.state;
	bool may_deliver = (state == STATE_SOCKET || state == STATE_POLL) && is_at_socket(current);

	if (!is_by_current(current, may_deliver))
		return 0;
	if (is_awaiting_signal(&thread->account) && thread->is_inside && waker->is_inside)
		wakeup_note_waker(thread, now_ns);
	wakeup_resolve(thread, waker, now_ns);
	return 0;
}

__noinline int sched_woken(struct thread *thread, struct transition *transition)
{
	if (!thread || !transition)
		return 0;
	struct account *account = &thread->account;

	if (is_running(account) || account->state == STATE_RUNNABLE)
		return 0; /* woken before it slept */
	u64 now_ns = transition->now_ns, at_ns = account->waking_ns;

	if (at_ns <= account->since_ns || at_ns > now_ns)
		at_ns = now_ns;
	account->waking_ns = 0;
	account->is_unknown = false;
	wakeup_keep_bases(thread, at_ns);
	account_book(thread, at_ns);
	if (account->is_leading)
		wakeup_close_window(thread, at_ns);
	account->state = STATE_RUNNABLE;
	account->since_wake_ns = 0;
	account->since_wake_throttled_ns = 0;
	account->wakes++;
	account->run_delay_ns = transition->run_delay_ns;
	begin_wait(account, transition->queue, transition->cpu, at_ns);
	return 0;
}

static __always_inline int on_wakeup(struct task_struct *task)
{
	struct thread *thread = tracked_thread(task);

	if (thread) {
		struct transition transition = transition_of(task, task->thread_info.cpu, bpf_ktime_get_ns(), STATE_RUNNABLE);

		sched_woken(thread, &transition);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *context)
{
	return on_wakeup((void *)context[0]);
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(u64 *context)
{
	return on_wakeup((void *)context[0]);
}

/* A waiting thread moves to another CPU: charges its wait so far. */
SEC("tp_btf/sched_migrate_task")
int sched_migrate_task(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	u32 to = context[1];
	struct thread *thread = tracked_thread(task);

	if (!thread || thread->account.state != STATE_RUNNABLE || !thread->account.is_waiting)
		return 0;
	struct account *account = &thread->account;
	struct cpu_runs *from = cpu_runs_of(account->wait_cpu);
	u64 now_ns = bpf_ktime_get_ns();

	struct wait wait = {
		.since_ns = account->blame_ns,
		.until_ns = now_ns,
		.allowed = (u64)task->cpus_ptr,
		.cpu = account->wait_cpu,
		.tgid = task->tgid,
	};

	if (from) {
		blame_open_wait(thread, from, &wait, other_run());
		account->blame_ns = now_ns;
	}
	end_wait(account);
	struct cpu_runs *runs = cpu_runs_of(to);

	account->wait_cpu = to;
	if (runs) {
		account->is_waiting = true;
		__sync_fetch_and_add(&runs->waiters, 1);
	}
	return 0;
}

/* ---- births ---- */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* preallocated: written by scheduler programs */
	__type(key, struct fork_key);
	__type(value, u64);
} forks SEC(".maps");

static __noinline void count_fork(u32 process, u32 is_thread)
{
	struct fork_key key = {.process = process, .is_thread = is_thread};
	u64 zero = 0, *count = own_row(&forks, &key, &zero, process, SHARE_FORKS, DROP_FORKS_FULL);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* What a tracked process forks belongs to the job: a thread of its own, or a process that works for it. */
SEC("tp_btf/sched_process_fork")
int sched_process_fork(u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
	struct thread *thread = tracked_thread(parent), *born;

	if (!thread)
		return 0;
	count_fork(thread->group, child->tgid == parent->tgid);
	born = bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!born) {
		drop(DROP_THREAD_STORAGE);
		return 0;
	}
	born->group = thread->group;
	born->is_inside = thread->is_inside && child->tgid == parent->tgid;
	account_begin(born, child, STATE_OTHER); /* until sched_wakeup_new */
	if (born->is_inside)
		wakeup_note_waker(born, born->mark_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
