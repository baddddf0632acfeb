// SPDX-License-Identifier: Apache-2.0
//
// Errors on demand: STANDIN_FAIL of standin.h.
#ifndef STANDIN_FAILURES_H
#define STANDIN_FAILURES_H

extern int failure_rules;
int failure_code_by_rules(const char *function);

// The code that this call shall return instead of doing anything, 0: none. Counts the call.
static inline int failure_code(const char *function)
{
    return __builtin_expect(failure_rules != 0, 0) ? failure_code_by_rules(function) : 0;
}

#endif
