/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The entry points of atomic operations. They replace the operation, so they perform it, always with the strongest
 * order, which is valid for every weaker one. A read-modify-write is a load and a store, as is a compare-and-swap.
 */
#include "runtime.h"

typedef unsigned __int128 u128;

#define LOAD_STORE(at, bytes)                                                                                          \
   pw_record(at, pw_record_tag(bytes, 0));                                                                             \
   pw_record(at, pw_record_tag(bytes, 1))

#define PROTOTYPED(type, name, ...)                                                                                    \
   EXPORT type name(__VA_ARGS__);                                                                                      \
   EXPORT type name(__VA_ARGS__)

/* One read-modify-write: `operation` gives the old value. */
#define MODIFY(bits, type, name, operation)                                                                            \
   PROTOTYPED(type, __tsan_atomic##bits##_##name, volatile type *at, type value, int order)                            \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      LOAD_STORE(at, bits / 8);                                                                                        \
      return operation;                                                                                                \
   }

#define COMPARE_EXCHANGE(bits, type, name)                                                                             \
   PROTOTYPED(int, __tsan_atomic##bits##_compare_exchange_##name, volatile type *at, type *expected, type desired,     \
              int order, int failure_order)                                                                            \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      (void)failure_order;                                                                                             \
      LOAD_STORE(at, bits / 8);                                                                                        \
      type before = __sync_val_compare_and_swap(at, *expected, desired);                                               \
      int swapped = before == *expected;                                                                               \
      if (!swapped)                                                                                                    \
         *expected = before;                                                                                           \
      return swapped;                                                                                                  \
   }

#define COMMON(bits, type)                                                                                             \
   COMPARE_EXCHANGE(bits, type, strong)                                                                                \
   COMPARE_EXCHANGE(bits, type, weak)                                                                                  \
   PROTOTYPED(type, __tsan_atomic##bits##_compare_exchange_val, volatile type *at, type expected, type desired,        \
              int order, int failure_order)                                                                            \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      (void)failure_order;                                                                                             \
      LOAD_STORE(at, bits / 8);                                                                                        \
      return __sync_val_compare_and_swap(at, expected, desired);                                                       \
   }

#define ATOMIC(bits, type)                                                                                             \
   PROTOTYPED(type, __tsan_atomic##bits##_load, const volatile type *at, int order)                                    \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      pw_record(at, pw_record_tag(bits / 8, 0));                                                                       \
      return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                    \
   }                                                                                                                   \
   PROTOTYPED(void, __tsan_atomic##bits##_store, volatile type *at, type value, int order)                             \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      pw_record(at, pw_record_tag(bits / 8, 1));                                                                       \
      __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                   \
   }                                                                                                                   \
   MODIFY(bits, type, exchange, __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, type, fetch_add, __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, type, fetch_sub, __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, type, fetch_and, __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, type, fetch_or, __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST))                                        \
   MODIFY(bits, type, fetch_xor, __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, type, fetch_nand, __atomic_fetch_nand(at, value, __ATOMIC_SEQ_CST))                                    \
   COMMON(bits, type)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

/* 16 bytes: everything out of cmpxchg16b. A load compares with a guess and stores back what was there. */
static u128 load_wide(const volatile u128 *at)
{
   return __sync_val_compare_and_swap((volatile u128 *)at, (u128)0, (u128)0);
}

static u128 exchange_wide(volatile u128 *at, u128 value)
{
   u128 before = load_wide(at), seen;
   while ((seen = __sync_val_compare_and_swap(at, before, value)) != before)
      before = seen;
   return before;
}

#define MODIFY_WIDE(name, result)                                                                                      \
   PROTOTYPED(u128, __tsan_atomic128_##name, volatile u128 *at, u128 value, int order)                                 \
   {                                                                                                                   \
      (void)order;                                                                                                     \
      LOAD_STORE(at, 16);                                                                                              \
      u128 before = load_wide(at), seen;                                                                               \
      while ((seen = __sync_val_compare_and_swap(at, before, (u128)(result))) != before)                               \
         before = seen;                                                                                                \
      return before;                                                                                                   \
   }

PROTOTYPED(u128, __tsan_atomic128_load, const volatile u128 *at, int order)
{
   (void)order;
   pw_record(at, pw_record_tag(16, 0));
   return load_wide(at);
}

PROTOTYPED(void, __tsan_atomic128_store, volatile u128 *at, u128 value, int order)
{
   (void)order;
   pw_record(at, pw_record_tag(16, 1));
   exchange_wide(at, value);
}

MODIFY_WIDE(exchange, value)
MODIFY_WIDE(fetch_add, before + value)
MODIFY_WIDE(fetch_sub, before - value)
MODIFY_WIDE(fetch_and, before &value)
MODIFY_WIDE(fetch_or, before | value)
MODIFY_WIDE(fetch_xor, before ^ value)
MODIFY_WIDE(fetch_nand, ~(before & value))
COMMON(128, u128)

PROTOTYPED(void, __tsan_atomic_thread_fence, int order)
{
   (void)order;
   __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

PROTOTYPED(void, __tsan_atomic_signal_fence, int order)
{
   (void)order;
   __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
