// SPDX-License-Identifier: Apache-2.0
#include "failures.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULES = 32, EVERY_CALL = 0 };

static struct {
    char function[64];
    int code;
    long call;
    atomic_long calls_seen;
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

int failure_code_by_rules(const char *function)
{
    int code = 0;

    for (int i = 0; i < failure_rules; i++) {
        if (strcmp(rule[i].function, function) != 0)
            continue;
        long call = atomic_fetch_add(&rule[i].calls_seen, 1) + 1;
        if (rule[i].call == EVERY_CALL || rule[i].call == call)
            code = rule[i].code;
    }
    return code;
}
