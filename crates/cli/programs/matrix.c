/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * matrix SIZE: a product of square matrices of doubles, row by row.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"

int main(int argc, char **argv)
{
   uint64_t n = argument(argc, argv, 1, 300);
   double *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = calloc(n * n, sizeof *c);
   if (!a || !b || !c)
      return 1;
   for (uint64_t i = 0; i < n * n; i++) {
      a[i] = i % 7;
      b[i] = i % 5;
   }
   for (uint64_t i = 0; i < n; i++)
      for (uint64_t k = 0; k < n; k++)
         for (uint64_t j = 0; j < n; j++)
            c[i * n + j] += a[i * n + k] * b[k * n + j];
   printf("%f\n", c[n]);
}
