#!/usr/bin/env python3
"""Checks the structure of the crates: circles of files, and the sizes of files and types in `sim`.

Usage: structure.py [--self-test]

A file uses another if it names an item of that file's module. Files that use one another in a circle can only be understood
together: a circle has three files at most, and they are in one folder. In `sim`, where mechanisms are joined, a file has 450
lines at most, a type 10 fields and 30 methods. What is for tests only does not count. Prints one line for each finding and exits with 1 if
there are any. With --self-test, the program checks itself on planted circles and types first.
"""

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST_IN_CIRCLE = 3
MOST_LINES, MOST_FIELDS, MOST_METHODS = 450, 10, 30

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")
COMMENT = re.compile(r"^\s*//.*$", re.M)
TESTS_BELOW = re.compile(r"#\[cfg\(test\)\]\nmod \w+ \{.*\n\}", re.S)
FOR_TESTS = re.compile(r"#\[cfg\(test\)\]\n.*$", re.M)
VISIBLE = r"^(?:pub(?:\([^)]*\))? )?"
STRUCT = re.compile(VISIBLE + r"struct (\w+)[^;{(]*\{\n(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?\w+:", re.M)
INHERENT = re.compile(r"^impl(?:<[^{]*?>)? (\w+)(?:<[^{]*?>)? (?:where[^{]*)?\{\n(.*?)^\}", re.M | re.S)
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?fn ", re.M)
TRAIT = re.compile(VISIBLE + r"trait (\w+)[^{]*\{\n(.*?)^\}", re.M | re.S)


def is_test(path):
    return "tests" in path.with_suffix("").parts


def sources(folder):
    """Returns the text of each file below a crate's `src`, without tests, by path from there."""
    files = {path.relative_to(folder): path.read_text() for path in sorted(folder.rglob("*.rs"))}
    return without_tests(files)


def without_tests(files):
    return {path: FOR_TESTS.sub("", TESTS_BELOW.sub("", text)) for path, text in files.items() if not is_test(path)}


def module(path):
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def leaves(tree):
    """Returns the paths that a `use` tree names."""
    begin = tree.find("{")
    if begin < 0:
        return [tree]
    parts, depth, part = [], 0, ""
    for letter in tree[begin + 1 : tree.rfind("}")]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    parts.append(part)
    return [leaf for part in parts if part for leaf in leaves(tree[:begin] + part)]


def used(text, own, modules):
    """Returns the modules of the crate that a module's text names."""
    text = COMMENT.sub("", text)
    paths = [leaf for use in USE.findall(text) for leaf in leaves(re.sub(r"\s+", "", use))]
    for path in paths + PATH.findall(text):
        first, *rest = path.split("::")
        base = list(own)
        if first == "crate":
            base = []
        elif first == "super":
            rest.insert(0, first)
        elif first != "self":
            continue
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        found = tuple(base)
        for name in rest:
            if found + (name,) not in modules:
                break
            found += (name,)
        if found != own and found in modules:
            yield found


def circles(edges):
    """Returns the sets of nodes of which each reaches each other (Tarjan, 1972), those of one node left out."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for following in edges[node]:
            if following not in index:
                visit(following)
                low[node] = min(low[node], low[following])
            elif following in stack:
                low[node] = min(low[node], index[following])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return found


def wrong_circles(files):
    modules = {module(path): path for path in files}
    edges = {own: set(used(files[path], own, modules)) for own, path in modules.items()}
    for circle in circles(edges):
        paths = [modules[own] for own in circle]
        names = ", ".join(str(path) for path in paths)
        if len(paths) > MOST_IN_CIRCLE:
            yield f"a circle of {len(paths)} files: {names}"
        # Files side by side are in one folder, and so are a module and its own parts.
        tops = {own[:-1] for own in circle}
        shortest = min(circle, key=len)
        inside = all(own[: len(shortest)] == shortest for own in circle)
        if len(tops) > 1 and not inside:
            yield f"a circle across folders: {names}"


def wrong_sizes(files):
    methods = Counter()
    for path, text in files.items():
        lines = text.count("\n")
        if lines > MOST_LINES:
            yield f"{path}: {lines} lines, {MOST_LINES} are allowed"
        for name, body in STRUCT.findall(text):
            fields = len(FIELD.findall(body))
            if fields > MOST_FIELDS:
                yield f"{path}: {name} has {fields} fields, {MOST_FIELDS} are allowed"
        for name, body in INHERENT.findall(text) + TRAIT.findall(text):
            methods[name] += len(METHOD.findall(body))
    for name, count in methods.items():
        if count > MOST_METHODS:
            yield f"{name} has {count} methods, {MOST_METHODS} are allowed"


def self_test():
    planted = {
        "lib.rs": "mod a;\nmod b;\n",
        "a.rs": "use crate::b::{B, c::C};\n",
        "b/mod.rs": "mod c;\nuse self::c::C;\n",
        "b/c.rs": "fn f() { super::super::d::g() }\n",
        "d.rs": "use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::e::E;\n}\n",
        "e.rs": "use crate::d::D;\n",
        "f/mod.rs": "pub use self::g::G;\n",
        "f/g.rs": "use super::h::H;\n",
        "f/h.rs": "use super::G;\n",
        "f/k.rs": "/// As [`crate::f`].\npub use super::h;\n",
        "f/l.rs": "use super::k;\n",
    }
    found = list(wrong_circles(without_tests({Path(name): text for name, text in planted.items()})))
    assert len(found) == 2 and found[0].startswith("a circle of 4 files"), found
    assert "across folders" in found[1], found
    fields = "".join(f"    pub field{number}: u8,\n" for number in range(11))
    methods = "".join(f"    fn method{number}(&self) {{}}\n" for number in range(16))
    implementation = f"impl<T: Copy> Large<T> {{\n{methods}}}\n"
    text = f"pub struct Large<T> {{\n{fields}}}\n{implementation}{implementation}" + "\n" * 450
    assert len(list(wrong_sizes({Path("a.rs"): text}))) == 3
    assert not list(wrong_sizes({Path("a.rs"): implementation}))


def main():
    if "--self-test" in sys.argv:
        self_test()
    findings = []
    for manifest in sorted(ROOT.glob("crates/**/Cargo.toml")):
        if "target" in manifest.parts or not (manifest.parent / "src").is_dir():
            continue
        crate = manifest.parent.relative_to(ROOT / "crates")
        files = sources(manifest.parent / "src")
        wrong = list(wrong_circles(files))
        if str(crate) == "sim":
            wrong += wrong_sizes(files)
        findings += [f"crates/{crate}: {finding}" for finding in wrong]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
