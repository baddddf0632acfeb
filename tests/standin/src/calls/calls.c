// SPDX-License-Identifier: Apache-2.0
//
// Parses the orders, starts the ranks as threads or processes, and prints one JSON line per process.
//
// With --hold the program prints "ready TGID..." when everything is prepared. A line on standard input then starts the calls,
// and another one, after the JSON lines, ends the program: an observer can attach and read at its own pace.
#define _GNU_SOURCE
#include "calls/calls.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program/flags.h"
#include "program/truth.h"

enum { MAX_ORDERS = 256, MAX_RANKS = 64 };
enum { AS_PROCESSES, AS_THREADS };
enum { SYNC_SPIN, SYNC_YIELD, SYNC_BLOCK };

static int hold, untimed, sync_mode, ranks_as, comm_way;
static int64_t ranks = 1, colors = 1, collective_us, kernel_us = 100;
static struct order orders[MAX_ORDERS];
static int order_count;
static pthread_barrier_t barrier;
static ncclUniqueId id;
static ncclComm_t all_comms[MAX_RANKS];

static const struct flag table[] = {
    {"hold", FLAG_SWITCH, &hold, "print ready, then wait for a line before the calls and for another one after them", NULL},
    {"untimed", FLAG_SWITCH, &untimed, "do not time the calls: sum_ns stays 0", NULL},
    {"sync", FLAG_CHOICE, &sync_mode, "how a synchronising call waits", "spin|yield|block"},
    {"ranks", FLAG_NUMBER, &ranks, "how many ranks make the calls in parallel, 1 to 64", NULL},
    {"ranks-as", FLAG_CHOICE, &ranks_as, "what a rank is", "processes|threads"},
    {"comm", FLAG_CHOICE, &comm_way, "how the communicator is made", "init_rank|config|scalable|all|split|shrink"},
    {"colors", FLAG_NUMBER, &colors, "with --comm=split: groups, rank modulo this many", NULL},
    {"collective-us", FLAG_NUMBER, &collective_us, "length of a collective, 0: derived from its bytes", NULL},
    {"kernel-us", FLAG_NUMBER, &kernel_us, "length of the kernel in the graph of cudaGraphLaunch", NULL},
    {NULL, FLAG_NUMBER, NULL, NULL, NULL},
};

static void refuse(const char *what, const char *text)
{
    fprintf(stderr, "calls: %s: %s\n", what, text);
    exit(2);
}

static const char *name_for(const char *name, const char **option)
{
    static const char *const short_names[][3] = {
        {"launch", "cudaLaunchKernel", ""},
        {"memcpy_h2d", "cudaMemcpyAsync", "h2d"},
        {"memcpy_d2h", "cudaMemcpyAsync", "d2h"},
        {"memcpy_d2d", "cudaMemcpyAsync", "d2d"},
        {"sync", "cudaStreamSynchronize", ""},
    };

    for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++) {
        if (strcmp(short_names[i][0], name) == 0) {
            *option = short_names[i][2];
            return short_names[i][1];
        }
    }
    return name;
}

// 500us -> 500000, 64 -> 64
static int64_t amount_of(const char *text)
{
    static const struct {
        const char *unit;
        int64_t factor;
    } units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    char *end;
    int64_t number = strtoll(text, &end, 10);

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (end != text && number >= 0 && strcmp(end, units[i].unit) == 0)
            return number * units[i].factor;
    return -1;
}

static void read_order(const char *argument)
{
    struct order *order = &orders[order_count];
    char copy[256], *rest = copy, *name, *count, *amount;
    const char *option = "";

    if (order_count == MAX_ORDERS || strlen(argument) >= sizeof(copy))
        refuse("too many or too long orders at", argument);
    memcpy(copy, argument, strlen(argument) + 1);
    name = strsep(&rest, ":");
    count = strsep(&rest, ":");
    amount = strsep(&rest, ":");
    snprintf(order->name, sizeof(order->name), "%s", name_for(name, &option));
    snprintf(order->option, sizeof(order->option), "%s", rest ? rest : option);
    order->count = count ? amount_of(count) : -1;
    order->amount = amount ? amount_of(amount) : 0;
    if (order->count < 0 || order->amount < 0)
        refuse("expected name:count[:amount[:option]], not", argument);
    order_count++;
}

// Finds unknown names before anything starts.
static void check_names(void)
{
    int processes = ranks_as == AS_PROCESSES ? (int)ranks : 1;

    for (int i = 0; i < order_count; i++) {
        const struct order *order = &orders[i];
        bool is_known = is_nccl(order) || is_host(order) || is_wait(order) || strncmp(order->name, "cu", 2) == 0;
        static const char *const others[] = {"capture", "replay", "branch", "abandon", "stream", "event"};

        for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++)
            is_known |= strcmp(order->name, others[j]) == 0;
        if (!is_known)
            refuse("unknown call", order->name);
        const char *refusal = refusal_of_wait(order, sync_mode == SYNC_BLOCK, processes);
        if (refusal)
            refuse(order->name, refusal);
    }
}

static size_t largest_amount(void)
{
    int64_t largest = 0;

    for (int i = 0; i < order_count; i++)
        if (strstr(orders[i].name, "Memcpy") || strstr(orders[i].name, "Memset"))
            largest = orders[i].amount > largest ? orders[i].amount : largest;
    return (size_t)largest;
}

static bool has_nccl(void)
{
    for (int i = 0; i < order_count; i++)
        if (is_nccl(&orders[i]))
            return true;
    return comm_way != COMM_INIT_RANK;
}

static void prepare(struct context *context)
{
    static const unsigned int schedule[] = {cudaDeviceScheduleSpin, cudaDeviceScheduleYield,
                                            cudaDeviceScheduleBlockingSync};

    cuda_prepare(context, largest_amount(), kernel_us * 1000);
    CALL(cudaSetDeviceFlags, schedule[sync_mode]);
    fix_collective_ns((uint64_t)collective_us * 1000);
}

static void run_orders(struct context *context)
{
    if (has_nccl()) {
        if (comm_way == COMM_ALL && context->rank == 0)
            nccl_make_all(all_comms, (int)ranks);
        if (comm_way == COMM_ALL) {
            pthread_barrier_wait(&barrier);
            context->comm = all_comms[context->rank];
        }
        nccl_make(context, (enum comm_way)comm_way, &id, (int)colors);
    }
    for (int i = 0; i < order_count; i++) {
        const struct order *order = &orders[i];

        if (!wait_run(context, order) && !host_run(order) &&
            !(is_nccl(order) ? nccl_run(context, order) : cuda_run(context, order)))
            refuse("unknown call", order->name);
    }
    nccl_drop(context);
}

static void wait_for_line(void)
{
    char line[64];

    if (hold && !fgets(line, sizeof(line), stdin))
        exit(0);
}

static void *rank_thread(void *argument)
{
    struct context *context = argument;

    prepare(context);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); // the calls may start
    run_orders(context);
    pthread_barrier_wait(&barrier); // all calls are made
    pthread_barrier_wait(&barrier); // and reported, while the threads still exist
    return NULL;
}

static void run_threads(void)
{
    static struct context context[MAX_RANKS];
    pthread_t thread[MAX_RANKS];

    // The main thread is rank 0, and the one that waits with --hold.
    pthread_barrier_init(&barrier, NULL, (unsigned int)ranks);
    for (int i = 1; i < ranks; i++) {
        context[i] = (struct context){.rank = i, .ranks = (int)ranks};
        pthread_create(&thread[i], NULL, rank_thread, &context[i]);
    }
    context[0].ranks = (int)ranks;
    prepare(&context[0]);
    pthread_barrier_wait(&barrier);
    counted_end_setup();
    if (hold)
        printf("ready %d\n", (int)getpid());
    fflush(stdout);
    wait_for_line();
    pthread_barrier_wait(&barrier);
    run_orders(&context[0]);
    pthread_barrier_wait(&barrier);
    report_print(0);
    pthread_barrier_wait(&barrier);
    wait_for_line();
}

// A child sends a byte when it is prepared, receives one to start, sends one when it is done, receives one to end.
static void run_child(int rank, int up, int down, pid_t parent)
{
    struct context context = {.rank = rank, .ranks = (int)ranks};
    char byte = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    prepare(&context);
    counted_end_setup();
    if (write(up, &byte, 1) != 1 || read(down, &byte, 1) != 1)
        _exit(1);
    run_orders(&context);
    report_print(rank);
    if (write(up, &byte, 1) != 1 || read(down, &byte, 1) != 1)
        _exit(1);
    _exit(0);
}

static void exchange_bytes(int from, int to, void (*between)(const pid_t *), const pid_t *tgid)
{
    char byte = 0;

    for (int i = 0; i < ranks; i++)
        if (read(from, &byte, 1) != 1)
            exit(1);
    between(tgid);
    for (int i = 0; i < ranks; i++)
        if (write(to, &byte, 1) != 1)
            exit(1);
}

static void say_ready(const pid_t *tgid)
{
    if (hold) {
        fputs("ready", stdout);
        for (int i = 0; i < ranks; i++)
            printf(" %d", (int)tgid[i]);
        puts("");
        fflush(stdout);
    }
    wait_for_line();
}

static void say_nothing(const pid_t *tgid)
{
    (void)tgid;
    wait_for_line();
}

static int run_processes(void)
{
    pid_t tgid[MAX_RANKS], parent = getpid();
    int up[2], down[2], status, worst = 0;

    if (pipe(up) < 0 || pipe(down) < 0)
        return 1;
    for (int i = 0; i < ranks; i++) {
        tgid[i] = fork();
        if (tgid[i] == 0) {
            close(up[0]);
            close(down[1]);
            run_child(i, up[1], down[0], parent);
        }
    }
    close(up[1]);
    close(down[0]);
    exchange_bytes(up[0], down[1], say_ready, tgid);
    exchange_bytes(up[0], down[1], say_nothing, tgid);
    for (int i = 0; i < ranks; i++)
        if (wait(&status) > 0 && status)
            worst = 1;
    return worst;
}

int main(int argc, char **argv)
{
    int first = flags_read(table, argc, argv, "calls [--flag=value ...] name:count[:amount[:option]] ...");

    for (int i = first; i < argc; i++)
        read_order(argv[i]);
    check_names();
    if (ranks < 1 || ranks > MAX_RANKS || colors < 1)
        refuse("--ranks", "must be 1 to 64, --colors at least 1");
    if (comm_way == COMM_SHRINK && ranks < 2)
        refuse("--comm=shrink", "needs --ranks=2 or more");
    if (comm_way == COMM_ALL && ranks > 1 && ranks_as != AS_THREADS)
        refuse("--comm=all", "needs --ranks-as=threads");
    counted_has_times = !untimed;
    // The only NCCL call before the program is ready. The parent makes it; it counts as "setup".
    if (has_nccl() && comm_way != COMM_ALL)
        CALL(ncclGetUniqueId, &id);
    if (ranks > 1 && ranks_as == AS_PROCESSES)
        return run_processes();
    run_threads();
    return 0;
}
