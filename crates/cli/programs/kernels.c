/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * kernels WHAT ROUNDS: inner loops of programs whose data the caches hold, of many kinds.
 */
#include <stdio.h>
#include <string.h>

#include "../../capture/programs/random.h"

static uint64_t state = 88172645463325252ull;

/* Solves the same Sudoku by trying digits. */
static int fits(const unsigned char *board, int place, int digit)
{
   int row = place / 9, column = place % 9, corner = row / 3 * 27 + column / 3 * 3;
   for (int i = 0; i < 9; i++)
      if (board[row * 9 + i] == digit || board[i * 9 + column] == digit || board[corner + i / 3 * 9 + i % 3] == digit)
         return 0;
   return 1;
}

static int solve(unsigned char *board, int place, uint64_t *tried)
{
   while (place < 81 && board[place])
      place++;
   if (place == 81)
      return 1;
   for (int digit = 1; digit <= 9; digit++) {
      ++*tried;
      if (!fits(board, place, digit))
         continue;
      board[place] = digit;
      if (solve(board, place + 1, tried))
         return 1;
      board[place] = 0;
   }
   return 0;
}

static double sudoku(uint64_t rounds)
{
   static const char given[] = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79";
   uint64_t tried = 0;
   while (rounds--) {
      unsigned char board[81];
      for (int i = 0; i < 81; i++)
         board[i] = given[i] == '.' ? 0 : given[i] - '0';
      solve(board, 0, &tried);
   }
   return tried;
}

/* Bytes in base 64. */
static double base64(uint64_t rounds)
{
   static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
   static unsigned char in[12288], out[16384];
   uint64_t sum = 0;
   for (unsigned i = 0; i < sizeof in; i++)
      in[i] = next_random(&state) >> 40;
   while (rounds--) {
      for (unsigned i = 0, o = 0; i < sizeof in; i += 3, o += 4) {
         uint32_t bits = in[i] << 16 | in[i + 1] << 8 | in[i + 2];
         out[o] = digits[bits >> 18];
         out[o + 1] = digits[bits >> 12 & 63];
         out[o + 2] = digits[bits >> 6 & 63];
         out[o + 3] = digits[bits & 63];
      }
      sum += out[rounds % sizeof out];
      in[rounds % sizeof in]++;
   }
   return sum;
}

/* Blocks of the cipher ChaCha20 (RFC 8439). */
static inline uint32_t turned(uint32_t word, int bits)
{
   return word << bits | word >> (32 - bits);
}

static void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
   *a += *b, *d = turned(*d ^ *a, 16);
   *c += *d, *b = turned(*b ^ *c, 12);
   *a += *b, *d = turned(*d ^ *a, 8);
   *c += *d, *b = turned(*b ^ *c, 7);
}

static double cipher(uint64_t rounds)
{
   uint32_t key[16], sum = 0;
   for (int i = 0; i < 16; i++)
      key[i] = next_random(&state);
   while (rounds--) {
      uint32_t x[16];
      memcpy(x, key, sizeof x);
      for (int i = 0; i < 10; i++) {
         for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + j], &x[8 + j], &x[12 + j]);
         for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + (j + 1) % 4], &x[8 + (j + 2) % 4], &x[12 + (j + 3) % 4]);
      }
      key[12]++;
      sum += x[rounds % 16];
   }
   return sum;
}

/* Strong probable primes to the base 2: multiplications and divisions of 64 bits. */
static double primes(uint64_t rounds)
{
   uint64_t found = 0;
   for (uint64_t n = 1000001; rounds--; n += 2) {
      uint64_t odd = n - 1, power = 1, base = 2;
      int twos = 0;
      for (; !(odd & 1); odd >>= 1)
         twos++;
      for (; odd; odd >>= 1, base = base * base % n)
         if (odd & 1)
            power = power * base % n;
      int is = power == 1 || power == n - 1;
      for (int i = 1; i < twos && !is; i++) {
         power = power * power % n;
         is = power == n - 1;
      }
      found += is;
   }
   return found;
}

/* The most that fits into a knapsack, by a table of all capacities. */
static double knapsack(uint64_t rounds)
{
   enum { ITEMS = 40, CAPACITY = 5000 };
   static uint32_t best[CAPACITY + 1];
   uint32_t sum = 0;
   while (rounds--) {
      memset(best, 0, sizeof best);
      for (int item = 0; item < ITEMS; item++) {
         uint32_t weight = 20 + next_random(&state) % 400, value = next_random(&state) % 1000;
         for (uint32_t left = CAPACITY; left >= weight; left--)
            if (best[left - weight] + value > best[left])
               best[left] = best[left - weight] + value;
      }
      sum += best[CAPACITY];
   }
   return sum;
}

/* The length of the code that Huffman's method gives to each of 256 symbols. */
static double huffman(uint64_t rounds)
{
   uint64_t sum = 0;
   while (rounds--) {
      uint32_t weight[512], above[512], heap[257];
      int count = 0, nodes = 256;
      for (int i = 0; i < 512; i++) {
         if (i < 256)
            weight[i] = 1 + next_random(&state) % 1000;
         above[i] = 0;
      }
      for (int i = 0; i < 256; i++) {
         int at = ++count;
         for (; at > 1 && weight[heap[at / 2]] > weight[i]; at /= 2)
            heap[at] = heap[at / 2];
         heap[at] = i;
      }
      while (count > 1) {
         uint32_t two[2];
         for (int i = 0; i < 2; i++) {
            two[i] = heap[1];
            uint32_t last = heap[count--];
            int at = 1;
            for (int next; (next = 2 * at) <= count; at = next) {
               if (next < count && weight[heap[next + 1]] < weight[heap[next]])
                  next++;
               if (weight[heap[next]] >= weight[last])
                  break;
               heap[at] = heap[next];
            }
            heap[at] = last;
         }
         weight[nodes] = weight[two[0]] + weight[two[1]];
         above[two[0]] = above[two[1]] = nodes;
         int at = ++count;
         for (; at > 1 && weight[heap[at / 2]] > weight[nodes]; at /= 2)
            heap[at] = heap[at / 2];
         heap[at] = nodes++;
      }
      for (int i = 0; i < 256; i++)
         for (uint32_t at = i; above[at]; at = above[at])
            sum++;
   }
   return sum;
}

/* The places of a word in a text, with Horspool's table of steps. */
static double text(uint64_t rounds)
{
   static char hay[32768];
   static const char needle[] = "abcabcab";
   enum { LENGTH = sizeof needle - 1 };
   uint64_t found = 0;
   for (unsigned i = 0; i < sizeof hay; i++)
      hay[i] = 'a' + (next_random(&state) >> 33) % 3;
   uint32_t step[256];
   for (int i = 0; i < 256; i++)
      step[i] = LENGTH;
   for (int i = 0; i < LENGTH - 1; i++)
      step[(unsigned char)needle[i]] = LENGTH - 1 - i;
   while (rounds--) {
      for (uint32_t at = 0; at + LENGTH <= sizeof hay; at += step[(unsigned char)hay[at + LENGTH - 1]]) {
         int i = LENGTH - 1;
         while (i >= 0 && hay[at + i] == needle[i])
            i--;
         found += i < 0;
      }
      hay[next_random(&state) % sizeof hay] = 'a';
   }
   return found;
}

/* The largest eigenvalue of a matrix whose entries are computed, by repeated products: divisions of doubles. */
static double spectral(uint64_t rounds)
{
   enum { N = 200 };
   static double u[N], v[N];
   for (int i = 0; i < N; i++)
      u[i] = 1;
   while (rounds--) {
      for (int i = 0; i < N; i++) {
         v[i] = 0;
         for (int j = 0; j < N; j++)
            v[i] += u[j] / ((i + j) * (i + j + 1) / 2 + i + 1);
      }
      double largest = 0;
      for (int i = 0; i < N; i++)
         largest = v[i] > largest ? v[i] : largest;
      for (int i = 0; i < N; i++)
         u[i] = v[i] / largest;
   }
   return u[3];
}

/* Solves linear equations in place, without a choice of the pivot. */
static double equations(uint64_t rounds)
{
   enum { N = 96 };
   static double a[N][N];
   double sum = 0;
   while (rounds--) {
      for (int i = 0; i < N; i++)
         for (int j = 0; j < N; j++)
            a[i][j] = i == j ? N : (double)(next_random(&state) >> 12) / (1ull << 52);
      for (int k = 0; k < N; k++)
         for (int i = k + 1; i < N; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j < N; j++)
               a[i][j] -= factor * a[k][j];
         }
      sum += a[N - 1][N - 1];
   }
   return sum;
}

/* Sorts words, each time in another order, by insertion into runs of 32 and merging. */
static double words(uint64_t rounds)
{
   enum { COUNT = 2048 };
   static char all[COUNT][12];
   static const char *one[COUNT], *two[COUNT];
   uint64_t sum = 0;
   for (int i = 0; i < COUNT; i++)
      sprintf(all[i], "w%08x", (unsigned)(next_random(&state) >> 32) % 100000);
   while (rounds--) {
      const char **from = one, **to = two;
      for (uint32_t i = 0; i < COUNT; i++)
         from[i] = all[(i * 1027 + rounds * 331) % COUNT];
      for (int run = 0; run < COUNT; run += 32)
         for (int i = run + 1; i < run + 32; i++) {
            const char *word = from[i];
            int at = i;
            for (; at > run && strcmp(from[at - 1], word) > 0; at--)
               from[at] = from[at - 1];
            from[at] = word;
         }
      for (int run = 32; run < COUNT; run *= 2) {
         for (int begin = 0; begin < COUNT; begin += 2 * run) {
            int left = begin, right = begin + run;
            for (int i = begin; i < begin + 2 * run; i++)
               to[i] = right >= begin + 2 * run || (left < begin + run && strcmp(from[left], from[right]) <= 0)
                          ? from[left++]
                          : from[right++];
         }
         const char **other = from;
         from = to;
         to = other;
      }
      sum += from[COUNT / 2][8];
   }
   return sum;
}

/* Looks words up in a hash table with open addresses, by Fowler, Noll and Vo's hash. */
static double dictionary(uint64_t rounds)
{
   enum { WORDS = 1500, PLACES = 4096 };
   static char all[2 * WORDS][12];
   static const char *table[PLACES];
   uint64_t found = 0;
   for (int i = 0; i < 2 * WORDS; i++)
      sprintf(all[i], "k%d", i * 7919 % 100003);
   for (int pass = 0; pass < 2; pass++)
      for (uint64_t round = 0; round < (pass ? rounds : 1); round++)
         for (int i = 0; i < (pass ? 2 * WORDS : WORDS); i++) {
            uint32_t hash = 2166136261u;
            for (const char *at = all[i]; *at; at++)
               hash = (hash ^ (unsigned char)*at) * 16777619;
            uint32_t place = hash % PLACES;
            while (table[place] && strcmp(table[place], all[i]))
               place = (place + 1) % PLACES;
            if (pass)
               found += table[place] != NULL;
            else
               table[place] = all[i];
         }
   return found;
}

/* A machine of states and a table, as a scanner has one, over random characters. */
static double scanner(uint64_t rounds)
{
   static unsigned char next[16][256], input[16384];
   uint64_t tokens = 0;
   for (int i = 0; i < 16; i++)
      for (int c = 0; c < 256; c++)
         next[i][c] = (next_random(&state) >> 20) % 16;
   for (unsigned i = 0; i < sizeof input; i++)
      input[i] = 'a' + (next_random(&state) >> 20) % 26;
   while (rounds--) {
      unsigned at = rounds % 16;
      for (unsigned i = 0; i < sizeof input; i++) {
         at = next[at][input[i]];
         if (at < 3)
            tokens += at;
      }
   }
   return tokens;
}

int main(int argc, char **argv)
{
   static const struct {
      const char *name;
      double (*run)(uint64_t rounds);
   } kernels[] = { { "sudoku", sudoku },       { "base64", base64 },         { "cipher", cipher },   { "primes", primes },
                   { "knapsack", knapsack },   { "huffman", huffman },       { "text", text },       { "spectral", spectral },
                   { "equations", equations }, { "words", words },           { "dictionary", dictionary }, { "scanner", scanner } };
   for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
      if (argc > 1 && !strcmp(argv[1], kernels[i].name)) {
         printf("%f\n", kernels[i].run(argument(argc, argv, 2, 1)));
         return 0;
      }
   return 2;
}
