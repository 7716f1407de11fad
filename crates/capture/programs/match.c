/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * match [THOUSAND_REFERENCE=2000] [THOUSAND_QUERY=1500]: the suffix automaton of a random sequence over four letters,
 * then the longest match at every place of a query. Irregular: each address depends on the last load, and several
 * registers take part in it.
 */
#include <stdio.h>
#include <string.h>

#include "random.h"

struct state {
   int32_t next[4];
   int32_t link;
   int32_t length;
};

static struct state *states;
static int32_t used, last;

static int32_t new_state(int32_t length)
{
   struct state *state = &states[used];
   memset(state->next, 0xff, sizeof state->next);
   state->link = -1;
   state->length = length;
   return used++;
}

static void extend(int letter)
{
   int32_t current = new_state(states[last].length + 1), p = last;
   while (p >= 0 && states[p].next[letter] < 0) {
      states[p].next[letter] = current;
      p = states[p].link;
   }
   if (p < 0) {
      states[current].link = 0;
   } else {
      int32_t q = states[p].next[letter];
      if (states[q].length == states[p].length + 1) {
         states[current].link = q;
      } else {
         int32_t clone = used++;
         states[clone] = states[q];
         states[clone].length = states[p].length + 1;
         while (p >= 0 && states[p].next[letter] == q) {
            states[p].next[letter] = clone;
            p = states[p].link;
         }
         states[q].link = states[current].link = clone;
      }
   }
   last = current;
}

int main(int argc, char **argv)
{
   uint64_t reference = argument(argc, argv, 1, 2000) * 1000;
   uint64_t query = argument(argc, argv, 2, 1500) * 1000;
   uint64_t state = 88172645463325252ull, total = 0;
   states = malloc((2 * reference + 2) * sizeof *states);
   if (!states)
      return 1;
   last = new_state(0);
   for (uint64_t i = 0; i < reference; i++)
      extend(next_random(&state) >> 40 & 3);
   int32_t at = 0, length = 0;
   for (uint64_t i = 0; i < query; i++) {
      int letter = next_random(&state) >> 40 & 3;
      while (at > 0 && states[at].next[letter] < 0) {
         at = states[at].link;
         length = states[at].length;
      }
      if (states[at].next[letter] >= 0) {
         at = states[at].next[letter];
         length++;
      }
      total += length;
   }
   printf("match %d %llu\n", used, (unsigned long long)total);
   free(states);
   return 0;
}
