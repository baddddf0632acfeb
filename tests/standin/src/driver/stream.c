// SPDX-License-Identifier: Apache-2.0
//
// Streams: the instant at which each one's work ends, and waiting for it.
//
// The legacy default stream (handle 0 or 1) starts after all blocking streams of its device, and they start after it;
// streams with the non-blocking flag take no part in that.
#include <stdlib.h>

#include "driver/driver.h"

static struct stream *recycled;
static pthread_key_t thread_stream;
static pthread_once_t thread_stream_once = PTHREAD_ONCE_INIT;

static struct stream *open_stream(unsigned int flags)
{
    struct stream *stream = recycled;

    if (stream)
        recycled = stream->next;
    else
        stream = malloc(sizeof(*stream));
    if (!stream)
        return NULL;
    *stream = (struct stream){
        .is_open = true,
        .is_blocking = !(flags & CU_STREAM_NON_BLOCKING),
        .device = current_device(),
        .next = context[current_device()].streams,
    };
    context[current_device()].streams = stream;
    return stream;
}

static void close_stream(struct stream *stream)
{
    struct stream **link = &context[stream->device].streams;

    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link)
        *link = stream->next;
    instant_settle(&context[stream->device].orphans);
    instant_join(&context[stream->device].orphans, &stream->tail);
    stream->is_open = false;
    stream->next = recycled;
    recycled = stream;
}

static void thread_ends(void *stream)
{
    pthread_mutex_lock(&driver_lock);
    close_stream(stream);
    pthread_mutex_unlock(&driver_lock);
}

static void make_key(void)
{
    pthread_key_create(&thread_stream, thread_ends);
}

static struct stream *stream_of_thread(void)
{
    struct stream *stream;

    pthread_once(&thread_stream_once, make_key);
    stream = pthread_getspecific(thread_stream);
    if (!stream) {
        stream = open_stream(0);
        pthread_setspecific(thread_stream, stream);
    }
    return stream;
}

struct stream *stream_of(CUstream handle, enum default_stream which)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && which == PER_THREAD))
        return stream_of_thread();
    if (!handle || handle == CU_STREAM_LEGACY)
        return &context[current_device()].legacy;
    return handle->is_open ? handle : NULL;
}

static bool is_legacy(const struct stream *stream)
{
    return stream == &context[stream->device].legacy;
}

// The end of all work enqueued so far on this stream and on the streams it is ordered with.
static void stream_tail(const struct stream *stream, struct instant *tail)
{
    instant_copy(tail, &stream->tail);
    if (is_legacy(stream)) {
        for (const struct stream *other = context[stream->device].streams; other; other = other->next)
            if (other->is_blocking)
                instant_join(tail, &other->tail);
    } else if (stream->is_blocking) {
        instant_join(tail, &context[stream->device].legacy.tail);
    }
    instant_settle(tail);
}

void start_instant(const struct stream *stream, struct instant *start)
{
    int64_t now = now_ns();

    stream_tail(stream, start);
    if (start->at_ns < now)
        start->at_ns = now;
}

void device_tail(int device, struct instant *tail)
{
    instant_copy(tail, &context[device].legacy.tail);
    instant_join(tail, &context[device].orphans);
    for (const struct stream *stream = context[device].streams; stream; stream = stream->next)
        instant_join(tail, &stream->tail);
    instant_settle(tail);
}

CUresult enqueue(CUstream handle, enum default_stream which, const struct work *work, struct instant *end,
                 bool *was_captured)
{
    CUresult result = CUDA_SUCCESS;
    struct instant started;
    struct stream *stream;

    if (work->collective)
        work->collective->source->wait_for_room(work->collective->source);
    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    *was_captured = stream && stream->capture;
    if (!stream) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture) {
        result = capture_work(stream, work);
    } else if (is_legacy(stream) && captures_blocking_stream(stream->device)) {
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else {
        start_instant(stream, &started);
        if (work->collective) {
            work->collective->start(work->collective, &started, &stream->tail);
        } else {
            instant_delay(&started, standin_slowed_ns(work->duration_ns));
            instant_copy(&stream->tail, &started);
        }
        if (end)
            instant_copy(end, &stream->tail);
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *created, unsigned int flags, int priority)
{
    int code = failure_code("cuStreamCreate");

    (void)priority;
    if (code)
        return code;
    if (!created || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    *created = open_stream(flags);
    pthread_mutex_unlock(&driver_lock);
    return *created ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamCreate(CUstream *created, unsigned int flags)
{
    int code = failure_code("cuStreamCreate");

    if (code)
        return code;
    if (!created || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    *created = open_stream(flags);
    pthread_mutex_unlock(&driver_lock);
    return *created ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    int code = failure_code("cuStreamDestroy");

    if (code)
        return code;
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    if (handle->is_open) {
        close_stream(handle);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

// The current end of the stream's work; an error when it cannot be waited for.
static CUresult tail_of(CUstream handle, enum default_stream which, struct instant *tail, int *device)
{
    CUresult result = CUDA_SUCCESS;
    struct stream *stream;

    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!stream) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture || (is_legacy(stream) && captures_blocking_stream(stream->device))) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else {
        // Waiting for a blocking stream does not wait for the legacy stream's later work: only enqueuing does.
        if (is_legacy(stream))
            stream_tail(stream, tail);
        else
            instant_copy(tail, &stream->tail);
        *device = stream->device;
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

static CUresult synchronize(CUstream handle, enum default_stream which)
{
    struct instant tail;
    int device = 0;
    CUresult result = failure_code("cuStreamSynchronize");

    if (!result)
        result = tail_of(handle, which, &tail, &device);
    if (!result)
        instant_wait(&tail, wait_mode_of(device));
    return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    return synchronize(stream, LEGACY);
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
    return synchronize(stream, PER_THREAD);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    struct instant tail;
    int code = failure_code("cuCtxSynchronize");

    if (code)
        return code;
    pthread_mutex_lock(&driver_lock);
    if (captures_blocking_stream(current_device())) {
        pthread_mutex_unlock(&driver_lock);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    device_tail(current_device(), &tail);
    pthread_mutex_unlock(&driver_lock);
    instant_wait(&tail, wait_mode_of(current_device()));
    return CUDA_SUCCESS;
}

static CUresult query(CUstream handle, enum default_stream which)
{
    struct instant tail;
    int device;
    CUresult result = failure_code("cuStreamQuery");

    if (!result)
        result = tail_of(handle, which, &tail, &device);
    if (!result && (!instant_settle(&tail) || tail.at_ns > now_ns()))
        result = CUDA_ERROR_NOT_READY;
    return result;
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    return query(stream, LEGACY);
}

EXPORT CUresult cuStreamQuery_ptsz(CUstream stream)
{
    return query(stream, PER_THREAD);
}

static CUresult wait_event(CUstream handle, CUevent event, enum default_stream which)
{
    struct stream *stream;
    CUresult result = failure_code("cuStreamWaitEvent");

    if (result)
        return result;
    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!stream || !event || !event->is_open) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture || capture_by_id(event->capture_id)) {
        result = capture_wait(stream, event);
    } else if (event->is_recorded) {
        instant_settle(&event->at);
        instant_settle(&stream->tail);
        instant_join(&stream->tail, &event->at);
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    return wait_event(stream, event, LEGACY);
}

EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    return wait_event(stream, event, PER_THREAD);
}

EXPORT int64_t standin_stream_end_ns(struct stream *handle)
{
    struct instant tail;
    int device;

    return tail_of(handle, LEGACY, &tail, &device) == CUDA_SUCCESS && instant_settle(&tail) ? tail.at_ns : -1;
}
