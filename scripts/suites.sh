#!/bin/sh
# Test suites of real programs on a mounted store, under `pagewalk fs run`, beside the same suites on tmpfs: Debian's sources of bash,
# dash, coreutils, findutils, tar and autoconf, built once, run in both places, and compared test by test.
#
#   suites.sh PAGEWALK [SUITE[=TESTS]...]
#
# The script runs all suites unless some are named. TESTS are the tests of a suite that run, separated by blanks, as the suite names
# them: `bash=run-array`, `coreutils=tests/cp/link.sh`, `findutils=tests/find/used.sh`, `tar=1-20`, `autoconf=5`, `dash=tar`.
#
#   bash, coreutils, findutils, tar, autoconf    what their `make check` runs, as user nobody
#   coreutils-root                               the tests of coreutils that root alone can run, as root
#   dash                                         has no tests of its own: it runs the `configure` of all six sources and compiles itself;
#                                                what comes out is compared byte by byte
#
# Both runs of a suite see the same absolute path: at first it is a folder, then the store is mounted there. The exit code is 1 if a
# test passes on tmpfs and does not under the shim, unless the list of differences below explains it.
#
# The script takes root, to mount, and what `scripts/setup.sh suites` installs. SUITES_DOORS: "tmpfs shim", also FUSE, the mount without
# the shim. SUITES_FOLDER: where everything lies while it runs, /dev/shm. SUITES_OUT: where sources, logs and results stay, target/suites.
# SUITES_SECONDS: how long one run of a suite may take, instead of its own limit.
set -eu

# Differences that are known: suite, test, reason. A test whose result differs for another reason is not to be listed.
differences() {
    cat <<'LIST'
coreutils tests/cp/sparse-perf files end at 512 GiB, and the test makes one of 1 TiB
coreutils tests/df/df-symlink the mount's source is a file, not a device, and df looks where that file lies
coreutils tests/tail-2/inotify-dir-recreate tail counts every FUSE mount as remote (by `statfs`) and polls, without inotify
coreutils tests/tail-2/inotify-rotate-resources the same
coreutils tests/tail-2/inotify-race the same; the breakpoint is not reached
coreutils tests/tail-2/inotify-race2 the same; the breakpoint is not reached
coreutils-root tests/rm/empty-immutable-skip it wants `chattr +i`, which the mount refuses
coreutils-root tests/tail-2/append-only it wants `chattr +a`, which the mount refuses
LIST
}

# limit SUITE: seconds that one run may take
limit() {
    case $1 in
    bash | dash | coreutils-root) echo 1200 ;;
    findutils | tar) echo 1800 ;;
    *) echo 5400 ;;
    esac
}

[ $# -gt 0 ] || { echo "usage: suites.sh PAGEWALK [SUITE[=TESTS]...]" >&2; exit 2; }
pagewalk=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- bash dash coreutils coreutils-root findutils tar autoconf
for asked in "$@"; do
    case ${asked%%=*} in
    bash | dash | coreutils | coreutils-root | findutils | tar | autoconf) ;;
    *)
        echo "error: unknown suite \`${asked%%=*}\`" >&2
        echo "  = help: bash, dash, coreutils, coreutils-root, findutils, tar and autoconf are known" >&2
        exit 2
        ;;
    esac
done
if [ "$(id -u)" != 0 ]; then
    echo "error: suites.sh mounts file systems and runs programs as two users; that takes root" >&2
    exit 2
fi
doors=${SUITES_DOORS:-tmpfs shim}
out=${SUITES_OUT:-$(dirname "$0")/../target/suites}
mkdir -p "$out/sources" "$out/results"
out=$(realpath "$out")

shim=$(dirname "$pagewalk")/libpagewalk_ctfs_shim.so
if [ ! -e "$shim" ]; then
    echo "error: no $shim; \`make build\` makes it" >&2
    exit 2
fi

scratch=$(mktemp -d "${SUITES_FOLDER:-/dev/shm}/pagewalk-suites.XXXXXX")
# Where a suite is built and run: by turns a folder and a mounted store.
place=$scratch/place
mount=""
program=""
# Suites leave programs behind when their time is over, which may start others meanwhile.
end_programs() {
    for _ in $(seq 20); do
        found=""
        for link in /proc/[0-9]*/cwd; do
            case $(readlink "$link" 2>/dev/null || true) in
            "$place" | "$place"/*)
                pid=${link#/proc/}
                ! kill -KILL "${pid%/cwd}" 2>/dev/null || found=yes
                ;;
            esac
        done
        [ -n "$found" ] || break
        sleep 0.1
    done
}
unmount() {
    ! mountpoint -q "$place" || umount "$place" 2>/dev/null || umount -l "$place"
    ended=0
    wait "$mount" || ended=$?
    mount=""
    [ $ended = 0 ] || { cat "$scratch/mount.log" >&2; echo "error: the mount ended with $ended" >&2; exit 1; }
}
clean() {
    status=$?
    trap - EXIT INT TERM
    [ -z "$program" ] || kill -KILL "$program" 2>/dev/null || true
    end_programs
    ! mountpoint -q "$place" || umount -l "$place"
    if [ -n "$mount" ]; then
        kill -KILL "$mount" 2>/dev/null || true
        wait "$mount" 2>/dev/null || true
    fi
    rm -rf "$scratch"
    exit $status
}
trap clean EXIT
trap 'exit 130' INT TERM

# Where the other user can read them, too.
chmod 755 "$scratch"
mkdir "$scratch/bin"
cp "$pagewalk" "$shim" "$scratch/bin"
pagewalk=$scratch/bin/pagewalk

# ---- Sources.

# An apt of its own, which knows the machine's archives and their keys, and asks them for sources.
have_sources() {
    missing=""
    for source in bash dash coreutils findutils tar autoconf; do
        set -- "$out/sources/$source"_*.orig.tar.*
        [ -e "$1" ] || missing="$missing $source"
    done
    [ -n "$missing" ] || return 0
    apt=$out/apt
    mkdir -p "$apt/parts" "$apt/state/lists/partial" "$apt/cache/archives/partial"
    if [ -e /etc/apt/sources.list.d/debian.sources ]; then
        sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$apt/parts/debian.sources"
    elif [ -e /etc/apt/sources.list ]; then
        sed -n 's/^deb[[:space:]]/deb-src /p' /etc/apt/sources.list >"$apt/parts/debian.list"
    else
        echo "error: no archive of Debian in /etc/apt/sources.list.d/debian.sources or /etc/apt/sources.list" >&2
        exit 2
    fi
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$apt/parts";
Dir::State "$apt/state";
Dir::State::Status "/var/lib/dpkg/status";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
CONF
    APT_CONFIG="$apt/apt.conf" apt-get update -qq >&2
    # shellcheck disable=SC2086 # a list of packages
    (cd "$out/sources" && APT_CONFIG="$apt/apt.conf" apt-get source -qq --download-only --only-source $missing >&2)
}

# unpack SOURCE: its files, as $place/SOURCE
unpack() {
    for archive in "$out/sources/$1"_*.orig.tar.*; do
        case $archive in
        *.asc) continue ;;
        esac
        in_place sh -c 'mkdir "$1" && tar -x --strip-components=1 -f - -C "$1" "$2"' sh "$1" "--$(decompressor "$archive")" <"$archive"
    done
}
decompressor() {
    case $1 in
    *.gz) echo gzip ;;
    *.xz) echo xz ;;
    *.bz2) echo bzip2 ;;
    *) echo "error: cannot unpack $1" >&2; exit 1 ;;
    esac
}

# ---- Building and running a suite. All of these use $suite, $source, $tests, $user and $door.

# in_place COMMAND...: as the suite's user, in $place, with nothing of the caller's: variables, descriptors, ignored signals
# and terminal, beside which it gets one of its own; it ends after $seconds seconds, with 124
in_place() (
    cd "$place"
    [ "$user" = root ] || set -- setpriv --reuid 65534 --regid 65534 --groups 65534,100 "$@"
    # Coreutils' `configure` wants to hear that root is meant.
    [ "$user" != root ] || set -- env FORCE_UNSAFE_CONFIGURE=1 "$@"
    set -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$place" TMPDIR="$place/tmp" \
        LOCPATH="$scratch/locales" TERM=dumb SHELL=/bin/sh "$@"
    exec python3 -c "$start" "$seconds" "$@"
)

# in_background COMMAND...: the same, with nothing to read; its exit code is $status. A signal ends the script meanwhile.
in_background() {
    in_place "$@" </dev/null &
    program=$!
    status=0
    wait $program || status=$?
    program=""
}
start=$(
    cat <<'PYTHON'
import fcntl, os, signal, subprocess, sys, termios, threading

seconds, *command = sys.argv[1:]
master, terminal = os.openpty()


def child():
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def drain():
    while os.read(master, 4096):
        pass


threading.Thread(target=drain, daemon=True).start()
program = subprocess.Popen(command, preexec_fn=child)
try:
    status = program.wait(int(seconds))
except subprocess.TimeoutExpired:
    os.killpg(program.pid, signal.SIGKILL)
    status = 124
# Not `sys.exit`: what drains the terminal does not end.
os._exit(status if status >= 0 else 128 - status)
PYTHON
)

# What tests of bash ask for, as few machines have all of them. The names are those that the tests use.
make_locales() {
    mkdir "$scratch/locales"
    for locale in en_US/UTF-8/UTF-8 zh_HK/BIG5-HKSCS/big5hkscs; do
        language=${locale%%/*}
        charset=${locale#*/}
        # Localedef exits with 1 for a charset in which ASCII is not what it is elsewhere; the locale is there all the same.
        localedef --quiet --force -i "$language" -f "${charset%/*}" "$scratch/locales/$language.${charset#*/}" 2>/dev/null || true
    done
}

# Bash's own loop over its tests, with a result for each. What a test says beside the lines of `diff` is no failure.
each_of_bash() {
    cat <<'EACH'
export TMPDIR BASH_TSTOUT=$TMPDIR/bash-test PATH=.:$PATH
unset BASH_ENV SHELLOPTS
for test in ${BASH_TESTS:-run-*}; do
    case $test in
    run-all | run-minimal | run-gprof | *.orig | *~) continue ;;
    esac
    status=0
    timeout --foreground -k 10 300 sh "$test" >"../$test.log" 2>&1 || status=$?
    rm -f "$BASH_TSTOUT"
    lines=$(grep -c '^[<>] ' "../$test.log")
    if [ "$status" = 0 ] && [ "$lines" = 0 ]; then
        echo "$test PASS"
    else
        echo "$test FAIL ($lines lines differ)"
    fi
done >../results
EACH
}

# Dash runs `configure` of each source and compiles itself; each result has a checksum of all that it made, logs aside.
each_of_dash() {
    cat <<'EACH'
dash=$PWD/dash/src/dash
for source in ${DASH_TESTS:-autoconf bash coreutils dash findutils tar}; do
    mkdir "made-$source"
    if (cd "made-$source" && CONFIG_SHELL=$dash "$dash" "../$source/configure" && [ -s config.status ]) >"$source.log" 2>&1 </dev/null &&
        { [ "$source" != dash ] || (cd made-dash && make SHELL="$dash") >>"$source.log" 2>&1; }; then
        sum=$(cd "made-$source" && find . -type f ! -name config.log | LC_ALL=C sort | xargs -d '\n' cksum | cksum)
        echo "$source PASS $sum"
    else
        echo "$source FAIL"
    fi
done >results
EACH
}

build() {
    unpack "$source"
    quiet="AUTOCONF=: AUTOHEADER=: AUTOMAKE=: ACLOCAL=: MAKEINFO=: HELP2MAN=:"
    # The programs that the tests need are made here, too, so that both places get the same ones.
    case $suite in
    bash) set -- --without-bash-malloc : "make && make recho zecho printenv xcase" ;;
    dash) set -- : "make" ;;
    coreutils*) set -- : "make && make check TESTS=" ;;
    findutils) set -- : "make && make check TESTS= RUNTEST=true" ;;
    # As Debian does: with bash, tests that compare environments meet its SHLVL.
    autoconf) set -- SHELL=/bin/sh : "make && make check TESTSUITEFLAGS=--list" ;;
    tar) set -- : "make && make check TESTSUITEFLAGS=--list" ;;
    esac
    options=""
    [ "$1" = : ] || { options=$1; shift; }
    in_background sh -c "cd $source && ./configure $options $quiet && $2" >"$logs/build.log" 2>&1
    [ $status = 0 ] || {
        tail -n 20 "$logs/build.log" >&2
        echo "error: $suite cannot be built; $logs/build.log" >&2
        exit 1
    }
    case $suite in
    bash) each_of_bash >"$place/each.sh" ;;
    dash)
        each_of_dash >"$place/each.sh"
        in_place mv dash built
        for source in autoconf bash coreutils dash findutils tar; do
            unpack $source
        done
        in_place mv built/src/dash dash/src/dash
        source=dash
        ;;
    esac
}

# A suite on a mount without the shim would prove nothing of it: a program's writes must not be system calls.
is_under_shim() {
    in_place "$pagewalk" fs run -- strace -qq -e trace=write -o "$place/tmp/calls" \
        dd if=/dev/zero of="$place/tmp/zeros" bs=4096 count=8 status=none </dev/null
    if [ ! -s "$place/tmp/zeros" ] || [ ! -e "$place/tmp/calls" ] || grep -q 'write(1' "$place/tmp/calls"; then
        echo "error: the programs of $suite do not use the store in their own memory" >&2
        exit 1
    fi
    rm "$place/tmp/calls" "$place/tmp/zeros"
}

# check: the suite, in its place, through its door; its own results stay in its folders
check() {
    run=""
    [ "$door" != shim ] || run="$pagewalk fs run --"
    case $suite in
    bash) set -- env BASH_TESTS="$tests" make check TESTSCRIPT=../../each.sh ;;
    dash) set -- env DASH_TESTS="$tests" sh -c 'cd .. && exec sh each.sh' ;;
    # Behind a folder whose tests fail, too.
    coreutils) set -- make -k check ${tests:+SUBDIRS=. TESTS="$tests"} ;;
    coreutils-root) set -- make check-root NON_ROOT_USERNAME=nobody NON_ROOT_GROUP=nogroup ${tests:+TESTS="$tests"} ;;
    findutils) set -- make -k check ${tests:+SUBDIRS=. TESTS="$tests"} ;;
    # One test of tar writes 10 GiB.
    tar | autoconf) set -- make check TESTSUITEFLAGS="$tests" TARTEST_SKIP_LARGE_FILES=1 ;;
    esac
    # shellcheck disable=SC2086 # a command and its arguments
    in_background sh -c 'cd "$1" && shift && exec "$@"' sh "$source" $run "$@" >"$logs/$door.log" 2>&1
    [ $status != 124 ] || echo "$suite, $door: not done after $seconds seconds" >&2
    end_programs
}

# results: a line for each test, its name, PASS, FAIL or SKIP, and what else is to be the same
results() {
    case $suite in
    bash | dash) cat "$place/results" "$place/$source/results" 2>/dev/null || true ;;
    coreutils* | findutils)
        (cd "$place/$source" && find . -name '*.trs') | LC_ALL=C sort | while read -r file; do
            name=${file#./}
            echo "${name%.trs} $(sed -n 's/^:global-test-result: //p' "$place/$source/$file")"
        done
        # DejaGnu's, which has several results of one name.
        find "$place/$source" -name '*.sum' | LC_ALL=C sort | while read -r file; do
            awk -v sum="$(basename "$file" .sum)" -F ': ' '
                $1 ~ /^(PASS|FAIL|XPASS|XFAIL|UNRESOLVED|UNTESTED|UNSUPPORTED|ERROR)$/ {
                    name = $2; gsub(/[ \t]+/, "-", name)
                    print sum "/" name "#" ++count[name], $1
                }' "$file"
        done
        ;;
    tar | autoconf)
        # A failed test has its number and place twice.
        sed -n -e 's/^[0-9]*\. [^ ]*:[0-9]*: \([0-9]*\. \)/\1/' -e 's/^\([0-9]*\)\. \(.*\) (\([^ ]*:[0-9]*\)): \(ok\|skipped\|FAILED\|expected failure\|unexpected pass\).*/\1 \2\t\4/p' \
            "$place/$source/tests/testsuite.log" |
            awk -F '\t' '
                BEGIN { as["ok"] = "PASS"; as["skipped"] = "SKIP"; as["FAILED"] = "FAIL"; as["expected failure"] = "XFAIL"; as["unexpected pass"] = "XPASS" }
                { gsub(/[ \t]+/, "-", $1); print $1, as[$2] }'
        ;;
    esac
}

have_sources
make_locales
for asked in "$@"; do
    suite=${asked%%=*}
    tests=""
    [ "$asked" = "$suite" ] || tests=${asked#*=}
    source=${suite%-root}
    user=nobody
    [ "$suite" = "$source" ] || user=root
    seconds=${SUITES_SECONDS:-$(limit "$suite")}
    logs=$out/results/$suite
    rm -rf "$logs"
    mkdir -p "$logs"
    chown root:root "$scratch"
    mkdir "$place" "$place/tmp"
    [ "$user" = root ] || chown 65534:65534 "$scratch" "$place" "$place/tmp"
    door=build
    build
    chmod 1777 "$place/tmp"
    mv "$place" "$scratch/built"
    for door in $doors; do
        mkdir "$place"
        [ "$user" = root ] || chown 65534:65534 "$place"
        if [ "$door" != tmpfs ]; then
            store=$scratch/files.ctfs
            # Programs get leases from a mount of their own user, which needs two rights of root's to mount. The script looks there as root.
            rights=""
            [ "$user" = root ] || rights="--reuid 65534 --regid 65534 --clear-groups"
            # shellcheck disable=SC2086 # options
            setpriv $rights "$pagewalk" fs mkfs --size 3GiB "$store" 2>/dev/null
            [ "$user" = root ] || rights="$rights --inh-caps=+sys_admin,+dac_override --ambient-caps=+sys_admin,+dac_override"
            # shellcheck disable=SC2086 # options
            setpriv $rights "$pagewalk" fs mount --allow-other "$store" "$place" 2>"$scratch/mount.log" &
            mount=$!
            until mountpoint -q "$place"; do
                kill -0 "$mount" 2>/dev/null || { cat "$scratch/mount.log" >&2; exit 1; }
                sleep 0.05
            done
        fi
        (cd "$scratch/built" && tar -c .) | in_place tar -x
        [ "$door" != shim ] || is_under_shim
        begun=$(date +%s)
        check
        echo $(($(date +%s) - begun)) >"$logs/$door.seconds"
        results >"$logs/$door"
        mkdir -p "$logs/$door-logs"
        (cd "$place" && find . -name '*.log' -type f -print0 | tar -c --null -T -) | tar -x -C "$logs/$door-logs"
        if [ -n "$mount" ]; then
            unmount
            "$pagewalk" fs fsck "$store" >"$logs/$door.fsck" || { cat "$logs/$door.fsck" >&2; exit 1; }
            rm "$store"
        fi
        rm -rf "$place"
        echo "$suite, $door: $(awk '{ count[$2]++ } END { for (result in count) printf "%d %s ", count[result], result }' "$logs/$door")in $(cat "$logs/$door.seconds") s" >&2
    done
    rm -rf "$scratch/built"
done

# ---- The comparison: the first door's results beside the last one's.

set -- "$@"
differences >"$scratch/differences"
python3 - "$out/results" "$scratch/differences" "$doors" "$@" <<'PYTHON'
import sys
from collections import Counter
from pathlib import Path

folder, known, doors, *suites = sys.argv[1:]
doors = doors.split()
known = {tuple(line.split(None, 2)[:2]): line.split(None, 2)[2] for line in Path(known).read_text().splitlines()}
passed, failed, skipped = ("PASS", "XFAIL"), ("FAIL", "XPASS", "ERROR", "UNRESOLVED", "MISSING"), ("SKIP", "UNTESTED", "UNSUPPORTED")


def read(suite, door):
    lines = (Path(folder) / suite / door).read_text().splitlines()
    return dict(line.split(None, 1) for line in lines)


def word(result):
    return result.split()[0]


print(f"{'':16}" + "".join(f"{door:>32}" for door in doors))
print(f"{'suite':16}" + "".join(f"{'pass':>8}{'fail':>8}{'skip':>8}{'s':>8}" for _ in doors) + f"{'different':>12}")
lines = []
unexplained = 0
for suite in dict.fromkeys(suite.split("=")[0] for suite in suites):
    results = {door: read(suite, door) for door in doors}
    tests = list(dict.fromkeys(test for taken in results.values() for test in taken))
    row = f"{suite:16}"
    for door in doors:
        taken = Counter(word(results[door].get(test, "MISSING")) for test in tests)
        seconds = (Path(folder) / suite / f"{door}.seconds").read_text().strip()
        counts = (sum(taken[name] for name in kind) for kind in (passed, failed, skipped))
        row += "".join(f"{count:8}" for count in counts) + f"{seconds:>8}"
    different = 0
    for test in tests:
        first, *others = (results[door].get(test, "MISSING") for door in doors)
        if all(other == first for other in others):
            continue
        different += 1
        reason = known.get((suite, test))
        bad = any(word(first) in passed and (word(other) not in passed or word(other) == word(first)) for other in others)
        said = ", ".join(f"{result} ({door})" for door, result in zip(doors, (first, *others)))
        lines.append(f"{suite} {test}: {said}" + (f"\n    known: {reason}" if reason else ""))
        unexplained += bad and reason is None
    print(row + f"{different:12}")
    if not any(word(result) in passed for result in results[doors[0]].values()):
        lines.append(f"{suite}: no test passed on {doors[0]}")
        unexplained += 1
print(*lines, sep="\n")
print(f"{unexplained} tests that pass on {doors[0]} do not under {doors[-1]}, without a known reason; logs: {folder}")
sys.exit(unexplained > 0)
PYTHON
