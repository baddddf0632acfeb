/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What is kept of a thread of a traced job: the calls it is inside of, and where its time went. Freed with the task.
 *
 * Two writers, never both: `account` belongs to the scheduler programs, everything else to the programs of calls, which run
 * in the thread itself and only read the account.
 */
#ifndef GPUSTALL_THREAD_BPF_H
#define GPUSTALL_THREAD_BPF_H

#include "kernel.bpf.h"
#include "../abi.h"

#define CALL_DEPTH 4 /* runtime -> driver is 2, NCCL -> runtime -> driver 3, and a signal handler on top */
#define CALL_ARGUMENTS 4
#define LEADERS 6 /* threads of a job whose sleeps are split over what others did meanwhile */
#define NO_LEADER (LEADERS + 1)

struct call {
	u64 entry_ns;
	u64 stack_pointer; /* at entry: what a return is matched by */
	u64 cookie;
	u64 echoes; /* other attachments that have seen it as well: bit (number % 64) */
	u64 arguments[CALL_ARGUMENTS]; /* A, B, C, D of the cookie, or what the shape made of them */
};

/* The last call that was counted only: its return is not seen, so nobody knows for how long it is open. */
struct counted_call {
	u64 stack_pointer;
	u64 cookie;
	u64 echoes;
	u64 entered; /* calls of the thread, with this one */
};

/* A thread's time at the moment a leader of its job fell asleep (lib/chain.bpf.h). */
struct chain_base {
	u64 epoch; /* of the leader's sleep */
	u64 resolved_epoch;
	u64 is_by_process; /* what is resolved was a worker process's doing */
	u64 total_ns[THREAD_STATES];
	s64 resolved_ns[THREAD_STATES]; /* what its own sleeps were made of, in place of the sleeps: sums to zero */
};

struct account {
	u32 version; /* odd while it is being written */
	u32 state;
	u64 since_ns; /* up to here everything is in total_ns */
	u64 total_ns[THREAD_STATES];
	u32 running_state; /* what the thread does when it runs: on the CPU, or in reclaim */
	u32 is_member;	   /* counted in the feeding timeline */
	u32 is_feeding;
	u32 is_waiting; /* one of the waiters of wait_cpu */
	u32 wait_cpu;
	u32 sleep_state;   /* class of the last sleep */
	u64 sleep_ns;	   /* when the last sleep began */
	u64 runnable_ns;   /* when the last wait for a CPU began */
	u64 blame_ns;	   /* up to here that wait has been charged */
	u64 resumed_ns;	   /* when it ended */
	u64 last_wait_ns;  /* how long it was */
	u64 since_wake_ns; /* waits for a CPU since the last wake-up */
	u64 waking_ns;	   /* when somebody began to wake the thread; 0: nobody has */
	u64 fault_ns;	   /* when the last page fault began; 0: it is known to be over */
	u64 fault_run_ns;  /* spent in major faults without a sleep, since the thread came onto its CPU */
	u64 wakes;
	u64 voluntary;
	u64 involuntary;
	u64 run_delay_ns; /* the kernel's own sum at the last event */
	u64 first_run_delay_ns;
	u64 stolen_before_ns; /* what the hypervisor had taken from the CPU when the thread came onto it, and what was booked since */
	u64 stolen_ns;	      /* what it took while the thread was on one */
	u64 interrupted_ns;   /* what interrupts took while the thread was on a CPU */
	u64 throttled_queue; /* the run queue that was asked, and what it said when the wait began */
	u64 throttled_ns;
	u64 throttled_before_ns;
	u64 idle_of_ns; /* the gap (by its beginning) that idle_total_ns belongs to */
	u64 idle_total_ns[THREAD_STATES]; /* total_ns when that gap became idle */
	u32 leader; /* place among the leaders of the job, from 1; 0: not asked yet; NO_LEADER: none left */
	u32 is_leading;
	u32 is_resolved; /* the sleep it leads has been split */
	u32 is_unknown;	 /* watched since the middle of a state; the first event tells what comes */
	struct chain_base bases[LEADERS];
};

struct thread {
	u32 process; /* number; 0: has made no call yet */
	u32 group;   /* number of the process whose job this thread belongs to */
	u32 depth;
	u8 has_abandoned; /* a call of this thread has been left without a return */
	u8 is_step;	  /* it launches or synchronises */
	u8 is_tracked;	  /* the account has begun */
	u8 is_inside;	  /* of the traced process itself, and not of one that works for it */
	u64 entered; /* calls */
	u64 mark_ns; /* when the open call or gap began */
	u32 mark_version; /* of the account at mark_ns */
	u32 launches;	  /* while they are sampled */
	u32 timed;	  /* calls, counted_calls and left_out_launches that feeding_row has not been told of */
	u32 counted;
	u32 left_out;
	u32 has_worked; /* given the GPU work since its last copy to the host */
	u64 unopened_launch; /* stack pointer of a runtime launch that is only counted: the driver launch in it is as well */
	u64 idle_at_ns; /* when the open gap becomes idle; 0 in a call */
	u64 mark_total_ns[THREAD_STATES]; /* the account at mark_ns */
	u64 gaps_ns[THREAD_STATES];	  /* of all gaps that have ended */
	u64 idle_ns[THREAD_STATES];
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

/* The thread of a task whose time is booked; NULL of any other. */
static __always_inline struct thread *watched(struct task_struct *task)
{
	struct thread *thread;

	if (!task->bpf_storage) /* spares an unrelated task 66 ns */
		return NULL;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	return thread && thread->is_tracked ? thread : NULL;
}

/* For the verifier, which cannot know that a state is one of THREAD_STATES. */
static __always_inline u32 state_index(u32 state)
{
	return state & (THREAD_STATES - 1);
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

static __always_inline enum call_role role_of(u64 cookie)
{
	return (enum call_role)(cookie >> COOKIE_ROLE & 15);
}

static __always_inline bool is_kernel_launch(u64 cookie)
{
	u32 shape = call_shape(cookie);

	return shape == SHAPE_LAUNCH || shape == SHAPE_LAUNCH_SPREAD || shape == SHAPE_LAUNCH_CONFIG;
}

/* Whether the outermost open call is one in which the thread waits for the GPU. */
static __always_inline bool is_waiting_for_gpu(const struct thread *thread)
{
	if (!thread->depth)
		return false;
	enum call_role role = role_of(thread->calls[0].cookie);

	return role == ROLE_SYNC || role == ROLE_EVENT_SYNC || role == ROLE_COPY;
}

static __always_inline enum victim_kind victim_kind(const struct thread *thread)
{
	return !thread->process ? VICTIM_WORKER : thread->is_step ? VICTIM_STEP : VICTIM_OTHER;
}

#endif
