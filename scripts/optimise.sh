#!/bin/sh
# Builds the command by a profile of its own runs (profile-guided optimisation), in place of the one of `make build`: optimise.sh TARGET
#
# Timed runs took 6 to 9 % less time with it. Rust's own llvm-profdata merges the profiles, because another version may not read them.
set -eu
target=$1
folder=$target/optimised
cargo=${CARGO:-cargo}

merge() {
    find "$(rustc --print sysroot)/lib/rustlib" -name llvm-profdata 2>/dev/null | head -n 1
}
if [ -z "$(merge)" ] && command -v rustup >/dev/null; then
    rustup component add llvm-tools >&2
fi
if [ -z "$(merge)" ]; then
    echo "error: Rust's component llvm-tools is not installed, and there is no rustup to install it" >&2
    exit 2
fi

rm -rf "$folder/profiles"
echo "building a command that counts what it does" >&2
RUSTFLAGS="-Cprofile-generate=$folder/profiles" \
    $cargo build --quiet --release --package pagewalk-cli --target-dir "$folder/counting"

# What it is made fast for: cores that execute instructions, the window model and counts, with each kind of page table.
run() {
    echo "running $*" >&2
    "$folder/counting/release/pagewalk" run "$@" >/dev/null 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
}
for workload in gups:table=64MiB quicksort btree graph500:scale=14; do
    run --detail timed --machine zen4 --limit 5000000 --workload $workload
done
run --detail timed --machine zen3 --machine sapphire-rapids --machine rocket --limit 3000000 --workload quicksort
run --detail timed --machine x86-64 --machine mosaic-8 --machine me-hpt --machine x86-64-thp --limit 5000000 --workload gups:table=64MiB
run --machine x86-64 --machine mosaic-8 --machine me-hpt --machine x86-64-thp --limit 20000000 --workload graph500:scale=14

"$(merge)" merge -o "$folder/profile" "$folder/profiles"
echo "building the command by this profile" >&2
RUSTFLAGS="-Cprofile-use=$folder/profile" \
    $cargo build --quiet --release --package pagewalk-cli --target-dir "$folder/by-profile"
# Not a new file: Cargo links this one to the one that it has built, and would put that back.
cat "$folder/by-profile/release/pagewalk" >"$target/release/pagewalk"
