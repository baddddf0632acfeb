// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, capture and graphs: each call is one call of the driver.
#include "runtime/runtime.h"

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaStreamCreate");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->create_stream(stream, 0));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaStreamCreateWithFlags");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->create_stream(stream, flags));
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaStreamCreateWithPriority");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->create_stream_with_priority(stream, flags, priority));
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaStreamDestroy");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->destroy_stream(stream));
}

static cudaError_t stream_synchronize(enum default_stream which, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamSynchronize");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->synchronize_stream(stream));
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return stream_synchronize(LEGACY, stream);
}

EXPORT cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
    return stream_synchronize(PER_THREAD, stream);
}

static cudaError_t stream_query(enum default_stream which, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamQuery");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->query_stream(stream));
}

EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return stream_query(LEGACY, stream);
}

EXPORT cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
    return stream_query(PER_THREAD, stream);
}

static cudaError_t stream_wait_event(enum default_stream which, cudaStream_t stream, cudaEvent_t event,
                                     unsigned int flags)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamWaitEvent");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->wait_event(stream, event, flags));
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return stream_wait_event(LEGACY, stream, event, flags);
}

EXPORT cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return stream_wait_event(PER_THREAD, stream, event, flags);
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventCreate");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->create_event(event, 0));
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventCreateWithFlags");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->create_event(event, flags));
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventDestroy");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->destroy_event(event));
}

static cudaError_t event_record(enum default_stream which, cudaEvent_t event, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaEventRecord");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->record_event(event, stream));
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return event_record(LEGACY, event, stream);
}

EXPORT cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
    return event_record(PER_THREAD, event, stream);
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventQuery");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->query_event(event));
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventSynchronize");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->synchronize_event(event));
}

EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaEventElapsedTime");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->elapsed_time(milliseconds, start, end));
}

static cudaError_t stream_begin_capture(enum default_stream which, cudaStream_t stream, int mode)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamBeginCapture");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->begin_capture(stream, mode));
}

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
    return stream_begin_capture(LEGACY, stream, mode);
}

EXPORT cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, int mode)
{
    return stream_begin_capture(PER_THREAD, stream, mode);
}

static cudaError_t stream_end_capture(enum default_stream which, cudaStream_t stream, cudaGraph_t *graph)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamEndCapture");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->end_capture(stream, graph));
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    return stream_end_capture(LEGACY, stream, graph);
}

EXPORT cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph)
{
    return stream_end_capture(PER_THREAD, stream, graph);
}

static cudaError_t stream_is_capturing(enum default_stream which, cudaStream_t stream, int *status)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaStreamIsCapturing");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->is_capturing(stream, status));
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
    return stream_is_capturing(LEGACY, stream, status);
}

EXPORT cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, int *status)
{
    return stream_is_capturing(PER_THREAD, stream, status);
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaGraphInstantiate");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->instantiate(exec, graph, flags));
}

static cudaError_t graph_launch(enum default_stream which, cudaGraphExec_t exec, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaGraphLaunch");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->launch_graph(exec, stream));
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return graph_launch(LEGACY, exec, stream);
}

EXPORT cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
    return graph_launch(PER_THREAD, exec, stream);
}

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaGraphExecDestroy");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->destroy_exec(exec));
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaGraphDestroy");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->destroy_graph(graph));
}
