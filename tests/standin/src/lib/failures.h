// SPDX-License-Identifier: Apache-2.0
//
// Errors and delays on demand: STANDIN_FAIL and standin_set_delay() of standin.h.
#ifndef STANDIN_FAILURES_H
#define STANDIN_FAILURES_H

#include <stdint.h>

extern int failure_rules;
int failure_code_by_rules(const char *function);
// From here on every call takes so much CPU time more; 0: none. By one thread.
void set_delay(const char *function, int64_t delay_ns);

// The code that this call shall return instead of doing anything, 0: none. Counts the call, and delays it.
static inline int failure_code(const char *function)
{
    return __builtin_expect(failure_rules != 0, 0) ? failure_code_by_rules(function) : 0;
}

#endif
