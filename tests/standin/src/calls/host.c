// SPDX-License-Identifier: Apache-2.0
//
// Orders that call neither CUDA nor NCCL: what a thread does between its calls. They are not counted.
//     spin:COUNT:AMOUNT   uses the CPU for that long
//     sleep:COUNT:AMOUNT  nanosleep()
//     yield:COUNT         sched_yield()
//     fork:COUNT          a child that ends at once, and waitpid()
//     pipe:COUNT          a byte to a child, which blocks in read(), and back
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls/calls.h"

static void sleep_often(const struct order *order)
{
    struct timespec pause = {.tv_sec = order->amount / 1000000000, .tv_nsec = order->amount % 1000000000};

    for (int64_t i = 0; i < order->count; i++)
        nanosleep(&pause, NULL);
}

static void spin_often(const struct order *order)
{
    for (int64_t i = 0; i < order->count; i++)
        wait_until(now_ns() + order->amount, WAIT_SPIN);
}

static void yield_often(const struct order *order)
{
    for (int64_t i = 0; i < order->count; i++)
        sched_yield();
}

static pid_t fork_or_end(void)
{
    pid_t child = fork();

    if (child < 0) {
        perror("calls: fork");
        exit(1);
    }
    return child;
}

static void fork_often(const struct order *order)
{
    for (int64_t i = 0; i < order->count; i++) {
        pid_t child = fork_or_end();

        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void echo(int from, int to)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "echo");
    while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
        continue;
    _exit(0);
}

// Round trips: a byte to a child, and the same byte back.
static void exchange_often(const struct order *order)
{
    int there[2], back[2];
    char byte = 0;
    pid_t child;

    if (pipe(there) < 0 || pipe(back) < 0) {
        perror("calls: pipe");
        exit(1);
    }
    child = fork_or_end();
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        echo(there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);
    for (int64_t i = 0; i < order->count; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            exit(1);
    close(there[1]);
    close(back[0]);
    waitpid(child, NULL, 0);
}

static const struct {
    const char *name;
    void (*run)(const struct order *order);
} host_orders[] = {
    {"sleep", sleep_often}, {"spin", spin_often},    {"yield", yield_often},
    {"fork", fork_often},   {"pipe", exchange_often},
};
enum { HOST_ORDERS = sizeof(host_orders) / sizeof(host_orders[0]) };

bool is_host(const struct order *order)
{
    for (int i = 0; i < HOST_ORDERS; i++)
        if (strcmp(host_orders[i].name, order->name) == 0)
            return true;
    return false;
}

bool host_run(const struct order *order)
{
    for (int i = 0; i < HOST_ORDERS; i++) {
        if (strcmp(host_orders[i].name, order->name) == 0) {
            host_orders[i].run(order);
            return true;
        }
    }
    return false;
}
