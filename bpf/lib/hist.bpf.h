/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The slot of a duration in an exponential histogram of scale 3, aligned to seconds.
 * The same in Python: exporter/units.py; tests/kernel/test_hist.py compares the two over the whole range.
 */
#ifndef GPUSTALL_HIST_BPF_H
#define GPUSTALL_HIST_BPF_H

#include "kernel.bpf.h"
#include "../abi/hist.h"

/*
 * Nanoseconds to units of 2^-30 s, so that bucket edges are powers of 2 in seconds: 2^30 / 10^9 = 1.073741824 is approximated by
 * 1 + 1237182 / 2^24. Never too large, so exactly 1 s counts as le="1"; too small by at most 3e-8 and one unit. The clamp to 2^43 ns
 * (2.4 hours, beyond the last edge) keeps the product below 2^64.
 */
static __always_inline u64 duration_units(u64 duration_ns)
{
	if (duration_ns > 1ULL << 43)
		duration_ns = 1ULL << 43;
	return duration_ns + (duration_ns * 1237182 >> 24);
}

/*
 * floor(2^(HIST_OCTAVES + j/8)) for j = 1 .. 7: where the eighths of an octave end, scaled up. If an octave is cut into eight linear
 * parts, each of the first seven parts holds one of these ends, and the last part holds none.
 */
static const u64 eighth_ends[8] = {
	4796103728980ULL, 5230188203117ULL, 5703560678794ULL, 6219777023950ULL,
	6782714940072ULL, 7396603090612ULL, 8066052865769ULL, ~0ULL,
};

/*
 * Slot k with 2^((k-1)/8) < units <= 2^(k/8): the octave is the top bit of units - 1, which makes the upper edge inclusive, as `le`
 * requires. The eighth is the number of the linear part, plus one if the value lies beyond the end inside that part.
 */
static __always_inline u32 hist_slot(u64 units)
{
	if (units <= 1)
		return 0;
	if (units > 1ULL << HIST_OCTAVES)
		return HIST_SLOTS - 1;

	u64 rest = units - 1;
	u32 octave = 0;
	if (rest >> 32) {
		octave += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		octave += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		octave += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		octave += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		octave += 2;
		rest >>= 2;
	}
	octave += rest >> 1;

	u64 scaled = units << (HIST_OCTAVES - octave); /* in (2^HIST_OCTAVES, 2^(HIST_OCTAVES + 1)] */
	u32 part = (scaled - 1) >> (HIST_OCTAVES - 3) & 7;
	u32 eighth = part + (scaled > eighth_ends[part]);

	return 8 * octave + eighth + 1;
}

#endif
