#!/bin/sh
# A program's system calls on a mounted store, answered in its own memory (shim) and through the kernel (FUSE), and the same calls on
# a file of the folder that the store lies in: six patterns (`pagewalk fs bench`), in turn, round by round; medians of the ratios.
#
#   shim.sh PAGEWALK [FOLDER...]
#
# SHIM_MIB, a power of two, is how large the file is; SHIM_ROUNDS; SHIM_MOUNT, an option of the mount.
set -eu
pagewalk=$1
shift
[ $# -gt 0 ] || set -- /dev/shm "${TMPDIR:-/var/tmp}"
mib=${SHIM_MIB:-256}
rounds=${SHIM_ROUNDS:-5}

work=$(mktemp -d)
mount=""
scratch=""
clean() {
    status=$?
    trap - EXIT
    if [ -n "$mount" ]; then
        kill -KILL "$mount" 2>/dev/null || true
        wait "$mount" 2>/dev/null || true
    fi
    if [ -n "$scratch" ]; then
        ! mountpoint -q "$scratch/mount" || umount -l "$scratch/mount"
        rm -rf "$scratch"
    fi
    rm -rf "$work"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM

# measure DOOR ROUND COMMAND...: one round, as a line of results
measure() {
    door=$1
    round=$2
    shift 2
    line=$("$@" --calls-alone --rounds 1 --size "${mib}MiB" --format json 2>/dev/null | tr -d '\n')
    # The first round finds nothing in memory yet.
    [ "$round" = 0 ] || echo "{\"door\":\"$door\",\"round\":$round,\"run\":$line}" >>"$work/results"
}

for folder in "$@"; do
    scratch=$(mktemp -d "$folder/pagewalk-shim.XXXXXX")
    mkdir "$scratch/mount" "$scratch/plain"
    "$pagewalk" fs mkfs --size "$((mib + mib / 4 + 64))MiB" "$scratch/files.ctfs" 2>/dev/null
    # shellcheck disable=SC2086 # one option or none
    "$pagewalk" fs mount ${SHIM_MOUNT:-} "$scratch/files.ctfs" "$scratch/mount" 2>"$work/mount.log" &
    mount=$!
    until mountpoint -q "$scratch/mount"; do
        kill -0 "$mount" 2>/dev/null || { cat "$work/mount.log" >&2; exit 1; }
        sleep 0.05
    done
    : >"$work/results"
    for round in $(seq 0 "$rounds"); do
        measure shim "$round" "$pagewalk" fs run -- "$pagewalk" fs bench "$scratch/mount"
        measure plain "$round" "$pagewalk" fs bench "$scratch/plain"
        # Slow, and no target.
        [ "$round" -gt 1 ] || measure FUSE "$round" "$pagewalk" fs bench "$scratch/mount"
    done
    umount "$scratch/mount"
    wait "$mount"
    mount=""
    type=$(findmnt -n -o FSTYPE --target "$scratch" | tail -n 1)
    rm -rf "$scratch"
    scratch=""
    python3 - "$folder" "$type" "$mib" "$work/results" <<'PYTHON'
import json
import statistics
import sys

folder, kind, mib, results = sys.argv[1:]
taken = {}
with open(results) as file:
    for line in map(json.loads, file):
        for row in line["run"]["rows"]:
            taken[line["door"], row["item"], line["round"]] = row["microseconds"]
rounds = sorted({number for door, _, number in taken if door == "shim"})
items = list(dict.fromkeys(item for _, item, _ in taken))
# Times the host's calls, in memory and on ext4.
WANTED = {"tmpfs": {"append": 3, "swe": 2.5, "rr": 2.5, "rw": 2.5}, "ext4": {"append": 4}}.get(kind, {})
print(f"\n{folder} ({kind}): {mib} MiB, us for each call, medians of {len(rounds)} rounds")
print(f"{'':8}{'shim':>12}{'FUSE':>12}{kind:>12}{'shim/' + kind:>14}   wanted")
for item in items:
    shim, plain, fuse = (
        [taken[door, item, number] for number in rounds if (door, item, number) in taken]
        for door in ("shim", "plain", "FUSE")
    )
    ratio = statistics.median(b / a for a, b in zip(shim, plain))
    wanted = WANTED.get(item)
    said = "" if wanted is None else f"{wanted}" + ("" if ratio >= wanted else "  MISS")
    print(
        f"{item:8}{statistics.median(shim):12.2f}{statistics.median(fuse):12.2f}{statistics.median(plain):12.2f}"
        f"{ratio:14.2f}   {said}"
    )
PYTHON
done
