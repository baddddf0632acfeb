// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "nccl/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/waiting.h"

// Room for 64 communicators of this size, and the pairs of the first. This is address space; pages are allocated when touched.
enum { COMMS_IN_A_SEGMENT = 64 };

static uint64_t ring_bytes(int participants)
{
    return sizeof(struct ring) + (uint64_t)RING_SLOTS * (uint64_t)participants * sizeof(struct entry);
}

static uint64_t segment_bytes(int nranks)
{
    uint64_t pairs = (uint64_t)nranks * (uint64_t)nranks;

    return (16u << 20) + COMMS_IN_A_SEGMENT * (ring_bytes(nranks) + pairs * 8) + pairs * ring_bytes(2);
}

static uint64_t take(struct segment *segment, uint64_t bytes)
{
    uint64_t offset = segment->used;

    bytes = (bytes + 63) / 64 * 64;
    if (bytes > segment->bytes - segment->used)
        return 0;
    segment->used += bytes;
    return offset;
}

uint64_t segment_add_ring(struct segment *segment, int participants)
{
    uint64_t offset = take(segment, ring_bytes(participants));

    if (offset)
        ((struct ring *)segment_at(segment, offset))->participants = (uint32_t)participants;
    return offset;
}

uint64_t segment_add_comm(struct segment *segment, int nranks)
{
    uint64_t count = (uint64_t)nranks;
    uint64_t offset = take(segment, sizeof(struct shared_comm));
    uint64_t ring = segment_add_ring(segment, nranks);
    uint64_t pairs = take(segment, count * count * sizeof(uint64_t));
    uint64_t cards = take(segment, 2 * count * sizeof(struct card));
    struct shared_comm *comm = segment_at(segment, offset);

    if (!offset || !ring || !pairs || !cards)
        return 0;
    comm->nranks = (uint32_t)nranks;
    comm->ring = ring;
    comm->pairs = pairs;
    comm->cards = cards;
    return offset;
}

static void initialise(struct segment *segment, int nranks)
{
    pthread_mutexattr_t attributes;

    segment->bytes = segment_bytes(nranks);
    segment->used = (sizeof(*segment) + 63) / 64 * 64;
    if (getrandom(&segment->family, sizeof(segment->family), 0) < 0)
        segment->family = (uint64_t)now_ns();
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&segment->lock, &attributes);
    segment->comm = segment_add_comm(segment, nranks);
    atomic_store_explicit(&segment->is_ready, 1, memory_order_release);
}

static struct segment *map(int file, uint64_t bytes)
{
    int flags = MAP_SHARED | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0);
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);

    return start == MAP_FAILED ? NULL : start;
}

struct segment *segment_make_private(int nranks)
{
    struct segment *segment = map(-1, segment_bytes(nranks));

    if (segment)
        initialise(segment, nranks);
    return segment;
}

// Removes the files of ranks that were killed before all ranks had joined: no process holds a lock on those.
static void sweep(void)
{
    DIR *directory = opendir("/dev/shm");
    struct dirent *found;

    while (directory && (found = readdir(directory))) {
        if (strncmp(found->d_name, "standin-nccl-", 13) != 0)
            continue;
        int file = shm_open(found->d_name, O_RDWR, 0);
        struct stat facts;
        // A younger file may not be locked yet by its creator.
        if (file >= 0 && fstat(file, &facts) == 0 && time(NULL) - facts.st_ctime > 1 &&
            flock(file, LOCK_EX | LOCK_NB) == 0)
            shm_unlink(found->d_name);
        if (file >= 0)
            close(file);
    }
    if (directory)
        closedir(directory);
}

static void pause_briefly(void)
{
    struct timespec briefly = {.tv_nsec = 500000};

    nanosleep(&briefly, NULL);
}

struct segment *segment_open(const char *name, int nranks, int *file)
{
    bool is_maker;
    struct segment *segment;

    *file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    is_maker = *file >= 0;
    if (!is_maker)
        *file = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (*file < 0)
        return NULL;
    flock(*file, LOCK_SH);
    if (is_maker) {
        sweep();
        if (ftruncate(*file, (off_t)segment_bytes(nranks)) < 0)
            return NULL;
    }
    for (struct stat facts = {0}; facts.st_size == 0; pause_briefly())
        if (fstat(*file, &facts) < 0)
            return NULL;
        else if (facts.st_size)
            break;
    segment = map(*file, segment_bytes(nranks));
    if (segment && is_maker)
        initialise(segment, nranks);
    while (segment && !atomic_load_explicit(&segment->is_ready, memory_order_acquire))
        pause_briefly();
    return segment;
}

void segment_unlink(const char *name)
{
    shm_unlink(name);
}

void segment_lock(struct segment *segment)
{
    // The next rank repeats what a killed one was doing; a partial update does no harm.
    if (pthread_mutex_lock(&segment->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&segment->lock);
}

void segment_unlock(struct segment *segment)
{
    pthread_mutex_unlock(&segment->lock);
}

static struct entry *entry_of(struct ring *ring, uint64_t sequence, uint32_t participant)
{
    return &ring->entry[(sequence % RING_SLOTS) * ring->participants + participant];
}

// Replaces terms whose end is known. True when none is left.
static bool settle(struct segment *segment, struct entry *entry)
{
    uint64_t kept = 0;

    for (uint64_t i = 0; i < entry->terms; i++) {
        struct shared_term *term = &entry->term[i];
        struct ring *ring = segment_at(segment, term->ring);
        int64_t end_ns;

        if (atomic_load_explicit(&ring->resolved, memory_order_relaxed) < term->sequence) {
            entry->term[kept++] = *term;
            continue;
        }
        end_ns = ring->end_ns[term->sequence % RING_ENDS] + term->offset_ns;
        if (end_ns > entry->at_ns)
            entry->at_ns = end_ns;
    }
    entry->terms = kept;
    return kept == 0;
}

// Computes the end of the ring's next collective. False when a rank is missing or not known to be ready.
static bool advance(struct segment *segment, struct ring *ring)
{
    uint64_t sequence = atomic_load_explicit(&ring->resolved, memory_order_relaxed) + 1;
    int64_t ready_ns = sequence > 1 ? ring->end_ns[(sequence - 1) % RING_ENDS] : 0;
    int64_t duration_ns = 0;
    bool is_known = true;

    for (uint32_t i = 0; i < ring->participants; i++) {
        struct entry *entry = entry_of(ring, sequence, i);

        if (entry->sequence != sequence || !settle(segment, entry)) {
            is_known = false;
            continue;
        }
        ready_ns = entry->at_ns > ready_ns ? entry->at_ns : ready_ns;
        duration_ns = entry->duration_ns > duration_ns ? entry->duration_ns : duration_ns;
    }
    if (!is_known)
        return false;
    ring->end_ns[sequence % RING_ENDS] = ready_ns + duration_ns;
    atomic_store_explicit(&ring->resolved, sequence, memory_order_release);
    return true;
}

static void advance_all(struct segment *segment)
{
    bool has_advanced;

    do {
        uint32_t kept = 0;

        has_advanced = false;
        for (uint32_t i = 0; i < segment->pendings; i++) {
            struct ring *ring = segment_at(segment, segment->pending[i]);

            while (advance(segment, ring))
                has_advanced = true;
            ring->is_pending = ring->arrivals > atomic_load(&ring->resolved) * ring->participants;
            if (ring->is_pending)
                segment->pending[kept++] = segment->pending[i];
        }
        segment->pendings = kept;
    } while (has_advanced && segment->pendings > 0);
}

void ring_arrive(struct segment *segment, uint64_t offset, int participant, const struct entry *entry)
{
    struct ring *ring = segment_at(segment, offset);

    segment_lock(segment);
    *entry_of(ring, entry->sequence, (uint32_t)participant) = *entry;
    ring->arrivals++;
    if (!ring->is_pending && segment->pendings < PENDING_RINGS) {
        ring->is_pending = 1;
        segment->pending[segment->pendings++] = offset;
    }
    advance_all(segment);
    segment_unlock(segment);
}
