// SPDX-License-Identifier: Apache-2.0
/*
 * Four threads, all on one CPU, wait for the GPU together ROUNDS times. They are woken by the main thread, which then keeps the CPU for
 * 100 ms under a real-time policy. Prints how long each round lasted, from the wake-up to the last return, as a sum in nanoseconds.
 * It exports the name it is probed under (-rdynamic).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))

enum { THREADS = 4, KEPT_NS = 100000000 };
static int rounds;
static pthread_barrier_t before, after;
static struct {
	int go[2];
	pid_t tid;
	long long returned_ns;
} waiting[THREADS];

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

HOOKED int cudaStreamSynchronize(int done)
{
	char byte;

	return read(done, &byte, 1) == 1 ? 0 : 1;
}

static bool is_in_read(pid_t tid)
{
	char path[64], text[16] = "";
	int file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = open(path, O_RDONLY);
	if (read(file, text, sizeof(text) - 1) <= 0)
		exit(1);
	close(file);
	return text[0] != 'r' && atoi(text) == SYS_read; /* "running", or the number of the call */
}

static void *body(void *argument)
{
	typeof(*waiting) *self = argument;

	self->tid = gettid();
	for (int i = 0; i < rounds; i++) {
		pthread_barrier_wait(&before);
		if (cudaStreamSynchronize(self->go[0]) != 0)
			exit(1);
		self->returned_ns = now_ns();
		pthread_barrier_wait(&after);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long long total_ns = 0;
	pthread_t threads[THREADS];

	if (argc != 2)
		return 1;
	rounds = atoi(argv[1]);
	pthread_barrier_init(&before, NULL, THREADS + 1);
	pthread_barrier_init(&after, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pipe(waiting[i].go) < 0 || pthread_create(&threads[i], NULL, body, &waiting[i]) != 0)
			return 1;
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) < 0)
		return 1;
	for (int i = 0; i < rounds; i++) {
		long long woken_ns, last_ns = 0;

		pthread_barrier_wait(&before);
		for (int j = 0; j < THREADS; j++)
			while (!is_in_read(waiting[j].tid))
				usleep(1000);
		woken_ns = now_ns();
		for (int j = 0; j < THREADS; j++)
			if (write(waiting[j].go[1], "x", 1) != 1)
				return 1;
		while (now_ns() < woken_ns + KEPT_NS)
			;
		pthread_barrier_wait(&after);
		for (int j = 0; j < THREADS; j++)
			last_ns = waiting[j].returned_ns > last_ns ? waiting[j].returned_ns : last_ns;
		total_ns += last_ns - woken_ns;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lld\n", total_ns);
	return 0;
}
