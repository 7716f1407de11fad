/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Four megabytes of stack, page by page: the stack grows without a system call. */
#include <string.h>

static int depth(int level)
{
   volatile char page[4096];
   memset((void *)page, level, sizeof page);
   return level == 0 ? page[1] : depth(level - 1) + page[level % 4096];
}

int main(void)
{
   return depth(1000) == 12345;
}
