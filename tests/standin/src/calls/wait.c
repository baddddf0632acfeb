// SPDX-License-Identifier: Apache-2.0
//
// Orders that wait for the GPU: waits that are measured, and waits that a thread leaves without returning.
//     wait:COUNT:AMOUNT[:JITTER]  a kernel of AMOUNT, plus or minus JITTER percent, and cudaStreamSynchronize
//     jump:COUNT[:AMOUNT]         the same; siglongjmp() from a signal handler leaves the wait; needs --sync=block
//     exitcall:1[:AMOUNT]         the same; the process ends while the thread waits, and reads no further line
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls/calls.h"
#include "lib/random.h"
#include "program/truth.h"

enum { JUMP_DEFAULT_NS = 100000000, LOOK_NS = 100000 };
#define EXIT_DEFAULT_NS 10000000000ll

// Where the signal handler jumps to. It may jump only out of the call.
static __thread sigjmp_buf before_the_call;
static __thread volatile sig_atomic_t may_jump;

struct watched {
    pid_t tid;
    int rank;
    int64_t end_ns;
    pthread_t thread;
};

// With jitter: lengths between (1 - j) and (1 + j) of the amount, the same in every run.
static void wait_often(struct context *context, const struct order *order)
{
    uint64_t spread = (uint64_t)order->amount * (uint64_t)atoi(order->option) / 100;

    for (int64_t i = 0; i < order->count; i++) {
        uint64_t random = random_of((uint64_t)context->rank, (uint64_t)i);
        int64_t start_ns, return_ns, end_ns;

        launch_timed(context, (int64_t)spread_around((uint64_t)order->amount, spread, random));
        start_ns = now_ns();
        CALL(cudaStreamSynchronize, context->stream);
        return_ns = now_ns();
        end_ns = true_stream_end_ns(context->stream);
        report_wait((uint64_t)(return_ns - start_ns), (uint64_t)(return_ns - (end_ns > start_ns ? end_ns : start_ns)));
    }
}

static bool is_in_poll(pid_t tid)
{
#ifdef SYS_poll
    const long poll_number = SYS_poll;
#else
    const long poll_number = SYS_ppoll;
#endif
    char path[64], text[64] = "";
    int file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    if (read(file, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    close(file);
    return text[0] >= '0' && text[0] <= '9' && strtol(text, NULL, 10) == poll_number;
}

// True as soon as the thread sleeps in its wait; false when half of the kernel's time passes before that.
static bool comes_to_wait(const struct watched *watched)
{
    int64_t give_up_ns = now_ns() + (watched->end_ns - now_ns()) / 2;

    while (now_ns() < give_up_ns) {
        if (is_in_poll(watched->tid))
            return true;
        sleep_until(now_ns() + LOOK_NS);
    }
    return false;
}

static void *throw_out(void *argument)
{
    struct watched *watched = argument;

    if (comes_to_wait(watched))
        syscall(SYS_tgkill, getpid(), watched->tid, SIGUSR1);
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(before_the_call, 1);
    }
}

static void watch(struct watched *watched, struct context *context, void *(*body)(void *))
{
    watched->tid = (pid_t)syscall(SYS_gettid);
    watched->rank = context->rank;
    watched->end_ns = true_stream_end_ns(context->stream);
    if (pthread_create(&watched->thread, NULL, body, watched) != 0) {
        perror("calls: thread");
        exit(1);
    }
}

// The thread gets a signal while it sleeps in the call, where it holds no lock; the handler jumps past the return.
static void jump_often(struct context *context, const struct order *order)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGUSR1, &action, NULL);
    for (volatile int64_t i = 0; i < order->count; i++) {
        static __thread struct watched watched;

        launch_timed(context, order->amount ? order->amount : JUMP_DEFAULT_NS);
        watch(&watched, context, throw_out);
        if (sigsetjmp(before_the_call, 1) == 0) {
            may_jump = 1;
            CALL(cudaStreamSynchronize, context->stream);
            may_jump = 0;
        } else {
            report_jump();
        }
        pthread_join(watched.thread, NULL);
        sleep_until(watched.end_ns);
    }
}

static void *end_the_process(void *argument)
{
    struct watched *watched = argument;

    comes_to_wait(watched);
    report_print(watched->rank);
    _exit(0);
}

static void exit_within_a_call(struct context *context, const struct order *order)
{
    static struct watched watched;

    if (order->count == 0)
        return;
    launch_timed(context, order->amount ? order->amount : EXIT_DEFAULT_NS);
    watch(&watched, context, end_the_process);
    CALL(cudaStreamSynchronize, context->stream);
    pthread_join(watched.thread, NULL);
}

bool is_wait(const struct order *order)
{
    return strcmp(order->name, "wait") == 0 || strcmp(order->name, "jump") == 0 || strcmp(order->name, "exitcall") == 0;
}

const char *refusal_of_wait(const struct order *order, bool is_blocking, int processes)
{
    if (strcmp(order->name, "wait") == 0 && (atoi(order->option) < 0 || atoi(order->option) > 100))
        return "the jitter must be 0 to 100 percent";
    if (strcmp(order->name, "jump") == 0 && !is_blocking)
        return "needs --sync=block";
    if (strcmp(order->name, "exitcall") == 0 && processes > 1)
        return "needs one process";
    return NULL;
}

bool wait_run(struct context *context, const struct order *order)
{
    if (strcmp(order->name, "wait") == 0)
        wait_often(context, order);
    else if (strcmp(order->name, "jump") == 0)
        jump_often(context, order);
    else if (strcmp(order->name, "exitcall") == 0)
        exit_within_a_call(context, order);
    else
        return false;
    return true;
}
