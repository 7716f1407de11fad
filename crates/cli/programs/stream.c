/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * stream MIB ROUNDS: the triad of the STREAM benchmark (McCalpin, 1995) on three arrays of so much memory each.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"
#include "../../capture/programs/work.h"

int main(int argc, char **argv)
{
   uint64_t count = (argument(argc, argv, 1, 64) << 20) / sizeof(double), rounds = argument(argc, argv, 2, 3);
   double *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b), *c = malloc(count * sizeof *c);
   if (!a || !b || !c)
      return 1;
   for (uint64_t i = 0; i < count; i++) {
      a[i] = 0;
      b[i] = i;
      c[i] = 1;
   }
   begin_work();
   for (uint64_t round = 0; round < rounds; round++)
      for (uint64_t i = 0; i < count; i++)
         a[i] = b[i] + 3.0 * c[i];
   end_work();
   printf("%f\n", a[count / 2]);
}
