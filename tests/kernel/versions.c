// SPDX-License-Identifier: Apache-2.0
/*
 * A library of many versions, and a program that uses it. Each version has its functions at other places, so that what one version
 * has at the place of a function is in the middle of another version's instructions.
 * Library: -DLIBRARY -DVERSION=N. Program: CALLS records events, and fails if a result is not that of the version it finds.
 * Usage: versions CALLS: prints `ready`, waits for a line of input, makes the calls, prints the version, and stays until its input
 *        ends.
 */
#ifdef LIBRARY

#define EXPORTED __attribute__((noinline, visibility("default")))

#ifdef __x86_64__
#define ADD "addl $0x01010101, %0\n"
#else
#define ADD "add %w0, %w0, #0x101\n"
#endif

/* As long as the version says, in instructions of several bytes; their sum is the result. */
EXPORTED unsigned int versionSum(void)
{
	unsigned int sum = 0;

	__asm__ volatile(".rept 64 * %c1 + 3\n" ADD ".endr" : "+r"(sum) : "i"(VERSION));
	return sum;
}

EXPORTED int cudaEventRecord(void)
{
	__asm__ volatile("");
	return VERSION;
}

EXPORTED int versionNumber(void)
{
	return VERSION;
}

#else

#include <stdio.h>
#include <stdlib.h>

unsigned int versionSum(void);
int cudaEventRecord(void);
int versionNumber(void);

#ifdef __x86_64__
enum { ADDED = 0x01010101 };
#else
enum { ADDED = 0x101 };
#endif

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 0;

	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 3;
	for (int call = 0; call < calls; call++) {
		int version = versionNumber();

		if (cudaEventRecord() != version)
			return 4;
		if (versionSum() != (unsigned int)ADDED * (64u * version + 3u))
			return 5;
	}
	printf("%d\n", versionNumber());
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	return 0;
}

#endif
