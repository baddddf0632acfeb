// SPDX-License-Identifier: Apache-2.0
//
// One rank: starts its workers, its communicator and its threads, makes the steps, and prints the final line.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "program/counted.h"
#include "trainer/trainer.h"
#include "program/truth.h"

static void pause_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static void leave_id(const char *path, const ncclUniqueId *id)
{
    char unfinished[4096];
    int file;

    snprintf(unfinished, sizeof(unfinished), "%s.part", path);
    file = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, id, sizeof(*id)) != sizeof(*id) || close(file) < 0 || rename(unfinished, path) < 0) {
        perror(path);
        exit(1);
    }
}

static void find_id(const char *path, ncclUniqueId *id)
{
    for (;; pause_ms(10)) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file < 0 ? 0 : read(file, id, sizeof(*id));

        if (file >= 0)
            close(file);
        if (got == sizeof(*id))
            return;
    }
}

// Rank 0 makes the id; the others receive it, as PyTorch's ranks do through their store.
static void exchange_id(const struct place *place, ncclUniqueId *id)
{
    if (place->rank == 0)
        CALL(ncclGetUniqueId, id);
    if (place->id_pipe[0] < 0 && place->rank == 0)
        leave_id(settings.id_file, id);
    else if (place->id_pipe[0] < 0)
        find_id(settings.id_file, id);
    else if (place->rank == 0)
        for (int i = 1; i < place->world_size; i++)
            if (write(place->id_pipe[1], id, sizeof(*id)) != sizeof(*id))
                exit(1);
    if (place->id_pipe[0] >= 0 && place->rank != 0 && read(place->id_pipe[0], id, sizeof(*id)) != sizeof(*id))
        exit(1);
    if (place->id_pipe[0] >= 0) {
        close(place->id_pipe[0]);
        close(place->id_pipe[1]);
    }
}

int rank_main(const struct place *place)
{
    static struct rank rank;
    static const unsigned int schedule[] = {cudaDeviceScheduleSpin, cudaDeviceScheduleYield,
                                            cudaDeviceScheduleBlockingSync};
    ncclUniqueId id;

    stop_on_signals();
    signal(SIGPIPE, SIG_IGN); // a closed pipe is noticed when writing to it
    data_start_workers(place->rank);
    rank.place = *place;
    rank.is_on_terminal = !settings.quiet && isatty(STDOUT_FILENO);
    CALL(cudaSetDeviceFlags, schedule[settings.sync]);
    CALL(cudaSetDevice, place->local_rank);
    CALL(cudaSetDeviceFlags, schedule[settings.sync]);
    if (!standin_timed_kernel()) {
        fprintf(stderr, "trainer: the driver is not the stand-in's libcuda.so.1\n");
        return 1;
    }
    fix_collective_ns((uint64_t)settings.collective_us * 1000);
    exchange_id(place, &id);
    CALL(ncclCommInitRank, &rank.comm, place->world_size, id, place->rank);
    step_prepare(&rank);
    memory_prepare();
    threads_start(&rank);
    fault_prepare(&rank);
    for (uint64_t step = 1; settings.steps == 0 || step <= (uint64_t)settings.steps; step++) {
        step_run(&rank, step);
        atomic_store(&rank.steps_done, step);
    }
    CALL(cudaDeviceSynchronize);
    watchdog_disable();
    CALL(ncclCommDestroy, rank.comm);
    print_final(&rank);
    _exit(0);
}
