/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls of a program to the thread sanitizer by its own hand: it links, runs, and its accesses are recorded. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#define BASE 0x800000000ull

void __tsan_acquire(void *);
void __tsan_release(void *);
void __tsan_mutex_create(void *, unsigned);
void __tsan_mutex_pre_lock(void *, unsigned);
void __tsan_mutex_post_lock(void *, unsigned, int);
int __tsan_mutex_pre_unlock(void *, unsigned);
void __tsan_mutex_post_unlock(void *, unsigned);
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_read8_pc(void *, void *);
void __tsan_write4_pc(void *, void *);
uint32_t __sanitizer_unaligned_load32(const void *);
void __sanitizer_unaligned_store64(void *, uint64_t);
void AnnotateHappensBefore(const char *, int, const volatile void *);
void AnnotateHappensAfter(const char *, int, const volatile void *);
void __sanitizer_syscall_pre_impl_read(long, long, long);

int main(void)
{
   char *memory =
      mmap((void *)BASE, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
   if (memory != (char *)BASE)
      return 1;
   int mutex = 0;
   __tsan_mutex_create(&mutex, 0);
   __tsan_mutex_pre_lock(&mutex, 0);
   __tsan_mutex_post_lock(&mutex, 0, 0);
   __tsan_acquire(&mutex);
   __tsan_release(&mutex);
   if (__tsan_mutex_pre_unlock(&mutex, 0) != 0)
      return 2;
   __tsan_mutex_post_unlock(&mutex, 0);
   AnnotateHappensBefore(__FILE__, __LINE__, &mutex);
   AnnotateHappensAfter(__FILE__, __LINE__, &mutex);
   __sanitizer_syscall_pre_impl_read(0, 0, 0);

   void *own = __tsan_get_current_fiber(), *other = __tsan_create_fiber(0);
   if (!own || !other || own == other)
      return 3;
   __tsan_switch_to_fiber(other, 0);
   if (__tsan_get_current_fiber() != other)
      return 4;
   __tsan_switch_to_fiber(own, 0);
   if (__tsan_get_current_fiber() != own)
      return 5;
   __tsan_destroy_fiber(other);

   for (int i = 0; i < 70; i++)
      __tsan_read8_pc(memory, (void *)main);
   for (int i = 0; i < 80; i++)
      __tsan_write4_pc(memory + 64, (void *)main);
   for (int i = 0; i < 90; i++)
      __sanitizer_unaligned_store64(memory + 129, 0x1234567800000000);
   for (int i = 0; i < 50; i++)
      if (__sanitizer_unaligned_load32(memory + 133) != 0x12345678)
         return 6;
   return 0;
}
