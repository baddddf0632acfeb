// SPDX-License-Identifier: Apache-2.0
/*
 * Reads commands from standard input, one a line, calls functions of a library, and answers each with one line:
 *   "burst N"    N calls of the first function back to back  -> "calls ns"
 *   "each N"     N calls of every function                   -> "calls ns"
 *   "paced N S"  N calls a second of the first, for S seconds -> "calls ns"
 * Arguments: the library, then the functions. The library's functions return at once, so that a probe's cost is all there is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef int function(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* An argument that may be an address to one function and a number of bytes to another: 1 MiB, and something lies there. */
#define EITHER 0x100000

static uint64_t place = 4096;

static long call(function *f, long times)
{
	for (long i = 0; i < times; i++)
		f(&place, EITHER, 64, 1, 64, 64, 1);
	return times;
}

static long paced(function *f, long per_second, long seconds)
{
	int64_t start_ns = now_ns();
	long done = 0;

	for (long tick = 1; tick <= 100 * seconds; tick++) {
		int64_t until_ns = start_ns + tick * 10000000LL;
		struct timespec until = {until_ns / 1000000000LL, until_ns % 1000000000LL};

		done += call(f, per_second / 100);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return done;
}

int main(int argc, char **argv)
{
	function *functions[64];
	int count = 0;
	char line[128];
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

	/* A page that was never touched cannot be read by a probe. */
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE;

	if (!library || mmap((void *)EITHER, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return 2;
	for (int i = 2; i < argc && count < 64; i++)
		if ((functions[count] = (function *)dlsym(library, argv[i])))
			count++;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long n = 0, seconds = 0, done = 0;
		int64_t start_ns = now_ns();

		if (sscanf(line, "burst %ld", &n) == 1)
			done = call(functions[0], n);
		else if (sscanf(line, "paced %ld %ld", &n, &seconds) == 2)
			done = paced(functions[0], n, seconds);
		else if (sscanf(line, "each %ld", &n) == 1)
			for (int i = 0; i < count; i++)
				done += call(functions[i], n);
		printf("%ld %lld\n", done, (long long)(now_ns() - start_ns));
		fflush(stdout);
	}
	return 0;
}
