#!/usr/bin/env python3
"""Builds the toys of docs/extend.md, and says of each how many files it takes and whether it works.

The toys of the named kinds are applied together to a copy of the working tree in TARGET/extend/KINDS, which is removed at the end;
what cargo builds there stays for the next run. The diff of every toy must apply as it stands, whether it is named or not: each of its
places must be found once. A new file must be as rustfmt writes it. Then the kind's conformance suite runs over all registered
implementations, the toy among them, and a machine with the toy runs a small program.
"""

import argparse
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "extend.md"
SIM = ("pagewalk-sim", "--lib")
RUN = "machine::tests::named::what_the_environment_names_runs"


@dataclass
class Kind:
    """A kind of thing that can be added."""

    heading: str
    # The most existing Rust files that its toy may edit.
    edits: int
    # What is tested: a package, the target in it, and the names of the tests.
    suites: list
    # A metric that is above zero where a run used the toy, and the program that runs; of workloads, only this one is tested.
    metric: str = "program accesses"
    workload: str = "gups:table=8MiB,updates=50k"
    # The environment that names the file to the test.
    names: str = "PAGEWALK_MACHINE"
    language: str = "toml"


def conformance(module):
    return [(*SIM, [f"spec::{module}::conformance"])]


KINDS = {
    "tlb": Kind("A TLB array", 1, conformance("tlb"), "tlb.l1 misses"),
    "table": Kind("A page table", 1, conformance("table"), "walk references.level5"),
    "frames": Kind("A frame allocator", 1, conformance("frames"), "fault minor.4KiB"),
    "swap": Kind("A swap device", 1, conformance("swap"), "swap pages-in"),
    "workload": Kind(
        "A workload",
        2,
        [
            (
                "pagewalk-workload",
                "--test=contract",
                ["each_workload", "runs_are_complete", "blocks_are", "the_same_seed", "a_break_ends", "expected_accesses"],
            )
        ],
        workload="strided-small",
        language="",
        names="",
    ),
    "trace": Kind(
        "A trace format",
        2,
        [
            ("pagewalk-trace", "--lib", ["foreign::lines"]),
            ("pagewalk-trace", "--test=integration", ["foreign::formats_have_names", "foreign::each_format"]),
        ],
        language="text",
        names="PAGEWALK_TRACE",
    ),
}


@dataclass
class Toy:
    """A toy, as the page has it."""

    kind: str
    diff: str
    sample: str
    new: list = field(default_factory=list)
    edited: list = field(default_factory=list)


def fail(message):
    sys.exit(f"error: {message}")


def read_toy(name, page):
    """Returns the toy of a kind from the text of the page."""
    kind = KINDS[name]
    section = re.search(rf"^## {kind.heading}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    if not section:
        fail(f"{PAGE.name}: no section `{kind.heading}`")

    def block(language):
        found = re.findall(rf"^```{language}\n(.*?)^```$", section[1], re.M | re.S)
        if len(found) != 1:
            fail(f"{PAGE.name}: {kind.heading}: {len(found)} blocks of {language}, not one")
        return found[0]

    toy = Toy(name, block("diff"), block(kind.language) if kind.language else "")
    for old, new in re.findall(r"^--- (\S+)\n\+\+\+ b/(\S+)$", toy.diff, re.M):
        (toy.new if old == "/dev/null" else toy.edited).append(new)
    if len(toy.new) != 1 or not 1 <= len(toy.edited) <= kind.edits:
        fail(f"{name}: {len(toy.new)} new and {len(toy.edited)} edited files; promised are 1 and at most {kind.edits}")
    if not all(path.endswith(".rs") for path in toy.new + toy.edited):
        fail(f"{name}: a file that is not Rust")
    return toy


def check_places(toy, tree):
    """Checks that each place of the diff is in its file, and only once."""
    for path, hunks in re.findall(r"^\+\+\+ b/(\S+)\n((?:[@ +-].*\n)+?)(?=--- |\Z)", toy.diff, re.M):
        if path in toy.new:
            continue
        text = (tree / path).read_text()
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.M)[1:]:
            old = "".join(line[1:] for line in hunk.splitlines(True) if line[0] in " -")
            if (count := text.count(old)) != 1:
                fail(f"{toy.kind}: {path} has this place {count} times, not once:\n{old}")


def copy_tree(tree):
    """Copies the working tree: what git knows, and what it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, tree / name
        # Cargo looks at times: a file that is older than the last build is not built again.
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def apply(toy, tree):
    """Applies a toy's diff to the tree."""
    check_places(toy, tree)
    times = [path.stat().st_mtime_ns for path in [PAGE, *(tree / name for name in toy.edited)]]
    # Outside of a repository, git looks at nothing but the files.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    applied = subprocess.run(["git", "apply", "-"], cwd=tree, input=toy.diff.encode(), env=environment)
    if applied.returncode:
        fail(f"{toy.kind}: the diff of {PAGE.name} does not apply")
    for name in toy.new + toy.edited:
        os.utime(tree / name, ns=(max(times), max(times)))
    formatted = subprocess.run(["rustfmt", "--check", "--edition", "2024", *toy.new], cwd=tree)
    if formatted.returncode:
        fail(f"{toy.kind}: the new file is not as rustfmt writes it")


class Cargo:
    """Cargo in the copy of the tree, without optimisation: most of the time goes into compiling."""

    def __init__(self, tree, build, verbose):
        self.tree = tree
        self.verbose = verbose
        self.environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(build),
            "CARGO_PROFILE_TEST_OPT_LEVEL": "0",
            "CARGO_PROFILE_TEST_DEBUG": "0",
            "CARGO_PROFILE_DEV_DEBUG": "0",
        }

    def run(self, arguments, what, **environment):
        """Runs cargo; returns what it printed."""
        command = [os.environ.get("CARGO", "cargo"), *arguments]
        if self.verbose:
            print("+", *(f"{name}={value}" for name, value in environment.items()), *command, file=sys.stderr)
        done = subprocess.run(
            command,
            cwd=self.tree,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if self.verbose or done.returncode:
            print(done.stdout, file=sys.stderr)
        if done.returncode:
            fail(f"{what} fails")
        return done.stdout

    def test(self, package, target, names, what, **environment):
        """Runs the tests whose names contain one of these."""
        filters = ["--ignored", "--exact", RUN] if names == [RUN] else names
        out = self.run(["test", "--locked", "-p", package, target, "--", *filters], what, **environment)
        run = re.findall(r"^test (\S+) \.\.\. ok$", out, re.M)
        for name in names:
            if not any(name in test for test in run):
                fail(f"{what}: no test `{name}` in {package}")

    def lint(self, toys):
        packages = sorted({package for toy in toys for package, _, _ in KINDS[toy.kind].suites})
        selected = [word for package in packages for word in ("-p", package)]
        # In this profile, a library's own tests are looked at, too.
        self.run(["clippy", "--locked", *selected, "--lib", "--profile", "test", "--", "-D", "warnings"], "clippy")


def check(toy, cargo, folder):
    """Runs the conformance suite of a kind, and its toy."""
    kind = KINDS[toy.kind]
    environment = {"PAGEWALK_METRIC": kind.metric, "PAGEWALK_WORKLOAD": kind.workload}
    for package, target, names in kind.suites:
        cargo.test(package, target, names, f"{toy.kind}: conformance", **environment)
    if kind.names:
        sample = folder / f"{toy.kind}.{kind.language}"
        sample.write_text(toy.sample)
        environment[kind.names] = str(sample)
    cargo.test(*SIM, [RUN], f"{toy.kind}: the run", **environment)
    edited = f"{len(toy.edited)} edited file" + ("s" if len(toy.edited) > 1 else "")
    print(f"{toy.kind}: {len(toy.new)} new file, {edited}, conformance passes, runs", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=[*KINDS, "all"], metavar="KIND", help=f"{', '.join(KINDS)}, or all")
    parser.add_argument("--target", type=pathlib.Path, help="cargo's folder; TARGET/extend/KINDS without it")
    parser.add_argument("--lint", action="store_true", help="run clippy, too")
    parser.add_argument("--verbose", action="store_true", help="show what cargo prints")
    arguments = parser.parse_args()

    names = [name for name in KINDS if name in arguments.kinds or "all" in arguments.kinds]
    label = "all" if len(names) == len(KINDS) else "-".join(names)
    target = pathlib.Path(os.environ.get("TARGET", ROOT / "target"))
    folder = (arguments.target or target / "extend" / label).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    every = [read_toy(name, PAGE.read_text()) for name in KINDS]
    toys = [toy for toy in every if toy.kind in names]
    # Always the same path, by which cargo knows what it has built.
    tree = folder / "tree"
    try:
        # All of them first: a diff that does not apply any more is found whichever is built.
        for applied in (every, toys):
            shutil.rmtree(tree, ignore_errors=True)
            copy_tree(tree)
            for toy in applied:
                apply(toy, tree)
        cargo = Cargo(tree, folder / "build", arguments.verbose)
        for toy in toys:
            check(toy, cargo, tree)
        if arguments.lint:
            cargo.lint(toys)
            print("clippy: no warnings")
    finally:
        shutil.rmtree(tree, ignore_errors=True)
        os.close(lock)


if __name__ == "__main__":
    main()
