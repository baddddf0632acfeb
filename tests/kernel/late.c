// SPDX-License-Identifier: Apache-2.0
/*
 * Eight threads, each inside a synchronising call before the probes are attached. Prints "inside" when all of them are. For every
 * byte on standard input, one of them returns, records 5 events, launches, and prints "returned".
 * They live until standard input ends. It exports the names it is probed under (-rdynamic).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))

enum { THREADS = 8 };
static int go[2];
static pthread_barrier_t all_inside, all_done;

HOOKED int cudaEventRecord(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void)
{
	char byte;

	pthread_barrier_wait(&all_inside);
	return read(go[0], &byte, 1) == 1 ? 0 : 1;
}

static void *body(void *argument)
{
	if (cudaStreamSynchronize() != 0)
		return argument;
	for (int i = 0; i < 5; i++)
		cudaEventRecord();
	cudaLaunchKernel();
	if (write(STDOUT_FILENO, "returned\n", 9) != 9)
		return argument;
	pthread_barrier_wait(&all_done);
	return argument;
}

int main(void)
{
	pthread_t threads[THREADS];
	char byte;

	if (pipe(go) < 0)
		return 1;
	pthread_barrier_init(&all_inside, NULL, THREADS + 1);
	pthread_barrier_init(&all_done, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, body, NULL) != 0)
			return 1;
	pthread_barrier_wait(&all_inside);
	if (write(STDOUT_FILENO, "inside\n", 7) != 7)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (write(go[1], &byte, 1) != 1)
			return 1;
	pthread_barrier_wait(&all_done);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
