#!/bin/sh
# What others test file systems with, on a mounted store in each of its modes, by two doors: through the mount, and under
# `pagewalk fs run` beside it.
#
#   modes.sh PAGEWALK [CHECK...]
#
# The script runs all checks unless some are named:
#
#   fsx          random operations on one file, which is compared with a copy in memory
#   fio          random writes by eight engines, by threads and by processes, read again and verified
#   sqlite       two processes write to one database in each of its journal modes, and one of them is killed: what was
#                committed is there, and `integrity_check` finds nothing
#   git          a history with branches, packs and a clone: `git fsck` finds nothing, and the commits are those that git makes on tmpfs
#   leveldb      `ycsb.sh --kill`: LevelDB or the mount is killed, and what was acknowledged is there. Not with --write-back, which says
#                that it may not be
#   pjdfstest    the calls of POSIX. PJDFSTEST is the folder of its built sources; without, this check is left out
#
# After each mode `pagewalk fs fsck` looks at the store. The exit code is 1 if a check failed; its output is shown.
#
# The script takes root, and what `scripts/setup.sh modes` installs. MODES: "sync no-sync strict power-failure write-back". MODES_DOORS:
# "mount shim". MODES_FOLDER: where the stores lie, /var/tmp, on a disk. FSX: the command, where it is not in PATH. FSX_OPERATIONS: 20,000.
set -eu
[ $# -gt 0 ] || { echo "usage: modes.sh PAGEWALK [CHECK...]" >&2; exit 2; }
pagewalk=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- fsx fio sqlite git leveldb pjdfstest
for check in "$@"; do
    case $check in
    fsx | fio | sqlite | git | leveldb | pjdfstest) ;;
    *)
        echo "error: unknown check \`$check\`" >&2
        echo "  = help: fsx, fio, sqlite, git, leveldb and pjdfstest are known" >&2
        exit 2
        ;;
    esac
done
if [ "$(id -u)" != 0 ]; then
    echo "error: modes.sh mounts file systems for all users; that takes root" >&2
    exit 2
fi
modes=${MODES:-sync no-sync strict power-failure write-back}
doors=${MODES_DOORS:-mount shim}
fsx=${FSX:-fsx}
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
scratch=$(mktemp -d "${MODES_FOLDER:-/var/tmp}/pagewalk-modes.XXXXXX")
# pjdfstest becomes other users.
chmod 755 "$scratch"
at=$scratch/mount
mkdir "$at"
mount=""
clean() {
    status=$?
    trap - EXIT
    ! mountpoint -q "$at" || umount -l "$at"
    [ -z "$mount" ] || wait "$mount" 2>/dev/null || true
    rm -rf "$work" "$scratch"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM

# mount_store MODE
mount_store() {
    option=--$1
    [ "$1" != sync ] || option=""
    "$pagewalk" fs mkfs --force --size 2GiB "$scratch/store.ctfs" >/dev/null 2>&1
    # shellcheck disable=SC2086 # one option or none
    "$pagewalk" fs mount --allow-other $option "$scratch/store.ctfs" "$at" 2>"$work/mount.log" &
    mount=$!
    until mountpoint -q "$at"; do
        kill -0 "$mount" 2>/dev/null || { cat "$work/mount.log" >&2; exit 1; }
        sleep 0.05
    done
}

# In good order, and sound.
unmount() {
    umount "$at" || umount -l "$at"
    ended=0
    wait "$mount" || ended=$?
    mount=""
    [ "$ended" = 0 ] || { cat "$work/mount.log"; echo "the mount ended with $ended"; return 1; }
    "$pagewalk" fs fsck "$scratch/store.ctfs"
}

# by_door COMMAND...: as the door says
by_door() {
    case $door in
    shim) "$pagewalk" fs run -- "$@" ;;
    mount) "$@" ;;
    esac
}

# ---- The checks. Each runs in an empty folder of the mount, $folder, by $door, in $mode.

check_fsx() {
    operations=${FSX_OPERATIONS:-20000}
    # Each operation waits for the disk there.
    [ "$mode" != power-failure ] || operations=$((operations / 10))
    for seed in 1 2 3; do
        by_door "$fsx" -N "$operations" -S $seed file || return 1
    done
}

check_fio() {
    for engine in sync psync vsync pvsync2 mmap libaio posixaio io_uring; do
        case $engine in
        # It writes whole pages.
        mmap) sizes="--bs=4k" ;;
        *) sizes="--bsrange=512-64k --bs_unaligned=1" ;;
        esac
        size=24M
        [ "$mode" != power-failure ] || size=4M
        for kind in process thread; do
            thread=""
            [ $kind = process ] || thread=--thread
            # shellcheck disable=SC2086 # several options
            by_door fio --name=verify --directory="$folder" --ioengine=$engine --rw=randrw $sizes --size=$size --verify=crc32c \
                --verify_fatal=1 --numjobs=2 --randseed=7 $thread --group_reporting || return 1
            rm -f "$folder"/verify.*
        done
    done
}

check_sqlite() {
    by_door python3 "$work/sqlite.py" "$folder"
}
cat >"$work/sqlite.py" <<'PYTHON'
import hashlib, os, signal, sqlite3, subprocess, sys, time

def opened(path, journal, mapped):
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    assert connection.execute(f"PRAGMA journal_mode={journal}").fetchone()[0] == journal
    connection.execute(f"PRAGMA mmap_size={mapped}")
    return connection

def payload(writer, number):
    return hashlib.sha512(f"{writer} {number}".encode()).digest() * (1 + number % 40)

def write(path, journal, mapped, writer):
    connection = opened(path, journal, mapped)
    for number in range(400):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows VALUES (?, ?, ?)", (writer, number, payload(writer, number)))
        connection.execute("UPDATE rows SET payload = payload WHERE writer = ? AND number = ?", (writer, number // 2))
        connection.execute("COMMIT")
        print(number, flush=True)

def check(folder):
    for journal in ["delete", "truncate", "persist", "wal"]:
        for mapped in [0, 64 << 20]:
            path = os.path.join(folder, f"{journal}-{mapped}.db")
            opened(path, journal, mapped).execute("CREATE TABLE rows (writer, number, payload, PRIMARY KEY (writer, number))")
            writers = [subprocess.Popen([sys.executable, sys.argv[0], path, journal, str(mapped), str(writer)], stdout=subprocess.PIPE)
                       for writer in range(2)]
            # The one is killed in the middle, however fast the store is; the other ends by itself.
            said = [writers[0].stdout.readline() for _ in range(100)]
            writers[0].send_signal(signal.SIGKILL)
            said = [said + writers[0].stdout.readlines(), writers[1].stdout.readlines()]
            assert writers[0].wait() in [-signal.SIGKILL, 0] and writers[1].wait() == 0, "a writer failed"
            connection = opened(path, journal, mapped)
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for writer in range(2):
                rows = dict(connection.execute("SELECT number, payload FROM rows WHERE writer = ?", (writer,)))
                # The last transaction may be committed without having said so.
                assert len(rows) in [len(said[writer]), len(said[writer]) + 1], (len(rows), len(said[writer]))
                assert all(rows[number] == payload(writer, number) for number in range(len(rows)))
            print(journal, mapped, [len(lines) for lines in said])

if len(sys.argv) == 2:
    check(sys.argv[1])
else:
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
PYTHON

check_git() {
    by_door sh "$work/git.sh" "$folder" >"$work/here" || return 1
    mkdir "$work/git"
    sh "$work/git.sh" "$work/git" >"$work/there" || return 1
    rm -rf "$work/git"
    diff "$work/there" "$work/here"
}
cat >"$work/git.sh" <<'SHELL'
set -eu
cd "$1"
export HOME="$1" GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main work
cd work
commit() {
    export GIT_AUTHOR_DATE="$1 +0000" GIT_COMMITTER_DATE="$1 +0000"
    git add -A
    git commit -qm "$1"
}
change() {
    mkdir -p "folder-$(($1 % 7))"
    for file in 1 2 3 4 5 6 7 8; do
        awk -v seed="$1$file" 'BEGIN { srand(seed); for (i = 0; i < 200; i++) print int(rand() * 1e9) }' >"folder-$(($1 % 7))/$file"
    done
}
for number in $(seq 30); do
    change "$number"
    commit $((1700000000 + number))
done
git checkout -q -b side HEAD~10
mkdir -p other && date -u -d @0 >other/file
git mv folder-1/1 other/moved
commit 1700001000
git checkout -q main
git merge -q -X ours --no-edit -m merged side
git repack -q -ad
git gc -q --aggressive --prune=now
git clone -q --no-local . ../clone
git worktree add -q ../tree side
git -C ../clone rebase -q origin/side
for repository in . ../clone ../tree; do
    (cd $repository && git fsck --full --strict --no-progress && git status --porcelain)
    (cd $repository && git rev-parse HEAD && git ls-tree -r HEAD | sha1sum && git ls-files -s | sha1sum)
done
SHELL

check_leveldb() {
    [ "$mode" != write-back ] || return 0
    option=--$mode
    [ "$mode" != sync ] || option=""
    YCSB_KILL_DOORS=$door YCSB_MOUNT=$option "$here/ycsb.sh" --kill 3 "$pagewalk" "$scratch"
}

check_pjdfstest() {
    by_door prove -rQ "$PJDFSTEST/tests"
}

# ---- All of them.

failed=0
# report WHAT STATUS SECONDS
report() {
    if [ "$2" = 0 ]; then
        printf '%-14s %-6s %-10s passed (%d s)\n' "$mode" "$door" "$1" "$3"
    else
        cat "$work/log"
        printf '%-14s %-6s %-10s FAILED (%d s)\n' "$mode" "$door" "$1" "$3"
        failed=$((failed + 1))
    fi
}
for mode in $modes; do
    mount_store "$mode"
    for door in $doors; do
        for check in "$@"; do
            if [ "$check" = pjdfstest ] && [ -z "${PJDFSTEST:-}" ]; then
                echo "left out: pjdfstest; PJDFSTEST is to be the folder of its built sources"
                continue
            fi
            folder=$at/$door-$check
            mkdir "$folder"
            chmod 755 "$folder"
            begin=$(date +%s)
            status=0
            (cd "$folder" && "check_$check") >"$work/log" 2>&1 || status=$?
            report "$check" $status $(($(date +%s) - begin))
            rm -rf "$folder"
        done
    done
    door=""
    status=0
    unmount >"$work/log" 2>&1 || status=$?
    report fsck $status 0
done
[ $failed = 0 ] || { echo "$failed checks failed" >&2; exit 1; }
