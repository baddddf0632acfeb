// SPDX-License-Identifier: Apache-2.0
/*
 * Threads stuck in known places. Usage: stuck MANNER; each thread prints "inside" when it is there:
 *   call       outer() -> middle() -> inner() -> cudaStreamSynchronize(), which waits for a byte on standard input
 *   two        as call, and a second thread through other_outer() and other_inner()
 *   gap        one call that returns; then outer_gap() -> inner_gap() waits outside calls
 *   spin       as call, but cudaStreamSynchronize() never leaves the CPU
 *   odd        as call, with invalid frame pointers
 * It exports the names it is probed under (-rdynamic), and is built with frame pointers.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))
#define KEPT __attribute__((noinline, noclone))
#define NO_TAIL_CALL() __asm__ volatile("")

static int spins, is_odd;

static void say_inside(void)
{
	if (write(STDOUT_FILENO, "inside\n", 7) != 7)
		_exit(1);
}

static KEPT int wait_for_a_byte(void)
{
	char byte;
	int got;

	say_inside();
	while (spins)
		NO_TAIL_CALL();
	got = (int)read(STDIN_FILENO, &byte, 1);
	NO_TAIL_CALL();
	return got;
}

HOOKED int cudaLaunchKernel(void)
{
	NO_TAIL_CALL();
	return 0;
}

HOOKED int cudaStreamSynchronize(int waits)
{
	int got = waits ? wait_for_a_byte() : 0;

	NO_TAIL_CALL();
	return got < 0;
}

#define CALLER(name, callee)              \
	KEPT int name(int argument)       \
	{                                 \
		int got = callee(argument); \
		NO_TAIL_CALL();           \
		return got;               \
	}

CALLER(inner, cudaStreamSynchronize)
CALLER(middle, inner)
CALLER(outer, middle)
CALLER(other_inner, cudaStreamSynchronize)
CALLER(other_outer, other_inner)

KEPT int inner_gap(int waits)
{
	int got = waits ? wait_for_a_byte() : 0;

	NO_TAIL_CALL();
	return got;
}

CALLER(outer_gap, inner_gap)

#if defined(__x86_64__)
/* A frame pointer far above the stack, while the call is open. */
__asm__(".pushsection .text\n.globl odd_outer\n.type odd_outer, @function\nodd_outer:\n"
	"push %rbp\nmovabs $0x123456789abc, %rbp\ncall cudaStreamSynchronize@PLT\npop %rbp\nret\n"
	".size odd_outer, . - odd_outer\n.popsection\n");
extern int odd_outer(int);
#else
CALLER(odd_outer, cudaStreamSynchronize)
#endif

static void *second(void *argument)
{
	other_outer(1);
	return argument;
}

int main(int count, char **arguments)
{
	const char *manner = count > 1 ? arguments[1] : "";
	pthread_t thread;

	cudaLaunchKernel();
	spins = strcmp(manner, "spin") == 0;
	is_odd = strcmp(manner, "odd") == 0;
	if (strcmp(manner, "gap") == 0)
		return cudaStreamSynchronize(0) + outer_gap(1) < 0;
	if (strcmp(manner, "two") == 0 && pthread_create(&thread, NULL, second, NULL) != 0)
		return 1;
	return (is_odd ? odd_outer(1) : outer(1)) < 0;
}
