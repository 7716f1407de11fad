#!/usr/bin/env bash
# Compares the numbers of two builds of the command, on every shipped machine, source by source: counts and timed.
#
#   scripts/same-numbers.sh OLD NEW [RENAMES]
#
# OLD and NEW are two `pagewalk` commands. All machines run in one pass over a source; for each machine and detail the metrics
# are compared as a multiset of (phase, stage, metric, unit, fidelity, value); the manifest is left aside. RENAMES is a file of
# lines `old stage/metric/unit -> new stage/metric` (`#` begins a comment, a `*` stands for any text and for the same text in the
# new name): what the new command is meant to call otherwise. With it, rows that the old command wrote twice with one value may
# be written once. Machines that serve jobs are left out of timed runs of a source that
# has none, if both builds refuse them alike. Exit 1 if a number differs, 2 if a run fails otherwise.
#
# LIMIT (default 400k) is how much of each source is taken, JOBS (default 2) the passes under way at once, SOURCES the workloads.
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
exec python3 - "$@" <<'PYTHON'
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

OLD, NEW = sys.argv[1:3]
LIMIT = os.environ.get("LIMIT", "400k")
JOBS = int(os.environ.get("JOBS", "2"))
SOURCES = os.environ.get(
    "SOURCES", "gups-small btree-small graph500-small quicksort-small hash-table-small tatp-small"
).split()
MOST_SHOWN = 20


def read_renames(path):
    """Pairs of a pattern of `stage/metric/unit` and the replacement for `stage/metric`."""
    pairs = []
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            old, new = (side.strip() for side in line.split("->"))
            pattern = re.escape(old).replace(r"\*", "(.*)")
            parts = iter(range(1, new.count("*") + 1))
            pairs.append((re.compile(pattern), re.sub(r"\*", lambda _: rf"\{next(parts)}", new)))
    return pairs


RENAMES = read_renames(sys.argv[3]) if len(sys.argv) > 3 else []


def renamed(stage, metric, unit):
    for pattern, new in RENAMES:
        found = pattern.fullmatch(f"{stage}/{metric}/{unit}")
        if found:
            return tuple(found.expand(new).split("/"))
    return stage, metric


def run(command, machines, source, detail):
    """By machine, the metrics; or the error."""
    arguments = [command, "run", "--quiet", "--format", "json", "--detail", detail]
    arguments += ["--workload", source, "--limit", LIMIT]
    for machine in machines:
        arguments += ["--machine", machine]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr.strip()}"
    runs = {}
    for one in json.loads(done.stdout)["runs"]:
        assert one["machine"] not in runs, f"two runs of {one['machine']}"
        runs[one["machine"]] = one["metrics"]
    return runs


def rows(metrics, rename):
    counted = Counter()
    for row in metrics:
        stage, metric = row["stage"], row["metric"]
        if rename:
            stage, metric = renamed(stage, metric, row["unit"])
        value = json.dumps(row["value"])
        counted[(row.get("phase") or "", stage, metric, row["unit"], row["fidelity"], value)] += 1
    return Counter(set(counted)) if RENAMES else counted


def compare(machines, source, detail):
    """Lines of what differs, the numbers compared, the machines that ran, and whether the runs could be compared."""
    old, new = (run(command, machines, source, detail) for command in (OLD, NEW))
    if isinstance(old, str) or isinstance(new, str):
        refused = set(re.findall(r"error: machine `([^`]+)` serves jobs", old)) if old == new else set()
        if refused:
            # Machines that serve jobs take no source without any: the others are compared.
            return compare([name for name in machines if name not in refused], source, detail)
        lines = [f"{whose}: {one}" for whose, one in (("old", old), ("new", new)) if isinstance(one, str)]
        return lines, 0, set(), False
    lines, numbers = [], 0
    for machine in machines:
        if machine not in old or machine not in new:
            lines.append(f"{machine}: missing in one of the two")
            continue
        before, after = rows(old[machine], True), rows(new[machine], False)
        numbers += sum(before.values())
        for sign, only in (("-", before - after), ("+", after - before)):
            lines += [f"{machine}: {sign} {' '.join(part for part in row if part)}" for row in sorted(only)]
    return lines, numbers, set(old) & set(new), True


def main():
    listed = subprocess.run([OLD, "machines"], capture_output=True, text=True, check=True).stdout
    of_new = subprocess.run([NEW, "machines"], capture_output=True, text=True, check=True).stdout
    machines = [line.split()[0] for line in listed.splitlines() if line and not line.startswith((" ", "`"))]
    gone = [name for name in machines if name not in of_new.split()]
    if gone:
        sys.exit(f"machines that the new command does not have: {', '.join(gone)}")
    passes = [(source, detail) for source in SOURCES for detail in ("counts", "timed")]
    status, pairs, numbers = 0, 0, 0
    with ThreadPoolExecutor(JOBS) as pool:
        results = pool.map(lambda which: compare(machines, *which), passes)
        for (source, detail), (lines, compared, ran, could_run) in zip(passes, results):
            print(f"{source} {detail}: {len(ran)} machines, {compared} numbers, {len(lines)} differences", flush=True)
            for line in lines[:MOST_SHOWN]:
                print(f"  {line}")
            if len(lines) > MOST_SHOWN:
                print(f"  and {len(lines) - MOST_SHOWN} more")
            if not could_run:
                status = 2
            elif lines and status == 0:
                status = 1
            pairs += len(ran)
            numbers += compared
    print(
        f"{len(machines)} machines x {len(SOURCES)} sources x counts and timed: "
        f"{pairs} of {len(machines) * len(passes)} runs compared, {numbers} numbers"
    )
    sys.exit(status)


main()
PYTHON
