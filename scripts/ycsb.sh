#!/bin/sh
# LevelDB under the loads of YCSB (examples/ctfs/ycsb.c): on a mounted store of ours, whose program reads and writes it in its own
# memory (shim) or through the kernel (FUSE), and on the host's file system that the store lies in (plain). What is compared runs in
# turn, load by load; medians of the rounds, and of their ratios, stand beside Figure 7 of the ctFS article (Li et al., ;login: 2022).
#
#   ycsb.sh [--kill ROUNDS] PAGEWALK [FOLDER...]
#   ycsb.sh --in-memory PAGEWALK
#
# Folders are one in memory and one on a disk unless they are said. STORE=PLAIN lets the store lie in one folder and the plain files
# in another. With --in-memory the store lies in /dev/shm, beside an ext4 whose image lies there: the same memory below. With --kill
# nothing is measured: the program or the mount is killed in the middle of loads, and everything that was acknowledged must be there
# afterwards.
#
# Throughput wants an idle machine: beside other work, a program that sleeps often gets processors sooner. Processor time says more there.
#
# With --kill, YCSB_KILL_DOORS are the doors, "shim FUSE", and YCSB_MOUNT is an option of the mount.
#
# YCSB_RECORDS, YCSB_OPERATIONS, YCSB_THREADS, YCSB_ROUNDS; no round is begun that would not end within YCSB_SECONDS.
set -eu
if [ "${1:-}" = --in-memory ]; then
    export IMAGE_MIB="${IMAGE_MIB:-4096}"
    exec "$(dirname "$0")/on-images.sh" sh -c 'exec "$0" "$1" "/dev/shm=$2"' "$0" "$2"
fi
kills=0
if [ "${1:-}" = --kill ]; then
    kills=${2:?rounds}
    shift 2
fi
pagewalk=$1
shift
[ $# -gt 0 ] || set -- /dev/shm "${TMPDIR:-/var/tmp}"
# With fewer LevelDB has merged next to nothing when a load ends.
records=${YCSB_RECORDS:-100000}
operations=${YCSB_OPERATIONS:-100000}
threads=${YCSB_THREADS:-1}
rounds=${YCSB_ROUNDS:-5}
seconds=${YCSB_SECONDS:-240}
# The run of scans has a tenth of the operations, each of which reads fifty records. Writes that wait are fewer, those that wait for
# a disk few.
scans=$((operations / 10))
waits=$((operations / 20))
disk_waits=200
# Updates and what LevelDB has not yet merged take their room, by two doors.
store_mib=$((1024 + records / 32))

work=$(mktemp -d)
scratches=""
mounts=""
program=""
clean() {
    status=$?
    trap - EXIT
    for pid in $program $mounts; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    for scratch in $scratches; do
        for at in "$scratch"/mount*; do
            ! mountpoint -q "$at" || umount -l "$at"
        done
        rm -rf "$scratch"
    done
    rm -rf "$work"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM

ycsb=$work/ycsb
cc -std=gnu11 -O2 -o "$ycsb" "$(dirname "$0")/../examples/ctfs/ycsb.c" -lleveldb -lpthread -lm

# make_scratch FOLDER: an empty folder in it, as $scratch; in it is plain, or a link to that
make_scratch() {
    scratch=$(mktemp -d "${1%%=*}/pagewalk-ycsb.XXXXXX")
    scratches="$scratches $scratch"
    case $1 in
    *=*)
        plain=$(mktemp -d "${1#*=}/pagewalk-ycsb.XXXXXX")
        scratches="$scratches $plain"
        ln -s "$plain" "$scratch/plain"
        ;;
    *) mkdir "$scratch/plain" ;;
    esac
}

# mount_store STORE MIB MOUNT [OPTION...]: its process is $mount
mount_store() {
    store=$1
    mib=$2
    at=$3
    shift 3
    [ -e "$store" ] || "$pagewalk" fs mkfs --size "${mib}MiB" "$store" 2>/dev/null
    mkdir -p "$at"
    "$pagewalk" fs mount "$@" "$store" "$at" 2>>"$work/mount.log" &
    mount=$!
    mounts="$mounts $mount"
    until mountpoint -q "$at"; do
        kill -0 "$mount" 2>/dev/null || { cat "$work/mount.log" >&2; exit 1; }
        sleep 0.05
    done
}

# gone PID: it is not among the mounts any more
gone() {
    left=""
    for pid in $mounts; do
        [ "$pid" = "$1" ] || left="$left $pid"
    done
    mounts=$left
}

# unmount PID: in good order
unmount() {
    ended=0
    kill -TERM "$1" 2>/dev/null || true
    wait "$1" || ended=$?
    gone "$1"
    if [ $ended != 0 ]; then
        cat "$work/mount.log" >&2
        echo "error: a mount ended with $ended" >&2
        exit 1
    fi
}

# drive DOOR ARGUMENT...: the driver, by the door
drive() {
    by=$1
    shift
    case $by in
    shim) "$pagewalk" fs run -- "$ycsb" "$@" ;;
    *) "$ycsb" "$@" ;;
    esac
}

# ---- Killing.

# a time to wait from 0.05 to 1.2 seconds
moment() {
    shuf -i 50-1200 -n 1 | awk '{ printf "%.3f", $1 / 1000 }'
}

# begin DOOR: the driver inserts, updates and reads in the background, as $program
begin() {
    by=$1
    set -- --threads 2 --state "$state" --folder "$database" --records 5000 --operations 20000 --seed "$round" \
        --loads load-a,run-a,run-f,run-d,load-e,run-a,run-f,run-d,load-e,run-a,run-f,run-d,run-a,run-f,run-d
    # Not `drive`: the process is to be the driver's own.
    case $by in
    shim) "$pagewalk" fs run -- "$ycsb" "$@" >/dev/null 2>"$work/begin.log" & ;;
    *) "$ycsb" "$@" >/dev/null 2>"$work/begin.log" & ;;
    esac
    program=$!
}

# The driver ends, within ten seconds; what it says of what it read must not be that it is wrong.
end() {
    for _ in $(seq 100); do
        kill -0 "$program" 2>/dev/null || break
        sleep 0.1
    done
    if kill -KILL "$program" 2>/dev/null; then
        hung=$((hung + 1))
    fi
    ended=0
    wait "$program" || ended=$?
    program=""
    case $ended in
    0) ;;
    1)
        cat "$work/begin.log" >&2
        exit 1
        ;;
    *) middle=$((middle + 1)) ;;
    esac
}

# verify DOOR: everything acknowledged is there
verify() {
    if ! drive "$1" --state "$state" --folder "$database" --verify >"$work/verify.log" 2>&1; then
        cat "$work/verify.log" >&2
        echo "error: $victim killed in round $round through $door: what was acknowledged is not there" >&2
        exit 1
    fi
    keys=$(awk '/^verified/ { print $2 }' "$work/verify.log")
    [ -n "$keys" ]
}

if [ "$kills" -gt 0 ]; then
    for folder in "$@"; do
        make_scratch "$folder"
        store=$scratch/files.ctfs
        at=$scratch/mount
        # shellcheck disable=SC2086 # one option or none
        mount_store "$store" 512 "$at" ${YCSB_MOUNT:-}
        for door in ${YCSB_KILL_DOORS:-shim FUSE}; do
            for victim in program mount; do
                database=$at/$door-$victim
                state=$work/state
                rm -f "$state"
                hung=0
                middle=0
                for round in $(seq "$kills"); do
                    begin $door
                    sleep "$(moment)"
                    if [ $victim = program ]; then
                        kill -KILL "$program" 2>/dev/null || true
                        end
                    else
                        kill -KILL "$mount"
                        wait "$mount" 2>/dev/null || true
                        gone "$mount"
                        end
                        umount -l "$at"
                        "$pagewalk" fs fsck "$store" >"$work/fsck.log" || { cat "$work/fsck.log" >&2; exit 1; }
                        # shellcheck disable=SC2086 # one option or none
                        mount_store "$store" 512 "$at" ${YCSB_MOUNT:-}
                    fi
                    # By one door and by the other.
                    verify $door
                    [ $((round % 4)) != 0 ] || verify "$([ $door = shim ] && echo FUSE || echo shim)"
                done
                rm -rf "$database"
                note=""
                [ $hung = 0 ] || note="; $hung times the program did not end by itself"
                echo "$folder: $victim killed $kills times ($middle in the middle), program through $door: $keys keys, nothing acknowledged is lost$note"
            done
        done
        unmount "$mount"
        "$pagewalk" fs fsck "$store" | sed "s|^|$folder: |"
    done
    exit 0
fi

# ---- Measuring.

ticks=$(getconf CLK_TCK)
# Processor time of the mounts until now, in seconds.
used() {
    for pid in $mounts; do
        cat "/proc/$pid/stat"
    done | awk -v ticks="$ticks" '{ sum += $14 + $15 } END { printf "%.3f", sum / ticks }'
}

# measure FOLDER GROUP DOOR DATABASE LOAD ARGUMENT...
measure() {
    folder=$1
    group=$2
    door=$3
    database=$4
    load=$5
    shift 5
    before=$(used)
    line=$(drive "$door" --json --threads "$threads" --state "$work/$(basename "$scratch")-$group-$door" --folder "$database" \
        --loads "$load" --seed "$round" "$@")
    [ "$round" -gt 0 ] || return 0
    echo "{\"round\":$round,\"folder\":\"$folder\",\"group\":\"$group\",\"door\":\"$door\",\"mount_seconds\":[$before,$(used)],\"run\":$line}" \
        >>"$work/results"
}

# turn ITEM...: the items, another one first in each round
turn() {
    echo "$@" | awk -v round="$round" '{ for (i = 0; i < NF; i++) printf "%s ", $((i + round) % NF + 1) }'
}

# forget: databases and what is known of them
forget() {
    rm -rf "$scratch"/plain/* "$scratch"/mount*/*
    rm -f "$work/$(basename "$scratch")"-*
}

number=0
for folder in "$@"; do
    make_scratch "$folder"
    number=$((number + 1))
    eval "scratch_$number=\$scratch"
    mount_store "$scratch/files.ctfs" "$store_mib" "$scratch/mount"
    type=$(findmnt -n -o FSTYPE --target "$scratch/plain/" | tail -n 1)
    # Nothing in memory survives a power failure.
    [ "$(findmnt -n -o FSTYPE --target "$scratch" | tail -n 1)" = tmpfs ] ||
        mount_store "$scratch/power-failure.ctfs" 256 "$scratch/mount-power-failure" --power-failure
    echo "{\"folder\":\"$folder\",\"type\":\"$type\",\"records\":$records,\"operations\":$operations,\"threads\":$threads}" \
        >>"$work/folders"
done
begun=$(date +%s)
# Round 0 counts for nothing: pages of a store on an unused disk are made and cleared at their first use.
for round in $(seq 0 "$rounds"); do
    round_begun=$(date +%s)
    number=0
    for folder in "$@"; do
        number=$((number + 1))
        eval "scratch=\$scratch_$number"
        # YCSB's order: the first six on one database, the others on a new one.
        for loads in "load-a run-a run-b run-c run-f run-d" "load-e run-e"; do
            forget
            for load in $loads; do
                asked=$operations
                [ "$load" != run-e ] || asked=$scans
                verify=""
                [ "$load" = "${loads##* }" ] && verify=--verify
                for door in $(turn shim FUSE plain); do
                    # Slow, and no target.
                    [ "$door" != FUSE ] || [ "$round" = 1 ] || continue
                    at=$scratch/mount/$door
                    [ "$door" != plain ] || at=$scratch/plain/$door
                    measure "$folder" process "$door" "$at" "$load" --records "$records" --operations "$asked" $verify
                done
            done
        done
        forget
        # Every write of LevelDB's waits until what it wrote survives whatever the memory survives, on both sides.
        if [ -e "$scratch/mount-power-failure" ]; then
            synchronous=$scratch/mount-power-failure
            writes=$disk_waits
        elif [ -L "$scratch/plain" ]; then
            synchronous=$scratch/mount
            writes=$waits
        else
            continue
        fi
        for load in load-a run-a; do
            for door in $(turn shim plain); do
                at=$synchronous/$door
                [ "$door" != plain ] || at=$scratch/plain/$door
                measure "$folder" synchronous "$door" "$at" "$load" --sync --records "$writes" --operations "$writes"
            done
        done
        forget
    done
    now=$(date +%s)
    if [ "$round" -gt 0 ] && [ $((now - begun + now - round_begun)) -gt "$seconds" ]; then
        break
    fi
done
for pid in $mounts; do
    unmount "$pid"
done

python3 - "$work" <<'PYTHON'
import json
import statistics
import sys

folder = sys.argv[1]
with open(f"{folder}/folders") as file:
    folders = [json.loads(line) for line in file]
with open(f"{folder}/results") as file:
    results = [json.loads(line) for line in file]

# Li et al., section 3 and Figure 7: the text gives averages and the best case only.
WRITES = ("load-a", "load-e", "run-a", "run-b", "run-f")
ARTICLE = {"run-a": "3.62"} | {load: "1.25 to 1.36" for load in ("run-c", "run-d", "run-e")}
ALLOWED = {"load-a": 1.3, "run-a": 1.3}


def series(where, group, door, load, value):
    wanted = (where, group, door, load)
    return {r["round"]: value(r) for r in results if (r["folder"], r["group"], r["door"], r["run"]["load"]) == wanted}


def throughput(result):
    return result["run"]["operations_per_second"] / 1000


def processor(result):
    before, after = result["mount_seconds"]
    return (result["run"]["cpu_seconds"] + after - before) / result["run"]["operations"] * 1e6


def without_kernel(result):
    return result["run"]["cpu_seconds"] / result["run"]["user_seconds"]


def ratio(ours, theirs):
    return statistics.median(ours[r] / theirs[r] for r in ours)


for described in folders:
    where, kind = described["folder"], described["type"]
    loads = dict.fromkeys(r["run"]["load"] for r in results if r["folder"] == where)
    rounds = len({r["round"] for r in results if r["folder"] == where})
    print(
        f"\n{where} ({kind}): {described['records']} records of 1 KiB, {described['operations']} operations,"
        f" {described['threads']} threads, {rounds} rounds"
    )
    print("1,000 operations a second; what was acknowledged survives the end of processes, on both sides")
    print(
        f"{'':8}{'shim':>9}{'FUSE':>9}{kind:>9}   {'shim/' + kind:>11}{'FUSE/' + kind:>11}   ctFS-sync/ext4-DAX"
        f"   processor, us each: shim, FUSE, {kind}   {kind} without the kernel"
    )
    writes = {"shim": [], "FUSE": []}
    for load in loads:
        doors = {door: series(where, "process", door, load, throughput) for door in ("shim", "FUSE", "plain")}
        limit = statistics.median(series(where, "process", "plain", load, without_kernel).values())
        times = {door: series(where, "process", door, load, processor) for door in doors}
        ratios = {door: ratio(doors[door], doors["plain"]) for door in ("shim", "FUSE")}
        if load in WRITES:
            for door in writes:
                writes[door].append(ratios[door])
        missed = "MISS" if kind == "ext4" and ratios["shim"] < ALLOWED.get(load, 0) else ""
        print(
            f"{load:8}"
            + "".join(f"{statistics.median(doors[door].values()):9.1f}" for door in doors)
            + f"   {ratios['shim']:11.2f}{ratios['FUSE']:11.2f}   {ARTICLE.get(load, ''):18}  "
            + "".join(f"{statistics.median(times[door].values()):8.1f}" for door in times)
            + f"{limit:17.2f}   {missed}"
        )
    print(
        f"{'write-heavy, on average':35}   {statistics.mean(writes['shim']):11.2f}"
        f"{statistics.mean(writes['FUSE']):11.2f}   2.88"
    )
    if kind == "ext4":
        print("wanted: 1.3 for load-a and run-a, shim/ext4; the last column is what no time at all in the kernel would give ext4's program")
    synchronous = {
        load: {door: series(where, "synchronous", door, load, throughput) for door in ("shim", "plain")}
        for load in ("load-a", "run-a")
    }
    if not synchronous["load-a"]["shim"]:
        continue
    if "=" in where:
        print(f"LevelDB's synchronous writes; they survive what the memory survives: every write of the store does, {kind} with fdatasync")
    else:
        print(f"LevelDB's synchronous writes; they survive power failures: store with --power-failure, {kind} with fdatasync")
    for load, doors in synchronous.items():
        print(
            f"{load:8}{statistics.median(doors['shim'].values()):9.2f}{'':9}"
            f"{statistics.median(doors['plain'].values()):9.2f}   {ratio(doors['shim'], doors['plain']):11.2f}"
        )
PYTHON
