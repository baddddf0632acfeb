// SPDX-License-Identifier: Apache-2.0
//
// Errors and delays on demand: STANDIN_FAIL and standin_set_delay() of standin.h.
#ifndef STANDIN_FAILURES_H
#define STANDIN_FAILURES_H

#include <stdint.h>

extern int failure_rules;
int failure_code_by_rules(const char *function);
// Every later call of the function uses this much CPU time more; 0: none. Not thread-safe.
void set_delay(const char *function, int64_t delay_ns);

// The error that this call must return instead of doing anything, 0: none. Counts and delays the call.
static inline int failure_code(const char *function)
{
    return __builtin_expect(failure_rules != 0, 0) ? failure_code_by_rules(function) : 0;
}

#endif
