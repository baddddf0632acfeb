// SPDX-License-Identifier: Apache-2.0
/*
 * Two libraries of one name, and a program: the first forwards every call to the second by a jump, as some profilers do.
 * Compiled with FIRST, with SECOND, or with neither as the program, which makes the number of calls in its argument, on request.
 */
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((noinline, visibility("default")))

#ifdef SECOND
EXPORT int second_cudaEventRecord(void *event, void *stream) __asm__("cudaEventRecord");
EXPORT int second_cudaEventRecord(void *event, void *stream)
{
	__asm__ volatile("" ::"r"(event), "r"(stream));
	return 0;
}

typedef int (*call)(void *, void *);
EXPORT call the_second(void)
{
	return second_cudaEventRecord;
}
#else
int (*the_second(void))(void *, void *);
EXPORT int cudaEventRecord(void *event, void *stream);
#endif

#ifdef FIRST
EXPORT int cudaEventRecord(void *event, void *stream)
{
	return the_second()(event, stream); /* with -O2: a jump, from the same stack pointer */
}
#endif

#if !defined(FIRST) && !defined(SECOND)
int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 0;

	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < times; i++)
		cudaEventRecord(NULL, NULL);
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
#endif
