// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "lib/waiting.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t spin_ns, poll_ns;
static pthread_key_t timer_key; // the thread's timer: its descriptor plus one; NULL: none yet

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct timespec as_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static int64_t ns_of_variable(const char *name)
{
    const char *text = getenv(name);

    return text ? strtoll(text, NULL, 10) * 1000 : 0;
}

static void close_timer(void *value)
{
    close((int)(intptr_t)value - 1);
}

// A child process shares its parent's timers; using one would change the parent's.
static void forget_timer(void)
{
    void *value = pthread_getspecific(timer_key);

    if (value) {
        pthread_setspecific(timer_key, NULL);
        close_timer(value);
    }
}

__attribute__((constructor)) static void prepare_waiting(void)
{
    spin_ns = ns_of_variable("STANDIN_SPIN_US");
    poll_ns = ns_of_variable("STANDIN_POLL_US");
    if (pthread_key_create(&timer_key, close_timer) != 0 || pthread_atfork(NULL, NULL, forget_timer) != 0)
        abort();
}

// The calling thread's timer, -1 when it cannot have one.
static int thread_timer(void)
{
    intptr_t value = (intptr_t)pthread_getspecific(timer_key);
    int timer;

    if (value)
        return (int)value - 1;
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (timer >= 0 && pthread_setspecific(timer_key, (void *)((intptr_t)timer + 1)) != 0) {
        close(timer);
        return -1;
    }
    return timer;
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

// True when the whole time was slept, false after a signal.
static bool sleep_once(int64_t end_ns)
{
    struct timespec end = as_timespec(end_ns);
    // By default a sleep may end 50 us late. The thread's own setting is restored.
    int slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), error;

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    if (slack_ns > 0)
        prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
    return error != EINTR;
}

void sleep_until(int64_t end_ns)
{
    while (!sleep_once(end_ns))
        continue;
}

void block_once(int64_t end_ns)
{
    struct itimerspec alarm = {.it_value = as_timespec(end_ns)};
    struct timespec pause = as_timespec(poll_ns);
    struct pollfd wait = {.events = POLLIN};

    if (poll_ns > 0) {
        nanosleep(&pause, NULL);
        return;
    }
    wait.fd = thread_timer();
    // A timerfd has no slack. Setting it again clears its old expiration, which is never read.
    if (wait.fd < 0 || timerfd_settime(wait.fd, TFD_TIMER_ABSTIME, &alarm, NULL) < 0)
        sleep_once(end_ns);
    else
        poll(&wait, 1, -1);
}

int64_t spin_before_blocking_ns(enum wait_mode mode)
{
    return mode == WAIT_BLOCK ? spin_ns : 0;
}

void wait_until(int64_t end_ns, enum wait_mode mode)
{
    while (now_ns() < end_ns) {
        if (mode == WAIT_BLOCK)
            block_once(end_ns);
        else
            wait_one_turn(mode);
    }
}

void sleep_while(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = as_timespec(timeout_ns);

    syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ns ? &timeout : NULL, NULL, 0);
}

void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
