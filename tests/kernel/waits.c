// SPDX-License-Identifier: Apache-2.0
/*
 * Waits in known ways, inside a probed call or between two, and prints its own measurements as JSON.
 * Usage: waits PLACE WAY TIMES [MICROSECONDS]. PLACE: call (cudaEventRecord), sync (cudaStreamSynchronize), gap.
 * WAITS_TID=TID: it waits in a child with this tid, and exits with 77 if the tid is in use.
 * WAITS_WATCH=TGID[,TGID...]: it also prints how long these processes ran in that time.
 * WAITS_GROUP=FOLDER: it is in this cgroup only while it waits.
 * WAITS_HELD=1: it reads a byte before it ends.
 * WAITS_IDLE=1: from its first wait on it runs only when nothing else does (SCHED_IDLE).
 * It exports the names it is probed under (-rdynamic). A gap follows a synchronising call and ends with a launch.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ways.h"

#define HOOKED __attribute__((noinline, visibility("default")))

HOOKED int cudaEventRecord(void (*inside)(void))
{
	inside();
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void (*inside)(void))
{
	if (inside)
		inside();
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

/* /proc/.../schedstat: time running, and time runnable but not running. */
static void read_schedstat(const char *path, long long *ran_ns, long long *waited_ns)
{
	FILE *file = fopen(path, "r");

	if (!file || fscanf(file, "%lld %lld", ran_ns, waited_ns) != 2)
		exit(1);
	fclose(file);
}

/* Opened once, because the time between a reading and a call is only in one of the two figures. */
static long long run_delay_ns(void)
{
	static int file = -1;
	long long ran_ns, waited_ns;
	char text[128] = "";

	if (file < 0)
		file = open("/proc/thread-self/schedstat", O_RDONLY);
	if (pread(file, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "%lld %lld", &ran_ns, &waited_ns) != 2)
		exit(1);
	return waited_ns;
}

/* Moves to the cgroup WAITS_GROUP, or to one beside or above it. */
static void enter(const char *relative)
{
	const char *group = getenv("WAITS_GROUP");
	char path[256];
	int file;

	if (!group)
		return;
	snprintf(path, sizeof(path), "%s/%scgroup.procs", group, relative);
	file = open(path, O_WRONLY);
	if (write(file, "0", 1) != 1)
		exit(1);
	close(file);
}

enum { MOST_WATCHED = 16 };

static int ran_of_watched_ns(long long *ran_ns)
{
	const char *rest = getenv("WAITS_WATCH");
	int count = 0;

	for (; rest && *rest && count < MOST_WATCHED; count++) {
		char path[64];
		char *end;
		long long waited_ns;

		snprintf(path, sizeof(path), "/proc/%ld/schedstat", strtol(rest, &end, 10));
		read_schedstat(path, &ran_ns[count], &waited_ns);
		rest = *end ? end + 1 : end;
	}
	return count;
}

/* Continues in a child with this tid; the program exits with its status. */
static void become(pid_t tid)
{
	struct clone_args wanted = {.exit_signal = SIGCHLD, .set_tid = (unsigned long)&tid, .set_tid_size = 1};
	long child = syscall(SYS_clone3, &wanted, sizeof(wanted));
	int status;

	if (child == 0)
		return;
	if (child < 0)
		perror("clone3 with set_tid");
	else if (waitpid(child, &status, 0) == child && WIFEXITED(status))
		exit(WEXITSTATUS(status));
	exit(child < 0 ? 77 : 1);
}

static void (*way)(void);
static long long inside_ns; /* in ways, as measured within the calls; wall_ns is measured around the calls */

static void measured_way(void)
{
	long long before_ns = now_ns();

	way();
	inside_ns += now_ns() - before_ns;
}

int main(int argc, char **argv)
{
	long long wall_ns = 0, before_ns, began_ns, started_ns, delay_before_ns, delay_ns;
	long long watched_before_ns[MOST_WATCHED], watched_after_ns[MOST_WATCHED];
	int watched;
	struct rusage before, after;
	pid_t self;

	if (argc < 4)
		return 2;
	if (getenv("WAITS_TID"))
		become(atoi(getenv("WAITS_TID")));
	self = getpid();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, argv[2]) == 0)
			way = ways[i].wait;
	if (!way)
		return 2;
	if (argc > 4)
		wait_us = atoll(argv[4]);
	open_files();
	began_ns = now_ns();
	cudaLaunchKernel();
	enter("");
	if (getenv("WAITS_IDLE"))
		sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){.sched_priority = 0});
	run_delay_ns();
	getrusage(RUSAGE_THREAD, &before);
	watched = ran_of_watched_ns(watched_before_ns);
	delay_before_ns = run_delay_ns();
	started_ns = now_ns();
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (strcmp(argv[1], "gap") == 0)
			cudaStreamSynchronize(NULL);
		before_ns = now_ns();
		if (strcmp(argv[1], "call") == 0)
			cudaEventRecord(measured_way);
		else if (strcmp(argv[1], "sync") == 0)
			cudaStreamSynchronize(measured_way);
		else
			measured_way();
		wall_ns += now_ns() - before_ns;
		if (getpid() != self)
			_exit(0);
		cudaLaunchKernel();
	}
	long long total_ns = now_ns() - started_ns;

	delay_ns = run_delay_ns() - delay_before_ns;
	ran_of_watched_ns(watched_after_ns);
	getrusage(RUSAGE_THREAD, &after);
	enter("../");
	if (getenv("WAITS_HELD"))
		getchar();
	printf("{\"watched_ns\":[");
	for (int i = 0; i < watched; i++)
		printf("%s%lld", i ? "," : "", watched_after_ns[i] - watched_before_ns[i]);
	printf("],\"least_ns\":%lld,\"most_ns\":%lld", least_ns, most_ns);
	printf(",\"began_ns\":%lld,\"inside_ns\":%lld", began_ns, inside_ns);
	printf(",\"wall_ns\":%lld,\"total_ns\":%lld,\"run_delay_ns\":%lld,\"voluntary\":%ld,\"involuntary\":%ld,\"cpu_ns\":%lld}\n",
	       wall_ns, total_ns, delay_ns, after.ru_nvcsw - before.ru_nvcsw,
	       after.ru_nivcsw - before.ru_nivcsw,
	       (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000000LL +
		       (after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1000LL);
	return 0;
}
