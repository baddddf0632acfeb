// SPDX-License-Identifier: Apache-2.0
/*
 * A process whose main thread ends by pthread_exit(3) while another thread goes on.
 * Usage: main_thread LIBRARY before|after. Loads the library before the main thread ends, or in the other thread after it has ended.
 * Prints "ready". For every line on standard input it calls cudaDeviceSynchronize() 23 times and prints "called".
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library;
static int (*synchronize)(void);
static pthread_t main_thread;

static void load(void)
{
	void *handle = dlopen(library, RTLD_NOW);

	if (!handle || !(synchronize = (int (*)(void))dlsym(handle, "cudaDeviceSynchronize")))
		exit(2);
}

static void *body(void *argument)
{
	char line[16];

	if (pthread_join(main_thread, NULL) != 0)
		exit(3);
	if (!synchronize)
		load();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 23; i++)
			synchronize();
		puts("called");
		fflush(stdout);
	}
	exit(0);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t other;

	if (argc != 3)
		return 1;
	library = argv[1];
	main_thread = pthread_self();
	if (strcmp(argv[2], "before") == 0)
		load();
	if (pthread_create(&other, NULL, body, NULL) != 0)
		return 1;
	pthread_exit(NULL);
}
