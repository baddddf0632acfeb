/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One thread of a traced job: its open calls, and where its time went. Freed with the task.
 *
 * Two writers with separate parts: the scheduler programs write `account`, the programs on calls everything else. The latter run in the
 * thread itself and only read the account.
 * Map written: threads, task storage, read by threads.bpf.c and stacks.bpf.c.
 */
#ifndef GPUSTALL_THREAD_BPF_H
#define GPUSTALL_THREAD_BPF_H

#include "kernel.bpf.h"
#include "../abi/blame.h"
#include "../abi/call.h"
#include "../abi/thread.h"

#define CALL_DEPTH 4 /* NCCL -> runtime -> driver is 3, and one more for a signal handler */
#define CALL_ARGUMENTS 4
#define POLLED_MAX 4 /* events that a thread polls by turns; of more, these are known */
#define EACH_CALL(i) _Pragma("clang loop unroll(disable)") for (u32 i = 0; i < CALL_DEPTH; i++)
#define LEADERS 6 /* threads of a job whose sleeps are split over what their wakers did */
#define NO_LEADER (LEADERS + 1)

struct call {
	u64 entry_ns;
	u64 stack_pointer; /* at entry; the return is matched by it; 0: it never returned, or has been recorded */
	u64 cookie;
	u64 echoes; /* other attachments that it arrived through: bit (number % 64) */
	u64 arguments[CALL_ARGUMENTS]; /* A, B, C, D of the cookie, or values derived from them */
};

/* The last call that was only counted: its return is not probed, so how long it is open is unknown. */
struct counted_call {
	u64 stack_pointer;
	u64 cookie;
	u64 echoes;
	u64 entered; /* calls of the thread, this one included */
};

/* A thread's account at the moment when a leader of its job fell asleep (lib/wakeup.bpf.h). */
struct wakeup_base {
	u64 epoch; /* of the leader's sleep */
	u64 resolved_epoch;
	u64 is_by_process; /* the resolved part is time of a worker process */
	u64 total_ns[THREAD_STATES];
	s64 resolved_ns[THREAD_STATES]; /* moves its own sleeps to the states of its wakers: sums to zero */
};

/* A pipe or terminal. */
struct output_key {
	u64 inode;
	u64 device;
};

struct account {
	u32 version; /* odd during a write */
	u32 state;
	u64 since_ns; /* total_ns covers everything up to here */
	u64 total_ns[THREAD_STATES];
	u32 running_state; /* STATE_ON_CPU or STATE_RECLAIM, when the thread runs */
	u32 is_member;	   /* counted in the feeding timeline */
	u32 is_feeding;
	u32 is_waiting; /* counted in the waiters of wait_cpu */
	u32 wait_cpu;
	u32 sleep_state;   /* class of the last sleep */
	u64 sleep_ns;	   /* when the last sleep began */
	u64 runnable_ns;   /* when the last wait for a CPU began */
	u64 blame_ns;	   /* that wait has been charged up to here */
	u64 resumed_ns;	   /* when it ended */
	u64 last_wait_ns;  /* how long it was */
	u64 last_throttled_ns; /* the part of it that was throttled */
	u64 since_wake_ns; /* waits for a CPU since the last wake-up */
	u64 since_wake_throttled_ns; /* the part of them that was throttled */
	u64 waking_ns;	   /* when a wake-up of the thread began; 0: none has */
	u64 fault_ns;	   /* when the last page fault began; 0: known to be over */
	u64 fault_run_ns;  /* spent in major faults without a sleep, since the thread came onto its CPU */
	u64 wakes;
	u64 voluntary;
	u64 involuntary;
	u64 run_delay_ns; /* the kernel's sum at the last event */
	u64 first_run_delay_ns;
	u64 stolen_before_ns; /* steal of the CPU when the thread came onto it, plus what was booked since */
	u64 stolen_ns;	      /* steal while the thread was on a CPU */
	u64 interrupted_ns;   /* interrupts while the thread was on a CPU */
	u64 throttled_queue; /* the run queue, and its throttled time when the wait began */
	u64 throttled_ns;
	u64 throttled_before_ns;
	u64 idle_of_ns; /* the gap, by its beginning, that idle_total_ns belongs to */
	u64 idle_total_ns[THREAD_STATES]; /* total_ns when that gap became idle */
	u32 leader; /* place among the leaders of the job, from 1; 0: not assigned yet; NO_LEADER: none was left */
	u32 is_leading;
	u32 is_resolved; /* the sleep it leads has been split */
	u32 is_unknown;	 /* tracked since the middle of a state; known from the first event on */
	u32 is_for_file; /* the last sleep for a lock was for one of a file */
	u32 is_for_signal; /* it was for a signal of another thread: not for a mutex, and without a time-out */
	u32 waker_pid, waker_tid; /* of the thread of its process that ended such a sleep last, or that started it; tid: visible */
	u64 woken_ns; /* when it did */
	/* In the current second: how often step threads gave it work, and how often they waited for it. */
	u32 second;
	u32 given;
	u32 awaited;
	u32 seconds_ahead; /* in which it worked ahead of them */
	struct output_key output; /* the last pipe or terminal that it was blocked in writing to */
	u64 begun_total_ns[THREAD_STATES]; /* a worker's total_ns when its present work began */
	struct wakeup_base bases[LEADERS];
};

struct thread {
	u32 process; /* number; 0: no call yet */
	u32 group;   /* number of the process whose job this thread belongs to */
	u32 depth;
	u8 has_abandoned; /* a call of this thread never returned */
	u8 is_step;	  /* it launches or synchronises */
	u8 is_tracked;	  /* the account has begun */
	u8 is_inside;	  /* of the traced process itself, not of one that works for it */
	u8 is_poller;	  /* it waits by queries: since its last wait by several it has left none unanswered */
	u8 has_staged;	  /* a copy to the host waited whose memory is of unknown kind: so do the next ones, perhaps not for long */
	u8 is_after_delay; /* its last wait for an event may have returned late: by how much the next one is shorter is unknown */
	u64 failed_ns; /* when the last call that failed had been entered */
	s32 failure;   /* its code */
	u32 padding_2;
	u64 entered; /* calls */
	u64 mark_ns; /* when the open call or gap began */
	u64 ended_ns[CALL_DEPTH]; /* when the last call at this depth returned; outermost: only set when the thread ends */
	u32 mark_version; /* of the account at mark_ns */
	u32 launches;	  /* while they are sampled */
	u32 timed;	  /* timed, counted and left out calls not yet added to feeding_row */
	u32 counted;
	u32 left_out;
	u32 has_worked; /* has enqueued GPU work since its last copy to the host */
	u64 unopened_launch; /* stack pointer of a runtime launch that is only counted: so is the driver launch inside */
	u64 idle_at_ns; /* when the open gap becomes idle; 0 in a call */
	u64 mark_total_ns[THREAD_STATES]; /* the account at mark_ns */
	u64 gaps_ns[THREAD_STATES];	  /* of all gaps that have ended */
	u64 idle_ns[THREAD_STATES];
	u64 polled[POLLED_MAX]; /* events and streams that its last queries, without another call between them, found unfinished */
	u32 polled_count;
	u32 padding;
	u64 polled_since_ns;   /* when the first of them began */
	u64 polled_at_ns;      /* when the last of them returned */
	u64 polled_stopped_ns; /* how long the thread had been stopped when the first of them began */
	u32 polls;	       /* how many there were; 0: none, or another call came after */
	struct counted_call last_counted;
	struct call calls[CALL_DEPTH];
	struct account account;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* The tracked thread of a task; NULL for any other task. */
static __always_inline struct thread *tracked_thread(struct task_struct *task)
{
	struct thread *thread;

	if (!task->bpf_storage) /* saves an unrelated task 66 ns */
		return NULL;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	return thread && thread->is_tracked ? thread : NULL;
}

static __always_inline bool is_awaiting_signal(const struct account *account)
{
	return account->state == STATE_LOCK && account->is_for_signal;
}

/* A thread of the process is a worker once it has worked ahead of the step threads in so many different seconds. */
#define SECONDS_AHEAD 3

/* Whether it makes data for the job: a process that works for it, or a thread that works ahead of its step threads. */
static __always_inline bool is_worker(const struct thread *thread)
{
	return !thread->is_inside || thread->account.seconds_ahead >= SECONDS_AHEAD;
}

/* Bounds a state for the verifier. */
static __always_inline u32 state_index(u32 state)
{
	return state < THREAD_STATES ? state : STATE_OTHER;
}

#define COOKIE_FIELD(cookie, first, bits) ((u32)((cookie) >> (first)) & ((1U << (bits)) - 1))

static __always_inline u32 call_api(u64 cookie)
{
	return COOKIE_FIELD(cookie, COOKIE_API, 4);
}

static __always_inline u32 call_shape(u64 cookie)
{
	return COOKIE_FIELD(cookie, COOKIE_SHAPE, 8);
}

static __always_inline enum role role_of(u64 cookie)
{
	return (enum role)(cookie >> COOKIE_ROLE & 15);
}

static __always_inline u64 with_role(u64 cookie, enum role role)
{
	return (cookie & ~(15ULL << COOKIE_ROLE)) | (u64)role << COOKIE_ROLE;
}

static __always_inline bool is_kernel_launch(u64 cookie)
{
	u32 shape = call_shape(cookie);

	return shape == SHAPE_LAUNCH || shape == SHAPE_LAUNCH_SPREAD || shape == SHAPE_LAUNCH_CONFIG;
}

static __always_inline bool is_wait(enum role role)
{
	return role == ROLE_SYNC || role == ROLE_EVENT_SYNC || role == ROLE_COPY || role == ROLE_STAGED_COPY;
}

/*
 * One query may be a look in passing, and one of each of several events as well; after two of the same event or stream, without a call
 * between them that is no query, the thread polls. A thread that is known to do so polls from the first one on.
 */
static __always_inline bool is_polling(const struct thread *thread)
{
	return thread->polls > 1 || (thread->polls && thread->is_poller);
}

/* Whether the thread waits for the GPU: in its outermost open call, or by queries and between them. */
static __always_inline bool is_waiting_for_gpu(const struct thread *thread)
{
	if (!thread->depth)
		return is_polling(thread);
	enum role role = role_of(thread->calls[0].cookie);

	return is_wait(role) || (role == ROLE_QUERY && is_polling(thread));
}

static __always_inline enum victim victim_kind(const struct thread *thread)
{
	return !thread->process ? VICTIM_WORKER : thread->is_step ? VICTIM_STEP : VICTIM_OTHER;
}

#endif
