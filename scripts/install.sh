#!/bin/sh
# Installs what `make build` has built: install.sh TARGET-FOLDER PREFIX
#
#   PREFIX/bin/pagewalk, PREFIX/lib/pagewalk       the command, and what it loads into programs
#   SBIN/mount.fuse.pagewalk, SBIN/mount.pagewalk  the command as mount(8) calls it; SBIN is /sbin, the only folder that mount(8) looks in
#   UNITS/pagewalk@.service                        a mount as a service; UNITS is PREFIX/lib/systemd/system
#
# DESTDIR, if it is set, comes before all of them.
set -eu
[ $# = 2 ] || { echo "usage: install.sh TARGET-FOLDER PREFIX" >&2; exit 2; }
built=$1
prefix=$2
root=${DESTDIR:-}
sbin=${SBIN:-/sbin}
units=${UNITS:-$prefix/lib/systemd/system}
profile=${PROFILE:-release}
here=$(cd "$(dirname "$0")/.." && pwd)
install -d "$root$prefix/bin" "$root$prefix/lib/pagewalk" "$root$sbin" "$root$units"
install -m 755 "$built/$profile/pagewalk" "$root$prefix/bin/"
install -m 755 "$built/$profile/libpagewalk_ctfs_shim.so" "$root$prefix/lib/pagewalk/"
[ ! -d "$built/pagewalk" ] || cp -R "$built/pagewalk/." "$root$prefix/lib/pagewalk/"
for helper in mount.fuse.pagewalk mount.pagewalk; do
    ln -sf "$prefix/bin/pagewalk" "$root$sbin/$helper"
done
sed "s|@BINDIR@|$prefix/bin|" "$here/systemd/pagewalk@.service" >"$root$units/pagewalk@.service"
chmod 644 "$root$units/pagewalk@.service"
