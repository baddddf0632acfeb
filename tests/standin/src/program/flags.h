// SPDX-License-Identifier: Apache-2.0
//
// --name=value flags from a table, for all programs.
#ifndef STANDIN_FLAGS_H
#define STANDIN_FLAGS_H

#include <stdint.h>

enum flag_kind { FLAG_NUMBER, FLAG_SIGNED, FLAG_DECIMAL, FLAG_TEXT, FLAG_CHOICE, FLAG_SWITCH };

struct flag {
    const char *name;
    enum flag_kind kind;
    void *value; // int64_t, int64_t, double, const char *, int (index of the choice), int (0 or 1)
    const char *help;
    const char *choices; // of FLAG_CHOICE, separated by |
};

// Sets the values given in argv and returns the index of the first argument that is not a flag. --help prints the table and
// exits with 0. An unknown or malformed flag prints one line and exits with 2.
int flags_read(const struct flag *flags, int argc, char **argv, const char *usage);

#endif
