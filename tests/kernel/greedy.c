// SPDX-License-Identifier: Apache-2.0
/*
 * Makes calls that each leave a row in a table. Arguments: what, how often, and again. Prints `ready`, then waits until its input ends.
 * It exports the names it is probed under (-rdynamic). With -DPARTS=RUNTIME or NCCL it is one of the libraries instead, with
 * -DPARTS=PROGRAM a program for them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOKED __attribute__((noipa, visibility("default"))) /* no clones for constant arguments */
#define NOT_REMOVED __asm__ volatile("" ::: "memory")

typedef struct {
	uint64_t words[16];
} unique_id;

#define RUNTIME 1
#define NCCL 2
#define PROGRAM 4
#ifndef PARTS
#define PARTS (RUNTIME | NCCL | PROGRAM)
#endif

int cudaMalloc(uint64_t *where, uint64_t bytes);
int cudaHostAlloc(uint64_t *where, uint64_t bytes, unsigned flags);
int cudaFree(uint64_t address);
int cudaEventRecord(int code);
int cudaMemcpy(void *to, const void *from, uint64_t bytes, int direction);
int cudaMemcpy2D(void *to, uint64_t to_pitch, const void *from, uint64_t from_pitch, uint64_t width, uint64_t height, int direction);
int cudaGraphInstantiate(uint64_t *where, uint64_t graph);
int cudaStreamBeginCapture(uint64_t stream, int mode);
int ncclCommInitRank(uint64_t *where, int ranks, unique_id id, int rank);
int ncclAllReduce(const void *from, void *to, uint64_t count, int type, int operation, uint64_t communicator, uint64_t stream);

static uint64_t next_address = 0x10000000;

static uint64_t new_address(void)
{
	return next_address += 1 << 21;
}

#if PARTS & RUNTIME
HOOKED int cudaMalloc(uint64_t *where, uint64_t bytes)
{
	*where = bytes ? new_address() : 0;
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaHostAlloc(uint64_t *where, uint64_t bytes, unsigned flags)
{
	*where = new_address();
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaFree(uint64_t address)
{
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaEventRecord(int code)
{
	NOT_REMOVED;
	return code;
}

HOOKED int cudaMemcpy(void *to, const void *from, uint64_t bytes, int direction)
{
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaMemcpy2D(void *to, uint64_t to_pitch, const void *from, uint64_t from_pitch, uint64_t width, uint64_t height,
			int direction)
{
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaGraphInstantiate(uint64_t *where, uint64_t graph)
{
	*where = new_address();
	NOT_REMOVED;
	return 0;
}

HOOKED int cudaStreamBeginCapture(uint64_t stream, int mode)
{
	NOT_REMOVED;
	return 0;
}

#endif

#if PARTS & NCCL
HOOKED int ncclCommInitRank(uint64_t *where, int ranks, unique_id id, int rank)
{
	*where = new_address();
	NOT_REMOVED;
	return 0;
}

HOOKED int ncclAllReduce(const void *from, void *to, uint64_t count, int type, int operation, uint64_t communicator, uint64_t stream)
{
	NOT_REMOVED;
	return 0;
}

#endif

#if PARTS & PROGRAM
#define COMMUNICATORS 15 /* of one process that are distinguished */

static uint64_t communicator; /* the first */
static uint64_t communicators[COMMUNICATORS];
static int made_communicators;

static void make_communicator(uint64_t number)
{
	unique_id id = {{number, getpid()}};
	uint64_t made;

	ncclCommInitRank(&made, 2, id, 0);
	if (!communicator)
		communicator = made;
	if (made_communicators < COMMUNICATORS)
		communicators[made_communicators++] = made;
}

/* A process that works for this one, and ends with a status of its own. */
static void make_worker(uint64_t number)
{
	pid_t child = fork();

	if (!child)
		_exit(number & 255);
	waitpid(child, NULL, 0);
}

/* A process of its own, that fails in a call and ends. */
static void make_caller(void)
{
	pid_t child = fork();

	if (!child) {
		cudaEventRecord(2);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static void make(const char *what, uint64_t number)
{
	uint64_t where;

	if (!strcmp(what, "allocations"))
		cudaMalloc(&where, 4096);
	else if (!strcmp(what, "frees")) {
		cudaMalloc(&where, 4096);
		cudaFree(where);
	} else if (!strcmp(what, "huge")) {
		cudaMalloc(&where, 1ULL << 63);
		cudaMemcpy(NULL, NULL, 1ULL << 63, 1);
		cudaMemcpy2D(NULL, 0, NULL, 0, 1ULL << 40, (1ULL << 40) + 1, 1);
		ncclAllReduce(NULL, NULL, 1ULL << 62, 8, 0, communicator, 0);
	} else if (!strcmp(what, "largest"))
		cudaMemcpy(NULL, NULL, 1ULL << 47, 1);
	else if (!strcmp(what, "copies"))
		cudaMemcpy(NULL, NULL, 4096, 1);
	else if (!strcmp(what, "pinned"))
		cudaHostAlloc(&where, 4096, 0);
	else if (!strcmp(what, "errors"))
		cudaEventRecord(number + 1);
	else if (!strcmp(what, "graphs"))
		cudaGraphInstantiate(&where, 1);
	else if (!strcmp(what, "communicators"))
		make_communicator(number);
	else if (!strcmp(what, "captures"))
		cudaStreamBeginCapture(new_address(), 0);
	else if (!strcmp(what, "workers"))
		make_worker(number);
	else if (!strcmp(what, "callers"))
		make_caller();
	else if (!strcmp(what, "collectives"))
		ncclAllReduce(NULL, NULL, 1024, 7, 0, communicators[number % made_communicators], 0);
	else if (!strcmp(what, "frontiers"))
		ncclAllReduce(NULL, NULL, 1024, 7, 0, communicator, new_address());
	else
		exit(2);
}

int main(int count, char **arguments)
{
	char byte;

	for (int i = 1; i + 1 < count; i += 2)
		for (uint64_t number = 0, times = strtoull(arguments[i + 1], NULL, 10); number < times; number++)
			make(arguments[i], number);
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
#endif
