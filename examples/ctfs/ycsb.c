/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The loads of YCSB (Cooper et al., SoCC 2010) on LevelDB, by its C interface: `ycsb --help`.
 *
 * Every value carries its key's number, its version and a checksum, and is checked whenever it is read. What was begun and what was
 * acknowledged stands in a table beside the database: with --state that is a file, which outlives this process, so that after any
 * crash --verify says whether something acknowledged is lost or something is there that was never written.
 *
 * Exits with 1 if what was read is wrong, with 2 for wrong arguments, with 3 if LevelDB reported an error: that was not acknowledged. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <leveldb/c.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_KEYS (UINT64_C(1) << 22)
#define MOST_THREADS 64
#define STRIPES 4096
#define KEY_BYTES 24
/* Key, version, checksum. */
#define HEADER_WORDS 3
#define MAGIC UINT64_C(0x3130627363797770) /* "pwycsb01" */

static void give_up(int status, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   fputs("error: ", stderr);
   vfprintf(stderr, format, arguments);
   fputc('\n', stderr);
   va_end(arguments);
   /* Other threads are still running: nothing is torn down. */
   fflush(NULL);
   _exit(status);
}

/* ---- What is done: parts of 100, and how keys are chosen (Cooper et al., table 2). */

enum kind { READ, UPDATE, INSERT, SCAN, MODIFY, KINDS };
static const char *const kind_names[KINDS] = {"read", "update", "insert", "scan", "modify"};

enum chosen { NEXT, ZIPFIAN, LATEST };

struct load {
   const char *name;
   enum chosen chosen;
   unsigned parts[KINDS];
};

static const struct load loads[] = {
   {"load-a", NEXT, {[INSERT] = 100}},
   {"load-e", NEXT, {[INSERT] = 100}},
   {"run-a", ZIPFIAN, {[READ] = 50, [UPDATE] = 50}},
   {"run-b", ZIPFIAN, {[READ] = 95, [UPDATE] = 5}},
   {"run-c", ZIPFIAN, {[READ] = 100}},
   {"run-d", LATEST, {[READ] = 95, [INSERT] = 5}},
   {"run-e", ZIPFIAN, {[SCAN] = 95, [INSERT] = 5}},
   {"run-f", ZIPFIAN, {[READ] = 50, [MODIFY] = 50}},
};
#define LOADS (sizeof loads / sizeof *loads)

/* ---- What was asked for. */

static struct {
   const char *folder, *state, *loads;
   uint64_t records, operations, threads, value_bytes, seed, longest_scan, cache_bytes;
   bool sync, verify, json;
} options = {
   .loads = "",
   .records = 50000,
   .operations = 50000,
   .threads = 1,
   .value_bytes = 1024,
   .seed = 1,
   .longest_scan = 100,
   .cache_bytes = 8 << 20,
};

/* ---- What was begun and what was acknowledged. */

struct versions {
   _Atomic uint64_t begun, acknowledged;
};

static struct {
   uint64_t magic, value_bytes;
   /* All keys below have been acknowledged. */
   _Atomic uint64_t limit;
   uint64_t unused[5];
   struct versions keys[MOST_KEYS];
} *state;

static _Atomic uint64_t next_key;
static pthread_mutex_t stripes[STRIPES];

static void open_state(void)
{
   int file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
   if (options.state) {
      flags = MAP_SHARED;
      file = open(options.state, O_RDWR | O_CREAT, 0600);
      if (file < 0 || ftruncate(file, sizeof *state))
         give_up(2, "%s: %s", options.state, strerror(errno));
   }
   state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, flags, file, 0);
   if (state == MAP_FAILED)
      give_up(2, "no memory for the table of versions: %s", strerror(errno));
   if (file >= 0)
      close(file);
   if (state->magic == 0) {
      state->value_bytes = options.value_bytes;
      state->magic = MAGIC;
   }
   if (state->magic != MAGIC || state->value_bytes != options.value_bytes)
      give_up(2, "%s: not of values of %" PRIu64 " bytes", options.state, options.value_bytes);
   next_key = state->limit;
   for (size_t i = 0; i < STRIPES; i++)
      pthread_mutex_init(&stripes[i], NULL);
}

/* The limit goes up as far as keys are there. */
static void advance(void)
{
   uint64_t limit = state->limit;
   while (limit < MOST_KEYS && state->keys[limit].acknowledged)
      if (atomic_compare_exchange_weak(&state->limit, &limit, limit + 1))
         limit++;
}

/* ---- Random numbers, as YCSB draws them. */

struct random {
   uint64_t state;
};

static uint64_t mix(uint64_t word)
{
   word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
   word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
   return word ^ word >> 31;
}

static uint64_t draw(struct random *random)
{
   return mix(random->state += UINT64_C(0x9e3779b97f4a7c15));
}

static double draw_part(struct random *random)
{
   return (double)(draw(random) >> 11) * 0x1p-53;
}

/* YCSB's hash of key numbers: 64-bit FNV of the bytes. */
static uint64_t fnv(uint64_t number)
{
   uint64_t hash = UINT64_C(0xcbf29ce484222325);
   for (int i = 0; i < 8; i++, number >>= 8)
      hash = (hash ^ (number & 0xff)) * UINT64_C(0x100000001b3);
   return hash;
}

#define THETA 0.99

struct zipf {
   uint64_t items;
   double zeta, eta;
};

static void zipf_set(struct zipf *zipf, uint64_t items, double zeta)
{
   double zeta_of_2 = 1 + pow(0.5, THETA);
   *zipf = (struct zipf){items, zeta, (1 - pow(2.0 / (double)items, 1 - THETA)) / (1 - zeta_of_2 / zeta)};
}

static void zipf_grow(struct zipf *zipf, uint64_t items)
{
   double zeta = zipf->zeta;
   for (uint64_t i = zipf->items + 1; i <= items; i++)
      zeta += pow(1.0 / (double)i, THETA);
   if (items > zipf->items)
      zipf_set(zipf, items, zeta);
}

static uint64_t zipf_draw(const struct zipf *zipf, struct random *random)
{
   double part = draw_part(random), scaled = part * zipf->zeta;
   if (scaled < 1)
      return 0;
   if (scaled < 1 + pow(0.5, THETA))
      return 1;
   return (uint64_t)((double)zipf->items * pow(zipf->eta * part - zipf->eta + 1, 1 / (1 - THETA)));
}

/* YCSB's scrambled order draws from so many items, whose zeta it knows, and spreads them. */
#define SCRAMBLED_ITEMS UINT64_C(10000000000)
#define SCRAMBLED_ZETA 26.46902820178302

/* ---- Keys and values. */

static void key_of(uint64_t number, char *key)
{
   char text[KEY_BYTES + 1];
   snprintf(text, sizeof text, "user%020" PRIu64, fnv(number));
   memcpy(key, text, KEY_BYTES);
}

static uint64_t checksum(const uint64_t *words, size_t count)
{
   uint64_t sum = mix(words[0]) ^ words[1];
   for (size_t i = HEADER_WORDS; i < count; i++)
      sum = (sum ^ words[i]) * UINT64_C(0x9fb21c651e98df25) + (sum >> 29);
   return mix(sum);
}

static void fill(uint64_t *words, uint64_t number, uint64_t version)
{
   size_t count = options.value_bytes / 8;
   struct random random = {mix(number) + version};
   words[0] = number;
   words[1] = version;
   for (size_t i = HEADER_WORDS; i < count; i++)
      words[i] = draw(&random);
   words[2] = checksum(words, count);
}

/* A thread that reads the key now finds a version between the two. */
static void check(const char *key, size_t key_bytes, const char *value, size_t bytes, uint64_t least)
{
   uint64_t words[bytes / 8 + HEADER_WORDS];
   char expected[KEY_BYTES];
   if (bytes != options.value_bytes)
      give_up(1, "%.*s has %zu bytes", (int)key_bytes, key, bytes);
   memcpy(words, value, bytes);
   if (words[2] != checksum(words, bytes / 8))
      give_up(1, "%.*s has a wrong checksum", (int)key_bytes, key);
   key_of(words[0], expected);
   if (words[0] >= MOST_KEYS || key_bytes != KEY_BYTES || memcmp(key, expected, KEY_BYTES))
      give_up(1, "%.*s has the value of key %" PRIu64, (int)key_bytes, key, words[0]);
   uint64_t most = state->keys[words[0]].begun;
   if (words[1] < least || words[1] > most)
      give_up(1, "key %" PRIu64 " has version %" PRIu64 ", not %" PRIu64 " to %" PRIu64, words[0], words[1], least, most);
}

/* ---- Times. */

static uint64_t now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Sixteen ranges for every power of two: to 6 %. */
#define RANGES (64 * 16)

struct histogram {
   uint64_t count, most, ranges[RANGES];
};

static void record(struct histogram *histogram, uint64_t nanoseconds)
{
   unsigned shift = nanoseconds < 32 ? 0 : 59 - (unsigned)__builtin_clzll(nanoseconds);
   histogram->ranges[shift * 16 + (nanoseconds >> shift)]++;
   histogram->count++;
   if (nanoseconds > histogram->most)
      histogram->most = nanoseconds;
}

static void add(struct histogram *to, const struct histogram *from)
{
   to->count += from->count;
   to->most = from->most > to->most ? from->most : to->most;
   for (size_t i = 0; i < RANGES; i++)
      to->ranges[i] += from->ranges[i];
}

/* In microseconds. */
static double percentile(const struct histogram *histogram, double percent)
{
   uint64_t wanted = (uint64_t)ceil((double)histogram->count * percent / 100), seen = 0;
   for (size_t i = 0; i < RANGES; i++)
      if ((seen += histogram->ranges[i]) >= wanted && seen) {
         unsigned shift = i < 32 ? 0 : (unsigned)i / 16 - 1;
         return (double)((i - shift * 16) << shift) / 1000;
      }
   return (double)histogram->most / 1000;
}

/* ---- The database. */

static leveldb_t *database;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;

static void or_give_up(char *error)
{
   if (error)
      give_up(3, "%s", error);
}

static void open_database(void)
{
   char *error = NULL;
   leveldb_options_t *how = leveldb_options_create();
   leveldb_options_set_create_if_missing(how, 1);
   /* Without versions nothing could be checked. */
   leveldb_options_set_error_if_exists(how, state->limit == 0 && !state->keys[0].begun);
   leveldb_options_set_cache(how, leveldb_cache_create_lru(options.cache_bytes));
   /* Values are random. */
   leveldb_options_set_compression(how, leveldb_no_compression);
   leveldb_options_set_paranoid_checks(how, 1);
   database = leveldb_open(how, options.folder, &error);
   or_give_up(error);
   leveldb_options_destroy(how);
   reading = leveldb_readoptions_create();
   leveldb_readoptions_set_verify_checksums(reading, 1);
   writing = leveldb_writeoptions_create();
   leveldb_writeoptions_set_sync(writing, options.sync);
}

/* The key's version, or 0 if it is not there. */
static uint64_t get(uint64_t number)
{
   char key[KEY_BYTES], *error = NULL;
   size_t bytes;
   uint64_t least = state->keys[number].acknowledged, version = 0;
   key_of(number, key);
   char *value = leveldb_get(database, reading, key, KEY_BYTES, &bytes, &error);
   or_give_up(error);
   if (value) {
      check(key, KEY_BYTES, value, bytes, least);
      memcpy(&version, value + 8, 8);
      leveldb_free(value);
   } else if (least) {
      give_up(1, "key %" PRIu64 " is lost; version %" PRIu64 " was acknowledged", number, least);
   }
   return version;
}

static void put(uint64_t number)
{
   char key[KEY_BYTES], *error = NULL;
   uint64_t words[options.value_bytes / 8];
   struct versions *versions = &state->keys[number];
   /* Versions are written in their order. */
   pthread_mutex_t *stripe = &stripes[number % STRIPES];
   key_of(number, key);
   pthread_mutex_lock(stripe);
   uint64_t version = ++versions->begun;
   fill(words, number, version);
   leveldb_put(database, writing, key, KEY_BYTES, (const char *)words, options.value_bytes, &error);
   or_give_up(error);
   versions->acknowledged = version;
   pthread_mutex_unlock(stripe);
}

static void insert(void)
{
   uint64_t number = next_key++;
   if (number >= MOST_KEYS)
      give_up(2, "more than %" PRIu64 " keys", MOST_KEYS);
   put(number);
   advance();
}

static void scan(uint64_t number, uint64_t length)
{
   char key[KEY_BYTES], before[KEY_BYTES], *error = NULL;
   key_of(number, key);
   leveldb_iterator_t *at = leveldb_create_iterator(database, reading);
   leveldb_iter_seek(at, key, KEY_BYTES);
   for (uint64_t i = 0; i < length && leveldb_iter_valid(at); i++, leveldb_iter_next(at)) {
      size_t key_bytes, bytes;
      const char *found = leveldb_iter_key(at, &key_bytes), *value = leveldb_iter_value(at, &bytes);
      check(found, key_bytes, value, bytes, 1);
      if (i == 0 ? memcmp(found, key, KEY_BYTES) != 0 : memcmp(found, before, KEY_BYTES) <= 0)
         give_up(1, "a scan from key %" PRIu64 " finds %.*s in place %" PRIu64, number, KEY_BYTES, found, i);
      memcpy(before, found, KEY_BYTES);
   }
   leveldb_iter_get_error(at, &error);
   or_give_up(error);
   leveldb_iter_destroy(at);
}

/* Everything acknowledged is there, and nothing that was never written. What is found is acknowledged from now on. */
static uint64_t verify(void)
{
   uint64_t keys = 0;
   char *error = NULL;
   for (uint64_t number = 0; number < MOST_KEYS && (number < next_key || state->keys[number].begun); number++) {
      uint64_t version = get(number);
      state->keys[number].acknowledged = version;
      keys += version > 0;
   }
   advance();
   next_key = state->limit;
   leveldb_iterator_t *at = leveldb_create_iterator(database, reading);
   uint64_t seen = 0;
   for (leveldb_iter_seek_to_first(at); leveldb_iter_valid(at); leveldb_iter_next(at), seen++) {
      size_t key_bytes, bytes;
      const char *key = leveldb_iter_key(at, &key_bytes), *value = leveldb_iter_value(at, &bytes);
      check(key, key_bytes, value, bytes, 1);
   }
   leveldb_iter_get_error(at, &error);
   or_give_up(error);
   leveldb_iter_destroy(at);
   if (seen != keys)
      give_up(1, "%" PRIu64 " keys by name, %" PRIu64 " in order", keys, seen);
   return keys;
}

/* ---- One load. */

struct worker {
   pthread_t thread;
   const struct load *load;
   struct random random;
   struct zipf zipf;
   struct histogram times[KINDS];
};

static _Atomic uint64_t remaining;

static uint64_t choose(struct worker *worker)
{
   uint64_t limit = state->limit;
   if (worker->load->chosen == LATEST) {
      zipf_grow(&worker->zipf, limit);
      return limit - 1 - zipf_draw(&worker->zipf, &worker->random) % limit;
   }
   return fnv(zipf_draw(&worker->zipf, &worker->random)) % limit;
}

static bool take(void)
{
   uint64_t left = remaining;
   while (left && !atomic_compare_exchange_weak(&remaining, &left, left - 1))
      ;
   return left > 0;
}

static void *work(void *argument)
{
   struct worker *worker = argument;
   struct random *random = &worker->random;
   while (take()) {
      enum kind kind = 0;
      for (unsigned part = (unsigned)(draw(random) % 100); part >= worker->load->parts[kind]; kind++)
         part -= worker->load->parts[kind];
      uint64_t number = kind == INSERT ? 0 : choose(worker), length = 1 + draw(random) % options.longest_scan;
      uint64_t begun = now();
      switch (kind) {
      case READ: get(number); break;
      case UPDATE: put(number); break;
      case INSERT: insert(); break;
      case SCAN: scan(number, length); break;
      default: get(number), put(number); break;
      }
      record(&worker->times[kind], now() - begun);
   }
   return NULL;
}

/* Of processors, by this process: outside of the kernel, and in all. */
struct used {
   double user, all;
};

static struct used used(void)
{
   struct rusage usage;
   getrusage(RUSAGE_SELF, &usage);
   double user = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
   return (struct used){user, user + (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6};
}

static const double percents[] = {50, 95, 99, 99.9};

static void report(const struct load *load, uint64_t operations, double seconds, struct used cpu, const struct histogram *times)
{
   printf(options.json ? "{\"load\":\"%s\",\"operations\":%" PRIu64 ",\"seconds\":%.6f,\"cpu_seconds\":%.6f,"
                         "\"user_seconds\":%.6f,\"operations_per_second\":%.1f,\"latency_us\":{"
                       : "%s: %" PRIu64 " operations in %.3f s (%.3f s of processor time, %.3f s of it outside of the kernel): %.0f/s\n",
          load->name, operations, seconds, cpu.all, cpu.user, (double)operations / seconds);
   bool is_first = true;
   for (enum kind kind = 0; kind < KINDS; kind++) {
      if (!times[kind].count)
         continue;
      printf(options.json ? "%s\"%s\":{\"count\":%" PRIu64 : "%s   %-7s%9" PRIu64, options.json && !is_first ? "," : "",
             kind_names[kind], times[kind].count);
      is_first = false;
      for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
         printf(options.json ? ",\"p%g\":%.3f" : "   p%g %.1f", percents[i], percentile(&times[kind], percents[i]));
      printf(options.json ? ",\"most\":%.3f}" : "   most %.1f us\n", (double)times[kind].most / 1000);
   }
   if (options.json)
      puts("}}");
   fflush(stdout);
}

static void run(const struct load *load)
{
   static struct worker workers[MOST_THREADS];
   static struct histogram times[KINDS];
   struct zipf zipf = {0};
   uint64_t operations = load->chosen == NEXT ? options.records : options.operations;
   if (load->chosen == ZIPFIAN)
      zipf_set(&zipf, SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
   else if (load->chosen == LATEST)
      zipf_grow(&zipf, state->limit);
   if (load->chosen != NEXT && state->limit == 0)
      give_up(2, "%s has nothing to read; load-a or load-e comes first", load->name);
   remaining = operations;
   struct used before = used();
   uint64_t begun = now();
   for (uint64_t i = 0; i < options.threads; i++) {
      workers[i] = (struct worker){.load = load, .random = {mix(options.seed) + (uint64_t)(load - loads) * 1000 + i}, .zipf = zipf};
      if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
         give_up(2, "no thread");
   }
   memset(times, 0, sizeof times);
   for (uint64_t i = 0; i < options.threads; i++) {
      pthread_join(workers[i].thread, NULL);
      for (enum kind kind = 0; kind < KINDS; kind++)
         add(&times[kind], &workers[i].times[kind]);
   }
   double seconds = (double)(now() - begun) / 1e9;
   struct used after = used();
   report(load, operations, seconds, (struct used){after.user - before.user, after.all - before.all}, times);
}

/* ---- The command. */

static const char usage[] =
   "usage: ycsb --folder DATABASE --loads LOAD[,LOAD...] [OPTION...]\n"
   "\n"
   "LOADS: load-a load-e run-a run-b run-c run-d run-e run-f\n"
   "\n"
   "  --records N      keys that a load-* inserts (50000)\n"
   "  --operations N   operations of a run-* (50000)\n"
   "  --threads N      (1)\n"
   "  --value BYTES    of every value, a multiple of 8 (1024)\n"
   "  --scan N         keys of a scan at most (100)\n"
   "  --cache BYTES    LevelDB's cache of blocks (8 MiB)\n"
   "  --sync           every write waits for the disk\n"
   "  --seed N         of all choices (1)\n"
   "  --state FILE     keeps which versions were begun and acknowledged, for later runs on the database\n"
   "  --verify         at last read everything\n"
   "  --json           one line of JSON for each load\n";

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
   char *end;
   errno = 0;
   uint64_t value = strtoull(text, &end, 10);
   if (errno || *end || end == text || *text == '-' || value < least || value > most)
      give_up(2, "`%s` is no number from %" PRIu64 " to %" PRIu64, text, least, most);
   return value;
}

static void parse(int count, char **arguments)
{
   static const struct option known[] = {
      {"folder", required_argument, NULL, 'f'},  {"loads", required_argument, NULL, 'l'},
      {"records", required_argument, NULL, 'r'}, {"operations", required_argument, NULL, 'o'},
      {"threads", required_argument, NULL, 't'}, {"value", required_argument, NULL, 'b'},
      {"scan", required_argument, NULL, 'n'},    {"cache", required_argument, NULL, 'c'},
      {"sync", no_argument, NULL, 's'},          {"seed", required_argument, NULL, 'e'},
      {"state", required_argument, NULL, 'k'},   {"verify", no_argument, NULL, 'v'},
      {"json", no_argument, NULL, 'j'},          {"help", no_argument, NULL, 'h'},
      {0},
   };
   for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;)
      switch (option) {
      case 'f': options.folder = optarg; break;
      case 'l': options.loads = optarg; break;
      case 'r': options.records = number(optarg, 1, MOST_KEYS); break;
      case 'o': options.operations = number(optarg, 1, UINT64_MAX / 2); break;
      case 't': options.threads = number(optarg, 1, MOST_THREADS); break;
      case 'b': options.value_bytes = number(optarg, HEADER_WORDS * 8, 64 << 10) & ~UINT64_C(7); break;
      case 'n': options.longest_scan = number(optarg, 1, UINT64_MAX / 2); break;
      case 'c': options.cache_bytes = number(optarg, 0, UINT64_C(1) << 40); break;
      case 's': options.sync = true; break;
      case 'e': options.seed = number(optarg, 0, UINT64_MAX); break;
      case 'k': options.state = optarg; break;
      case 'v': options.verify = true; break;
      case 'j': options.json = true; break;
      case 'h': fputs(usage, stdout); exit(0);
      default: fputs(usage, stderr); exit(2);
      }
   if (!options.folder || optind < count) {
      fputs(usage, stderr);
      exit(2);
   }
}

int main(int count, char **arguments)
{
   const struct load *asked[256];
   size_t asked_count = 0;
   parse(count, arguments);
   char *names = strdup(options.loads), *rest = names;
   for (char *name; (name = strsep(&rest, ","));) {
      size_t at = 0;
      while (at < LOADS && strcmp(name, loads[at].name))
         at++;
      if (at < LOADS && asked_count < sizeof asked / sizeof *asked)
         asked[asked_count++] = &loads[at];
      else if (*name)
         give_up(2, "no load `%s`", name);
   }
   free(names);
   open_state();
   open_database();
   for (size_t i = 0; i < asked_count; i++)
      run(asked[i]);
   if (options.verify) {
      uint64_t keys = verify();
      if (!options.json)
         printf("verified: %" PRIu64 " keys\n", keys);
   }
   leveldb_close(database);
   return 0;
}
