// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a program under a chosen tgid, as happens when tgids are reused.
 * Usage: reborn TGID PROGRAM [ARGUMENT...]. Exits as the program does; with 75 if the tgid is in use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t tgid = argc > 2 ? atoi(argv[1]) : 0;
	struct clone_args how = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&tgid, .set_tid_size = 1};
	int status;

	if (tgid <= 0)
		return 2;
	long child = syscall(SYS_clone3, &how, sizeof(how));
	if (child == 0) {
		execv(argv[2], argv + 2);
		_exit(127);
	}
	if (child < 0) {
		perror("reborn: clone3");
		return errno == EEXIST ? 75 : 1;
	}
	while (waitpid((pid_t)child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
