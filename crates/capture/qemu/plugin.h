/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 *   plugin.c  accesses, instructions, system calls
 *   exec.c    a program that becomes another one stays observed
 *   api.h     QEMU's side
 */
#ifndef PAGEWALK_QEMU_PLUGIN_H
#define PAGEWALK_QEMU_PLUGIN_H

#include "../protocol/runtime.h"
#include "api.h"

/* At the start of a program for the instruction set of this number, as ELF files have it. */
HIDDEN void pw_exec_prepare(unsigned machine);
/* Where the program's memory lies in QEMU's, told by any of its instructions. */
HIDDEN void pw_exec_learn(const struct qemu_plugin_insn *instruction);
/* A pointer of the program as one of ours: for system calls only, which look before they read. */
HIDDEN char *pw_exec_host(uint64_t address);
/* Reads a word of the program's memory; whether there is one. */
HIDDEN bool pw_exec_word(uint64_t address, uint64_t *word);
/* execve(path, arguments, environment), addresses in the program's memory: does not return if the new program runs
 * under QEMU and the plugin again. What it returns from is left to QEMU: errors, and programs that are not for the same
 * QEMU. */
HIDDEN void pw_exec(uint64_t path, uint64_t arguments, uint64_t environment);

#endif
