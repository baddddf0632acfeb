// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's libnvidia-ml.so.1. A file sets what it reports; nvml/state.h has the syntax.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvml/api.h"
#include "nvml/state.h"

#define EXPORT __attribute__((visibility("default")))

enum { LINKS = 18, MIG_DEVICES = 7, LOOK_AGAIN_NS = 5000000, PCIE_NS = 20000000 };
enum { FIELDS_BY_LINK = 161, FIELDS_BY_LINK_END = 164 };

struct handle {
    int gpu;
    long instance; // NONE: the GPU itself
    long long generation;
};
struct event_set {
    struct handle *device;
    long reported; // the latest sequence
};

static struct handle handles[MAX_GPUS], instances[MAX_GPUS][MAX_INSTANCES];
static _Atomic long users, reloads_at_init;

static void pause_ns(long duration_ns)
{
    nanosleep(&(struct timespec){.tv_nsec = duration_ns}, NULL);
}

static int answer_of_rules(const struct state *state, const char *function, int gpu)
{
    int what = 0;

    for (int i = 0; i < state->rules; i++) {
        const struct rule *rule = &state->rule[i];

        if (strcmp(rule->function, function) == 0 && (rule->gpu == NONE || rule->gpu == gpu))
            what = rule->what;
    }
    return what;
}

// The start of every call: reads the state and returns the error that the call must end with. Hangs if the state says hang.
static nvmlReturn_t begin(struct state *state, const char *function, const struct handle *device)
{
    int what;

    read_state(state);
    while ((what = answer_of_rules(state, function, device ? device->gpu : NONE)) == HANG) {
        pause_ns(LOOK_AGAIN_NS);
        read_state(state);
    }
    if (what)
        return what;
    if (users == 0 || state->reloads != reloads_at_init)
        return NVML_ERROR_UNINITIALIZED;
    if (!device)
        return NVML_SUCCESS;
    if (device->generation != state->gpu[device->gpu].handles)
        return NVML_ERROR_INVALID_ARGUMENT;
    return state->gpu[device->gpu].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

#define BEGIN(device)                                            \
    struct state state;                                          \
    nvmlReturn_t begun = begin(&state, __func__, (device));      \
    if (begun)                                                   \
        return begun

#define DEFINE_NUMBER(function, type, key)                       \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *to)  \
    {                                                            \
        BEGIN(device);                                           \
        *to = (type)state.gpu[device->gpu].key;                  \
        return NVML_SUCCESS;                                     \
    }

static nvmlReturn_t tell_text(const char *text, char *to, unsigned length)
{
    return (unsigned)snprintf(to, length, "%s", text) < length ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    struct state state;
    int what;

    (void)flags;
    read_state(&state);
    while ((what = answer_of_rules(&state, "nvmlInitWithFlags", NONE)) == HANG) {
        pause_ns(LOOK_AGAIN_NS);
        read_state(&state);
    }
    if (what)
        return what;
    if (state.reloads < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    users++;
    reloads_at_init = state.reloads;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    BEGIN(NULL);
    users--;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    return result ? "an error of the stand-in" : "no error";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    BEGIN(NULL);
    return tell_text(state.driver, version, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    BEGIN(NULL);
    *count = (unsigned)state.devices;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    struct handle wanted = {.gpu = (int)index, .instance = NONE};
    struct state state;
    nvmlReturn_t begun;

    if (index >= MAX_GPUS)
        return NVML_ERROR_INVALID_ARGUMENT;
    begun = begin(&state, __func__, &wanted);
    wanted.generation = state.gpu[index].handles;
    if (begun == NVML_ERROR_INVALID_ARGUMENT) // the handle that this call creates
        begun = state.gpu[index].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
    if (begun)
        return begun;
    if ((int)index >= state.devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    handles[index] = wanted;
    *device = &handles[index];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    BEGIN(device);
    *index = (unsigned)device->gpu;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    char text[TEXT + 16];

    BEGIN(device);
    snprintf(text, sizeof(text), "%s%s", state.gpu[device->gpu].name, device->instance == NONE ? "" : " MIG 1g.10gb");
    return tell_text(text, name, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    char text[TEXT + 32];

    BEGIN(device);
    if (device->instance == NONE)
        return tell_text(state.gpu[device->gpu].uuid, uuid, length);
    snprintf(text, sizeof(text), "MIG-%ld-%s", device->instance, state.gpu[device->gpu].uuid);
    return tell_text(text, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    BEGIN(device);
    *pci = (nvmlPciInfo_t){.bus = (unsigned)device->gpu + 1};
    return tell_text(state.gpu[device->gpu].bus_id, pci->bus_id, sizeof(pci->bus_id));
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned *mhz)
{
    BEGIN(device);
    *mhz = (unsigned)(clock == NVML_CLOCK_MEM ? state.gpu[device->gpu].memory_clock : state.gpu[device->gpu].sm_clock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned *mhz)
{
    const struct gpu *gpu;

    BEGIN(device);
    gpu = &state.gpu[device->gpu];
    *mhz = (unsigned)(clock == NVML_CLOCK_MEM ? gpu->memory_clock_max : gpu->sm_clock_max);
    return NVML_SUCCESS;
}

DEFINE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, reasons)
DEFINE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, reasons)
DEFINE_NUMBER(nvmlDeviceGetPowerUsage, unsigned, power)
DEFINE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit)
DEFINE_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, link_generation)
DEFINE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, link_generation_max)
DEFINE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, link_width)
DEFINE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, link_width_max)

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius)
{
    (void)sensor;
    BEGIN(device);
    *celsius = (unsigned)state.gpu[device->gpu].temperature;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int threshold, unsigned *celsius)
{
    BEGIN(device);
    if (threshold != NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = (unsigned)state.gpu[device->gpu].slowdown;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    BEGIN(device);
    utilization->gpu = (unsigned)state.gpu[device->gpu].utilization;
    utilization->memory = (unsigned)state.gpu[device->gpu].memory_utilization;
    return NVML_SUCCESS;
}

// The memory of a GPU or of a MIG instance; false when the instance does not exist.
static bool memory_of(const struct gpu *gpu, long instance, nvmlMemory_v2_t *memory)
{
    if (instance == NONE) {
        memory->total = (unsigned long long)gpu->memory_total;
        memory->used = (unsigned long long)gpu->memory_used;
        memory->reserved = (unsigned long long)gpu->memory_reserved;
        memory->free = memory->total - memory->used - memory->reserved;
        return true;
    }
    for (int i = 0; i < gpu->instances; i++) {
        if (gpu->instance[i].id == instance) {
            memory->total = gpu->instance[i].total;
            memory->used = gpu->instance[i].used;
            memory->reserved = 0;
            memory->free = memory->total - memory->used;
            return true;
        }
    }
    return false;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t found;

    BEGIN(device);
    if (!memory_of(&state.gpu[device->gpu], device->instance, &found))
        return NVML_ERROR_INVALID_ARGUMENT;
    *memory = (nvmlMemory_t){.total = found.total, .free = found.free, .used = found.used + found.reserved};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    BEGIN(device);
    if (memory->version != NVML_MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return memory_of(&state.gpu[device->gpu], device->instance, memory) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int direction, unsigned *kilobytes)
{
    const struct gpu *gpu;

    BEGIN(device);
    gpu = &state.gpu[device->gpu];
    pause_ns(PCIE_NS); // as long as the real call measures
    *kilobytes = (unsigned)(direction == NVML_PCIE_UTIL_TX_BYTES ? gpu->pcie_sent : gpu->pcie_received);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    BEGIN(device);
    for (int i = 0; i < count; i++) {
        const struct gpu *gpu = &state.gpu[device->gpu];
        nvmlFieldValue_t *value = &values[i];

        value->result = NVML_ERROR_NOT_SUPPORTED;
        if (value->field >= FIELDS_BY_LINK && value->field < FIELDS_BY_LINK_END && value->scope >= LINKS)
            continue;
        for (int f = 0; f < gpu->fields; f++) {
            if (gpu->field[f].id != value->field || !gpu->field[f].is_supported)
                continue;
            value->result = NVML_SUCCESS;
            value->type = gpu->field[f].is_narrow ? NVML_VALUE_TYPE_UNSIGNED_INT : NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            value->value.u64 = gpu->field[f].value;
        }
    }
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    BEGIN(device);
    if (state.gpu[device->gpu].mig < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = (unsigned)state.gpu[device->gpu].mig;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    BEGIN(device);
    *count = MIG_DEVICES;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance)
{
    const struct gpu *gpu;

    BEGIN(device);
    gpu = &state.gpu[device->gpu];
    if ((int)index >= gpu->instances || gpu->mig != 1)
        return NVML_ERROR_NOT_FOUND;
    instances[device->gpu][index] = (struct handle){device->gpu, gpu->instance[index].id, gpu->handles};
    *instance = &instances[device->gpu][index];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
    BEGIN(device);
    if (device->instance == NONE)
        return NVML_ERROR_NOT_SUPPORTED;
    *id = (unsigned)device->instance;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *processes)
{
    const struct gpu *gpu;
    unsigned found = 0, room = *count;

    BEGIN(device);
    gpu = &state.gpu[device->gpu];
    for (int i = 0; i < gpu->processes; i++) {
        const struct process *one = &gpu->process[i];

        if (device->instance != NONE && one->instance != device->instance)
            continue;
        if (found < room)
            processes[found] = (nvmlProcessInfo_t){.pid = (unsigned)one->pid, .used_bytes = one->bytes,
                                                   .gpu_instance = (unsigned)one->instance, .compute_instance = ~0U};
        found++;
    }
    *count = found;
    return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    BEGIN(NULL);
    *set = calloc(1, sizeof(**set));
    return *set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    BEGIN(NULL);
    free(set);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    const struct gpu *gpu;

    BEGIN(device);
    if (types != NVML_EVENT_TYPE_XID)
        return NVML_ERROR_NOT_SUPPORTED;
    gpu = &state.gpu[device->gpu];
    set->device = device;
    for (int i = 0; i < gpu->xids; i++)
        if (gpu->xid[i].sequence > set->reported)
            set->reported = gpu->xid[i].sequence;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    const struct xid *next = NULL;
    struct state state;
    nvmlReturn_t begun = begin(&state, __func__, set->device);

    (void)timeout_ms;
    if (begun && begun != NVML_ERROR_GPU_IS_LOST) // events from before the GPU was lost are reported
        return begun;
    for (int i = 0; set->device && i < state.gpu[set->device->gpu].xids; i++) {
        const struct xid *one = &state.gpu[set->device->gpu].xid[i];

        if (one->sequence > set->reported && (!next || one->sequence < next->sequence))
            next = one;
    }
    if (!next)
        return begun ? begun : NVML_ERROR_TIMEOUT;
    set->reported = next->sequence;
    *data = (nvmlEventData_t){.device = set->device, .type = NVML_EVENT_TYPE_XID, .data = (unsigned long long)next->number,
                              .gpu_instance = ~0U, .compute_instance = ~0U};
    return NVML_SUCCESS;
}
