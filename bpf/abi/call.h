/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The 64-bit attach cookie, which describes a probed function to the program. Written by exporter/kernel/operations.py. */
#ifndef GPUSTALL_ABI_CALL_H
#define GPUSTALL_ABI_CALL_H

#include <linux/types.h>

enum api {
	API_RUNTIME = 0, /* libcudart */
	API_DRIVER = 1,	 /* libcuda, which the runtime calls */
	API_NCCL = 2,
};

/* How to read the arguments of a call. Their positions are the fields A to D of the cookie. */
enum shape {
	SHAPE_PLAIN = 0,
	SHAPE_ALLOCATE = 1,	  /* A: where the address is stored, B: bytes */
	SHAPE_FREE = 2,		  /* A: address */
	SHAPE_COPY = 3,		  /* A: bytes; B: cudaMemcpyKind, or 0 if the direction is fixed; D: source; destination: 1 */
	SHAPE_COPY_2D = 4,	  /* A: width in bytes, B: cudaMemcpyKind, C: height; D and destination as SHAPE_COPY */
	SHAPE_COLLECTIVE = 5,	  /* A: element count, B: ncclDataType_t, C: communicator, D: stream; all ranks call it */
	SHAPE_INIT_RANK = 6,	  /* A: newcomm, B: nranks, C: rank; the unique id is passed by value before C */
	SHAPE_INIT_SCALABLE = 7,  /* A: newcomm, B: nranks, C: rank, D: pointer to the first unique id */
	SHAPE_INIT_ALL = 8,	  /* A: communicators, B: ndev */
	SHAPE_SPLIT = 9,	  /* A: parent, B: colour, C: newcomm */
	SHAPE_SHRINK = 10,	  /* A: parent, B: excluded ranks, C: their number, D: newcomm */
	SHAPE_COMM_COUNT = 11,	  /* A: communicator, B: where the number of ranks is stored */
	SHAPE_COMM_RANK = 12,	  /* A: communicator, B: where the rank is stored */
	SHAPE_COMM_DESTROY = 13,  /* A: communicator whose work is finished */
	SHAPE_COMM_ABORT = 14,	  /* A: communicator */
	SHAPE_SEND_RECEIVE = 15,  /* as SHAPE_COLLECTIVE, but between two ranks */
	SHAPE_EVENT_RECORD = 16,  /* A: event, B: stream */
	SHAPE_STREAM_WAIT = 17,	  /* A: stream, B: event it waits for */
	SHAPE_STREAM_DONE = 18,	  /* A: stream; returns 0 when everything enqueued before the call is done */
	SHAPE_EVENT_DONE = 19,	  /* A: event; as SHAPE_STREAM_DONE */
	SHAPE_DEVICE_DONE = 20,	  /* as SHAPE_STREAM_DONE, for all streams of a GPU */
	SHAPE_STREAM_DESTROY = 21, /* A: stream */
	SHAPE_EVENT_DESTROY = 22, /* A: event */
	SHAPE_CAPTURE_BEGIN = 23, /* A: stream whose work now goes into a graph */
	SHAPE_CAPTURE_END = 24,	  /* A: stream, B: where the graph is stored */
	SHAPE_PIN = 25,		  /* A: where the address is stored, B: bytes of host memory that the GPU can access */
	SHAPE_PIN_AT = 26,	  /* A: address, B: bytes */
	SHAPE_UNPIN = 27,	  /* A: address */
	SHAPE_LAUNCH = 28,	  /* A: grid x and y, then z, then the block in the same order; B: stream */
	SHAPE_LAUNCH_SPREAD = 29, /* A: grid x, then y and z, then the block in the same order; B: stream */
	SHAPE_LAUNCH_CONFIG = 30, /* A: pointer to a struct that begins with grid and block, and holds the stream */
	SHAPE_GRAPH_INSTANTIATE = 31, /* A: where the executable graph is stored, B: graph */
	SHAPE_GRAPH_LAUNCH = 32,  /* A: executable graph, B: stream */
	SHAPE_GRAPH_DESTROY = 33, /* A: graph */
	SHAPE_EXEC_DESTROY = 34,  /* A: executable graph */
};

/* First bit of each field of the cookie. */
enum cookie {
	COOKIE_OPERATION = 0, /* 16 bits: row number in exporter/kernel/operations.py */
	COOKIE_SHAPE = 16,    /* 8 bits: enum shape */
	COOKIE_API = 24,      /* 4 bits: enum api */
	COOKIE_DIRECTION = 28, /* 4 bits: enum copy, if the function fixes it */
	COOKIE_A = 32,	      /* 4 bits each: argument position from 1, 0 = absent */
	COOKIE_B = 36,
	COOKIE_C = 40,
	COOKIE_D = 44,
	COOKIE_HANDLE = 48, /* 1 bit: the "address" is a handle (cuMemCreate), which may equal an address */
	COOKIE_MANAGED = 49, /* 1 bit: it allocates managed memory */
	COOKIE_ROLE = 52,   /* 4 bits: enum role */
	COOKIE_ATTACHMENT = 56, /* 8 bits: number of the attachment from 1; 0: it has none */
};

/* What a call does for the GPU. */
enum role {
	ROLE_OTHER = 0,
	ROLE_LAUNCH = 1, /* enqueues work */
	ROLE_SYNC = 2,	 /* returns when all enqueued work is done */
	ROLE_COPY = 3,	 /* a copy that may wait for earlier work of its stream */
	ROLE_QUERY = 4,	 /* polls without waiting */
	ROLE_EVENT_SYNC = 5, /* returns when an event is reached; later work may still run */
	ROLE_STAGED_COPY = 6, /* set by the programs: it enqueues, but its memory is not pinned, and so it returns when it is done */
};

enum copy { /* cudaMemcpyKind, and COPY_PEER for copies between GPUs */
	COPY_HOST_TO_HOST = 0,
	COPY_HOST_TO_DEVICE = 1,
	COPY_DEVICE_TO_HOST = 2,
	COPY_DEVICE_TO_DEVICE = 3,
	COPY_DEFAULT = 4, /* decided by the addresses at run time */
	COPY_PEER = 5,
};

enum call_limits {
	COPY_DIRECTIONS = COPY_PEER + 1,
};

#endif
