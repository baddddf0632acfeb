// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a time or for a word in shared memory, by spinning, yielding or blocking as the CUDA schedule flags demand.
// A blocking thread sleeps in poll(), as in the real driver, where an interrupt of the GPU wakes it; here a timerfd does.
// STANDIN_SPIN_US and STANDIN_POLL_US (standin.h) change how blocking works.
#ifndef STANDIN_WAITING_H
#define STANDIN_WAITING_H

#include <stdatomic.h>
#include <stdint.h>

#include "lib/instant.h"

// CLOCK_MONOTONIC.
int64_t now_ns(void);
// Returns when now_ns() >= end_ns.
void wait_until(int64_t end_ns, enum wait_mode mode);
// How long a wait in this mode spins before it blocks; 0 for modes that do not block.
int64_t spin_before_blocking_ns(enum wait_mode mode);
// One sleep of a blocking wait: until end_ns, until a signal, or for STANDIN_POLL_US.
void block_once(int64_t end_ns);
// One pause of a loop that polls: a CPU hint or sched_yield(). Not for WAIT_BLOCK.
void wait_one_turn(enum wait_mode mode);
// A plain sleep, unrelated to the GPU.
void sleep_until(int64_t end_ns);
// Sleeps while *word == seen, at most timeout_ns (0: for ever); the word may be shared between processes.
void sleep_while(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);
// Wakes all threads that sleep on the word.
void wake_all(_Atomic uint32_t *word);

#endif
