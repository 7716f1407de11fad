//! The rows of the matrix: for every command one way to call it, or several.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::world::World;

/// One way to call a command.
pub(crate) struct Row {
    /// The command, as its words stand in clap's tree.
    pub(crate) command: &'static str,
    /// What follows.
    pub(crate) arguments: fn(&mut World) -> Vec<OsString>,
    pub(crate) kind: Kind,
    /// Whether it writes into the folder of outputs.
    pub(crate) writes: bool,
}

/// How a call ends if it is let alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By itself.
    Short,
    /// By itself, after it has observed a program; skipped where the front-ends are not built.
    Live,
    /// By a signal only, which is what it is for: exit code 0.
    Server,
}

/// A program that starts others and waits for them.
const PROGRAM: &str = "for i in 1 2; do (j=0; while [ $j -lt 100 ]; do j=$((j+1)); done) & done; wait";

/// Words and paths of the world: what stands behind an `@` is a path.
fn words(world: &World, text: &str) -> Vec<OsString> {
    let word = |word: &str| match word.split_once('@') {
        Some((before, path)) => {
            let mut word = OsString::from(before);
            word.push(world.path(path));
            word
        }
        None => word.into(),
    };
    text.split(' ').map(word).collect()
}

macro_rules! row {
    ($command:literal, $kind:ident, $writes:expr, $text:literal) => {
        Row {
            command: $command,
            arguments: |world| words(world, $text).into_iter().filter(|word| !word.is_empty()).collect(),
            kind: Kind::$kind,
            writes: $writes,
        }
    };
}

/// Runs a program, with an argument that is no text.
fn program(world: &World, before: &str) -> Vec<OsString> {
    let mut words = words(world, before);
    words.extend(["--", "sh", "-c", PROGRAM].map(OsString::from));
    words.push(OsString::from_vec(b"caf\xe9".to_vec()));
    words
}

pub(crate) const ROWS: &[Row] = &[
    row!(
        "run",
        Short,
        true,
        "--machine x86-64 --machine mosaic-4 --out @out/r --workload gups:table=1MiB,updates=100k"
    ),
    row!("run", Short, false, "--machine x86-64 --format json --trace @in/t.pwt"),
    row!("run", Short, false, "--machine @in/m.toml --trace @in/cut.lackey --input-format lackey"),
    Row {
        command: "run",
        arguments: |world| program(world, "--machine x86-64 --out @out/r"),
        kind: Kind::Live,
        writes: true,
    },
    row!("record", Short, true, "-o @out/r.pwt --workload gups:table=1MiB,updates=100k"),
    Row {
        command: "record",
        arguments: |world| program(world, "-o @out/r.pwt"),
        kind: Kind::Live,
        writes: true,
    },
    row!("record", Short, true, "-o @out/r.pwt --trace @in/cut.lackey --input-format lackey"),
    row!("trace info", Short, false, "@in/t.pwt"),
    row!("trace info", Short, false, "--format json --input-format lackey @in/cut.lackey"),
    row!("trace convert", Short, true, "-o @out/r.pwt --input-format lackey @in/cut.lackey"),
    row!("trace convert", Short, true, "@in/t.lackey --input-format lackey --out @out"),
    row!("machines", Short, false, ""),
    row!("machines show", Short, false, "@in/m.toml"),
    row!("machines detect", Short, false, ""),
    row!("calibrate", Short, true, "--rounds 1 --memory 8MiB -o @out/here.toml"),
    row!("validate", Live, false, "--machine x86-64 --fixed --runs 1 -- true"),
    row!("validate", Live, true, "--machine @in/m.toml --fixed --runs 1 --out @out/v -- true"),
    row!("validate", Short, false, "--list"),
    row!("workloads", Short, false, ""),
    row!("paper", Short, false, ""),
    row!("paper", Short, true, "mosaic swap/cyclic --small --out @out/p --hardware @in"),
    row!(
        "riscv",
        Short,
        true,
        "--limit 600k --stats --record @out/r.pwt --trace @out/notes --files @in @in/loop.elf"
    ),
    Row {
        command: "riscv",
        arguments: |world| {
            let mut words = words(world, "--limit 600k --format json @in/loop.elf --blade");
            words.push(world.blade());
            words
        },
        kind: Kind::Short,
        writes: false,
    },
    row!("blade serve", Server, true, "--listen udp:127.0.0.1:0 --capacity 64KiB --store @out/b.pages"),
    row!("blade serve", Server, true, "--listen ring:@out/b.ring --capacity 64KiB --key @in/key"),
    Row {
        command: "blade ping",
        arguments: |world| {
            let mut words = words(world, "--count 500 --blade");
            words.push(world.blade());
            words
        },
        kind: Kind::Short,
        writes: false,
    },
    row!("fs mkfs", Short, true, "--size 4MiB @out/s.ctfs"),
    row!("fs mkfs", Short, false, "--force --sparse --size 4MiB @in/old.ctfs"),
    row!("fs mount", Server, false, "@in/s.ctfs @mount"),
    row!("fs grow", Short, false, "@in/s.ctfs 8MiB"),
    row!("fs run", Short, false, "-- true"),
    row!("fs fsck", Short, false, "@in/s.ctfs"),
    row!("fs fsck", Short, false, "--repair @in/s.ctfs"),
    row!("fs info", Short, false, "@in/s.ctfs"),
    row!("fs info", Short, false, "--format json @in/s.ctfs"),
    row!("fs bench", Short, true, "--size 1MiB --rounds 1 --items rr,sw @out"),
];

/// Options that name a path and stand in no row, with the reason.
pub(crate) const WITHOUT_ROW: &[(&str, &str, &str)] = &[
    ("run", "engine-option", "it is Valgrind's, and passed on"),
    ("record", "engine-option", "it is Valgrind's, and passed on"),
    ("riscv", "key", "the reader of `blade serve --key`"),
    ("riscv", "signature", "it takes a program with symbols: tests/riscv.rs"),
    ("blade ping", "key", "the reader of `blade serve --key`"),
    ("fs mount", "log", "it goes with --daemon: tests/administration.rs"),
];

/// The folder with the front-ends, where they are built.
pub(crate) fn frontends() -> Option<PathBuf> {
    let named = std::env::var_os("PAGEWALK_LIB").map(PathBuf::from);
    let beside = Path::new(super::world::PAGEWALK).parent()?.join("../pagewalk");
    named.into_iter().chain([beside]).find(|folder| folder.join("valgrind").is_dir())
}
