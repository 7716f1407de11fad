#!/bin/sh
# Fuzzes each target for some seconds: run.sh SECONDS [TARGET...]
#
# Two targets run at a time.
#
# First shows that the harness can find a bug at all: the canary must fail. Exits with 1 on a finding (the input is
# then in artifacts/TARGET/, the log in artifacts/TARGET.log), with 2 on wrong use.
#
# libFuzzer on stable Rust: the sanitizer-coverage pass is part of every rustc and can be named with -Cpasses; the
# runtime comes with the libfuzzer-sys crate, which needs a C++ compiler. --target keeps build scripts and
# procedural macros uninstrumented.
set -eu

targets_all="pwt pwt_streams champsim cloudsuite drmemtrace lackey gem5 pinatrace v2p trace_file trace_folder"
targets_all="$targets_all machine capture_protocol code accelerator tier blade_codec blade_server blade_client blade_secure riscv ctfs"
canary_seconds=120

usage() {
    echo "usage: fuzz/run.sh SECONDS [TARGET...]; targets: $targets_all" >&2
    exit 2
}

[ $# -ge 1 ] || usage
seconds=$1
shift
case $seconds in '' | *[!0-9]* | 0) usage ;; esac
targets=${*:-$targets_all}
for target in $targets; do
    case " $targets_all " in *" $target "*) ;; *) usage ;; esac
done

cd "$(dirname "$0")"
triple=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}
RUSTFLAGS="-Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Ccodegen-units=1
    --cfg fuzzing"
RUSTFLAGS=$(echo "$RUSTFLAGS" | tr -s '\n ' ' ')
export RUSTFLAGS
cargo build --release --target "$triple" --target-dir "$folder"
binaries=$folder/$triple/release

mkdir -p corpus artifacts
python3 seeds.py corpus

# fuzz TARGET SECONDS: its log goes to artifacts/TARGET.log
fuzz() {
    mkdir -p "artifacts/$1" "corpus/$1"
    "$binaries/$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="artifacts/$1/" "corpus/$1" >"artifacts/$1.log" 2>&1
}

if fuzz canary "$canary_seconds"; then
    echo "canary: not found in $canary_seconds s; the harness finds nothing, see artifacts/canary.log" >&2
    exit 1
fi
if ! grep -q "the canary sings" artifacts/canary.log; then
    echo "canary: failed for another reason, see artifacts/canary.log" >&2
    exit 1
fi
rm -rf artifacts/canary corpus/canary
echo "canary: found"

# report TARGET: fuzzes it and says how that ended
report() {
    target=$1
    if fuzz "$target" "$seconds"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "artifacts/$target.log")
        coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "artifacts/$target.log" | tail -n 1)
        peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "artifacts/$target.log")
        echo "$target: nothing found in $seconds s ($runs runs, $coverage edges, $peak MiB)"
    else
        echo "$target: FAILED, see artifacts/$target.log and artifacts/$target/" >&2
        grep -m 3 -e panicked -e ERROR -e SUMMARY "artifacts/$target.log" >&2 || true
        return 1
    fi
}

# Every second target, from the first or from the second.
half() {
    failed=0 is_mine=$1
    for target in $targets; do
        if [ "$is_mine" = 1 ]; then report "$target" || failed=1; fi
        is_mine=$((1 - is_mine))
    done
    return "$failed"
}

half 1 &
other=$!
failed=0
half 0 || failed=1
wait "$other" || failed=1
exit "$failed"
