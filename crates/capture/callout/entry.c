/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The entry points of loads and stores: those of -fsanitize=thread (gcc and clang) and those of
 * -fsanitize-coverage=trace-loads,trace-stores (clang, rustc).
 * Compiled into a program at its linking (-flto), they are inlined where they are called.
 */
#include "runtime.h"

/* The pass that calls these functions runs before the linker brings them in: only then can they be inlined, and only by
 * force, since what it works on carries an attribute that they must not have. */
#ifdef PW_INLINED
#define ENTRY_FUNCTION __attribute__((always_inline)) ENTRY_POINT
#else
#define ENTRY_FUNCTION ENTRY_POINT
#endif

/* The layout that inline.s has in its instructions. */
_Static_assert(BUFFER_BYTES == 1 << 16 && PW_RECORD_TAG_BYTE == 6, "testw %ax; movb 6(%rax)");
_Static_assert(PW_RECORD_SIZE_SHIFT == 48 && PW_RECORD_WRITE >> 48 == 8, "the tags");

#define LOAD(bytes) pw_record(address, pw_record_tag(bytes, 0))
#define STORE(bytes) pw_record(address, pw_record_tag(bytes, 1))
#define ENTRY(name, action)                                                                                            \
   ENTRY_POINT void name(void *address);                                                                               \
   ENTRY_FUNCTION void name(void *address)                                                                             \
   {                                                                                                                   \
      action;                                                                                                          \
   }

#define ENTRIES(bytes)                                                                                                 \
   ENTRY(__tsan_read##bytes, LOAD(bytes))                                                                              \
   ENTRY(__tsan_write##bytes, STORE(bytes))                                                                            \
   ENTRY(__tsan_read_write##bytes, LOAD(bytes); STORE(bytes))                                                          \
   ENTRY(__tsan_volatile_read##bytes, LOAD(bytes))                                                                     \
   ENTRY(__tsan_volatile_write##bytes, STORE(bytes))                                                                   \
   ENTRY(__tsan_unaligned_read##bytes, LOAD(bytes))                                                                    \
   ENTRY(__tsan_unaligned_write##bytes, STORE(bytes))                                                                  \
   ENTRY(__tsan_unaligned_read_write##bytes, LOAD(bytes); STORE(bytes))                                                \
   ENTRY(__tsan_unaligned_volatile_read##bytes, LOAD(bytes))                                                           \
   ENTRY(__tsan_unaligned_volatile_write##bytes, STORE(bytes))                                                         \
   ENTRY(__sanitizer_cov_load##bytes, LOAD(bytes))                                                                     \
   ENTRY(__sanitizer_cov_store##bytes, STORE(bytes))

ENTRIES(1)
ENTRIES(2)
ENTRIES(4)
ENTRIES(8)
ENTRIES(16)

/* Virtual-table pointers. */
ENTRY_POINT void __tsan_vptr_read(void **address);
ENTRY_POINT void __tsan_vptr_read(void **address)
{
   LOAD(8);
}

ENTRY_POINT void __tsan_vptr_update(void **address, void *value);
ENTRY_POINT void __tsan_vptr_update(void **address, void *value)
{
   (void)value;
   STORE(8);
}

/* Aggregates. */
ENTRY_POINT void __tsan_read_range(void *address, size_t bytes);
ENTRY_POINT void __tsan_read_range(void *address, size_t bytes)
{
   pw_record_range(address, bytes, 0);
}

ENTRY_POINT void __tsan_write_range(void *address, size_t bytes);
ENTRY_POINT void __tsan_write_range(void *address, size_t bytes)
{
   pw_record_range(address, bytes, 1);
}

/* Called, of no interest. */
#define IGNORED(name, ...)                                                                                             \
   ENTRY_POINT void name(__VA_ARGS__);                                                                                 \
   ENTRY_FUNCTION void name(__VA_ARGS__)                                                                               \
   {                                                                                                                   \
   }

IGNORED(__tsan_init, void)
IGNORED(__tsan_func_entry, void *caller __attribute__((unused)))
IGNORED(__tsan_func_exit, void)
IGNORED(__tsan_ignore_thread_begin, void)
IGNORED(__tsan_ignore_thread_end, void)
IGNORED(__sanitizer_cov_trace_pc, void)
IGNORED(__sanitizer_cov_trace_pc_guard, uint32_t *guard __attribute__((unused)))
IGNORED(__sanitizer_cov_trace_pc_guard_init, uint32_t *begin __attribute__((unused)),
        uint32_t *end __attribute__((unused)))
IGNORED(__sanitizer_cov_trace_pc_indir, uintptr_t callee __attribute__((unused)))
