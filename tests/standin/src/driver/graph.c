// SPDX-License-Identifier: Apache-2.0
//
// Calls that begin and end captures, and graphs: launching one computes the end of every node from the ends of the nodes
// before it. A captured copy moves no bytes when it is launched.
#include <stdlib.h>

#include "driver/driver.h"

enum { CAPTURE_NONE, CAPTURE_ACTIVE };

struct graph_exec {
    struct graph graph;
    struct instant *end; // of each node, while a launch is computed
};

static CUresult begin_capture(CUstream handle, enum default_stream which)
{
    struct capture *capture = calloc(1, sizeof(*capture));
    struct graph *graph = calloc(1, sizeof(*graph));
    struct stream *stream;
    CUresult result = failure_code("cuStreamBeginCapture");

    if (!capture || !graph)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!result && !stream)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && (stream->capture || stream == &context[stream->device].legacy))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!result)
        capture_begin(capture, graph, stream);
    pthread_mutex_unlock(&driver_lock);
    if (result) {
        free(capture);
        free(graph);
    }
    return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    (void)mode;
    return begin_capture(stream, LEGACY);
}

EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    (void)mode;
    return begin_capture(stream, PER_THREAD);
}

static void drop_nodes(struct graph *graph)
{
    for (int i = 0; i < graph->nodes; i++)
        if (graph->node[i].work.collective)
            graph->node[i].work.collective->release(graph->node[i].work.collective);
    free(graph->node);
}

static CUresult end_capture(CUstream handle, CUgraph *graph, enum default_stream which)
{
    struct capture *capture = NULL;
    struct stream *stream;
    CUresult failure = failure_code("cuStreamEndCapture"), result;

    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!stream || !stream->capture || stream->capture->origin != stream) {
        result = stream ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_INVALID_HANDLE;
    } else {
        capture = stream->capture;
        result = capture_end(capture);
        result = failure ? failure : result; // a failed call ends the capture too
    }
    pthread_mutex_unlock(&driver_lock);
    *graph = NULL;
    if (capture && !result)
        *graph = capture->graph;
    else if (capture)
        cuGraphDestroy(capture->graph);
    free(capture);
    return result;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return end_capture(stream, graph, LEGACY);
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return end_capture(stream, graph, PER_THREAD);
}

static CUresult is_capturing(CUstream handle, int *status, enum default_stream which)
{
    struct stream *stream;

    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (stream)
        *status = stream->capture ? CAPTURE_ACTIVE : CAPTURE_NONE;
    pthread_mutex_unlock(&driver_lock);
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    return is_capturing(stream, status, LEGACY);
}

EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status)
{
    return is_capturing(stream, status, PER_THREAD);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *created, CUgraph graph, unsigned long long flags)
{
    struct graph_exec *exec = calloc(1, sizeof(*exec));
    CUresult result = failure_code("cuGraphInstantiate");

    (void)flags;
    if (!result && !graph)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !exec)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; !result && i < graph->nodes; i++) {
        const struct node *node = &graph->node[i];

        if (graph_append(&exec->graph, &node->work, node->after[0], node->after[1]) == NO_NODE)
            result = CUDA_ERROR_OUT_OF_MEMORY;
        else if (node->work.collective)
            __atomic_add_fetch(&node->work.collective->references, 1, __ATOMIC_RELAXED);
    }
    if (!result) {
        exec->end = malloc(((size_t)graph->nodes + 1) * sizeof(*exec->end));
        result = exec->end ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result && exec) {
        drop_nodes(&exec->graph);
        free(exec);
        exec = NULL;
    }
    *created = exec;
    return result;
}

static void run_nodes(struct graph_exec *exec, const struct instant *start, struct instant *end)
{
    instant_copy(end, start);
    for (int i = 0; i < exec->graph.nodes; i++) {
        const struct node *node = &exec->graph.node[i];
        struct instant ready;

        instant_copy(&ready, start);
        for (int j = 0; j < 2; j++)
            if (node->after[j] != NO_NODE)
                instant_join(&ready, &exec->end[node->after[j]]);
        if (node->work.collective) {
            node->work.collective->start(node->work.collective, &ready, &exec->end[i]);
        } else {
            instant_delay(&ready, standin_slowed_ns(node->work.duration_ns));
            instant_copy(&exec->end[i], &ready);
        }
        instant_join(end, &exec->end[i]);
    }
}

// A graph launched into a capture becomes nodes of that capture's graph.
static CUresult capture_nodes(struct stream *stream, const struct graph *graph)
{
    int first = stream->capture->graph->nodes, before = stream->capture_tail;

    for (int i = 0; i < graph->nodes; i++) {
        const struct node *node = &graph->node[i];
        int after = node->after[0] == NO_NODE ? before : first + node->after[0];
        int also_after = node->after[1] == NO_NODE ? NO_NODE : first + node->after[1];

        stream->capture_tail = graph_append(stream->capture->graph, &node->work, after, also_after);
        if (stream->capture_tail == NO_NODE)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (node->work.collective)
            __atomic_add_fetch(&node->work.collective->references, 1, __ATOMIC_RELAXED);
    }
    return CUDA_SUCCESS;
}

static CUresult launch_graph(CUgraphExec exec, CUstream handle, enum default_stream which)
{
    struct instant start, end;
    struct stream *stream;
    CUresult result = failure_code("cuGraphLaunch");

    if (result)
        return result;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < exec->graph.nodes; i++) {
        struct collective *collective = exec->graph.node[i].work.collective;

        if (collective)
            collective->source->wait_for_room(collective->source);
    }
    pthread_mutex_lock(&driver_lock);
    stream = stream_of(handle, which);
    if (!stream) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture) {
        result = capture_nodes(stream, &exec->graph);
    } else {
        start_instant(stream, &start);
        run_nodes(exec, &start, &end);
        instant_copy(&stream->tail, &end);
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return launch_graph(exec, stream, LEGACY);
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return launch_graph(exec, stream, PER_THREAD);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    drop_nodes(&exec->graph);
    free(exec->end);
    free(exec);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    drop_nodes(graph);
    free(graph);
    return CUDA_SUCCESS;
}
