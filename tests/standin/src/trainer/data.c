// SPDX-License-Identifier: Apache-2.0
//
// DataLoader workers, like PyTorch's: processes that receive a batch number through a pipe, make the batch in shared memory, and
// send the number back through another pipe. Batch n comes from worker n modulo the number of workers.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "lib/random.h"
#include "trainer/trainer.h"
#include "lib/waiting.h"

static struct worker {
    int ask[2], answer[2];
    char *slots; // [prefetch][batch_bytes]
} *worker;
static uint64_t received;

void data_make(char *batch, int rank, uint64_t number)
{
    int64_t spread = (int64_t)((double)settings.loader_compute_us * settings.jitter_percent / 100);
    uint64_t place = number + ((uint64_t)rank << 40), random = random_of((uint64_t)settings.seed + 7, place);
    struct timespec pause = {.tv_sec = settings.loader_sleep_us / 1000000,
                             .tv_nsec = settings.loader_sleep_us % 1000000 * 1000};

    source_read(settings.loader_read_bytes, place);
    source_fetch(settings.loader_fetch_bytes);
    if (settings.loader_sleep_us)
        nanosleep(&pause, NULL);
    burn_us((int64_t)spread_around((uint64_t)settings.loader_compute_us, (uint64_t)spread, random));
    fault_in_batch(rank, number + 1); // steps are numbered from 1
    memcpy(batch, &number, sizeof(number));
}

static void work(struct worker *self, pid_t parent, int rank)
{
    uint64_t number;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    prctl(PR_SET_NAME, "pt_data_worker");
    signal(SIGTERM, SIG_DFL);
    while (read(self->ask[0], &number, sizeof(number)) == sizeof(number)) {
        uint64_t slot = number / (uint64_t)settings.loader_workers % (uint64_t)settings.prefetch;

        data_make(self->slots + slot * (uint64_t)settings.batch_bytes, rank, number);
        if (write(self->answer[1], &number, sizeof(number)) != sizeof(number))
            break;
    }
    _exit(0);
}

static void ask(uint64_t number)
{
    struct worker *asked = &worker[number % (uint64_t)settings.loader_workers];

    if (write(asked->ask[1], &number, sizeof(number)) != sizeof(number))
        fprintf(stderr, "trainer: a loader worker has ended\n");
}

void data_start_workers(int rank)
{
    size_t bytes = (size_t)(settings.prefetch * settings.batch_bytes);
    pid_t self = getpid();

    worker = calloc((size_t)settings.loader_workers + 1, sizeof(*worker));
    for (int i = 0; i < settings.loader_workers; i++) {
        worker[i].slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (worker[i].slots == MAP_FAILED || pipe2(worker[i].ask, O_CLOEXEC) < 0 ||
            pipe2(worker[i].answer, O_CLOEXEC) < 0) {
            perror("trainer: loader worker");
            exit(1);
        }
        pid_t child = fork();
        if (child == 0)
            work(&worker[i], self, rank);
        if (child < 0) {
            perror("trainer: fork");
            exit(1);
        }
        // The worker's ends of the pipes: the worker's exit goes unnoticed while they are open here.
        close(worker[i].ask[0]);
        close(worker[i].answer[1]);
    }
    for (int64_t number = 0; number < settings.prefetch * settings.loader_workers; number++)
        ask((uint64_t)number);
}

const char *data_receive(void)
{
    struct worker *from = &worker[received % (uint64_t)settings.loader_workers];
    uint64_t slot = received / (uint64_t)settings.loader_workers % (uint64_t)settings.prefetch;
    uint64_t number;

    if (read(from->answer[0], &number, sizeof(number)) != sizeof(number) || number != received) {
        fprintf(stderr, "trainer: a loader worker has ended\n");
        _exit(1);
    }
    return from->slots + slot * (uint64_t)settings.batch_bytes;
}

void data_release(void)
{
    ask(received + (uint64_t)(settings.prefetch * settings.loader_workers));
    received++;
}
