/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * interpret STEPS: an interpreter of random operations, one indirect jump each.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"

int main(int argc, char **argv)
{
   static unsigned char program[4096];
   uint64_t steps = argument(argc, argv, 1, 10000000), state = 88172645463325252ull, x = 1;
   for (unsigned i = 0; i < sizeof program; i++)
      program[i] = next_random(&state) >> 61;
   for (uint64_t i = 0; i < steps; i++)
      switch (program[i % sizeof program]) {
      case 0: x += i; break;
      case 1: x ^= x >> 7; break;
      case 2: x *= 3; break;
      case 3: x -= 5; break;
      case 4: x = x << 3 | x >> 61; break;
      case 5: x |= i & 1; break;
      case 6: x = ~x; break;
      default: x += x >> 3; break;
      }
   printf("%llu\n", (unsigned long long)x);
}
