// SPDX-License-Identifier: Apache-2.0
/*
 * A job that is ahead: of its GPU, or of the thread that takes its data. Prints what it measured itself as JSON.
 * Usage: ahead gpu STEPS STALL_US: each step enqueues 6 ms of work, stalls, and waits for an event of the step before. The first 100
 *          steps do not stall. The GPU is a clock: the time at which all work is done.
 *        ahead poll STEPS STALL_US: the same, but it asks for the event and sleeps for 0.3 ms until that is done.
 *        ahead turns STEPS STALL_US: the same, but it asks for that of its own step as well, by turns.
 *        ahead copy STEPS STALL_US: it copies the result of its own step to memory that is not pinned, which waits.
 *        ahead thread SECONDS NAP_US: a thread fills a queue of 4 from which each step of 5 ms takes one; after SECONDS it naps for
 *          so long before each piece, for 50 steps.
 *        ahead lock SECONDS NAP_US: in each step another thread takes a lock, naps with it, and the step waits for the lock.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOOKED __attribute__((noinline, visibility("default")))

enum { WORK_NS = 6000000, QUIET_STEPS = 100, STEP_US = 5000, LATE_STEPS = 50, QUEUED = 4, POLL_US = 300, NOT_READY = 600, TO_HOST = 2 };

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until(long long then_ns)
{
	struct timespec then = {.tv_sec = then_ns / 1000000000, .tv_nsec = then_ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static void nap(long long us)
{
	if (us)
		sleep_until(now_ns() + us * 1000);
}

HOOKED int cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void)
{
	__asm__ volatile("");
	return 0;
}

/* Spins, as a thread does that waits for an event. */
HOOKED int cudaEventSynchronize(long long done_ns)
{
	while (now_ns() < done_ns)
		continue;
	return 0;
}

HOOKED int cudaEventQuery(long long done_ns)
{
	return now_ns() < done_ns ? NOT_READY : 0;
}

/* The driver waits for the work before the copy. */
HOOKED int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, long long done_ns)
{
	__asm__ volatile("" : : "r"(to), "r"(from), "r"(bytes), "r"(kind));
	while (now_ns() < done_ns)
		continue;
	return 0;
}

static void wait_for_gpu(const char *how, long long before_ns, long long done_ns)
{
	static char result[4];

	if (strcmp(how, "gpu") == 0)
		cudaEventSynchronize(before_ns);
	else if (strcmp(how, "copy") == 0)
		cudaMemcpyAsync(result, NULL, sizeof(result), TO_HOST, done_ns);
	else
		while (cudaEventQuery(before_ns) == NOT_READY) {
			if (strcmp(how, "turns") == 0)
				cudaEventQuery(done_ns);
			nap(POLL_US);
		}
}

static void ahead_of_gpu(const char *how, int steps, long long stall_us)
{
	long long done_ns = 0, before_ns = 0, began_ns = 0, now;

	for (int step = 0; step < QUIET_STEPS + steps; step++) {
		if (step == QUIET_STEPS)
			began_ns = now_ns();
		cudaLaunchKernel();
		now = now_ns();
		done_ns = (done_ns > now ? done_ns : now) + WORK_NS;
		nap(step >= QUIET_STEPS ? stall_us : 0);
		wait_for_gpu(how, before_ns, done_ns);
		before_ns = done_ns;
	}
	printf("{\"lost_ns\": %lld}\n", now_ns() - began_ns - (long long)steps * WORK_NS);
}

static sem_t filled, empty, asked, taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long long nap_us;

static void *fill(void *unused)
{
	for (;;) {
		nap(nap_us);
		sem_wait(&empty);
		sem_post(&filled);
	}
	return unused;
}

static void *hold(void *unused)
{
	for (;;) {
		sem_wait(&asked);
		pthread_mutex_lock(&lock);
		sem_post(&taken);
		nap(nap_us);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void take_lock(void)
{
	sem_post(&asked);
	sem_wait(&taken);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void beside_thread(int is_loader, long long seconds, long long us)
{
	long long late_ns = now_ns() + seconds * 1000000000;
	pthread_t other;

	sem_init(&filled, 0, 0);
	sem_init(&empty, 0, QUEUED);
	sem_init(&asked, 0, 0);
	sem_init(&taken, 0, 0);
	cudaLaunchKernel(); /* threads that are made after the first call belong to the job */
	if (!is_loader)
		nap_us = us;
	pthread_create(&other, NULL, is_loader ? fill : hold, NULL);
	for (int late = 0; late < LATE_STEPS; late += now_ns() > late_ns) {
		if (now_ns() > late_ns)
			nap_us = us;
		if (is_loader) {
			sem_wait(&filled);
			sem_post(&empty);
		} else {
			take_lock();
		}
		cudaLaunchKernel();
		nap(STEP_US);
		cudaStreamSynchronize();
	}
	printf("{\"nap_ns\": %lld}\n", us * 1000 * LATE_STEPS);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	if (strcmp(argv[1], "thread") == 0 || strcmp(argv[1], "lock") == 0)
		beside_thread(strcmp(argv[1], "thread") == 0, atoll(argv[2]), atoll(argv[3]));
	else
		ahead_of_gpu(argv[1], atoi(argv[2]), atoll(argv[3]));
	fflush(stdout);
	return 0;
}
