#!/bin/sh
# The built-in stand-ins of two real programs beside the programs themselves, as Debian has them: how often the second
# TLB level misses, and how many pages are touched, on the machine of the ME-HPT paper.
#
#   crosscheck.sh PAGEWALK
set -eu
pagewalk=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A random genome and a copy in which every 97th base is drawn again.
python3 - "$folder" <<'PYTHON'
import random
import sys

random.seed(1)
bases = 300_000
reference = [random.choice("ACGT") for _ in range(bases)]
query = list(reference)
for place in range(0, bases, 97):
    query[place] = random.choice("ACGT")
for name, genome in (("reference", reference), ("query", query)):
    with open(f"{sys.argv[1]}/{name}.fa", "w") as file:
        file.write(f">{name}\n{''.join(genome)}\n")
PYTHON

cd "$folder"
run() {
    result=$1
    shift
    "$pagewalk" run --machine me-hpt-radix --format json "$@" >"$result.json" 2>"$result.log" || {
        cat "$result.log" >&2
        exit 1
    }
}
run mummer-real -- mummer -mum -l 20 reference.fa query.fa
run mummer-ours --workload mummer:reference=300k,query=300k
run sysbench-real -- sysbench memory --memory-block-size=64M --memory-total-size=64M --memory-access-mode=rnd \
    --threads=1 --time=0 run
run sysbench-ours --workload sysbench:block=64MiB,total=64MiB,access=rnd

python3 - <<'PYTHON'
import json
import sys


def count(name, stage, metric):
    with open(f"{name}.json") as file:
        metrics = json.load(file)["runs"][0]["metrics"]
    wanted = (stage, metric, "count", None)
    found = (m["value"] for m in metrics if (m["stage"], m["metric"], m["unit"], m.get("phase")) == wanted)
    return next(found)


print(f"{'':10} {'':22} {'program':>12} {'ours':>12} {'ratio':>7}   allowed")
failed = False
# Real programs also read input, print and draw random numbers: their accesses are not compared.
for program, stage, metric, allowed in (
    ("mummer", "tlb.l2", "misses", 0.25),
    ("mummer", "fault", "minor.4KiB", 0.25),
    ("sysbench", "tlb.l2", "misses", 0.02),
    ("sysbench", "fault", "minor.4KiB", 0.1),
):
    real, ours = (count(f"{program}-{which}", stage, metric) for which in ("real", "ours"))
    wrong = abs(ours / real - 1) > allowed
    failed |= wrong
    verdict = "MISS" if wrong else ""
    print(f"{program:10} {stage + ' ' + metric:22} {real:12} {ours:12} {ours / real:7.3f}   +-{allowed:.2f} {verdict}")
sys.exit(failed)
PYTHON
