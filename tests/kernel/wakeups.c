// SPDX-License-Identifier: Apache-2.0
/*
 * A step thread that waits for data in every gap, and prints how long as JSON. Usage: wakeups WORK TIMES MICROSECONDS [HOW...]
 * behind_launch_ns is the time from each launch to the return of the next synchronisation.
 * A worker process makes the data on request through a pipe: burn (uses the CPU), nap (sleeps), or both (half of the time each).
 * With `helper`, a thread of the step thread's process takes the data from the worker and passes it on, as a queue does.
 * With `alone`, a timer ends the wait; there is no worker.
 * With `busy`, another process of the job never stops using the CPU. With `apart`, these processes run on CPU 0, or on WAKEUPS_CPU.
 * With `tcp`, the two communicate over the loopback interface, with `unix` through a pair of sockets, instead of two pipes.
 * With `polled`, the step thread calls poll() before it reads.
 * With `early`, the step thread sends its request, computes for 1 ms, and then waits.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))

static long long work_us;
static int ask[2], answer[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int asked, ready;
static volatile struct {
	long long cpu_ns; /* from the request to the answer */
	long long ran_ns; /* the same in wall-clock time: includes steal */
} *worker;

HOOKED int cudaEventRecord(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaStreamSynchronize(void)
{
	__asm__ volatile("");
	return 0;
}

HOOKED int cudaLaunchKernel(void)
{
	__asm__ volatile("");
	return 0;
}

static long long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn(long long us)
{
	long long end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		continue;
}

/* How long this thread has waited for a CPU so far, by the kernel. */
static long long run_delay_ns(void)
{
	static int file = -1;
	char line[128] = "", *rest;

	if (file < 0)
		file = open("/proc/thread-self/schedstat", O_RDONLY);
	if (file < 0 || pread(file, line, sizeof(line) - 1, 0) <= 0)
		_exit(1);
	strtoll(line, &rest, 10);
	return strtoll(rest, NULL, 10);
}

static void burn_and_tell(long long us)
{
	long long delay_ns = run_delay_ns(), before_ns = clock_ns(CLOCK_MONOTONIC);

	burn(us);
	worker->ran_ns += clock_ns(CLOCK_MONOTONIC) - before_ns - (run_delay_ns() - delay_ns);
}

static void nap(long long us)
{
	struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&pause, NULL);
}

static void work(const char *kind)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(ask[0], &byte, 1) == 1) {
		long long before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		if (strcmp(kind, "burn") == 0)
			burn_and_tell(work_us);
		else if (strcmp(kind, "nap") == 0)
			nap(work_us);
		else {
			burn_and_tell(work_us / 2);
			nap(work_us / 2);
		}
		worker->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
		if (write(answer[1], &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void busy(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		burn(1000000);
}

static void move_apart(void)
{
	cpu_set_t other;

	CPU_ZERO(&other);
	CPU_SET(getenv("WAKEUPS_CPU") ? atoi(getenv("WAKEUPS_CPU")) : 0, &other);
	if (sched_setaffinity(0, sizeof(other), &other) < 0)
		_exit(1);
}

static bool is_polled;

static void fetch(long long early_us)
{
	struct pollfd polled = {.fd = answer[0], .events = POLLIN};
	char byte = 0;

	if (write(ask[1], &byte, 1) != 1)
		exit(1);
	burn(early_us);
	if (is_polled && poll(&polled, 1, -1) != 1)
		exit(1);
	if (read(answer[0], &byte, 1) != 1)
		exit(1);
}

static void *helper(void *argument)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!asked)
			pthread_cond_wait(&changed, &lock);
		asked = 0;
		pthread_mutex_unlock(&lock);
		fetch(0);
		pthread_mutex_lock(&lock);
		ready = 1;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return argument;
}

static void take_from_helper(void)
{
	pthread_mutex_lock(&lock);
	asked = 1;
	pthread_cond_broadcast(&changed);
	while (!ready)
		pthread_cond_wait(&changed, &lock);
	ready = 0;
	pthread_mutex_unlock(&lock);
}

static bool has(char **words, const char *wanted)
{
	for (; *words; words++)
		if (strcmp(*words, wanted) == 0)
			return true;
	return false;
}

/* One socket at either end, instead of the pipes. */
static void connect_ends(bool is_tcp)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int ends[2], listener, one = 1;

	if (!is_tcp) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
			_exit(1);
	} else {
		listener = socket(AF_INET, SOCK_STREAM, 0);
		ends[0] = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(listener, (void *)&address, length) < 0 || listen(listener, 1) < 0 ||
		    getsockname(listener, (void *)&address, &length) < 0 || connect(ends[0], (void *)&address, length) < 0)
			_exit(1);
		ends[1] = accept(listener, NULL, NULL);
		for (int i = 0; i < 2; i++)
			setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	ask[1] = answer[0] = ends[0];
	ask[0] = answer[1] = ends[1];
}

int main(int argc, char **argv)
{
	long long gap_ns = 0, before_ns, launched_ns, behind_launch_ns = 0;
	char **how = argv + 4;
	pthread_t one;

	if (argc < 4 || pipe(ask) < 0 || pipe(answer) < 0)
		return 2;
	work_us = atoll(argv[3]);
	is_polled = has(how, "polled");
	if (has(how, "tcp") || has(how, "unix"))
		connect_ends(has(how, "tcp"));
	worker = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (worker == MAP_FAILED)
		return 1;
	launched_ns = clock_ns(CLOCK_MONOTONIC);
	cudaLaunchKernel(); /* processes forked after the first call belong to the job */
	if (fork() == 0) {
		if (has(how, "apart"))
			move_apart();
		work(argv[1]);
	}
	if (has(how, "busy") && fork() == 0) {
		if (has(how, "apart"))
			move_apart();
		busy();
	}
	if (has(how, "helper") && pthread_create(&one, NULL, helper, NULL) != 0)
		return 1;
	nap(10000);
	for (int i = 0; i < atoi(argv[2]); i++) {
		cudaStreamSynchronize();
		before_ns = clock_ns(CLOCK_MONOTONIC);
		behind_launch_ns += before_ns - launched_ns;
		if (has(how, "helper"))
			take_from_helper();
		else if (has(how, "alone"))
			poll(NULL, 0, (int)(work_us / 1000));
		else
			fetch(has(how, "early") ? 1000 : 0);
		launched_ns = clock_ns(CLOCK_MONOTONIC);
		gap_ns += launched_ns - before_ns;
		cudaLaunchKernel();
	}
	printf("{\"gap_ns\":%lld,\"behind_launch_ns\":%lld,\"worker_cpu_ns\":%lld,\"worker_ran_ns\":%lld}\n", gap_ns,
	       behind_launch_ns, worker->cpu_ns, worker->ran_ns);
	return 0;
}
