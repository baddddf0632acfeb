// SPDX-License-Identifier: Apache-2.0
//
// Events: the end of a stream's work at the time of recording, for queries, waits and differences.
#include <stdlib.h>

#include "driver/driver.h"

static struct event *recycled;

EXPORT CUresult cuEventCreate(CUevent *created, unsigned int flags)
{
    struct event *event;
    int code = failure_code("cuEventCreate");

    if (code)
        return code;
    if (!created)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    event = recycled;
    if (event)
        recycled = event->next;
    else
        event = malloc(sizeof(*event));
    if (event) {
        event->is_open = true;
        event->is_recorded = false;
        event->flags = flags;
        event->device = current_device();
        event->capture_id = 0;
    }
    pthread_mutex_unlock(&driver_lock);
    *created = event;
    return event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    int code = failure_code("cuEventDestroy");

    if (code)
        return code;
    pthread_mutex_lock(&driver_lock);
    if (event && event->is_open) {
        event->is_open = false;
        event->next = recycled;
        recycled = event;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

static CUresult record(CUevent event, CUstream handle, enum default_stream which)
{
    struct stream *stream;
    CUresult result = failure_code("cuEventRecord");

    if (result)
        return result;
    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!stream || !event || !event->is_open) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture) {
        event->capture_id = stream->capture->id;
        event->capture_node = stream->capture_tail;
    } else {
        event->capture_id = 0;
        start_instant(stream, &event->at);
        event->is_recorded = true;
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, stream, LEGACY);
}

EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return record(event, stream, PER_THREAD);
}

// The instant of the event. An event that was never recorded counts as passed.
static CUresult instant_of(CUevent event, struct instant *at)
{
    CUresult result = CUDA_SUCCESS;

    *at = (struct instant){0};
    pthread_mutex_lock(&driver_lock);
    if (!event || !event->is_open) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (capture_by_id(event->capture_id)) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (event->is_recorded) {
        instant_settle(&event->at);
        instant_copy(at, &event->at);
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    struct instant at;
    CUresult result = failure_code("cuEventQuery");

    if (!result)
        result = instant_of(event, &at);
    if (!result && (at.terms || at.at_ns > now_ns()))
        result = CUDA_ERROR_NOT_READY;
    return result;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    struct instant at;
    CUresult result = failure_code("cuEventSynchronize");

    if (!result)
        result = instant_of(event, &at);
    if (!result)
        instant_wait(&at, event->flags & CU_EVENT_BLOCKING_SYNC ? WAIT_BLOCK : wait_mode_of(event->device));
    return result;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    struct instant started, ended;
    CUresult result = instant_of(start, &started);

    if (!result)
        result = instant_of(end, &ended);
    if (result)
        return result;
    if (!start->is_recorded || !end->is_recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (started.terms || ended.terms || started.at_ns > now_ns() || ended.at_ns > now_ns())
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(ended.at_ns - started.at_ns) / 1e6);
    return CUDA_SUCCESS;
}

EXPORT int64_t standin_event_end_ns(struct event *event)
{
    struct instant at;

    return instant_of(event, &at) == CUDA_SUCCESS && event->is_recorded && !at.terms ? at.at_ns : -1;
}
