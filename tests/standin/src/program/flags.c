// SPDX-License-Identifier: Apache-2.0
#include "program/flags.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *choice_at(const struct flag *flag, int index, size_t *length)
{
    const char *text = flag->choices;

    while (index-- > 0)
        text = strchr(text, '|') + 1;
    *length = strcspn(text, "|");
    return text;
}

static void print_help(const struct flag *flags, const char *usage)
{
    printf("usage: %s\n\n", usage);
    for (const struct flag *flag = flags; flag->name; flag++) {
        char left[64];
        size_t length;

        snprintf(left, sizeof(left), flag->kind == FLAG_SWITCH ? "--%s" : "--%s=X", flag->name);
        printf("  %-26s %s", left, flag->help);
        if (flag->kind == FLAG_NUMBER || flag->kind == FLAG_SIGNED)
            printf(" (%jd)", (intmax_t) * (int64_t *)flag->value);
        if (flag->kind == FLAG_DECIMAL)
            printf(" (%g)", *(double *)flag->value);
        if (flag->kind == FLAG_CHOICE) {
            const char *choice = choice_at(flag, *(int *)flag->value, &length);
            printf(": %s (%.*s)", flag->choices, (int)length, choice);
        }
        puts("");
    }
    exit(0);
}

static bool set_choice(const struct flag *flag, const char *text)
{
    int index = 0;

    for (const char *choice = flag->choices; choice; index++) {
        size_t length = strcspn(choice, "|");

        if (strlen(text) == length && strncmp(choice, text, length) == 0) {
            *(int *)flag->value = index;
            return true;
        }
        choice = choice[length] ? choice + length + 1 : NULL;
    }
    return false;
}

static bool set_value(const struct flag *flag, const char *text)
{
    char *end = NULL;

    errno = 0;
    switch (flag->kind) {
    case FLAG_SWITCH:
        *(int *)flag->value = 1;
        return text == NULL;
    case FLAG_TEXT:
        *(const char **)flag->value = text;
        return text && *text;
    case FLAG_CHOICE:
        return text && set_choice(flag, text);
    case FLAG_NUMBER:
    case FLAG_SIGNED:
        if (text)
            *(int64_t *)flag->value = strtoll(text, &end, 10);
        break;
    case FLAG_DECIMAL:
        if (text)
            *(double *)flag->value = strtod(text, &end);
        break;
    }
    return text && *text && end && !*end && !errno && (text[0] != '-' || flag->kind == FLAG_SIGNED);
}

int flags_read(const struct flag *flags, int argc, char **argv, const char *usage)
{
    int index = 1;

    for (; index < argc && strncmp(argv[index], "--", 2) == 0; index++) {
        const char *name = argv[index] + 2, *text = strchr(name, '=');
        size_t length = text ? (size_t)(text - name) : strlen(name);
        const struct flag *flag = flags;

        if (strcmp(name, "help") == 0)
            print_help(flags, usage);
        while (flag->name && (strlen(flag->name) != length || strncmp(flag->name, name, length) != 0))
            flag++;
        if (!flag->name || !set_value(flag, text ? text + 1 : NULL)) {
            fprintf(stderr, "%s: %s: %s; --help lists all flags\n", argv[0], argv[index],
                    flag->name ? "wrong value" : "unknown flag");
            exit(2);
        }
    }
    return index;
}
