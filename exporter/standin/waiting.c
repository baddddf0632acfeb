// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "waiting.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void wait_one_turn(enum wait_mode mode)
{
    if (mode == WAIT_YIELD) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until(int64_t end_ns)
{
    struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    // A GPU interrupts on time; a timer may come up to 50 us late by default. The thread's own setting comes back.
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
    if (slack_ns > 0)
        prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
}

void wait_until(int64_t end_ns, enum wait_mode mode)
{
    while (now_ns() < end_ns) {
        if (mode == WAIT_BLOCK)
            sleep_until(end_ns);
        else
            wait_one_turn(mode);
    }
}

void sleep_while(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ns ? &timeout : NULL, NULL, 0);
}

void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
