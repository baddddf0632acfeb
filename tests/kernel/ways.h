/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to wait, by name, for waits.c: each function waits about as long as wait_us says, or as long as what it does takes.
 * WAITS_FILE and WAITS_SCRATCH: files to read and to write.
 */
#ifndef WAYS_H
#define WAYS_H

#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long wait_us = 1000;
static int pair[2];
static char *page;

enum { CROWD = 50 };
static long long least_ns; /* lower bound of the lifetimes of a crowd, measured by the threads themselves */
static long long most_ns;  /* upper bound, from before the creation of each thread to after its join */

int cudaEventRecord(void (*inside)(void)); /* probed; threads call it */

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void spin(void)
{
	long long end_ns = now_ns() + wait_us * 1000;

	while (now_ns() < end_ns)
		continue;
}

/* Uses this much CPU time. */
static void burn(void)
{
	struct timespec used;
	long long end_ns;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	end_ns = used.tv_sec * 1000000000LL + used.tv_nsec + wait_us * 1000;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	while (used.tv_sec * 1000000000LL + used.tv_nsec < end_ns);
}

static void nap(void)
{
	struct timespec pause = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000};

	nanosleep(&pause, NULL);
}

static void in_poll(void)
{
	poll(NULL, 0, (int)(wait_us / 1000));
}

static void in_select(void)
{
	struct timeval timeout = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};

	select(0, NULL, NULL, NULL, &timeout);
}

static void in_epoll(void)
{
	struct epoll_event event;
	int set = epoll_create1(0);

	epoll_wait(set, &event, 1, (int)(wait_us / 1000));
	close(set);
}

static void in_futex(void)
{
	struct timespec pause = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000};
	unsigned int word = 0;

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
}

static void in_timerfd(void)
{
	struct itimerspec in = {.it_value = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000}};
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	unsigned long long times;

	timerfd_settime(timer, 0, &in, NULL);
	if (read(timer, &times, sizeof(times)) < 0)
		exit(1);
	close(timer);
}

/* The parent, with which the process ends, sleeps (S) or is stopped (T) when this returns. */
static void await_parent(char wanted)
{
	char path[32], text[512], *name_end;
	int file;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/stat", getppid());
	file = open(path, O_RDONLY);
	for (;; usleep(100)) {
		ssize_t length = pread(file, text, sizeof(text) - 1, 0);

		if (length <= 0)
			_exit(1);
		text[length] = 0;
		name_end = strrchr(text, ')');
		if (name_end && name_end[2] == wanted)
			break;
	}
	close(file);
}

static int is_polled; /* poll() before each read */

static void child_naps_and_writes(int from)
{
	struct pollfd polled = {.fd = from, .events = POLLIN};
	pid_t child = fork();
	char byte = 0;

	if (child == 0) {
		await_parent('S');
		nap();
		_exit(write(pair[1], &byte, 1) != 1);
	}
	if ((is_polled && poll(&polled, 1, -1) != 1) || read(from, &byte, 1) != 1)
		exit(1);
	waitpid(child, NULL, 0);
}

static void in_pipe(void)
{
	if (pipe(pair) < 0)
		exit(1);
	child_naps_and_writes(pair[0]);
	close(pair[0]);
	close(pair[1]);
}

static void in_unix_socket(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		exit(1);
	child_naps_and_writes(pair[0]);
	close(pair[0]);
	close(pair[1]);
}

static void in_socket(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&address, length) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (void *)&address, &length) < 0 || connect(pair[0], (void *)&address, length) < 0)
		exit(1);
	pair[1] = accept(listener, NULL, NULL);
	close(listener);
	child_naps_and_writes(pair[0]);
	close(pair[0]);
	close(pair[1]);
}

static void in_polled_socket(void)
{
	is_polled = 1;
	in_socket();
}

static void in_polled_unix_socket(void)
{
	is_polled = 1;
	in_unix_socket();
}

static void in_polled_pipe(void)
{
	is_polled = 1;
	in_pipe();
}

/* Two sockets: which one the wait is for is unknown. */
static void in_polled_sockets(void)
{
	struct pollfd polled[2] = {{.events = POLLIN}, {.events = POLLIN}};

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		exit(1);
	polled[0].fd = pair[0];
	polled[1].fd = pair[1];
	poll(polled, 2, (int)(wait_us / 1000));
	close(pair[0]);
	close(pair[1]);
}

/* For a client that never connects. */
static void in_polled_listener(void)
{
	struct pollfd polled = {.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};

	if (listen(polled.fd, 1) < 0)
		exit(1);
	poll(&polled, 1, (int)(wait_us / 1000));
	close(polled.fd);
}

static void in_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		await_parent('S');
		nap();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void stopped(void)
{
	pid_t child = fork();

	if (child == 0) {
		await_parent('T');
		nap();
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
	waitpid(child, NULL, 0);
}

static void yields(void)
{
	long long end_ns = now_ns() + wait_us * 1000;

	while (now_ns() < end_ns)
		sched_yield();
}

static void forks(void)
{
	pid_t child = fork();

	if (child == 0)
		return; /* through the call's return, as the parent does later */
	waitpid(child, NULL, 0);
}

/* WAITS_FILE with O_DIRECT, and WAITS_SCRATCH. Opened before the first call, because a path look-up may wait as well. */
static int direct = -1, scratch = -1;

static void open_files(void)
{
	if (getenv("WAITS_FILE"))
		direct = open(getenv("WAITS_FILE"), O_RDONLY | O_DIRECT);
	if (getenv("WAITS_SCRATCH"))
		scratch = open(getenv("WAITS_SCRATCH"), O_WRONLY | O_CREAT, 0600);
	if (posix_memalign((void **)&page, 4096, 1 << 20) != 0)
		exit(1);
}

static void reads(void)
{
	if (pread(direct, page, 1 << 20, 0) < 0)
		exit(1);
}

/* Allocates one more MiB each time, and never frees any. */
static void eats(void)
{
	volatile char *more = malloc(1 << 20);

	for (long at = 0; more && at < 1 << 20; at += 4096)
		more[at] = 1;
}

/* fsync() of one page. */
static void in_fsync(void)
{
	if (pwrite(scratch, "x", 1, 0) != 1 || fsync(scratch) < 0)
		exit(1);
}

static volatile char *mapped(off_t *size)
{
	static volatile char *found;
	int file;

	if (!found) {
		file = open(getenv("WAITS_FILE"), O_RDONLY);
		*size = lseek(file, 0, SEEK_END);
		found = mmap(NULL, *size, PROT_READ, MAP_SHARED, file, 0);
		if (*size < 0 || found == MAP_FAILED)
			exit(1);
	}
	return found;
}

/* The whole file, one page at a time. */
static void maps(void)
{
	static off_t size;
	volatile char *pages = mapped(&size);

	for (off_t at = 0; at < size; at += 4096)
		(void)pages[at];
}

/* Every sixteenth page, without readahead. */
static void pages(void)
{
	static off_t size;
	volatile char *pages = mapped(&size);

	madvise((void *)pages, size, MADV_RANDOM);
	for (off_t at = 0; at < size; at += 16 * 4096)
		(void)pages[at];
}

static void ends(void)
{
	nap();
	_exit(0);
}

static void dies(void)
{
	nap();
	raise(SIGKILL);
}

struct life {
	long long began_ns, ended_ns;
};

static void *thread(void *argument)
{
	struct life *own = argument;
	long long began_ns = now_ns();

	cudaEventRecord(nap);
	if (own)
		*own = (struct life){.began_ns = began_ns, .ended_ns = now_ns()};
	return argument;
}

static void threads(void)
{
	pthread_t one;

	if (pthread_create(&one, NULL, thread, NULL) != 0)
		exit(1);
	pthread_join(one, NULL);
}

/* This many threads at once. */
static void crowd(void)
{
	pthread_t all[CROWD];
	struct life lives[CROWD];
	long long before_ns[CROWD], after_ns[CROWD];

	for (int i = 0; i < CROWD; i++) {
		before_ns[i] = now_ns();
		if (pthread_create(&all[i], NULL, thread, &lives[i]) != 0)
			exit(1);
		after_ns[i] = now_ns();
	}
	for (int i = 0; i < CROWD; i++) {
		pthread_join(all[i], NULL);
		most_ns += now_ns() - before_ns[i];
		least_ns += lives[i].ended_ns - (lives[i].began_ns < after_ns[i] ? lives[i].began_ns : after_ns[i]);
	}
}

static const struct {
	const char *name;
	void (*wait)(void);
} ways[] = {
	{"spin", spin},	      {"burn", burn},	{"nap", nap},	      {"poll", in_poll},    {"select", in_select},
	{"epoll", in_epoll},  {"futex", in_futex}, {"timerfd", in_timerfd}, {"pipe", in_pipe},  {"socket", in_socket},
	{"unix-socket", in_unix_socket}, {"polled-unix-socket", in_polled_unix_socket},
	{"polled-socket", in_polled_socket}, {"polled-pipe", in_polled_pipe}, {"polled-sockets", in_polled_sockets},
	{"polled-listener", in_polled_listener}, {"fsync", in_fsync},
	{"child", in_child},  {"stopped", stopped}, {"yields", yields}, {"forks", forks},   {"reads", reads},
	{"ends", ends},	      {"dies", dies},	{"threads", threads},  {"crowd", crowd},	    {"maps", maps},	    {"pages", pages},
	{"eats", eats},
};

#endif
