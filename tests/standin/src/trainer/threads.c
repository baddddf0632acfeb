// SPDX-License-Identifier: Apache-2.0
//
// The threads beside the step thread, named as PyTorch names them: pin_memory, pt_autograd_0, pt_nccl_watchdg.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program/counted.h"
#include "trainer/trainer.h"

enum { QUEUE = 2, PINNED_BATCHES = QUEUE + 2, MAX_BUCKETS = 64, WORKS = 256 };

// A queue of buffers between two threads.
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *item[PINNED_BATCHES];
    int items;
};

static struct queue filled = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0};
static struct queue empty = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t requested, done; // steps
} backward = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

// Collectives that the watchdog has not found done yet, oldest first, each with an event of its own.
static struct {
    pthread_mutex_t lock;
    cudaEvent_t event[WORKS];
    uint64_t enqueued, done;
} works = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t polling = PTHREAD_MUTEX_INITIALIZER; // held while the watchdog makes its calls

static cudaEvent_t ready_event[MAX_BUCKETS];
static cudaEvent_t done_event[MAX_BUCKETS];

static void put(struct queue *queue, char *item)
{
    pthread_mutex_lock(&queue->lock);
    queue->item[queue->items++] = item;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static char *get(struct queue *queue)
{
    char *item;

    pthread_mutex_lock(&queue->lock);
    while (queue->items == 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    item = queue->item[0];
    queue->items--;
    memmove(&queue->item[0], &queue->item[1], (size_t)queue->items * sizeof(item));
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static void *pin_memory(void *argument)
{
    (void)argument;
    for (;;) {
        char *to = get(&empty);
        const char *batch = data_receive();

        memcpy(to, batch, (size_t)settings.batch_bytes);
        data_release();
        put(&filled, to);
    }
    return NULL;
}

char *pinned_take(int rank)
{
    static uint64_t made;
    char *batch;

    if (settings.loader_workers)
        return get(&filled);
    batch = get(&empty);
    data_make(batch, rank, made++);
    return batch;
}

void pinned_give(char *batch)
{
    put(&empty, batch);
}

cudaEvent_t bucket_done(int bucket)
{
    return done_event[bucket];
}

// Records the watchdog's event after the collective just enqueued, unless the watchdog is too far behind.
static void watch(struct rank *rank)
{
    pthread_mutex_lock(&works.lock);
    if (works.enqueued - works.done < WORKS) {
        CALL(cudaEventRecord, works.event[works.enqueued % WORKS], rank->nccl_stream);
        works.enqueued++;
    }
    pthread_mutex_unlock(&works.lock);
}

static void *autograd(void *argument)
{
    struct rank *rank = argument;

    CALL(cudaSetDevice, rank->place.local_rank);
    for (;;) {
        uint64_t step;

        pthread_mutex_lock(&backward.lock);
        while (backward.requested == backward.done)
            pthread_cond_wait(&backward.changed, &backward.lock);
        step = backward.requested;
        pthread_mutex_unlock(&backward.lock);
        backward_launch(rank, step, ready_event, done_event);
        watch(rank);
        pthread_mutex_lock(&backward.lock);
        backward.done = step;
        pthread_cond_broadcast(&backward.changed);
        pthread_mutex_unlock(&backward.lock);
    }
    return NULL;
}

void backward_run(uint64_t step)
{
    pthread_mutex_lock(&backward.lock);
    backward.requested = step;
    pthread_cond_broadcast(&backward.changed);
    while (backward.done != step)
        pthread_cond_wait(&backward.changed, &backward.lock);
    pthread_mutex_unlock(&backward.lock);
}

static void poll_works(struct rank *rank)
{
    ncclResult_t error;

    CALL(ncclCommGetAsyncError, rank->comm, &error);
    pthread_mutex_lock(&works.lock);
    while (works.done < works.enqueued) {
        if (CALL(cudaEventQuery, works.event[works.done % WORKS]) != cudaSuccess)
            break;
        works.done++;
    }
    pthread_mutex_unlock(&works.lock);
}

// It also ends the process after SIGTERM: the step thread may wait for a rank that has ended.
static void *watchdog(void *argument)
{
    struct timespec pause = {.tv_sec = settings.watchdog_ms / 1000, .tv_nsec = settings.watchdog_ms % 1000 * 1000000};
    struct rank *rank = argument;

    CALL(cudaSetDevice, rank->place.local_rank);
    while (!must_stop) {
        nanosleep(&pause, NULL);
        if (pthread_mutex_trylock(&polling) == 0) {
            poll_works(rank);
            pthread_mutex_unlock(&polling);
        }
    }
    print_final(rank);
    _exit(0);
}

void watchdog_disable(void)
{
    pthread_mutex_lock(&polling);
}

void threads_start(struct rank *rank)
{
    for (int i = 0; i < PINNED_BATCHES; i++) {
        void *batch = NULL;

        if (CALL(cudaHostAlloc, &batch, (size_t)settings.batch_bytes, 0) != cudaSuccess)
            batch = calloc(1, (size_t)settings.batch_bytes);
        put(&empty, batch);
    }
    for (int i = 0; i < settings.buckets; i++) {
        CALL(cudaEventCreateWithFlags, &ready_event[i], cudaEventDisableTiming);
        CALL(cudaEventCreateWithFlags, &done_event[i], cudaEventDisableTiming);
    }
    for (int i = 0; i < WORKS; i++)
        CALL(cudaEventCreateWithFlags, &works.event[i], cudaEventDisableTiming);
    if (settings.loader_workers)
        thread_start("pin_memory", pin_memory, rank);
    thread_start("pt_autograd_0", autograd, rank);
    thread_start("pt_nccl_watchdg", watchdog, rank);
}
