#!/bin/sh
# Installs the C library, its header and its description for pkg-config: install.sh LIBRARY-FOLDER PREFIX
#
# LIBRARY-FOLDER has libpagewalk_ctfs_c.so, and libpagewalk_ctfs_c.a if it was built.
set -eu
[ $# = 2 ] || { echo "usage: install.sh LIBRARY-FOLDER PREFIX" >&2; exit 2; }
built=$1
prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define PW_VERSION_$1 //p" "$here/include/pagewalk_ctfs.h"; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
install -d "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 "$here/include/pagewalk_ctfs.h" "$prefix/include/"
install -m 755 "$built/libpagewalk_ctfs_c.so" "$prefix/lib/libpagewalk_ctfs_c.so.$version"
ln -sf "libpagewalk_ctfs_c.so.$version" "$prefix/lib/libpagewalk_ctfs_c.so.0"
ln -sf libpagewalk_ctfs_c.so.0 "$prefix/lib/libpagewalk_ctfs_c.so"
[ ! -f "$built/libpagewalk_ctfs_c.a" ] || install -m 644 "$built/libpagewalk_ctfs_c.a" "$prefix/lib/"
cat >"$prefix/lib/pkgconfig/pagewalk-ctfs.pc" <<PC
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: pagewalk-ctfs
Description: Files contiguous in virtual memory, without a system call
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lpagewalk_ctfs_c
Libs.private: -lpthread -ldl -lm
PC
