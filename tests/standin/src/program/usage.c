// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "program/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { NAMES = 64, COMM_BYTES = 64 };

struct usage {
    char comm[COMM_BYTES];
    uint64_t wall_ns, cpu_ns, run_delay_ns, switches_given, switches_taken;
};

static int64_t read_clock(clockid_t clock)
{
    struct timespec now = {0};

    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int64_t thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t thread_runnable_ns(void)
{
    static int file = -1;
    char text[96] = "";
    uintmax_t cpu_ns, runnable_ns = 0;

    if (file < 0)
        file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && pread(file, text, sizeof(text) - 1, 0) > 0)
        sscanf(text, "%ju %ju", &cpu_ns, &runnable_ns);
    return (int64_t)runnable_ns;
}

// The content of a thread's file in /proc; false when the thread has ended.
static bool read_of(const char *tid, const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t length;
    int file;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/%.16s", tid, name);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    length = read(file, text, size - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static uint64_t number_after(const char *text, const char *label)
{
    const char *found = strstr(text, label);

    return found ? strtoull(found + strlen(label), NULL, 10) : 0;
}

// Field 22 of stat, counted from the end of the name, which may contain spaces and parentheses.
static uint64_t start_ns(const char *stat)
{
    const char *at = strrchr(stat, ')');

    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

// The CPU clock of any thread of this process, as pthread_getcpuclockid() returns it. Unlike schedstat it is current while
// the thread runs.
static clockid_t cpu_clock_of(pid_t tid)
{
    return (clockid_t)((~(unsigned int)tid << 3) | 6);
}

static struct usage *place_for(struct usage *usages, int *names, const char *comm)
{
    for (int i = 0; i < *names; i++)
        if (strcmp(usages[i].comm, comm) == 0)
            return &usages[i];
    if (*names == NAMES)
        return &usages[NAMES - 1];
    strcpy(usages[*names].comm, comm);
    return &usages[(*names)++];
}

static void add_thread(struct usage *usages, int *names, const char *tid)
{
    char comm[COMM_BYTES], stat[1024], schedstat[96], status[4096];
    uint64_t now_ns = (uint64_t)read_clock(CLOCK_BOOTTIME), began_ns;
    struct usage *usage;

    if (!read_of(tid, "comm", comm, sizeof(comm)) || !read_of(tid, "stat", stat, sizeof(stat)) ||
        !read_of(tid, "status", status, sizeof(status)))
        return;
    comm[strcspn(comm, "\n")] = '\0';
    began_ns = start_ns(stat);
    usage = place_for(usages, names, comm);
    usage->wall_ns += now_ns > began_ns ? now_ns - began_ns : 0;
    usage->cpu_ns += (uint64_t)read_clock(cpu_clock_of((pid_t)atoi(tid)));
    if (read_of(tid, "schedstat", schedstat, sizeof(schedstat)))
        usage->run_delay_ns += number_after(schedstat, " ");
    usage->switches_given += number_after(status, "\nvoluntary_ctxt_switches:");
    usage->switches_taken += number_after(status, "\nnonvoluntary_ctxt_switches:");
}

// A name is bytes; those that JSON does not allow become \u00XX.
static void print_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++)
        if (*byte < ' ' || *byte > '~' || *byte == '"' || *byte == '\\')
            fprintf(to, "\\u%04x", *byte);
        else
            fputc(*byte, to);
    fputc('"', to);
}

void usage_json(FILE *to)
{
    struct usage *usages = calloc(NAMES, sizeof(*usages));
    DIR *threads = opendir("/proc/self/task");
    struct rusage process = {0};
    int names = 0;

    for (struct dirent *thread; usages && threads && (thread = readdir(threads));)
        if (thread->d_name[0] != '.')
            add_thread(usages, &names, thread->d_name);
    if (threads)
        closedir(threads);
    fputs("\"threads\":{", to);
    for (int i = 0; i < names; i++) {
        fputs(i ? "," : "", to);
        print_text(to, usages[i].comm);
        fprintf(to, ":{\"wall_ns\":%ju,\"cpu_ns\":%ju,\"run_delay_ns\":%ju,\"nvcsw\":%ju,\"nivcsw\":%ju}",
                (uintmax_t)usages[i].wall_ns, (uintmax_t)usages[i].cpu_ns, (uintmax_t)usages[i].run_delay_ns,
                (uintmax_t)usages[i].switches_given, (uintmax_t)usages[i].switches_taken);
    }
    free(usages);
    getrusage(RUSAGE_SELF, &process);
    fprintf(to, "},\"majflt\":%ld", process.ru_majflt);
}
