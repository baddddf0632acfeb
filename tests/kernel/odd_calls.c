// SPDX-License-Identifier: Apache-2.0
/*
 * Leaves probed functions in ways that occur in real programs and that simple probes get wrong. Arguments: the way, how often.
 * It exports the names it is probed under (-rdynamic): cudaStreamSynchronize calls back, cudaEventRecord is plain,
 * cudaLaunchKernel tail-calls cuLaunchKernel, cudaMemcpy is interrupted by a signal whose handler calls cudaEventRecord.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))

static jmp_buf home;
static int depth_wanted;

HOOKED int cudaEventRecord(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void (*inside)(int), int level)
{
	inside(level);
	__asm__ volatile("");
	return 0;
}

HOOKED int cuLaunchKernel(int x)
{
	__asm__ volatile("");
	return x;
}

HOOKED int cudaLaunchKernel(int x)
{
	__asm__ volatile("");
	return cuLaunchKernel(x); /* with -O2: a jump */
}

/* Another library with the same functions. */
HOOKED int other_cudaStreamSynchronize(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int other_cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaMemcpy(void *to, void *from, unsigned long bytes, int kind)
{
	(void)to, (void)from, (void)bytes, (void)kind;
	raise(SIGUSR1);
	__asm__ volatile("");
	return 0;
}

static void jump(int level)
{
	(void)level;
	longjmp(home, 1);
}

static void deeper(int level)
{
	if (level < depth_wanted)
		cudaStreamSynchronize(deeper, level + 1);
}

static void fork_here(int level)
{
	(void)level;
	pid_t child = fork();

	if (child > 0)
		waitpid(child, NULL, 0);
}

static void hold_once(int level)
{
	static int is_done;
	char byte;

	(void)level;
	if (is_done++)
		return;
	if (write(STDOUT_FILENO, "x", 1) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
		_exit(1);
}

static void leave(int level)
{
	(void)level;
	_exit(0);
}

static void on_signal(int number)
{
	(void)number;
	cudaEventRecord();
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	int times = argc > 2 ? atoi(argv[2]) : 1;

	signal(SIGUSR1, on_signal);
	for (volatile int i = 0; i < times; i++) {
		if (!strcmp(way, "longjmp")) {
			if (!setjmp(home))
				cudaStreamSynchronize(jump, 0);
			cudaEventRecord();
		} else if (!strcmp(way, "recurse")) {
			depth_wanted = 6;
			cudaStreamSynchronize(deeper, 1);
		} else if (!strcmp(way, "fork")) {
			pid_t parent = getpid();

			cudaStreamSynchronize(fork_here, 0);
			if (getpid() != parent)
				_exit(0);
		} else if (!strcmp(way, "longjmp-other")) {
			if (i == 0 && !setjmp(home))
				cudaStreamSynchronize(jump, 0);
			other_cudaStreamSynchronize();
		} else if (!strcmp(way, "launch-other")) {
			cudaEventRecord();
			hold_once(0);
			cudaLaunchKernel(0);
			cudaEventRecord();
			other_cudaLaunchKernel();
		} else if (!strcmp(way, "hold")) {
			cudaStreamSynchronize(hold_once, 0);
		} else if (!strcmp(way, "exit")) {
			cudaEventRecord();
			cudaStreamSynchronize(leave, 0);
		} else if (!strcmp(way, "exec")) {
			cudaEventRecord();
			execl("/proc/self/exe", argv[0], "plain", "23", NULL);
		} else if (!strcmp(way, "tail")) {
			cudaLaunchKernel(0);
		} else if (!strcmp(way, "signal")) {
			cudaMemcpy(NULL, NULL, 64, 1);
		} else {
			cudaEventRecord();
		}
	}
	return 0;
}
