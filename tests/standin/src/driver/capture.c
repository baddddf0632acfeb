// SPDX-License-Identifier: Apache-2.0
//
// Captures in progress, and the graphs that they grow: work enqueued on a capturing stream becomes a node.
#include <stdlib.h>

#include "driver/driver.h"

static struct capture *captures;
static uint64_t last_capture_id;

struct capture *capture_by_id(uint64_t id)
{
    struct capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

bool captures_blocking_stream(int device)
{
    for (const struct capture *capture = captures; capture; capture = capture->next)
        if (capture->origin->device == device && capture->origin->is_blocking)
            return true;
    return false;
}

void capture_begin(struct capture *capture, struct graph *graph, struct stream *stream)
{
    *capture = (struct capture){.id = ++last_capture_id, .graph = graph, .origin = stream, .next = captures};
    captures = capture;
    stream->capture = capture;
    stream->capture_tail = NO_NODE;
}

int graph_append(struct graph *graph, const struct work *work, int after, int also_after)
{
    if (graph->nodes == graph->room) {
        int room = graph->room ? 2 * graph->room : 16;
        struct node *grown = realloc(graph->node, (size_t)room * sizeof(*grown));

        if (!grown)
            return NO_NODE;
        graph->node = grown;
        graph->room = room;
    }
    graph->node[graph->nodes] = (struct node){.work = *work, .after = {after, also_after}};
    return graph->nodes++;
}

CUresult capture_work(struct stream *stream, const struct work *work)
{
    int node = graph_append(stream->capture->graph, work, stream->capture_tail, NO_NODE);

    if (node == NO_NODE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture_tail = node;
    return CUDA_SUCCESS;
}

// The stream waits for an event of a capture, and joins that capture if it is not part of one.
CUresult capture_wait(struct stream *stream, const struct event *event)
{
    struct capture *capture = capture_by_id(event->capture_id);
    struct work nothing = {0};

    if (!stream->capture) {
        stream->capture = capture;
        stream->capture_tail = event->capture_node;
        return CUDA_SUCCESS;
    }
    if (stream->capture != capture)
        return event->is_recorded || capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
    int node = graph_append(capture->graph, &nothing, stream->capture_tail, event->capture_node);
    if (node == NO_NODE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture_tail = node;
    return CUDA_SUCCESS;
}

// Whether `tail` waits for `node`, directly or through other nodes. A node has a higher index than the nodes it waits for.
static bool is_before(const struct graph *graph, int node, int tail)
{
    if (node == NO_NODE || node == tail)
        return true;
    if (tail < node)
        return false;
    for (int i = 0; i < 2; i++)
        if (graph->node[tail].after[i] != NO_NODE && is_before(graph, node, graph->node[tail].after[i]))
            return true;
    return false;
}

CUresult capture_end(struct capture *capture)
{
    struct capture **link = &captures;
    struct stream *origin = capture->origin;
    CUresult result = CUDA_SUCCESS;

    for (struct stream *other = context[origin->device].streams; other; other = other->next) {
        if (other->capture != capture)
            continue;
        if (!is_before(capture->graph, other->capture_tail, origin->capture_tail))
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        if (other != origin)
            other->capture = NULL;
    }
    origin->capture = NULL;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    return result;
}
