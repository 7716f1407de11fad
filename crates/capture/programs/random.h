/* SPDX-License-Identifier: MIT OR Apache-2.0
 * A small generator (xorshift64*), and arguments with defaults. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t next_random(uint64_t *state)
{
   *state ^= *state >> 12;
   *state ^= *state << 25;
   *state ^= *state >> 27;
   return *state * 0x2545f4914f6cdd1dull;
}

static inline uint64_t argument(int argc, char **argv, int index, uint64_t otherwise)
{
   return argc > index ? strtoull(argv[index], NULL, 0) : otherwise;
}

#endif
