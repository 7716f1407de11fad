#!/bin/sh
# The main job, twice: on a built-in workload, and on a real unmodified program.
set -eu
pagewalk=$1
out=pagewalk-out
mkdir -p "$out"

echo "== a built-in workload: breadth-first search of a Kronecker graph"
"$pagewalk" run --detail timed --out "$out/graph500" --workload graph500:scale=15

words=$out/words.txt
# Fifty thousand distinct words in a scrambled order that is the same everywhere.
[ -s "$words" ] || awk 'BEGIN { for (i = 0; i < 50000; i++) print "w" (i * 7919) % 50021 }' >"$words"

echo
echo "== a real program: sort"
"$pagewalk" run --detail timed --out "$out/sort" -- sort --parallel=1 -o "$out/sorted.txt" "$words"

echo
echo "reports: $out/graph500/report.html $out/sort/report.html"
