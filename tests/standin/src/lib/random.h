// SPDX-License-Identifier: Apache-2.0
//
// Pseudo-random numbers by splitmix64: each depends on the seed and its index alone.
#ifndef STANDIN_RANDOM_H
#define STANDIN_RANDOM_H

#include <stdint.h>

static inline uint64_t random_of(uint64_t seed, uint64_t place)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + place + 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// value plus or minus spread, uniformly distributed.
static inline uint64_t spread_around(uint64_t value, uint64_t spread, uint64_t random)
{
    return value - spread + random % (2 * spread + 1);
}

#endif
