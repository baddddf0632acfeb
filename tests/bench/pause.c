// SPDX-License-Identifier: Apache-2.0
/*
 * A job that never rests: calls functions of a library in turn, and reads the clock after each. Every line of standard input is
 * answered with the largest time between two readings since the line before, in nanoseconds; without those in which another
 * task was given the CPU, since a busy machine has longer ones of these than what is looked for.
 * Arguments: the library, then the functions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define SHORT_NS 10000 /* no task is given the CPU for less */

typedef int function(void);

static function *functions[256];
static int count;
static _Atomic int64_t largest_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

static void *spin(void *unused)
{
	int64_t before_ns = now_ns();
	long preempted_before = preemptions();

	for (unsigned i = 0;; i++) {
		functions[i % count]();
		int64_t after_ns = now_ns();

		if (after_ns - before_ns > SHORT_NS) {
			long preempted = preemptions();

			if (preempted == preempted_before && after_ns - before_ns > largest_ns)
				largest_ns = after_ns - before_ns;
			preempted_before = preempted;
			after_ns = now_ns();
		}
		before_ns = after_ns;
	}
	return unused;
}

int main(int argc, char **argv)
{
	char line[16];
	pthread_t spinner;
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

	for (int i = 2; library && i < argc && count < 256; i++)
		if ((functions[count] = (function *)dlsym(library, argv[i])))
			count++;
	if (!count || pthread_create(&spinner, NULL, spin, NULL))
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		printf("%lld\n", (long long)atomic_exchange(&largest_ns, 0));
		fflush(stdout);
	}
	return 0;
}
