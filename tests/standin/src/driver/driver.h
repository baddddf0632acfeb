// SPDX-License-Identifier: Apache-2.0
//
// The GPU model inside libcuda.so.1: devices, streams, events and graphs. Nothing is executed. Each stream has an instant at
// which its work ends (lib/instant.h): enqueuing work moves it, synchronising waits for it.
//
// One lock protects everything, as a context's lock does in the real driver. No thread waits for the GPU while it holds it.
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "driver/api.h"
#include "lib/failures.h"
#include "lib/instant.h"
#include "standin.h"
#include "lib/waiting.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_DEVICES = 16 };

// The stream that handle 0 names: in functions with _ptsz or _ptds it is the thread's own.
enum default_stream { LEGACY, PER_THREAD };

// One piece of GPU work: its length at full speed, or a collective, which determines its own length.
struct work {
    int64_t duration_ns;
    struct collective *collective;
};

struct node {
    struct work work;
    int after[2]; // indices of earlier nodes of the same graph, NO_NODE: none
};
enum { NO_NODE = -1 };

struct graph {
    int nodes;
    int room;
    struct node *node;
};

struct capture {
    uint64_t id; // unique
    struct graph *graph;
    struct stream *origin;
    struct capture *next;
};

struct stream {
    bool is_open; // handles are reused but never unmapped: a stale one is an error, not a crash
    bool is_blocking;
    int device;
    struct instant tail;
    struct capture *capture;
    int capture_tail;
    struct stream *next;
};

struct event {
    bool is_open;
    bool is_recorded;
    unsigned int flags;
    int device;
    struct instant at;
    uint64_t capture_id; // the capture it was last recorded in, 0: none
    int capture_node;
    struct event *next;
};

struct standin_context {
    int device;
    unsigned int flags;
    bool is_active;
    size_t used_bytes;
    struct stream legacy;
    struct stream *streams;
    struct instant orphans; // work of destroyed streams, which continues
};

extern pthread_mutex_t driver_lock;
extern struct standin_context context[MAX_DEVICES];
extern struct settings {
    int devices;
    size_t memory_bytes;
    int64_t kernel_ns;
    size_t copy_bytes;
} settings;

// The files, from the bottom up; each calls only those above it:
//     context.c, capture.c, stream.c, then event.c, graph.c, launch.c, memory.c, copy.c, module.c, device.c

// context.c
bool is_initialised(void);
int current_device(void);
enum wait_mode wait_mode_of(int device);
static inline bool is_device(CUdevice device)
{
    return device >= 0 && device < settings.devices;
}

// capture.c, with the lock held, except graph_append()
struct capture *capture_by_id(uint64_t id);
bool captures_blocking_stream(int device);
void capture_begin(struct capture *capture, struct graph *graph, struct stream *stream);
// Every stream leaves the capture. An error when work of one is not joined to the stream that began it.
CUresult capture_end(struct capture *capture);
CUresult capture_work(struct stream *stream, const struct work *work);
CUresult capture_wait(struct stream *stream, const struct event *event);
// The index of the new node, NO_NODE when there is no memory. after, also_after: indices of nodes it waits for, or NO_NODE.
int graph_append(struct graph *graph, const struct work *work, int after, int also_after);

// stream.c, with the lock held, except enqueue()
struct stream *stream_of(CUstream handle, enum default_stream which);
void start_instant(const struct stream *stream, struct instant *start);
// Appends the work to the stream, or to the graph that the stream is captured into. Takes the lock.
// *end, unless NULL: the end of the work; unchanged when *was_captured, since captured work has no end.
CUresult enqueue(CUstream handle, enum default_stream which, const struct work *work, struct instant *end,
                 bool *was_captured);
void device_tail(int device, struct instant *tail);

// memory.c
enum place { PAGEABLE, PINNED, DEVICE };
enum place place_of(const void *pointer);

#endif
