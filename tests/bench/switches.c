// SPDX-License-Identifier: Apache-2.0
/*
 * Two processes that hand a byte to and fro on one CPU: each round trip is two switches, each with a wake-up. For every line
 * "ROUNDS" on standard input it makes so many round trips and answers with the nanoseconds they took.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(void)
{
	int there[2], back[2];
	char line[64], byte = 0;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(1 % sysconf(_SC_NPROCESSORS_ONLN), &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0 || pipe(there) < 0 || pipe(back) < 0)
		return 1;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(there[0], &byte, 1) == 1)
			if (write(back[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	while (fgets(line, sizeof(line), stdin)) {
		long long started_ns = now_ns();

		for (int i = atoi(line); i > 0; i--)
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				return 1;
		printf("%lld\n", now_ns() - started_ns);
		fflush(stdout);
	}
	return 0;
}
