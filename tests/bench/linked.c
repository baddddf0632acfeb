// SPDX-License-Identifier: Apache-2.0
/*
 * Calls one function of a library it is linked with, as programs do: through the procedure linkage table, which ltrace needs.
 * Each line of standard input is a number of calls; the answer is the nanoseconds they took.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

int cudaEventQuery(void);

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(void)
{
	long calls;

	while (scanf("%ld", &calls) == 1) {
		long long begin_ns = now_ns();

		for (long i = 0; i < calls; i++)
			cudaEventQuery();
		printf("%lld\n", now_ns() - begin_ns);
		fflush(stdout);
	}
	return 0;
}
