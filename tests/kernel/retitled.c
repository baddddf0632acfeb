// SPDX-License-Identifier: Apache-2.0
/*
 * A process that writes a title over its arguments and its environment, as setproctitle() of Python and PostgreSQL do: the variables
 * are copied, and `environ` points to the copies.
 * Usage: retitled LIBRARY own|child TITLE. `child`: a forked process does the rest. Prints its tgid. For every line on standard input it
 * calls cudaDeviceSynchronize() 23 times and prints "called".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void set_title(char **argv, const char *title)
{
	size_t count = 0;
	char *end = NULL;

	while (environ[count])
		count++;
	char **copy = calloc(count + 1, sizeof(*copy));

	for (size_t i = 0; i < count; i++) {
		end = environ[i] + strlen(environ[i]);
		copy[i] = strdup(environ[i]);
	}
	title = strdup(title);
	environ = copy;
	memset(argv[0], 0, (size_t)(end - argv[0]));
	strncpy(argv[0], title, (size_t)(end - argv[0] - 1));
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc != 4)
		return 1;
	void *handle = dlopen(argv[1], RTLD_NOW);
	int (*synchronize)(void) = handle ? (int (*)(void))dlsym(handle, "cudaDeviceSynchronize") : NULL;

	if (!synchronize)
		return 2;
	if (strcmp(argv[2], "child") == 0) {
		pid_t child = fork();

		if (child != 0)
			return waitpid(child, NULL, 0) == child ? 0 : 3;
	}
	set_title(argv, argv[3]);
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 23; i++)
			synchronize();
		puts("called");
		fflush(stdout);
	}
	return 0;
}
