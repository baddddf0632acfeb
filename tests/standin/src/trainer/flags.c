// SPDX-License-Identifier: Apache-2.0
//
// The trainer's flags and their defaults: a step of about 15 ms on the GPU.
#include <stdio.h>
#include <stdlib.h>

#include "program/flags.h"
#include "trainer/trainer.h"

struct settings settings = {
    .ranks = 2,
    .seed = 1,
    .forward_kernels = 40,
    .backward_kernels = 80,
    .optimizer_kernels = 10,
    .kernel_us = 100,
    .backward_kernel_us = 100,
    .optimizer_kernel_us = 50,
    .buckets = 4,
    .bucket_bytes = 25 << 20,
    .collective_us = 500,
    .loader_workers = 2,
    .loader_compute_us = 2000,
    .prefetch = 2,
    .batch_bytes = 1 << 20,
    .sync_every = 1,
    .allocate_every = 10,
    .evaluate_every = 50,
    .watchdog_ms = 100,
    .map_bytes = 4 << 20,
    .fault_rank = -1,
    .fault_us = 20000,
    .fault_threads = 2,
    .fault_bytes = 64 << 20,
    .fault_factor = 2,
    .local_rank = -1,
};

static const struct flag table[] = {
    {"ranks", FLAG_NUMBER, &settings.ranks, "rank processes to start", NULL},
    {"steps", FLAG_NUMBER, &settings.steps, "number of steps, 0: endless", NULL},
    {"seed", FLAG_NUMBER, &settings.seed, "seed of every random length", NULL},
    {"rank-from", FLAG_CHOICE, &settings.rank_from, "where an observer finds the rank", "env|nccl"},
    {"sync", FLAG_CHOICE, &settings.sync, "how a synchronising call waits", "spin|yield|block"},
    {"quiet", FLAG_SWITCH, &settings.quiet, "print the final lines only", NULL},
    {"keep-going", FLAG_SWITCH, &settings.keep_going, "when a rank dies, let the others run on", NULL},
    {"forward-kernels", FLAG_NUMBER, &settings.forward_kernels, "kernels of a forward pass", NULL},
    {"backward-kernels", FLAG_NUMBER, &settings.backward_kernels, "kernels of a backward pass", NULL},
    {"optimizer-kernels", FLAG_NUMBER, &settings.optimizer_kernels, "kernels of the optimizer", NULL},
    {"kernel-us", FLAG_NUMBER, &settings.kernel_us, "length of a forward kernel", NULL},
    {"backward-kernel-us", FLAG_NUMBER, &settings.backward_kernel_us, "length of a backward kernel", NULL},
    {"optimizer-kernel-us", FLAG_NUMBER, &settings.optimizer_kernel_us, "length of an optimizer kernel", NULL},
    {"jitter-percent", FLAG_DECIMAL, &settings.jitter_percent, "kernels and batches vary by this much, plus or minus", NULL},
    {"buckets", FLAG_NUMBER, &settings.buckets, "gradient buckets, one all-reduce each, at most 64", NULL},
    {"bucket-bytes", FLAG_NUMBER, &settings.bucket_bytes, "bytes of a bucket", NULL},
    {"collective-us", FLAG_NUMBER, &settings.collective_us, "length of a collective, 0: derived from its bytes", NULL},
    {"loader-workers", FLAG_NUMBER, &settings.loader_workers, "DataLoader processes per rank, at most 64", NULL},
    {"loader-compute-us", FLAG_NUMBER, &settings.loader_compute_us, "CPU time of a batch", NULL},
    {"loader-sleep-us", FLAG_NUMBER, &settings.loader_sleep_us, "sleep of a batch, as for remote storage", NULL},
    {"loader-read-bytes", FLAG_NUMBER, &settings.loader_read_bytes, "bytes read from --loader-file for a batch", NULL},
    {"loader-file", FLAG_TEXT, &settings.loader_file, "the file to read from", NULL},
    {"loader-direct", FLAG_SWITCH, &settings.loader_direct, "read past the page cache", NULL},
    {"loader-connect", FLAG_TEXT, &settings.loader_connect, "server to fetch batches from: ADDRESS:PORT", NULL},
    {"loader-fetch-bytes", FLAG_NUMBER, &settings.loader_fetch_bytes, "bytes of a batch from --loader-connect", NULL},
    {"prefetch", FLAG_NUMBER, &settings.prefetch, "batches that a worker makes in advance, at most 16", NULL},
    {"batch-bytes", FLAG_NUMBER, &settings.batch_bytes, "bytes of a batch", NULL},
    {"host-us", FLAG_NUMBER, &settings.host_us, "CPU time before each forward and optimizer launch", NULL},
    {"pace-us", FLAG_NUMBER, &settings.pace_us, "minimum length of a step; the rest is slept", NULL},
    {"sync-every", FLAG_NUMBER, &settings.sync_every, "read the loss every so many steps, 0: never", NULL},
    {"allocate-every", FLAG_NUMBER, &settings.allocate_every, "allocate in the stream every so many steps", NULL},
    {"evaluate-every", FLAG_NUMBER, &settings.evaluate_every, "make the less frequent calls every so many steps", NULL},
    {"watchdog-ms", FLAG_NUMBER, &settings.watchdog_ms, "poll interval of the NCCL watchdog", NULL},
    {"touch-bytes", FLAG_NUMBER, &settings.touch_bytes, "new memory that the step thread touches in each step", NULL},
    {"map-file", FLAG_TEXT, &settings.map_file, "file mapped into memory and read in each step", NULL},
    {"map-bytes", FLAG_NUMBER, &settings.map_bytes, "how much of --map-file, as single pages", NULL},
    {"fault", FLAG_CHOICE, &settings.fault, "the fault",
     "none|loader-compute|loader-sleep|loader-read|lock|spinners|copy|gpu|straggler|hang|phase|oom|oom-retry|host|"
     "switches|crash|leak|churn|recapture|abandon|cold"},
    {"fault-from-step", FLAG_NUMBER, &settings.fault_from_step, "first step with the fault, 0: never", NULL},
    {"fault-to-step", FLAG_NUMBER, &settings.fault_to_step, "first step after the fault, 0: the fault stays", NULL},
    {"fault-every", FLAG_NUMBER, &settings.fault_every, "steps from one fault window to the next, 0: one window", NULL},
    {"fault-rank", FLAG_SIGNED, &settings.fault_rank, "rank with the fault, -1: all", NULL},
    {"fault-us", FLAG_NUMBER, &settings.fault_us, "length of the fault, where it has one", NULL},
    {"fault-bytes", FLAG_NUMBER, &settings.fault_bytes, "bytes of loader-read, copy, leak, churn", NULL},
    {"fault-factor", FLAG_DECIMAL, &settings.fault_factor, "gpu: slowdown factor; phase: factor on the number of kernels", NULL},
    {"fault-threads", FLAG_NUMBER, &settings.fault_threads, "number of spinners, switchers, churn or recapture operations", NULL},
    {"fault-holder", FLAG_CHOICE, &settings.fault_holder, "lock: what the thread with the lock does", "sleep|burn"},
    {"rank", FLAG_NUMBER, &settings.rank, "with --id-file: run as this rank, start no others", NULL},
    {"world-size", FLAG_NUMBER, &settings.world_size, "with --id-file: number of ranks", NULL},
    {"local-rank", FLAG_NUMBER, &settings.local_rank, "with --id-file: the device", NULL},
    {"id-file", FLAG_TEXT, &settings.id_file, "file with the NCCL id, written by rank 0, for ranks started separately", NULL},
    {NULL, FLAG_NUMBER, NULL, NULL, NULL},
};

static void refuse(const char *text)
{
    fprintf(stderr, "trainer: %s\n", text);
    exit(2);
}

void settings_read(int argc, char **argv)
{
    if (flags_read(table, argc, argv, "trainer [--flag=value ...]") < argc)
        refuse("takes flags only; --help lists them");
    if (settings.ranks < 1 || settings.ranks > 64)
        refuse("--ranks must be 1 to 64");
    if (settings.buckets < 1 || settings.buckets > 64)
        refuse("--buckets must be 1 to 64");
    if (settings.loader_workers > 64 || settings.prefetch < 1 || settings.prefetch > 16)
        refuse("--loader-workers must be at most 64, --prefetch 1 to 16");
    if (settings.batch_bytes < 8)
        refuse("--batch-bytes must be at least 8");
    if (settings.loader_read_bytes && !settings.loader_file)
        refuse("--loader-read-bytes needs --loader-file");
    if (!settings.loader_connect != !settings.loader_fetch_bytes || settings.loader_fetch_bytes > 64 << 20)
        refuse("--loader-connect needs --loader-fetch-bytes, at most 64 MiB, and vice versa");
    if (settings.fault_threads > 64 || settings.fault_factor <= 0)
        refuse("--fault-threads must be at most 64, --fault-factor above 0");
    if (settings.fault == FAULT_LOADER_READ && !settings.loader_file)
        refuse("--fault=loader-read needs --loader-file");
    if (settings.id_file && (settings.world_size < 1 || settings.rank >= settings.world_size))
        refuse("--id-file needs --world-size, and --rank below it");
    if (settings.watchdog_ms < 1)
        refuse("--watchdog-ms must be at least 1");
}
