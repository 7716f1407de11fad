#!/bin/sh
# All benchmarks, one after the other; each interleaves what it compares and prints medians beside its targets.
set -eu
cargo=${CARGO:-cargo}
pagewalk=${PAGEWALK:-${CARGO_TARGET_DIR:-target}/release/pagewalk}
echo "== traces: encoding, decoding, filtering"
$cargo bench --quiet --package pagewalk-trace
echo "== workloads: emission"
$cargo bench --quiet --package pagewalk-workload
echo "== hash map: beside hashbrown, dashmap and scc"
$cargo bench --quiet --package pagewalk-iceberg --bench map
echo "== growing hash map: beside hashbrown, dashmap and the Iceberg map"
$cargo bench --quiet --package pagewalk-elastic --bench grow
$cargo run --release --quiet --package pagewalk-elastic --example lookups
echo "== hashed page tables: beside hashbrown"
$cargo bench --quiet --package pagewalk-vm
echo "== simulation"
$cargo bench --quiet --package pagewalk-sim
echo "== whole runs: time and peak memory"
$cargo bench --quiet --package pagewalk-cli
echo "== capture: overhead"
$cargo bench --quiet --package pagewalk-capture
echo "== memory blade: page reads beside a bare ping-pong"
$cargo bench --quiet --package pagewalk-blade
echo "== RISC-V machine"
$cargo bench --quiet --package pagewalk-riscv --bench speed
echo "== file system: beside system calls and copying"
$pagewalk fs bench --size 512MiB /dev/shm
echo "== file system: the same on ext4 and xfs in memory"
scripts/on-images.sh "$pagewalk" fs bench --size 256MiB
echo "== file system: programs without system calls, beside the same with them"
scripts/shim.sh "$pagewalk" /dev/shm
scripts/on-images.sh scripts/shim.sh "$pagewalk"
echo "== file system: the same, without a wait for the disk"
SHIM_MOUNT=--no-sync scripts/on-images.sh scripts/shim.sh "$pagewalk"
echo "== file system: many small files, and large ones, beside tmpfs and ext4 in the same memory"
scripts/small-files.sh "$pagewalk"
echo "== file system: LevelDB under YCSB's loads, beside ext4 in the same memory"
YCSB_SECONDS="${YCSB_SECONDS:-120}" scripts/ycsb.sh --in-memory "$pagewalk"
