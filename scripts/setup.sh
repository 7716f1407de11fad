#!/bin/sh
# Makes sure that what the build needs is there: installs missing Debian packages as root, and otherwise says
# which are missing. The language toolchain (Rust 1.95 or later) is the user's.
#
#   setup.sh             what building and testing need
#   setup.sh hardware    what the circuit in hardware/ needs
#   setup.sh riscv       what the RISC-V machine's programs and their comparison need
#   setup.sh programs    real programs that built-in workloads stand for
#   setup.sh leveldb     what the loads of YCSB run on
#   setup.sh images      file systems to compare with
#   setup.sh server      a server to observe
#   setup.sh modes       what others test file systems with
#   setup.sh suites      what Debian's sources need that scripts/suites.sh builds and tests
set -eu

if ! command -v cargo >/dev/null; then
    echo "error: cargo is not installed; Pagewalk needs Rust 1.95 or later" >&2
    exit 2
fi

# command or file to look for: package that has it
missing=""
need() {
    command -v "$1" >/dev/null || [ -e "$1" ] || missing="$missing $2"
}
case "${1:-}" in
"")
    need make make
    need gcc gcc
    need g++ g++                                # libFuzzer
    need /usr/include/stdlib.h libc6-dev
    need valgrind valgrind                      # the front-end for unmodified programs, and what it is built against
    need /usr/include/valgrind/pub_tool_basics.h valgrind
    need strace strace                          # tests compare the observed system calls with it
    need clang-19 clang-19                      # tests of the compile-time front-end
    need /usr/lib/llvm-19/lib/clang/19/lib/linux libclang-rt-19-dev
    need qemu-x86_64 qemu-user                  # the front-end for other instruction sets
    need ld.lld-19 lld-19                       # tests of it link programs for them
    need python3 python3                        # seeds of the fuzz targets, calls from the C library's headers
    need /usr/lib/python3/dist-packages/jsonschema python3-jsonschema # tests validate result documents with it
    need setfacl acl                            # tests of access lists on a mount
    need setcap libcap2-bin                     # and of capabilities of programs
    ;;
hardware)
    need g++ g++
    need verilator verilator
    need yosys yosys
    need sta opensta
    need /usr/share/qflow/tech/osu018/osu018_stdcells.lib qflow-tech-osu018
    ;;
riscv)
    need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf
    need qemu-system-riscv64 qemu-system-misc
    ;;
programs)
    need mummer mummer
    need sysbench sysbench
    need python3 python3
    ;;
leveldb)
    need gcc gcc
    need /usr/include/leveldb/c.h libleveldb-dev
    need python3 python3
    ;;
images)
    need mkfs.ext4 e2fsprogs
    need mkfs.xfs xfsprogs
    need losetup mount
    ;;
server)
    need redis-check-rdb redis-tools            # holds the server as well, and starts none
    ;;
suites)
    need make make
    need gcc gcc
    need g++ g++                                # tests of autoconf compile C++
    need /usr/include/stdlib.h libc6-dev
    need m4 m4                                  # what autoconf is written in
    need perl perl                              # tests of coreutils and autoconf
    need /usr/share/i18n/charmaps/UTF-8.gz locales
    need runtest dejagnu                        # drives tests of findutils
    need dpkg-source dpkg-dev                   # apt-get checks and names sources with it
    need python3 python3
    need /usr/include/sys/acl.h libacl1-dev     # coreutils and tar copy access lists, attributes and capabilities
    need /usr/include/attr/libattr.h libattr1-dev
    need /usr/include/sys/capability.h libcap-dev
    need setfacl acl                            # and their tests look at them
    need setfattr attr
    need setcap libcap2-bin
    need strace strace
    need xz xz-utils
    ;;
modes)
    need gcc gcc
    need fio fio
    need git git
    need prove perl
    need python3 python3
    need /usr/include/leveldb/c.h libleveldb-dev
    ;;
*)
    echo "usage: setup.sh [hardware|riscv|programs|leveldb|images|server|suites|modes]" >&2
    exit 2
    ;;
esac

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
[ -n "${missing% }" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "error: missing packages: $missing" >&2
    echo "  = help: on Debian: sudo apt-get install $missing" >&2
    exit 2
fi
echo "installing: $missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
# shellcheck disable=SC2086 # a list of packages
apt-get install -y -qq --no-install-recommends $missing >&2
