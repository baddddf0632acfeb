// SPDX-License-Identifier: Apache-2.0
//
// CPU time, sleep and threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/waiting.h"
#include "trainer/trainer.h"

void burn_us(int64_t us)
{
    struct timespec used;
    int64_t end_ns;

    if (us <= 0)
        return;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    end_ns = used.tv_sec * 1000000000LL + used.tv_nsec + us * 1000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec * 1000000000LL + used.tv_nsec < end_ns);
}

void sleep_us(int64_t us)
{
    sleep_until(now_ns() + us * 1000);
}

void thread_start(const char *name, void *(*body)(void *), struct rank *rank)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, rank) != 0) {
        perror("trainer: thread");
        exit(1);
    }
    pthread_setname_np(thread, name);
    pthread_detach(thread);
}
