// SPDX-License-Identifier: Apache-2.0
/*
 * A job in a sandbox. It exports the names it is probed under (-rdynamic). Each line of standard input is an order, answered
 * with a line when it is done:
 *   f    set a seccomp filter that allows read, write and exit_group; any other call kills the process
 *   23   make 23 calls of each function
 *   x    make a system call that the filter does not allow
 * At the end of the input it exits with status 0.
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* With a frame pointer a function begins with `push %rbp`, which the kernel emulates; cudaEventQuery is single-stepped. */
#define EXPORTED __attribute__((noinline, visibility("default")))
#define HOOKED EXPORTED __attribute__((optimize("no-omit-frame-pointer")))
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

HOOKED int cudaEventRecord(void)
{
	__asm__ volatile("");
	return 0;
}

EXPORTED int cudaEventQuery(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void)
{
	__asm__ volatile("");
	return 0;
}

static int (*const functions[])(void) = {cudaEventRecord, cudaEventQuery, cudaLaunchKernel, cudaStreamSynchronize};

static void set_filter(void)
{
	struct sock_filter allow_list[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_read, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {LENGTH(allow_list), allow_list};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(3);
}

static void make_calls(long times)
{
	for (long i = 0; i < times; i++)
		functions[i % LENGTH(functions)]();
}

/* Byte by byte, so that the next order is not read with this one. */
static int read_order(char *order, size_t room)
{
	size_t length = 0;

	while (length + 1 < room && read(0, order + length, 1) == 1 && order[length] != '\n')
		length++;
	order[length] = 0;
	return length > 0;
}

int main(void)
{
	char order[32];

	while (read_order(order, sizeof(order))) {
		if (!strcmp(order, "f"))
			set_filter();
		else if (!strcmp(order, "x"))
			syscall(__NR_getpid);
		else
			make_calls(atol(order));
		if (write(1, "done\n", 5) != 5)
			_exit(2);
	}
	_exit(0);
}
