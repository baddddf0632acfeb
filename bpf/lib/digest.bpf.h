/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A one-way hash (SHA-256, FIPS 180-4) of a key and 128 bytes, for names that programs choose and that are published: no
 * program can make another name with the hash of a given one. Only rare calls pay for it.
 */
#ifndef GPUSTALL_DIGEST_BPF_H
#define GPUSTALL_DIGEST_BPF_H

#include "process.bpf.h"

#define DIGEST_WORDS 16 /* of the message, 64 bits each */
#define DIGEST_BLOCKS 3 /* of 64 bytes: 16 of the key, 128 of the message, 9 or more of padding */
#define DIGEST_ROUNDS 64
#define DIGEST_BITS (8 * (HASH_KEY_WORDS + DIGEST_WORDS) * sizeof(u64))

static const u32 digest_constants[DIGEST_ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
	0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
	0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

struct digest_message {
	u64 words[DIGEST_WORDS];
};

struct digest_state {
	u32 sums[8];
	u32 working[8]; /* a to h of the standard */
	u32 schedule[16]; /* of the present block */
};

static __always_inline u32 rotated(u32 x, u32 bits)
{
	return x >> bits | x << (32 - bits);
}

/* One round. A function of its own, so that the loop around it keeps nothing on the stack, of which kernel 6.1 loses track. */
__noinline int digest_round(struct digest_state *state, u32 round)
{
	if (!state)
		return 0;
	u32 *v = state->working, *words = state->schedule;

	if (round >= 16) {
		u32 x = words[(round + 1) & 15], y = words[(round + 14) & 15];

		words[round & 15] += (rotated(x, 7) ^ rotated(x, 18) ^ x >> 3) + (rotated(y, 17) ^ rotated(y, 19) ^ y >> 10) +
				     words[(round + 9) & 15];
	}
	u32 first = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) +
		    digest_constants[round & (DIGEST_ROUNDS - 1)] + words[round & 15];
	u32 second = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) +
		     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

	v[7] = v[6];
	v[6] = v[5];
	v[5] = v[4];
	v[4] = v[3] + first;
	v[3] = v[2];
	v[2] = v[1];
	v[1] = v[0];
	v[0] = first + second;
	return 0;
}

/* One block; its words are in the schedule. */
__noinline int digest_block(struct digest_state *state)
{
	if (!state)
		return 0;
	for (u32 i = 0; i < 8; i++)
		state->working[i] = state->sums[i];
	_Pragma("clang loop unroll(disable)") for (u64 i = 0; i < DIGEST_ROUNDS; i++)
		digest_round(state, i);
	for (u32 i = 0; i < 8; i++)
		state->sums[i] += state->working[i];
	return 0;
}

/* Word `at` of key, message and padding, 64 bits as they lie in memory. */
__noinline u64 digest_input(struct digest_message *message, u32 at)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	if (!own || !message)
		return 0;
	if (at < HASH_KEY_WORDS)
		return own->hash_key[at & (HASH_KEY_WORDS - 1)];
	if (at < HASH_KEY_WORDS + DIGEST_WORDS)
		return message->words[(at - HASH_KEY_WORDS) & (DIGEST_WORDS - 1)];
	if (at == HASH_KEY_WORDS + DIGEST_WORDS)
		return 0x80;
	return at == DIGEST_BLOCKS * 8 - 1 ? __builtin_bswap64(DIGEST_BITS) : 0;
}

/* The first 64 bits of the hash. */
__noinline u64 digest_of(struct digest_message *message)
{
	struct digest_state state = {.sums = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
					      0x5be0cd19}};

	if (!message)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u64 block = 0; block < DIGEST_BLOCKS; block++)
	{
		_Pragma("clang loop unroll(disable)") for (u64 i = 0; i < 8; i++)
		{
			u64 word = __builtin_bswap64(digest_input(message, block * 8 + i));

			state.schedule[2 * i] = word >> 32;
			state.schedule[2 * i + 1] = word;
		}
		digest_block(&state);
	}
	return (u64)state.sums[0] << 32 | state.sums[1];
}

#endif
