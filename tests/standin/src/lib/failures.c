// SPDX-License-Identifier: Apache-2.0
#include "lib/failures.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/waiting.h"

enum { RULES = 32, EVERY_CALL = 0, NO_CALL = -1 };

static struct {
    char function[64];
    int code;
    long call;
    atomic_long calls_seen;
    _Atomic int64_t delay_ns;
} rule[RULES];

int failure_rules;

__attribute__((constructor)) static void read_rules(void)
{
    const char *text = getenv("STANDIN_FAIL");

    while (text && *text && failure_rules < RULES) {
        char call[24] = "";

        if (sscanf(text, "%63[^:]:%d:%23[0-9*]", rule[failure_rules].function, &rule[failure_rules].code, call) != 3) {
            fprintf(stderr, "standin: STANDIN_FAIL: expected name:code:call at \"%s\"\n", text);
            _Exit(2);
        }
        rule[failure_rules].call = call[0] == '*' ? EVERY_CALL : atol(call);
        failure_rules++;
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
}

void set_delay(const char *function, int64_t delay_ns)
{
    int i = 0;

    while (i < failure_rules && (rule[i].call != NO_CALL || strcmp(rule[i].function, function) != 0))
        i++;
    if (i == RULES)
        return;
    atomic_store(&rule[i].delay_ns, delay_ns);
    if (i < failure_rules)
        return;
    rule[i].call = NO_CALL;
    snprintf(rule[i].function, sizeof(rule[i].function), "%s", function);
    failure_rules++;
}

static void be_busy_for(int64_t delay_ns)
{
    int64_t end_ns = now_ns() + delay_ns;

    while (now_ns() < end_ns)
        wait_one_turn(WAIT_SPIN);
}

int failure_code_by_rules(const char *function)
{
    int code = 0;

    for (int i = 0; i < failure_rules; i++) {
        if (strcmp(rule[i].function, function) != 0)
            continue;
        if (rule[i].delay_ns)
            be_busy_for(rule[i].delay_ns);
        long call = atomic_fetch_add(&rule[i].calls_seen, 1) + 1;
        if (rule[i].call == EVERY_CALL || rule[i].call == call)
            code = rule[i].code;
    }
    return code;
}
