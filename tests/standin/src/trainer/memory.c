// SPDX-License-Identifier: Apache-2.0
//
// Host memory that the step thread uses in each step, like temporary arrays and mapped data sets. It is cheap while memory is
// free; otherwise it causes direct reclaim and major page faults.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/random.h"
#include "trainer/trainer.h"

enum { PAGE = 4096 };

static const char *map;
static uint64_t map_pages;

void memory_prepare(void)
{
    struct stat facts;
    int file;

    if (!settings.map_file)
        return;
    file = open(settings.map_file, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) < 0 || facts.st_size < PAGE) {
        perror(settings.map_file);
        exit(1);
    }
    map_pages = (uint64_t)facts.st_size / PAGE;
    map = mmap(NULL, map_pages * PAGE, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) {
        perror(settings.map_file);
        exit(1);
    }
    // No readahead: one page per fault.
    madvise((void *)map, map_pages * PAGE, MADV_RANDOM);
}

static void touch_new_memory(void)
{
    size_t bytes = (size_t)settings.touch_bytes;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return;
    for (size_t at = 0; at < bytes; at += PAGE)
        ((volatile char *)memory)[at] = 1;
    munmap(memory, bytes);
}

void memory_use(uint64_t step)
{
    uint64_t pages = map_pages ? (uint64_t)settings.map_bytes / PAGE : 0;

    if (settings.touch_bytes > 0)
        touch_new_memory();
    for (uint64_t i = 0; i < pages; i++)
        (void)((volatile const char *)map)[random_of((uint64_t)settings.seed + step, i) % map_pages * PAGE];
}
