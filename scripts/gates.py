#!/usr/bin/env python3
"""Judges what the simulator says of time by the stopwatch, on this computer.

    gates.py PAGEWALK FOLDER
    gates.py RESULTS.json

Calibrates the computer and validates the machine file by all programs, with huge pages; FOLDER gets the machine file, the results and a
page that shows them. Or judges such results again. A program whose run was void does not count. Exits with 1 if a gate is not passed,
with 2 if too few programs counted to judge all gates.
"""

import json
import subprocess
import sys
from pathlib import Path

# By class of programs without a look at which the model was made: how many have to count, and the largest median and worst error.
CLASSES = {
    "core-bound": (10, 0.12, 0.25),
    "memory-bound": (8, 0.20, 0.35),
}
# The largest error of a loop that shows one parameter.
MICRO = 0.10
# A gain of the work alone from which on it is judged, the largest difference to the prediction, and the largest spread and the least number
# of pairs of what was measured.
GAIN, DIFFERENCE, SPREAD, PAIRS = 0.10, 0.05, 0.05, 5
# The largest error of the time of first touches, of programs with so many faults.
TOUCHES, FAULTS = 0.15, 10_000


def measure(pagewalk: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    machine = folder / "here.toml"
    subprocess.run([pagewalk, "calibrate", "-o", machine], check=True)
    subprocess.run([pagewalk, "validate", "--machine", machine, "--huge-pages", "--out", folder], check=True)


def median(errors: list[float]) -> float:
    errors = sorted(errors)
    return (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2


def judge(result: dict) -> int:
    rows = [row for row in result["programs"] if row["void"] is None]
    failed = short = False
    for name, (least, most_median, most_worst) in CLASSES.items():
        errors = {row["program"]: row["error"] for row in rows if row["class"] == name and row["held_out"]}
        if len(errors) < least:
            print(f"{name}: {len(errors)} programs counted, {least} are needed")
            short = True
            continue
        middle, worst = median(list(errors.values())), max(errors, key=errors.get)
        passed = middle <= most_median and errors[worst] <= most_worst
        failed |= not passed
        print(f"{name}: {len(errors)} programs held out, median error {middle:.0%} (at most {most_median:.0%}), "
              f"worst {errors[worst]:.0%} of {worst} (at most {most_worst:.0%}): {verdict(passed)}")
    if any(row["class"] == "micro" and row["void"] is not None for row in result["programs"]):
        print("micro: some loops did not count")
        short = True
    for row in rows:
        if row["class"] == "micro":
            passed = row["error"] <= MICRO
            failed |= not passed
            print(f"{row['program']}: error {row['error']:.0%} (at most {MICRO:.0%}): {verdict(passed)}")
    for row in rows:
        if row["class"] == "third-cache":
            passed = row["error"] == 0
            failed |= not passed
            least, most = (ns / 1e6 for ns in row.get("band_ns", [row["predicted_ns"]] * 2))
            print(f"{row['program']}: {row['measured_ns'] / 1e6:.1f} ms, and {least:.1f} to {most:.1f} ms by the usable third cache: "
                  f"{verdict(passed)}")
    for row in rows:
        gain = row.get("huge_pages", {})
        steady = gain.get("steady")
        if steady and steady["measured"] >= GAIN and (steady["spread"] > SPREAD or gain["pairs"] < PAIRS):
            print(f"{row['program']}: what huge pages save is not known: {steady['measured']:.1%}, "
                  f"with a spread of {steady['spread']:.1%} in {gain['pairs']} pairs")
            short = True
        elif steady and steady["measured"] >= GAIN:
            passed = abs(steady["measured"] - steady["predicted"]) <= DIFFERENCE
            failed |= not passed
            print(f"{row['program']}: huge pages save {steady['measured']:.1%} of the work alone, predicted "
                  f"{steady['predicted']:.1%} (within {DIFFERENCE:.0%}): {verdict(passed)}")
        touches = gain.get("first_touches_ns")
        if touches and row["measured_faults"] >= FAULTS:
            ratio = touches["predicted"] / touches["measured"]
            passed = max(ratio, 1 / ratio) - 1 <= TOUCHES
            failed |= not passed
            print(f"{row['program']}: first touches take {touches['measured'] / 1e6:.1f} ms, predicted {touches['predicted'] / 1e6:.1f} ms "
                  f"(within {TOUCHES:.0%}): {verdict(passed)}")
    return 1 if failed else 2 if short else 0


def verdict(passed: bool) -> str:
    return "passed" if passed else "NOT PASSED"


def main(arguments: list[str]) -> int:
    match arguments:
        case [results]:
            results = Path(results)
        case [pagewalk, folder]:
            measure(pagewalk, Path(folder))
            results = Path(folder) / "results.json"
        case _:
            sys.exit(__doc__)
    return judge(json.loads(results.read_text()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
