// SPDX-License-Identifier: Apache-2.0
//
// The final line of a process: one JSON object with its calls, its waits and what it used of the machine.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calls/calls.h"
#include "program/usage.h"

static _Atomic uint64_t waits, waits_wall_ns, waits_delay_ns, jumps;

void report_wait(uint64_t wall_ns, uint64_t delay_ns)
{
    waits++;
    waits_wall_ns += wall_ns;
    waits_delay_ns += delay_ns;
}

void report_jump(void)
{
    jumps++;
}

void report_print(int rank)
{
    char *line = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&line, &length);

    fprintf(to, "{\"type\":\"final\",\"rank\":%d,\"tgid\":%d,", rank, (int)getpid());
    counted_json(to);
    fprintf(to, ",\"waits\":{\"count\":%ju,\"wall_ns\":%ju,\"delay_ns\":%ju},\"jumps\":%ju,", (uintmax_t)waits,
            (uintmax_t)waits_wall_ns, (uintmax_t)waits_delay_ns, (uintmax_t)jumps);
    usage_json(to);
    fputs("}\n", to);
    fclose(to);
    if (write(STDOUT_FILENO, line, length) < 0)
        exit(1);
    free(line);
}
