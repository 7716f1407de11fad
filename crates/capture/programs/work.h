/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tells the time of a program's work alone, which begins when its memory has been touched: `pagewalk validate` reads it.
 */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static uint64_t work_began;

/* The time of all threads so far, in nanoseconds. */
static uint64_t time_of_process(void)
{
   struct timespec now;
   clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
   return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void begin_work(void)
{
   work_began = time_of_process();
}

static void end_work(void)
{
   fprintf(stderr, "work %llu ns\n", (unsigned long long)(time_of_process() - work_began));
}

#endif
