// SPDX-License-Identifier: Apache-2.0
/* A function that returns at once, and one that calls it back to back. Not optimised, as target.py says. */
#include <time.h>

int cudaMalloc(void)
{
	return 0;
}

/* Nanoseconds of CPU of so many calls: what else the machine does is not part of them. */
long burst_ns(long calls)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (long i = 0; i < calls; i++)
		cudaMalloc();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
}
