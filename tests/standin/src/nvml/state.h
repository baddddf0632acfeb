// SPDX-License-Identifier: Apache-2.0
//
// The file that sets what the stand-in's libnvidia-ml.so.1 reports. STANDIN_NVML_STATE names it; every call reads it again.
// Without one the defaults below apply. To change it, write a new file and rename it over the old one. A line with a syntax
// error ends the program with exit code 2.
//
//     driver VERSION                  (550.54.15)
//     devices N                       (STANDIN_DEVICES, else 8)
//     reloads N                       how often the driver was reloaded (0). After a change every call returns UNINITIALIZED
//                                     until the next nvmlInit(). -1: the driver is not loaded
//     call FUNCTION WHAT [GPU]        what a function does, for one GPU or for all: `hang`, until the line is removed;
//                                     `missing`, as in an older driver; `unsupported`, `denied`, `lost`, `unknown`, or the
//                                     number of an error
//     gpu N KEY VALUE                 N: the GPU, or * for all. Later lines win. KEY:
//
//     name, uuid, bus_id              texts; a name may have spaces
//     reasons                         bits of the clocks' event reasons (0)
//     sm_clock, sm_clock_max, memory_clock, memory_clock_max            MHz (1980, 1980, 2619, 2619)
//     power, power_limit              mW (120000, 700000)
//     temperature, slowdown           degrees (40, 90)
//     utilization, memory_utilization percent (0, 0)
//     memory_total, memory_used, memory_reserved                        bytes (80 GiB, 0, 512 MiB)
//     link_generation, link_generation_max, link_width, link_width_max  of PCIe (5, 5, 16, 16)
//     pcie_sent, pcie_received        kB per second (0, 0)
//     lost                            1: it has fallen off the bus
//     handles                         a change invalidates every handle of this GPU and its MIG instances (0)
//     mig                             1 on, 0 off, -1 not supported (0)
//     field ID VALUE                  a field value, 64 bits wide; VALUE `none`: not supported; `u32:NUMBER`: 32 bits wide
//     process PID BYTES               a process on the GPU; BYTES `none`: not reported
//     instance GI TOTAL USED          a MIG instance, with its memory in bytes
//     instance_process GI PID BYTES   a process on a MIG instance
//     xid SEQUENCE NUMBER             an XID error. SEQUENCE: from 1. Errors from before nvmlDeviceRegisterEvents() are not
//                                     reported
#ifndef STANDIN_NVML_STATE_H
#define STANDIN_NVML_STATE_H

#include <stdbool.h>

enum { MAX_GPUS = 16, MAX_RULES = 16, MAX_FIELDS = 48, MAX_PROCESSES = 32, MAX_INSTANCES = 8, MAX_XIDS = 32, TEXT = 96 };
enum { HANG = -1, NONE = -1 };

struct rule {
    char function[TEXT];
    int what; // HANG, or the error that it returns
    int gpu; // NONE: on all
};
struct field {
    unsigned id;
    unsigned long long value;
    bool is_supported, is_narrow;
};
struct process {
    long pid, instance; // instance: NONE for the GPU itself
    unsigned long long bytes;
};
struct instance {
    long id;
    unsigned long long total, used;
};
struct xid {
    long sequence, number;
};
struct gpu {
    char name[TEXT], uuid[TEXT], bus_id[32];
    long long reasons, sm_clock, sm_clock_max, memory_clock, memory_clock_max, power, power_limit, temperature, slowdown;
    long long utilization, memory_utilization, memory_total, memory_used, memory_reserved;
    long long link_generation, link_generation_max, link_width, link_width_max, pcie_sent, pcie_received;
    long long lost, handles, mig;
    int fields, processes, instances, xids;
    struct field field[MAX_FIELDS];
    struct process process[MAX_PROCESSES];
    struct instance instance[MAX_INSTANCES];
    struct xid xid[MAX_XIDS];
};
struct state {
    char driver[TEXT];
    int devices, rules;
    long reloads;
    struct rule rule[MAX_RULES];
    struct gpu gpu[MAX_GPUS];
};

void read_state(struct state *state);

#endif
