// SPDX-License-Identifier: Apache-2.0
/* A library for programs that must be in a traced call when a test looks. It exports the names that it is probed under. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static atomic_int inside;

/* Returns when a byte can be read. */
int cudaStreamSynchronize(int fd)
{
	char byte;
	long got;

	atomic_fetch_add(&inside, 1);
	got = read(fd, &byte, 1);
	atomic_fetch_sub(&inside, 1);
	return got != 1;
}

int cudaLaunchKernel(void)
{
	return 0;
}

/* Takes so long. */
int cudaMalloc(long ns)
{
	struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	return ns ? nanosleep(&wait, NULL) : 0;
}

/* A native function between two of Python. */
int call_back(int (*function)(void))
{
	return function() + 1;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int work, done, worker_tid;

/* A thread that runs no Python, as one of autograd: makes the call when there is work, on the descriptor that is the work. */
static void *work_forever(void *unused)
{
	pthread_mutex_lock(&lock);
	worker_tid = gettid();
	pthread_cond_broadcast(&changed);
	for (;;) {
		while (!work)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		cudaStreamSynchronize(work);
		pthread_mutex_lock(&lock);
		work = 0;
		done = 1;
		pthread_cond_broadcast(&changed);
	}
	return unused;
}

/* Starts the worker; returns its tid. */
int start_worker(void)
{
	pthread_t worker;

	pthread_create(&worker, NULL, work_forever, NULL);
	pthread_mutex_lock(&lock);
	while (!worker_tid)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return worker_tid;
}

void give_work(int fd)
{
	pthread_mutex_lock(&lock);
	work = fd;
	done = 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void await_work(void)
{
	pthread_mutex_lock(&lock);
	while (!done)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* How many threads are in cudaStreamSynchronize(). */
int threads_inside(void)
{
	return atomic_load(&inside);
}
