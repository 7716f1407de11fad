#!/usr/bin/env python3
"""Checks the language of comments, documentation and messages: what of the house style a program can check.

Usage: language.py [--self-test] [FILE...]

Reads every tracked text file, or the files named, and prints one line `FILE:LINE: RULE: TEXT` for each finding. Exits with 1 if
there are findings. With --self-test it checks itself first: each rule must find a planted mistake and accept the correction.

The rules:

  pronoun     an indefinite pronoun where the actor has a role: "somebody", "nobody", "whoever", "anybody" anywhere in a file,
              "someone", "anyone", "everyone", "everybody", "who" as the subject of a clause in comments and prose
  short       a doc comment of a public item whose first sentence has three words or fewer
  verb        a doc comment of a public function that does not begin with a verb in the third person ("Returns ...")
  it          a doc comment that begins with "It "
  fragment    a doc comment of a public item that begins with a question word or "Its" ("What a walk did.")
  sentence    a doc comment of a public item that does not begin with a capital letter or a name, or does not end with a full stop
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Files that are not prose of this project.
NOT_OURS = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "scripts/language.py"]

# The places where a person, or a name of the system, is meant: a file and the text of the line that is allowed there.
ALLOWED = [
    # The system's user of that name.
    ("scripts/suites.sh", "as user nobody"),
    ("scripts/suites.sh", "NON_ROOT_USERNAME=nobody"),
    ("scripts/suites.sh", "user=nobody"),
    ("crates/cli/tests/guard.rs", "u:nobody"),
]

SUFFIXES = {".rs", ".c", ".h", ".s", ".py", ".sh", ".toml", ".md", ".sv", ".service", ".yml", ""}
FORBIDDEN = re.compile(r"somebody|nobody|whoever|anybody", re.I)
FORBIDDEN_IN_PROSE = re.compile(r"\b([Ss]omeone|[Aa]nyone|[Ee]veryone|[Ee]verybody|[Nn]o one)\b")
SUBJECT_WHO = re.compile(r"(?:^|[.;:,(] |\b(?:of|by|for|to|if|and|that|than|as|with|tell|tells|says|knows|see|sees) )[Ww]ho\b(?!se)")
WORD = re.compile(r"`[^`]*`|\[[^\]]*\]|[\w'’.,+*/%-]+")
ITEM = re.compile(
    r"(?:pub\s+)(?:(?:const|async|unsafe|extern\s+\"C\")\s+)*(fn|struct|enum|union|trait|type|const|static|mod|macro)\b")
FIELD = re.compile(r"pub\s+(?:r#)?\w+\s*:")
FRAGMENT = re.compile(r"^(What|Where|Who|Whom|Whose|How|Why|Its|Nothing|Something|Everything|Somewhere)\b")
VERB = re.compile(r"^(?:`[^`]*`|[A-Z][a-z-]*(?:s|es))\b")


def comment_of(line, suffix):
    """Returns the comment's text in a line of code, or the whole line of prose, or None."""
    if suffix == ".md":
        return line
    if suffix in {".rs", ".c", ".h", ".s", ".sv"}:
        found = re.search(r"(?:^|\s)//[/!]?\s?(.*)$", line) or re.search(r"(?:^|\s)(?:/\*+|\*)\s(.*)$", line)
    else:
        found = re.search(r"(?:^|\s)#\s(.*)$", line)
    return found.group(1) if found else None


def first_sentence(lines):
    """Returns the first sentence of a doc comment's lines."""
    text = []
    for line in lines:
        if not line.strip():
            break
        text.append(line.strip())
    text = " ".join(text)
    hidden = re.sub(r"`[^`]*`", lambda code: "x" * len(code.group()), text)
    hidden = re.sub(r"\b(?:e\.g|i\.e|vs|cf|Fig|Sec|No)\.", lambda short: "x" * len(short.group()), hidden)
    end = re.search(r"[.!?](?=\s|$)", hidden)
    return text[: end.end()] if end else text


def documented(lines):
    """Yields (line number, doc comment's lines, what is documented, its kind) of each Rust item with an outer doc comment.

    Kinds: "fn", "type" and "field" (of public items, fields of a public enum's variants included), "variant" (of public enums),
    "other" (private ones)."""
    doc, start, depth, enums = [], 0, 0, []
    attribute = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("///") and not text.startswith("////"):
            if not doc:
                start = number
            doc.append(text[3:].strip())
            continue
        if doc and (attribute or text.startswith("#[")):
            attribute += text.count("[") - text.count("]")
            continue
        code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        code = re.sub(r"'(?:[^'\\]|\\.)'", "''", code)
        code = re.sub(r"//.*", "", code)
        item = ITEM.match(code)
        if doc and code:
            inside = enums and depth == enums[-1]
            if item:
                kind = "fn" if item.group(1) == "fn" else "type"
            elif FIELD.match(code):
                kind = "field"
            elif inside and re.match(r"[A-Z]\w*\b", code):
                kind = "variant"
            elif enums and depth == enums[-1] + 1 and re.match(r"[a-z_]\w*\s*:", code):
                kind = "field"
            else:
                kind = "other"
            yield start, doc, code, kind
            doc = []
        elif doc and not code and not text.startswith("//"):
            doc = []
        depth += code.count("{") - code.count("}")
        if item and item.group(1) == "enum" and "{" in code and "}" not in code:
            enums.append(depth)
        while enums and depth < enums[-1]:
            enums.pop()


def findings(name, text):
    """Yields (line number, rule, excerpt) for each finding in a file of this name and text."""
    suffix = Path(name).suffix
    allowed = [excerpt for file, excerpt in ALLOWED if file == name]
    lines = text.splitlines()
    if not suffix and not (lines and lines[0].startswith("#!")) and Path(name).name != "Makefile":
        return
    fenced = False
    for number, line in enumerate(lines, 1):
        if any(excerpt in line for excerpt in allowed):
            continue
        if suffix == ".md" and line.startswith("```"):
            fenced = not fenced
        comment = None if fenced else comment_of(line, suffix)
        if FORBIDDEN.search(line):
            yield number, "pronoun", line.strip()
        elif comment and (FORBIDDEN_IN_PROSE.search(comment) or SUBJECT_WHO.search(comment)):
            yield number, "pronoun", line.strip()
    if suffix != ".rs":
        return
    for number, doc, code, kind in documented(lines):
        if any(excerpt in lines[number - 1] for excerpt in allowed):
            continue
        sentence = first_sentence(doc)
        if doc[0].startswith("It "):
            yield number, "it", sentence
        if kind == "other":
            continue
        if len(WORD.findall(sentence)) <= 3:
            yield number, "short", f"{sentence}  [{code}]"
        elif kind == "fn" and not VERB.match(sentence):
            yield number, "verb", f"{sentence}  [{code}]"
        elif FRAGMENT.match(sentence):
            yield number, "fragment", f"{sentence}  [{code}]"
        if not re.match(r"[A-Z0-9`\[*<]", doc[0]) or not re.search(r"[.:!?)]$", sentence):
            yield number, "sentence", sentence


def self_test():
    """Checks that each rule finds a planted mistake and accepts the correction."""
    cases = [
        ("a.rs", "// Frames that nobody has.\n", "// Frames without an owner.\n", "pronoun"),
        ("a.rs", 'fail("whoever comes");\n', 'fail("the next page");\n', "pronoun"),
        ("a.md", "Everyone waits.\n", "Every thread waits.\n", "pronoun"),
        ("a.c", "/* Who leaves a block early is counted. */\n", "/* A thread that leaves early is counted. */\n", "pronoun"),
        ("a.sh", "# It tells who waits.\n", "# The thread that waits.\n", "pronoun"),
        ("a.rs", "/// The size.\npub size: u64,\n", "/// The size of a slot in bytes.\npub size: u64,\n", "short"),
        ("a.rs", "/// Its `len`.\n#[must_use]\npub const fn len() {}\n", "/// Returns the number of items.\npub fn len() {}\n", "short"),
        ("a.rs", "pub enum A {\n    /// Refused.\n    B(u8),\n}\n", "enum A {\n    /// Refused.\n    B(u8),\n}\n", "short"),
        ("a.rs", "pub enum A {\n    /// A size that was refused.\n    B {\n        /// What came.\n        found: u64,\n    },\n}\n",
         "pub enum A {\n    /// A size that was refused.\n    B {\n        /// The size that came.\n        found: u64,\n    },\n}\n", "short"),
        ("a.rs", "/// The number of items.\npub fn f() {}\n", "/// Returns the number of items.\npub fn f() {}\n", "verb"),
        ("a.rs", "/// It is the owner of a file.\nstruct A;\n", "/// The owner of a file.\nstruct A;\n", "it"),
        ("a.rs", "/// What a walk did here.\npub struct A;\n", "/// The path of a walk.\npub struct A;\n", "fragment"),
        ("a.rs", "/// the owner of a file.\npub struct A;\n", "/// The owner of one file.\npub struct A;\n", "sentence"),
        ("a.rs", "/// The owner of one file\npub struct A;\n", "/// The owner of one file.\npub struct A;\n", "sentence"),
    ]
    for name, wrong, right, rule in cases:
        found = [found for _, found, _ in findings(name, wrong)]
        if found != [rule]:
            sys.exit(f"self-test: {wrong!r} should be found as {rule}, is {found}")
        found = [found for _, found, _ in findings(name, right)]
        if found:
            sys.exit(f"self-test: {right!r} should be accepted, is {found}")


def main():
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return
    if "--self-test" in arguments:
        self_test()
        arguments.remove("--self-test")
    names = arguments or subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    count = 0
    for name in names:
        if Path(name).suffix not in SUFFIXES or name in NOT_OURS or not (ROOT / name).is_file():
            continue
        for number, rule, excerpt in findings(name, (ROOT / name).read_text(encoding="utf-8")):
            print(f"{name}:{number}: {rule}: {excerpt}")
            count += 1
    if count:
        sys.exit(f"{count} findings; the rules are in scripts/language.py")


if __name__ == "__main__":
    main()
