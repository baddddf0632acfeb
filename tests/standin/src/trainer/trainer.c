// SPDX-License-Identifier: Apache-2.0
//
// The parent: starts the ranks, as torchrun does, and ends them.
#define _GNU_SOURCE
#include "trainer/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 64, GRACE_MS = 800 };

// "rank,world size,read end,write end" makes a process a rank. An observer must not use it.
static const char worker_variable[] = "STANDIN_TRAINER_WORKER";

static void start_rank(int rank, const int id_pipe[2], char **argv, pid_t parent)
{
    char value[64];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    snprintf(value, sizeof(value), "%d,%d,%d,%d", rank, (int)settings.ranks, id_pipe[0], id_pipe[1]);
    setenv(worker_variable, value, 1);
    if (settings.rank_from == RANK_FROM_ENV) {
        snprintf(value, sizeof(value), "%d", rank);
        setenv("RANK", value, 1);
        setenv("LOCAL_RANK", value, 1);
        snprintf(value, sizeof(value), "%d", (int)settings.ranks);
        setenv("WORLD_SIZE", value, 1);
        setenv("LOCAL_WORLD_SIZE", value, 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", "29500", 1);
    } else {
        unsetenv("RANK");
        unsetenv("LOCAL_RANK");
        unsetenv("WORLD_SIZE");
        unsetenv("LOCAL_WORLD_SIZE");
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    // By its own path: otherwise the process would be named "exe".
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length > 0) {
        path[length] = '\0';
        execv(path, argv);
    }
    perror("trainer: exec");
    _exit(1);
}

static void kill_all(const pid_t *tgid, int signal)
{
    for (int i = 0; i < settings.ranks; i++)
        if (tgid[i] > 0)
            kill(tgid[i], signal);
}

// Handles one rank that has ended, or else waits for a signal, at most wait_ms (0: without limit).
static void reap(pid_t *tgid, int *worst, const sigset_t *signals, int64_t wait_ms, int *signal)
{
    struct timespec limit = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    int status;
    pid_t ended;

    *signal = 0;
    ended = waitpid(-1, &status, WNOHANG);
    if (ended <= 0) {
        *signal = wait_ms ? sigtimedwait(signals, NULL, &limit) : sigwaitinfo(signals, NULL);
        return;
    }
    for (int i = 0; i < settings.ranks; i++)
        if (tgid[i] == ended)
            tgid[i] = 0;
    if (status && !*worst)
        *worst = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_any_left(const pid_t *tgid)
{
    for (int i = 0; i < settings.ranks; i++)
        if (tgid[i])
            return true;
    return false;
}

static int supervise(pid_t *tgid, const sigset_t *signals)
{
    int worst = 0, signal = 0;
    bool is_ending = false, was_signalled = false;

    while (is_any_left(tgid)) {
        reap(tgid, &worst, signals, is_ending ? GRACE_MS : 0, &signal);
        if (is_ending && signal < 0 && errno == EAGAIN) {
            // A rank in a collective with one that has ended would never finish.
            kill_all(tgid, SIGKILL);
        } else if (!is_ending && (signal == SIGTERM || signal == SIGINT)) {
            is_ending = was_signalled = true;
            kill_all(tgid, SIGTERM);
        } else if (!is_ending && worst && !settings.keep_going) {
            is_ending = true;
            kill_all(tgid, SIGTERM);
        }
    }
    return was_signalled ? 0 : worst;
}

static int parent_main(char **argv)
{
    pid_t tgid[MAX_RANKS] = {0}, parent = getpid();
    sigset_t signals;
    int id_pipe[2];

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (pipe(id_pipe) < 0) {
        perror("trainer: pipe");
        return 1;
    }
    fflush(stdout);
    for (int rank = 0; rank < settings.ranks; rank++) {
        tgid[rank] = fork();
        if (tgid[rank] == 0)
            start_rank(rank, id_pipe, argv, parent);
        if (tgid[rank] < 0) {
            perror("trainer: fork");
            kill_all(tgid, SIGKILL);
            return 1;
        }
    }
    return supervise(tgid, &signals);
}

int main(int argc, char **argv)
{
    const char *worker = getenv(worker_variable);
    struct place place = {.id_pipe = {-1, -1}};

    settings_read(argc, argv);
    if (settings.id_file) {
        place.rank = (int)settings.rank;
        place.world_size = (int)settings.world_size;
        place.local_rank = (int)(settings.local_rank < 0 ? settings.rank : settings.local_rank);
        return rank_main(&place);
    }
    if (!worker)
        return parent_main(argv);
    if (sscanf(worker, "%d,%d,%d,%d", &place.rank, &place.world_size, &place.id_pipe[0], &place.id_pipe[1]) != 4) {
        fprintf(stderr, "trainer: %s is reserved\n", worker_variable);
        return 2;
    }
    place.local_rank = place.rank;
    return rank_main(&place);
}
