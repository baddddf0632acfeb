// SPDX-License-Identifier: Apache-2.0
#include "nvml/state.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml/api.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)
#define NUMBER(key) {#key, offsetof(struct gpu, key)}

static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    NUMBER(reasons),         NUMBER(sm_clock),            NUMBER(sm_clock_max), NUMBER(memory_clock),
    NUMBER(power),           NUMBER(memory_clock_max),    NUMBER(power_limit),  NUMBER(temperature),
    NUMBER(slowdown),        NUMBER(utilization),         NUMBER(memory_total), NUMBER(memory_utilization),
    NUMBER(memory_used),     NUMBER(memory_reserved),     NUMBER(link_width),   NUMBER(link_width_max),
    NUMBER(link_generation), NUMBER(link_generation_max), NUMBER(pcie_sent),    NUMBER(pcie_received),
    NUMBER(lost),            NUMBER(handles),             NUMBER(mig),
};
static const struct {
    const char *word;
    int what;
} answers[] = {
    {"hang", HANG},
    {"missing", NVML_ERROR_FUNCTION_NOT_FOUND},
    {"unsupported", NVML_ERROR_NOT_SUPPORTED},
    {"denied", NVML_ERROR_NO_PERMISSION},
    {"lost", NVML_ERROR_GPU_IS_LOST},
    {"unknown", NVML_ERROR_UNKNOWN},
};
// Field ids of a Hopper: memory temperature, energy, ECC errors, remapped rows, PCIe replays and bytes, NVLink bytes and errors.
static const unsigned default_fields[] = {82, 83, 3, 4, 142, 143, 144, 145, 94, 197, 198, 138, 139, 161, 162, 163};

static void set_defaults(struct state *state)
{
    const char *devices = getenv("STANDIN_DEVICES");

    memset(state, 0, sizeof(*state));
    strcpy(state->driver, "550.54.15");
    state->devices = devices && *devices ? atoi(devices) : 8;
    for (int i = 0; i < MAX_GPUS; i++) {
        struct gpu *gpu = &state->gpu[i];

        *gpu = (struct gpu){.sm_clock = 1980, .sm_clock_max = 1980, .memory_clock = 2619, .memory_clock_max = 2619,
                            .power = 120000, .power_limit = 700000, .temperature = 40, .slowdown = 90,
                            .memory_total = 80 * GIB, .memory_reserved = 512 * MIB,
                            .link_generation = 5, .link_generation_max = 5, .link_width = 16, .link_width_max = 16};
        strcpy(gpu->name, "Stand-in GPU");
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-00000000-0000-0000-0000-%012x", i);
        snprintf(gpu->bus_id, sizeof(gpu->bus_id), "00000000:%02X:00.0", i + 1);
        for (size_t f = 0; f < sizeof(default_fields) / sizeof(*default_fields); f++)
            gpu->field[gpu->fields++] = (struct field){.id = default_fields[f], .is_supported = true};
    }
}

static bool set_text(char *to, size_t size, const char *text)
{
    return *text && (size_t)snprintf(to, size, "%s", text) < size;
}

static bool set_field(struct gpu *gpu, const char *text)
{
    struct field found = {.is_supported = true};
    char value[32];
    int i = 0;

    if (sscanf(text, "%u %31s", &found.id, value) != 2)
        return false;
    found.is_narrow = strncmp(value, "u32:", 4) == 0;
    if (strcmp(value, "none") == 0)
        found.is_supported = false;
    else
        found.value = strtoull(value + (found.is_narrow ? 4 : 0), NULL, 0);
    while (i < gpu->fields && gpu->field[i].id != found.id)
        i++;
    if (i == MAX_FIELDS)
        return false;
    gpu->field[i] = found;
    gpu->fields += i == gpu->fields;
    return true;
}

static bool add_process(struct gpu *gpu, long instance, const char *text)
{
    struct process found = {.instance = instance};
    char bytes[32];

    if (gpu->processes == MAX_PROCESSES || sscanf(text, "%ld %31s", &found.pid, bytes) != 2)
        return false;
    found.bytes = strcmp(bytes, "none") == 0 ? ~0ULL : strtoull(bytes, NULL, 0);
    gpu->process[gpu->processes++] = found;
    return true;
}

static bool add_instance(struct gpu *gpu, const char *text)
{
    struct instance found;

    if (gpu->instances == MAX_INSTANCES || sscanf(text, "%ld %llu %llu", &found.id, &found.total, &found.used) != 3)
        return false;
    gpu->instance[gpu->instances++] = found;
    return true;
}

static bool add_xid(struct gpu *gpu, const char *text)
{
    struct xid found;

    if (gpu->xids == MAX_XIDS || sscanf(text, "%ld %ld", &found.sequence, &found.number) != 2)
        return false;
    gpu->xid[gpu->xids++] = found;
    return true;
}

static bool set_key(struct gpu *gpu, const char *key, const char *text)
{
    long instance;
    int read = 0;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *(long long *)((char *)gpu + numbers[i].offset) = strtoll(text, NULL, 0);
            return *text;
        }
    }
    if (strcmp(key, "name") == 0)
        return set_text(gpu->name, sizeof(gpu->name), text);
    if (strcmp(key, "uuid") == 0)
        return set_text(gpu->uuid, sizeof(gpu->uuid), text);
    if (strcmp(key, "bus_id") == 0)
        return set_text(gpu->bus_id, sizeof(gpu->bus_id), text);
    if (strcmp(key, "field") == 0)
        return set_field(gpu, text);
    if (strcmp(key, "process") == 0)
        return add_process(gpu, NONE, text);
    if (strcmp(key, "instance") == 0)
        return add_instance(gpu, text);
    if (strcmp(key, "instance_process") == 0)
        return sscanf(text, "%ld %n", &instance, &read) == 1 && add_process(gpu, instance, text + read);
    return strcmp(key, "xid") == 0 && add_xid(gpu, text);
}

static bool set_gpu(struct state *state, const char *text)
{
    char which[8], key[32];
    int read = 0, first = 0, last = MAX_GPUS - 1;

    if (sscanf(text, "%7s %31s %n", which, key, &read) != 2)
        return false;
    if (strcmp(which, "*") != 0)
        first = last = atoi(which);
    if (first < 0 || last >= MAX_GPUS)
        return false;
    for (int i = first; i <= last; i++)
        if (!set_key(&state->gpu[i], key, text + read))
            return false;
    return true;
}

static bool add_rule(struct state *state, const char *text)
{
    struct rule *rule = &state->rule[state->rules];
    char what[32];
    int gpu = NONE, read;

    if (state->rules == MAX_RULES)
        return false;
    read = sscanf(text, "%95s %31s %d", rule->function, what, &gpu);
    if (read < 2)
        return false;
    rule->gpu = gpu;
    rule->what = atoi(what);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        if (strcmp(what, answers[i].word) == 0)
            rule->what = answers[i].what;
    state->rules++;
    return rule->what != 0;
}

static bool set_line(struct state *state, char *line)
{
    char word[16];
    int read = 0;

    line[strcspn(line, "#\n")] = '\0';
    for (size_t end = strlen(line); end && line[end - 1] == ' '; end--)
        line[end - 1] = '\0';
    if (sscanf(line, "%15s %n", word, &read) != 1)
        return true;
    if (strcmp(word, "gpu") == 0)
        return set_gpu(state, line + read);
    if (strcmp(word, "call") == 0)
        return add_rule(state, line + read);
    if (strcmp(word, "driver") == 0)
        return set_text(state->driver, sizeof(state->driver), line + read);
    if (strcmp(word, "devices") == 0)
        return sscanf(line + read, "%d", &state->devices) == 1;
    return strcmp(word, "reloads") == 0 && sscanf(line + read, "%ld", &state->reloads) == 1;
}

void read_state(struct state *state)
{
    const char *path = getenv("STANDIN_NVML_STATE");
    FILE *file = path && *path ? fopen(path, "re") : NULL;
    char line[256];

    set_defaults(state);
    while (file && fgets(line, sizeof(line), file)) {
        if (!set_line(state, line)) {
            fprintf(stderr, "standin: STANDIN_NVML_STATE: not understood: %s\n", line);
            _Exit(2);
        }
    }
    if (file)
        fclose(file);
    if (state->devices < 0 || state->devices > MAX_GPUS)
        state->devices = MAX_GPUS;
}
