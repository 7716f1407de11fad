/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * QEMU hands an exec on to the system, which runs the new program by itself, unobserved, or not at all. Here the new
 * program begins under QEMU and this plugin again, if it is for the same instruction set.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Scripts whose interpreters are scripts; the system follows as many. */
#define SCRIPTS_MAX 4
#define HEAD_BYTES 256
/* Words of a list of arguments; the system allows strings of 2 MiB, of a byte and a pointer each at least. */
#define LIST_MAX (1u << 21)

/* Of ELF headers. */
#define AT_CLASS 4
#define AT_ORDER 5
#define AT_MACHINE 18

static unsigned own_machine;
/* The word behind -plugin in our own command line. */
static char own_option[2 * PATH_MAX];
/* Host address less program address. */
static uint64_t memory_base;
static bool memory_known;

/* The command line is `qemu -0 NAME -plugin OPTION PROGRAM ARGS`, as the pagewalk command makes it. */
void pw_exec_prepare(unsigned machine)
{
   static char line[4 * PATH_MAX];
   own_machine = machine;
   int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
   ssize_t bytes = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
   if (fd >= 0)
      close(fd);
   for (char *word = line; word < line + bytes; word += strlen(word) + 1) {
      char *next = word + strlen(word) + 1;
      if (strcmp(word, "-plugin") == 0 && next + strlen(next) < line + bytes && strlen(next) < sizeof own_option) {
         strcpy(own_option, next);
         return;
      }
   }
}

void pw_exec_learn(const struct qemu_plugin_insn *instruction)
{
   if (memory_known)
      return;
   uint64_t host = (uintptr_t)qemu_plugin_insn_haddr(instruction);
   if (host) {
      memory_base = host - qemu_plugin_insn_vaddr(instruction);
      memory_known = true;
   }
}

char *pw_exec_host(uint64_t address)
{
   return address && memory_known ? (char *)(uintptr_t)(memory_base + address) : NULL;
}

bool pw_exec_word(uint64_t address, uint64_t *word)
{
   struct iovec here = { word, sizeof *word }, there = { pw_exec_host(address), sizeof *word };
   return address && syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul) == sizeof *word;
}

/* How many pointers precede the NULL of a list; -1 if it cannot be read. */
static long list_length(uint64_t list)
{
   uint64_t word = 1;
   for (long n = 0; list && n < LIST_MAX; n++) {
      if (!pw_exec_word(list + 8 * (uint64_t)n, &word))
         return -1;
      if (!word)
         return n;
   }
   return list ? -1 : 0;
}

static bool read_list(uint64_t list, long length, char **out)
{
   for (long n = 0; n < length; n++) {
      uint64_t word;
      if (!pw_exec_word(list + 8 * (uint64_t)n, &word))
         return false;
      out[n] = pw_exec_host(word);
   }
   return true;
}

/* The first bytes of a file that may be executed, with a zero behind them; how many, 0 if it may not. */
static ssize_t read_head(const char *path, char *head)
{
   struct stat st;
   int fd = open(path, O_RDONLY | O_CLOEXEC);
   if (fd < 0)
      return 0;
   ssize_t bytes = 0;
   /* A process that becomes another user by the program cannot be observed. */
   if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & (S_ISUID | S_ISGID)) && access(path, X_OK) == 0)
      bytes = read(fd, head, HEAD_BYTES - 1);
   close(fd);
   bytes = bytes < 0 ? 0 : bytes;
   head[bytes] = 0;
   return bytes;
}

static bool is_own_kind(const char *head, ssize_t bytes)
{
   const unsigned char *h = (const unsigned char *)head;
   return bytes >= AT_MACHINE + 2 && memcmp(head, "\177ELF", 4) == 0 && h[AT_CLASS] == 2 && h[AT_ORDER] == 1
      && (h[AT_MACHINE] | h[AT_MACHINE + 1] << 8) == (int)own_machine;
}

/* "#!interpreter argument": pointers into `head`, which is cut. The argument may be NULL and may have blanks inside. */
static char *split_script(char *head, char **argument)
{
   char *line = head + 2 + strspn(head + 2, " \t");
   line[strcspn(line, "\n")] = 0;
   for (size_t end = strlen(line); end > 0 && strchr(" \t", line[end - 1]); end--)
      line[end - 1] = 0;
   char *rest = line + strcspn(line, " \t");
   *argument = NULL;
   if (*rest) {
      *rest++ = 0;
      *argument = rest + strspn(rest, " \t");
   }
   return line;
}

/* What is executed in the end, and what comes before the program's own arguments. */
struct command {
   char *path;
   bool is_script;               /* the program's own name for itself is of no use then */
   char *before[2 * SCRIPTS_MAX]; /* the last one first */
   int count;
   char heads[SCRIPTS_MAX + 1][HEAD_BYTES]; /* what the others point into */
};

static bool follow_scripts(struct command *command)
{
   for (int depth = 0; depth <= SCRIPTS_MAX; depth++) {
      char *head = command->heads[depth], *argument;
      ssize_t bytes = read_head(command->path, head);
      if (is_own_kind(head, bytes))
         return true;
      if (depth == SCRIPTS_MAX || bytes < 3 || memcmp(head, "#!", 2) != 0)
         return false;
      command->is_script = true;
      command->before[command->count++] = command->path;
      command->path = split_script(head, &argument);
      if (argument)
         command->before[command->count++] = argument;
   }
   return false;
}

/* The one path that names another file here than it does for the program. */
static bool is_own_file(uint64_t path)
{
   static const char name[16] = "/proc/self/exe";
   uint64_t low, high;
   return pw_exec_word(path, &low) && pw_exec_word(path + 7, &high) && memcmp(&low, name, 8) == 0
      && memcmp(&high, name + 7, 8) == 0;
}

void pw_exec(uint64_t path, uint64_t arguments, uint64_t environment)
{
   char *file = is_own_file(path) ? (char *)qemu_plugin_path_to_binary() : pw_exec_host(path);
   pw_before_exec(PW_THIS_FOLDER, file);
   if (!own_option[0] || !memory_known)
      return;
   long argument_count = list_length(arguments), variable_count = list_length(environment);
   if (!path || argument_count < 0 || variable_count < 0)
      return;
   struct command command;
   command.path = file;
   command.is_script = false;
   command.count = 0;
   if (!follow_scripts(&command))
      return;

   char emulator[PATH_MAX];
   ssize_t length = readlink("/proc/self/exe", emulator, sizeof emulator - 1);
   char **list = malloc((6 + (size_t)command.count + (size_t)argument_count + 1) * sizeof *list);
   char **variables = malloc(((size_t)variable_count + 1) * sizeof *variables);
   if (length > 0 && list && variables && read_list(environment, variable_count, variables)) {
      char *own_words[] = { emulator, "-0", command.path, "-plugin", own_option, command.path };
      char **next = list;
      emulator[length] = 0;
      for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++)
         *next++ = own_words[i];
      while (command.count > 0)
         *next++ = command.before[--command.count];
      /* The list begins with the program's name for itself, which goes where -0 is; what follows moves up. */
      if (argument_count == 0 || read_list(arguments, 1, next)) {
         if (argument_count > 0 && !command.is_script)
            list[2] = *next;
         long rest = argument_count > 0 ? argument_count - 1 : 0;
         if (read_list(arguments + 8, rest, next)) {
            next[rest] = variables[variable_count] = NULL;
            syscall(SYS_execve, emulator, list, variables);
         }
      }
   }
   free(list);
   free(variables);
}
