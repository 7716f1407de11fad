/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * quicksort COUNT: the C library's qsort on random numbers.
 */
#include <stdio.h>

#include "../../capture/programs/random.h"

static int compare(const void *left, const void *right)
{
   uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
   return a < b ? -1 : a > b;
}

int main(int argc, char **argv)
{
   uint64_t count = argument(argc, argv, 1, 1000000), state = 88172645463325252ull;
   uint32_t *numbers = malloc(count * sizeof *numbers);
   if (!numbers)
      return 1;
   for (uint64_t i = 0; i < count; i++)
      numbers[i] = next_random(&state) >> 32;
   qsort(numbers, count, sizeof *numbers, compare);
   printf("%u\n", numbers[count / 2]);
}
