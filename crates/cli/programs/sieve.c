/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sieve LIMIT ROUNDS: the primes below a limit, by the sieve of Eratosthenes.
 */
#include <stdio.h>
#include <string.h>

#include "../../capture/programs/random.h"

int main(int argc, char **argv)
{
   uint64_t limit = argument(argc, argv, 1, 200000), rounds = argument(argc, argv, 2, 100), primes = 0;
   char *composite = malloc(limit);
   if (!composite)
      return 1;
   for (uint64_t round = 0; round < rounds; round++) {
      memset(composite, 0, limit);
      for (uint64_t i = 2; i * i < limit; i++)
         if (!composite[i])
            for (uint64_t j = i * i; j < limit; j += i)
               composite[j] = 1;
      for (uint64_t i = 2; i < limit; i++)
         primes += !composite[i];
   }
   printf("%llu\n", (unsigned long long)primes);
}
