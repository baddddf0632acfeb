// SPDX-License-Identifier: Apache-2.0
/*
 * A step thread that waits in every gap until a known other one ends its sleep, and prints how long as JSON.
 * Usage: awaited WAY TIMES MICROSECONDS [FILE]
 * A partner process, "partner", is not of the job: it was there before the first call.
 * write: the partner reads a full pipe after so long. stopped: the partner has been stopped, and reads no more. pipe: it writes after so
 * long. file: it holds the lock of a file for so long; worker-file: the same, but the partner belongs to the job.
 * pages: a partner of the job reads pages of the file that are not in memory, computes for so long, and writes; the wait begins after
 * half of that.
 * With AWAITED_UNIX=1 the two have Unix sockets instead of pipes, and a full socket instead of a full pipe.
 * mutex: the thread "holder" computes for so long with a mutex, and two spinning workers compete with it for the CPU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOOKED __attribute__((noinline, visibility("default")))

enum { PIPE_BYTES = 65536 };

static long long wait_us;
static int to_partner[2], from_partner[2], locked = -1;
static char page[PIPE_BYTES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

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

static void burn(void)
{
	long long end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + wait_us * 1000;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		continue;
}

static void nap(long long us)
{
	struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&pause, NULL);
}

static void must(bool is_done)
{
	if (!is_done)
		_exit(1);
}

static bool is_way(char **argv, const char *way)
{
	return strcmp(argv[1], way) == 0;
}

enum { PAGES = 64, STRIDE = 8 * 4096 }; /* without readahead */
static volatile long long *read_ns; /* in which the partner read pages; shared with it */

static void read_pages(void)
{
	long long before_ns = clock_ns(CLOCK_MONOTONIC);
	volatile char *pages = mmap(NULL, PAGES * STRIDE, PROT_READ, MAP_SHARED, locked, 0);

	must(pages != MAP_FAILED && madvise((void *)pages, PAGES * STRIDE, MADV_RANDOM) == 0);
	for (int i = 0; i < PAGES; i++)
		(void)pages[i * STRIDE];
	*read_ns += clock_ns(CLOCK_MONOTONIC) - before_ns;
	must(munmap((void *)pages, PAGES * STRIDE) == 0);
}

static void forget_pages(void)
{
	must(posix_fadvise(locked, 0, 0, POSIX_FADV_DONTNEED) == 0);
}

/* Begins to follow the parent's requests, one byte each. */
static pid_t start_partner(char **argv)
{
	pid_t partner = fork();
	char byte;

	if (partner)
		return partner;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "partner");
	if (is_way(argv, "stopped")) {
		while (read(to_partner[0], page, sizeof(page)) > 0)
			continue;
		_exit(0);
	}
	if (is_way(argv, "write")) {
		for (;;) {
			nap(wait_us);
			must(read(to_partner[0], page, sizeof(page)) == sizeof(page));
		}
	}
	if (!is_way(argv, "pipe"))
		locked = open(argv[4], O_RDWR); /* a lock belongs to an open file, which fork() shares */
	while (read(to_partner[0], &byte, 1) == 1) {
		if (is_way(argv, "pages")) {
			read_pages();
			burn();
			forget_pages();
			must(write(from_partner[1], &byte, 1) == 1);
			continue;
		}
		if (is_way(argv, "pipe")) {
			nap(wait_us);
			must(write(from_partner[1], &byte, 1) == 1);
			continue;
		}
		must(flock(locked, LOCK_EX) == 0 && write(from_partner[1], &byte, 1) == 1);
		nap(wait_us);
		must(flock(locked, LOCK_UN) == 0);
	}
	_exit(0);
}

static int is_held; /* by the holder */

static void *hold(void *argument)
{
	prctl(PR_SET_NAME, "holder");
	for (;;) {
		pthread_mutex_lock(&mutex);
		__atomic_store_n(&is_held, 1, __ATOMIC_SEQ_CST);
		burn();
		pthread_mutex_unlock(&mutex);
		while (__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))
			nap(100);
	}
	return argument;
}

static void start_holder(void)
{
	pthread_t one;

	must(pthread_create(&one, NULL, hold, NULL) == 0);
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				burn();
		}
}

/* What comes before the wait, in no gap. */
static void prepare(char **argv)
{
	char byte = 0;

	if (is_way(argv, "file") || is_way(argv, "worker-file"))
		must(write(to_partner[1], &byte, 1) == 1 && read(from_partner[0], &byte, 1) == 1);
	else if (is_way(argv, "pages")) {
		must(write(to_partner[1], &byte, 1) == 1);
		nap(wait_us / 2);
	} else if (is_way(argv, "mutex"))
		while (!__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))
			nap(100);
}

static void wait_once(char **argv)
{
	char byte = 0;

	if (is_way(argv, "write") || is_way(argv, "stopped")) {
		must(write(to_partner[1], page, sizeof(page)) == sizeof(page));
	} else if (is_way(argv, "pages")) {
		must(read(from_partner[0], &byte, 1) == 1);
	} else if (is_way(argv, "pipe")) {
		must(write(to_partner[1], &byte, 1) == 1 && read(from_partner[0], &byte, 1) == 1);
	} else if (is_way(argv, "mutex")) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		__atomic_store_n(&is_held, 0, __ATOMIC_SEQ_CST);
	} else {
		must(flock(locked, LOCK_EX) == 0);
		flock(locked, LOCK_UN);
	}
}

static bool has_sockets(void)
{
	return getenv("AWAITED_UNIX");
}

/* ends[0] is read, ends[1] is written. */
static bool connect_ends(int *ends)
{
	return has_sockets() ? socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 : pipe(ends) == 0;
}

/* Returns once a process sleeps. One that was woken runs from then on. */
static void await_sleep(pid_t tgid)
{
	char path[32], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", tgid);
	while (state != 'S') {
		FILE *file = fopen(path, "r");

		must(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
		fclose(file);
		if (state != 'S')
			nap(1000);
	}
}

/* The next write of a page has to wait until the partner reads. */
static void fill(void)
{
	if (has_sockets())
		while (send(to_partner[1], page, sizeof(page), MSG_DONTWAIT) > 0)
			continue;
	else
		must(write(to_partner[1], page, sizeof(page)) == sizeof(page));
}

int main(int argc, char **argv)
{
	long long waited_ns = 0, before_ns;
	pid_t partner;

	if (argc < 4 || !connect_ends(to_partner) || !connect_ends(from_partner))
		return 2;
	wait_us = atoll(argv[3]);
	read_ns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (is_way(argv, "worker-file") || is_way(argv, "pages"))
		cudaLaunchKernel(); /* processes forked after the first call belong to the job */
	partner = is_way(argv, "mutex") ? 0 : start_partner(argv);
	cudaLaunchKernel();
	if (is_way(argv, "mutex"))
		start_holder();
	if (argc > 4)
		locked = open(argv[4], O_RDWR);
	nap(10000);
	if (is_way(argv, "stopped")) {
		await_sleep(partner); /* in its read */
		must(write(to_partner[1], page, 1) == 1); /* wakes it */
		await_sleep(partner); /* in its next read */
		kill(partner, SIGSTOP);
		must(waitpid(partner, NULL, WUNTRACED) == partner);
	}
	if (is_way(argv, "write") || is_way(argv, "stopped"))
		fill();
	for (int i = 0; i < atoi(argv[2]); i++) {
		prepare(argv);
		cudaStreamSynchronize();
		before_ns = clock_ns(CLOCK_MONOTONIC);
		wait_once(argv);
		waited_ns += clock_ns(CLOCK_MONOTONIC) - before_ns;
		cudaLaunchKernel();
	}
	printf("{\"waited_ns\":%lld,\"read_ns\":%lld}\n", waited_ns, *read_ns);
	return 0;
}
