#!/bin/sh
# Runs a command with two more arguments: folders of an ext4 and of an xfs whose images lie in memory (/dev/shm), so that what is
# measured there has the same memory below as tmpfs. Everything goes away afterwards.
#
#   on-images.sh COMMAND [ARGUMENT...]
#
# It takes root, loop devices, and what `scripts/setup.sh images` installs; elsewhere it says so and does nothing. IMAGE_MIB is how
# large each image is.
set -eu
mib=${IMAGE_MIB:-2048}
lacks=""
[ "$(id -u)" = 0 ] || lacks="root"
losetup --find >/dev/null 2>&1 || lacks="$lacks loop devices"
for maker in mkfs.ext4 mkfs.xfs; do
    command -v "$maker" >/dev/null || lacks="$lacks $maker"
done
if [ -n "$lacks" ]; then
    echo "skipped: ext4 and xfs in memory; missing: $lacks" >&2
    exit 0
fi

scratch=$(mktemp -d /dev/shm/pagewalk-images.XXXXXX)
clean() {
    status=$?
    trap - EXIT
    for type in ext4 xfs; do
        ! mountpoint -q "$scratch/$type" || umount "$scratch/$type" || umount -l "$scratch/$type"
    done
    rm -rf "$scratch"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM
for type in ext4 xfs; do
    truncate -s "${mib}M" "$scratch/image-$type"
    case $type in
    ext4) mkfs.ext4 -q -F "$scratch/image-ext4" ;;
    xfs) mkfs.xfs -q -f "$scratch/image-xfs" ;;
    esac
    mkdir "$scratch/$type"
    # The loop device goes with the mount.
    mount -o loop "$scratch/image-$type" "$scratch/$type"
done
"$@" "$scratch/ext4" "$scratch/xfs"
