#!/bin/sh
# Many small files, and large ones by dd: on tmpfs, on ext4 in a loop device, on a file system that does next to nothing behind FUSE
# (crates/ctfs/examples/bare.rs, where it is built beside PAGEWALK; also with --write-back: bare-wb), on a mounted store, on it under
# `pagewalk fs run`, and on another that is mounted with --write-back; all of them in the same memory, in turn, round by round. Medians in
# seconds, and the ratios that are to be reached.
#
#   small-files.sh PAGEWALK
#
# SMALL_FILES_ROUNDS, SMALL_FILES_MEMORY (/dev/shm). Only root can mount ext4 and drop what the kernel keeps; without, these are left out.
set -eu
pagewalk=$1
rounds=${SMALL_FILES_ROUNDS:-3}
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
scratch=$(mktemp -d "${SMALL_FILES_MEMORY:-/dev/shm}/pagewalk-small-files.XXXXXX")
processes=""
clean() {
    status=$?
    trap - EXIT
    for folder in "$scratch/store" "$scratch/write-back" "$scratch/bare" "$scratch/bare-wb"; do
        if mountpoint -q "$folder"; then
            umount -l "$folder" 2>/dev/null || fusermount3 -uz "$folder"
        fi
    done
    for process in $processes; do
        wait "$process" 2>/dev/null || true
    done
    ! mountpoint -q "$scratch/ext4" || umount -l "$scratch/ext4"
    rm -rf "$work" "$scratch"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM

cc -O2 -o "$work/small-files" "$here/small-files.c"
"$work/small-files" tree "$scratch/tree"
tar -C "$scratch" -cf "$scratch/tree.tar" tree
mkdir "$scratch/tmpfs" "$scratch/ext4" "$scratch/store" "$scratch/write-back" "$scratch/bare" "$scratch/bare-wb"
# mounted FOLDER COMMAND...: starts what mounts something there, and waits until it has.
mounted() {
    folder=$1
    shift
    "$@" 2>"$folder.log" &
    processes="$processes $!"
    until mountpoint -q "$folder"; do
        kill -0 "$!" 2>/dev/null || { cat "$folder.log" >&2; exit 1; }
        sleep 0.05
    done
}
for store in store write-back; do
    "$pagewalk" fs mkfs --size 2GiB "$scratch/$store.ctfs" >/dev/null 2>&1
done
mounted "$scratch/store" "$pagewalk" fs mount "$scratch/store.ctfs" "$scratch/store"
mounted "$scratch/write-back" "$pagewalk" fs mount --write-back "$scratch/write-back.ctfs" "$scratch/write-back"
places="mount shim write-back"
bare=$(dirname "$pagewalk")/examples/bare
if [ -x "$bare" ]; then
    mounted "$scratch/bare" "$bare" "$scratch/bare"
    mounted "$scratch/bare-wb" "$bare" --write-back "$scratch/bare-wb"
    places="bare $places bare-wb"
fi
if [ "$(id -u)" = 0 ] && truncate -s 2G "$scratch/image" && mkfs.ext4 -q -F "$scratch/image" && mount -o loop "$scratch/image" "$scratch/ext4"; then
    places="ext4 $places"
fi
places="tmpfs $places"

# Forgets what the kernel keeps of files, if that is allowed.
forget() {
    sync
    { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null
}

# with PLACE COMMAND...: a command as programs on that place run.
with() {
    if [ "$1" = shim ]; then
        shift
        "$pagewalk" fs run -- "$@"
    else
        shift
        "$@"
    fi
}

# timed PLACE ITEM COMMAND...: how long a command takes, as a line of results.
timed() {
    place=$1
    item=$2
    shift 2
    begun=$(date +%s.%N)
    with "$place" "$@" >/dev/null 2>&1
    echo "$place $item $(date +%s.%N) $begun" | awk '{ printf "%s %s %.6f\n", $1, $2, $3 - $4 }' >>"$work/results"
}

round() {
    place=$1
    case $place in
        mount | shim) folder=$scratch/store/$place ;;
        *) folder=$scratch/$place/here ;;
    esac
    mkdir "$folder"
    mkdir "$folder/names"
    with "$place" "$work/small-files" names "$folder/names" 20000 | sed "s/^/$place /" >>"$work/results"
    timed "$place" cp-r cp -r "$scratch/tree" "$folder/copy"
    timed "$place" tar-x tar -C "$folder" -xf "$scratch/tree.tar"
    if command -v git >/dev/null; then
        (cd "$folder/tree" && git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm a) >/dev/null
        if forget; then timed "$place" git-status git -C "$folder/tree" status; fi
    fi
    rm -rf "$folder/copy" "$folder/tree"
    timed "$place" dd-write-1M dd if=/dev/zero of="$folder/large" bs=1M count=600
    if forget; then timed "$place" dd-read-1M dd if="$folder/large" of=/dev/null bs=1M; fi
    rm "$folder/large"
    timed "$place" dd-write-4K dd if=/dev/zero of="$folder/large" bs=4K count=50000
    rm -rf "$folder"
}

for number in $(seq "$rounds"); do
    for place in $places; do
        [ ! -t 2 ] || printf '\rround %s of %s: %s   ' "$number" "$rounds" "$place" >&2
        round "$place"
    done
done
[ ! -t 2 ] || printf '\r                              \r' >&2

# Medians; then each ratio beside what it is to be at most.
sort -k1,1 -k2,2 -k3,3n "$work/results" | awk -v places="$places" '
    { key = $1 " " $2; times[key, ++count[key]] = $3; if (!($2 in seen)) { seen[$2] = 1 } }
    function median(place, item, key) {
        key = place " " item
        return key in count ? times[key, int((count[key] + 1) / 2)] : -1
    }
    function target(item, place, over, most, a, b) {
        a = median(place, item); b = median(over, item)
        if (a >= 0 && b > 0) printf "%-16s %s over %s: %.2f, at most %.1f%s\n", item, place, over, a / b, most, (a / b > most ? "  MISSED" : "")
    }
    END {
        items = split("create stat open-read-close unlink cp-r tar-x git-status dd-write-1M dd-read-1M dd-write-4K", item, " ")
        columns = split(places, column, " ")
        printf "%-16s", "seconds"
        for (at = 1; at <= columns; at++) printf "%11s", column[at]
        print ""
        for (row = 1; row <= items; row++) {
            if (!(item[row] in seen)) continue
            printf "%-16s", item[row]
            for (at = 1; at <= columns; at++) { found = median(column[at], item[row]); printf "%11s", (found < 0 ? "-" : sprintf("%.3f", found)) }
            print ""
        }
        print ""
        for (row = 1; row <= 4; row++) target(item[row], "shim", "tmpfs", 1.0)
        for (row = 1; row <= items; row++) target(item[row], "mount", "bare", 1.2)
        for (row = 8; row <= 10; row++) target(item[row], "write-back", "bare-wb", 1.2)
        target("cp-r", "shim", "ext4", 0.5); target("tar-x", "shim", "ext4", 0.5)
        for (row = 8; row <= 10; row++) { target(item[row], "mount", "ext4", 1.3); target(item[row], "write-back", "ext4", 1.3) }
    }'
