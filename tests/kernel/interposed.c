// SPDX-License-Identifier: Apache-2.0
/*
 * Other ways to a library than linking with it. Library: -DINTERPOSER: cudaEventRecord calls the next one of that name (LD_PRELOAD).
 * Program: interposed LIBRARY CALLS: loads the library twice, once into a namespace of its own (dlmopen), prints `ready`, waits for a
 * line of input, makes the calls in each, and stays until its input ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*record)(void);

#ifdef INTERPOSER

__attribute__((visibility("default"))) int cudaEventRecord(void)
{
	static record next;

	if (!next)
		next = (record)dlsym(RTLD_NEXT, "cudaEventRecord");
	return next() + 0;
}

#else

int main(int argc, char **argv)
{
	record found[2];

	if (argc != 3)
		return 2;
	for (int i = 0; i < 2; i++) {
		void *library = i ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : dlopen(argv[1], RTLD_NOW);

		found[i] = library ? (record)dlsym(library, "cudaEventRecord") : NULL;
		if (!found[i])
			return 3;
	}
	if (found[0] == found[1])
		return 4;
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 5;
	for (int call = 0; call < atoi(argv[2]); call++)
		if (found[0]() != found[1]())
			return 6;
	printf("made\n");
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	return 0;
}

#endif
