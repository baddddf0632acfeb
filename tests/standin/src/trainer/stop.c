// SPDX-License-Identifier: Apache-2.0
//
// The end of a rank: its signals, and the final line that it prints.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "program/counted.h"
#include "program/usage.h"
#include "trainer/trainer.h"

volatile sig_atomic_t must_stop;

static void on_signal(int signal)
{
    (void)signal;
    // A second signal ends the process at once.
    if (must_stop)
        _exit(0);
    must_stop = 1;
}

void stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

void print_final(const struct rank *rank)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    char *line = NULL;
    size_t length = 0;
    FILE *to;

    if (atomic_flag_test_and_set(&printed))
        return;
    if (rank->is_on_terminal) {
        dprintf(STDOUT_FILENO, "rank %d: ended after %ju steps\n", rank->place.rank,
                (uintmax_t)atomic_load(&rank->steps_done));
        return;
    }
    to = open_memstream(&line, &length);
    fprintf(to, "{\"type\":\"final\",\"rank\":%d,\"tgid\":%d,\"steps\":%ju,", rank->place.rank, (int)getpid(),
            (uintmax_t)atomic_load(&rank->steps_done));
    counted_json(to);
    fputs(",", to);
    usage_json(to);
    fputs("}\n", to);
    fclose(to);
    for (size_t done = 0; done < length;) {
        ssize_t written = write(STDOUT_FILENO, line + done, length - done);

        if (written <= 0)
            break;
        done += (size_t)written;
    }
    free(line);
}
