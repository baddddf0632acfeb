// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a time or for a word in shared memory: spinning, yielding or sleeping, as the CUDA schedule flags say.
#ifndef STANDIN_WAITING_H
#define STANDIN_WAITING_H

#include <stdatomic.h>
#include <stdint.h>

#include "instant.h"

// CLOCK_MONOTONIC.
int64_t now_ns(void);
// Returns when now_ns() >= end_ns.
void wait_until(int64_t end_ns, enum wait_mode mode);
// One pause of a loop that polls: a CPU hint or sched_yield(). Not for WAIT_BLOCK.
void wait_one_turn(enum wait_mode mode);
// Sleeps while *word == seen, at most timeout_ns (0: for ever); the word may be shared between processes.
void sleep_while(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);
// Wakes everyone who sleeps on the word.
void wake_all(_Atomic uint32_t *word);

#endif
