#!/bin/sh
# Builds the programs into a folder, with Debian's cross compiler: build.sh FOLDER
set -eu
here=$(dirname "$0")
out=$1
for compiler in riscv64-unknown-elf-gcc riscv64-linux-gnu-gcc; do
   command -v "$compiler" >/dev/null && break
done
command -v "$compiler" >/dev/null || {
   echo "no RISC-V compiler: install gcc-riscv64-unknown-elf" >&2
   exit 3
}
mkdir -p "$out"
for program in selftest stress quicksort address; do
   "$compiler" -march=rv64imac_zicsr_zifencei -mabi=lp64 -mcmodel=medany -O2 -Wall -Wextra -fno-builtin -ffreestanding \
      -fno-pic -no-pie -static -nostdlib -nostartfiles -I"$here" -T "$here/link.ld" \
      "$here/start.S" "$here/trap.S" "$here/kernel.c" "$here/$program.c" -o "$out/$program.elf"
done
