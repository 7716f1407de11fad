//! The programs by which time is judged: small ones that are compiled here, and those of Debian's packages.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// A program, and how it is got.
pub(super) struct Entry {
    /// The name by which a user asks for it.
    pub(super) name: &'static str,
    from: From,
    /// The arguments; `TEXT`, `DATA` and `SOURCE` are the files that [`Folder`] makes.
    arguments: &'static [&'static str],
    /// The arguments with which it does everything but its work: it touches its memory, and ends. With its work, it tells the time of that.
    idle: Option<&'static [&'static str]>,
    /// Whether it shows one parameter alone.
    is_micro: bool,
    /// Whether it was looked at while the model was made; the others are held out.
    is_known: bool,
}

enum From {
    /// A C program of this repository, by its text.
    C(&'static str),
    /// A class `Main` for a Java virtual machine, by its text.
    Java(&'static str),
    /// An executable of the system.
    System(&'static str),
}

const fn c(name: &'static str, source: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry { name, from: From::C(source), arguments, idle: None, is_micro: false, is_known: false }
}

const fn system(name: &'static str, path: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry { name, from: From::System(path), arguments, idle: None, is_micro: false, is_known: false }
}

const fn micro(
    name: &'static str,
    arguments: &'static [&'static str],
    idle: &'static [&'static str],
) -> Entry {
    Entry { is_micro: true, idle: Some(idle), is_known: true, ..c(name, MICRO, arguments) }
}

impl Entry {
    const fn known(self) -> Self {
        Self { is_known: true, ..self }
    }

    const fn idle(self, arguments: &'static [&'static str]) -> Self {
        Self { idle: Some(arguments), ..self }
    }
}

const CHASE: &str = include_str!("../../programs/chase.c");
const INDEPENDENT: &str = include_str!("../../programs/independent.c");
const QUICKSORT: &str = include_str!("../../programs/quicksort.c");
const STREAM: &str = include_str!("../../programs/stream.c");
const MATRIX: &str = include_str!("../../programs/matrix.c");
const JOIN: &str = include_str!("../../programs/join.c");
const TREE: &str = include_str!("../../programs/tree.c");
const SIEVE: &str = include_str!("../../programs/sieve.c");
const INTERPRET: &str = include_str!("../../programs/interpret.c");
const MEMORY: &str = include_str!("../../programs/memory.c");
const KERNELS: &str = include_str!("../../programs/kernels.c");
const MICRO: &str = include_str!("../../programs/micro.c");
const GUPS: &str = include_str!("../../../capture/programs/gups.c");
const BTREE: &str = include_str!("../../../capture/programs/btree.c");
const BFS: &str = include_str!("../../../capture/programs/bfs.c");
const MATCH: &str = include_str!("../../../capture/programs/match.c");
const RANDOM: &str = include_str!("../../../capture/programs/random.h");
const WORK: &str = include_str!("../../../capture/programs/work.h");

/// The programs; each takes 0.05 to 0.5 s on a core of 3 GHz.
#[rustfmt::skip]
pub(super) const PROGRAMS: &[Entry] = &[
    micro("micro-add",      &["add", "60000"],       &["add", "0"]),
    micro("micro-adds",     &["adds", "30000"],      &["adds", "0"]),
    micro("micro-multiply", &["multiply", "30000"],  &["multiply", "0"]),
    micro("micro-addsd",    &["addsd", "30000"],     &["addsd", "0"]),
    micro("micro-mulsd",    &["mulsd", "30000"],     &["mulsd", "0"]),
    micro("micro-loads",    &["loads", "30000"],     &["loads", "0"]),
    micro("micro-forward",  &["forward", "10000"],   &["forward", "0"]),
    micro("micro-foreseen", &["foreseen", "30000"],  &["foreseen", "0"]),
    micro("micro-jump",     &["jump", "30000"],      &["jump", "0"]),
    micro("micro-jumps",    &["jumps", "20000"],     &["jumps", "0"]),
    micro("micro-call",     &["call", "10000"],      &["call", "0"]),
    micro("micro-library",  &["library", "10000"],   &["library", "0"]),
    micro("micro-random",   &["random", "10000"],    &["random", "0"]),
    micro("micro-indirect", &["indirect", "5000"],   &["indirect", "0"]),
    micro("micro-l1",       &["l1", "20000"],        &["l1", "0"]),
    micro("micro-l2",       &["l2", "8000"],         &["l2", "0"]),
    micro("micro-touch",    &["touch", "40"],        &["touch", "0"]),
    micro("micro-system",   &["system", "300"],      &["system", "0"]),
    c("chase-1", CHASE, &["1", "3000000"]).idle(&["1", "0"]).known(),
    c("chase-8", CHASE, &["8", "1000000"]).idle(&["8", "0"]).known(),
    c("chase-256", CHASE, &["256", "1000000"]).idle(&["256", "0"]).known(),
    c("independent", INDEPENDENT, &["256", "8000000"]).idle(&["256", "0"]).known(),
    c("quicksort", QUICKSORT, &["400000"]).known(),
    c("stream", STREAM, &["64", "12"]).idle(&["64", "0"]).known(),
    c("matrix", MATRIX, &["600"]).known(),
    c("join-small", JOIN, &["20000", "2500000"]).idle(&["20000", "0"]).known(),
    c("join", JOIN, &["4000000", "500000"]).idle(&["4000000", "0"]).known(),
    c("tree-small", TREE, &["20000", "400000"]).idle(&["20000", "0"]),
    c("tree", TREE, &["100000", "100000"]).idle(&["100000", "0"]).known(),
    c("sieve", SIEVE, &["100000", "200"]),
    c("interpret", INTERPRET, &["8000000"]),
    c("gups", GUPS, &["256", "16"]).idle(&["256", "0"]).known(),
    c("btree", BTREE, &["300", "300"]).known(),
    c("bfs", BFS, &["17", "16", "2"]).known(),
    c("match", MATCH, &["500", "400"]),
    c("sparse", MEMORY, &["sparse", "160", "2"]).idle(&["sparse", "160", "0"]),
    c("transpose", MEMORY, &["transpose", "256", "4"]).idle(&["transpose", "256", "0"]),
    c("histogram", MEMORY, &["histogram", "192", "4"]).idle(&["histogram", "192", "0"]),
    c("radix", MEMORY, &["radix", "192", "4"]).idle(&["radix", "192", "0"]),
    c("search", MEMORY, &["search", "256", "4"]).idle(&["search", "256", "0"]),
    c("lists", MEMORY, &["lists", "256", "1"]).idle(&["lists", "256", "0"]),
    c("sets", MEMORY, &["sets", "192", "20"]).idle(&["sets", "192", "0"]),
    c("bloom", MEMORY, &["bloom", "192", "20"]).idle(&["bloom", "192", "0"]).known(),
    c("gather", MEMORY, &["gather", "192", "1"]).idle(&["gather", "192", "0"]),
    c("queue", MEMORY, &["queue", "192", "20"]).idle(&["queue", "192", "0"]),
    c("stencil", MEMORY, &["stencil", "192", "8"]).idle(&["stencil", "192", "0"]),
    c("columns", MEMORY, &["columns", "192", "8"]).idle(&["columns", "192", "0"]),
    c("cuckoo", MEMORY, &["cuckoo", "192", "20"]).idle(&["cuckoo", "192", "0"]),
    c("trie", MEMORY, &["trie", "192", "10"]).idle(&["trie", "192", "0"]),
    c("sudoku", KERNELS, &["sudoku", "250"]),
    c("base64", KERNELS, &["base64", "8000"]),
    c("cipher", KERNELS, &["cipher", "250000"]),
    c("primes", KERNELS, &["primes", "800000"]),
    c("knapsack", KERNELS, &["knapsack", "500"]),
    c("huffman", KERNELS, &["huffman", "2000"]),
    c("text", KERNELS, &["text", "500"]),
    c("spectral", KERNELS, &["spectral", "1000"]),
    c("equations", KERNELS, &["equations", "200"]),
    c("words", KERNELS, &["words", "250"]),
    c("dictionary", KERNELS, &["dictionary", "2000"]),
    c("scanner", KERNELS, &["scanner", "2000"]),
    system("sort", "/usr/bin/sort", &["--parallel=1", "TEXT"]).known(),
    system("sort-threads", "/usr/bin/sort", &["--parallel=2", "TEXT", "TEXT"]),
    system("gzip", "/usr/bin/gzip", &["-c", "DATA"]).known(),
    system("bzip2", "/usr/bin/bzip2", &["-c", "DATA"]),
    system("xz", "/usr/bin/xz", &["-1", "-T1", "-c", "DATA"]),
    system("md5sum", "/usr/bin/md5sum", &["TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT"]),
    system("sha256sum", "/usr/bin/sha256sum", &["TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT"]),
    system("awk", "/usr/bin/awk", &["{ sum += $1; count[$2]++ } END { print sum, length(count) }", "TEXT"]),
    system("sed", "/usr/bin/sed", &["s/abc\\([0-9]*\\)/\\1x/g", "DATA"]),
    system("perl", "/usr/bin/perl", &["-e", "my %h; $h{$_ * 7919 % 100003} += $_ for 1 .. 300000; print scalar keys %h"]).known(),
    system("perl-text", "/usr/bin/perl", &["-ne", "$n++ while /[0-9a-f]{4}/g; END { print $n }", "DATA"]),
    system("python", "/usr/bin/python3", &["-c", "d = {}\nfor i in range(400000): d[i * 7919 % 100003] = i\nprint(len(d))"]).known(),
    system("python-class", "/usr/bin/python3", &["-c", "class A:\n  def f(self, x): return x + 1\na = A(); x = 0\nfor i in range(800000): x = a.f(x)\nprint(x)"]).known(),
    system("sqlite", "/usr/bin/sqlite3", &[":memory:", "create table t(a integer primary key, b); insert into t select value, value * 7919 % 100003 from generate_series(1, 150000); create index i on t(b); select sum(b) from t where b % 7 = 3;"]).known(),
    system("tclsh", "/usr/bin/tclsh", &["SCRIPT"]),
    system("bc", "/usr/bin/bc", &["-q", "SUMS"]),
    system("jq", "/usr/bin/jq", &["-n", "[range(25000) | . * 3 % 7919] | sort | unique | length"]),
    Entry { from: From::Java(JAVA), ..system("java", JVM, &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "CLASSES", "Main"]) },
    system("compiler", "/usr/bin/gcc", &["-O2", "-S", "-o", "/dev/null", "SOURCE"]),
];

/// A program that can be started.
#[derive(Clone, Debug)]
pub(super) struct Runnable {
    pub(super) name: String,
    pub(super) path: OsString,
    pub(super) arguments: Vec<OsString>,
    /// The arguments without its work, if the program can do without; it tells the time of its work then.
    pub(super) idle: Option<Vec<OsString>>,
    pub(super) is_micro: bool,
    pub(super) is_held_out: bool,
}

impl Runnable {
    /// Returns the program as it runs where the C library's `malloc` asks for huge pages. `env` sets the variable for both kinds of
    /// runs.
    pub(super) fn with_huge_pages(&self) -> Self {
        let with = |arguments: &Vec<OsString>| {
            let tunable = OsString::from("GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
            [tunable, self.path.clone()].into_iter().chain(arguments.iter().cloned()).collect()
        };
        Self {
            path: "/usr/bin/env".into(),
            arguments: with(&self.arguments),
            idle: self.idle.as_ref().map(with),
            ..self.clone()
        }
    }

    /// Returns the program without its work, if it can do without.
    pub(super) fn idle(&self) -> Option<Self> {
        Some(Self { arguments: self.idle.clone()?, ..self.clone() })
    }

    /// Returns a program of the user's.
    pub(super) fn of_user(program: &OsStr, arguments: &[OsString]) -> Self {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        Self {
            name,
            path: program.to_owned(),
            arguments: arguments.to_vec(),
            idle: None,
            is_micro: false,
            is_held_out: true,
        }
    }
}

impl Entry {
    /// Returns why the program cannot be had here, if it cannot.
    pub(super) fn missing(&self) -> Option<String> {
        let no = |path: &str| format!("there is no {path}");
        match self.from {
            From::C(MICRO) if !cfg!(target_arch = "x86_64") => Some("it is written for x86-64".to_owned()),
            From::C(_) => {
                (!Path::new(COMPILER).exists()).then(|| format!("there is no {COMPILER} to compile it"))
            }
            From::Java(_) => [JAVA_COMPILER, JVM].into_iter().find(|path| !Path::new(path).exists()).map(no),
            From::System(path) => (!Path::new(path).exists()).then(|| no(path)),
        }
    }

    /// Returns what a user would type, for a list.
    pub(super) fn shown(&self) -> String {
        let path = match self.from {
            From::C(MICRO) => "micro",
            From::C(MEMORY) => "memory",
            From::C(KERNELS) => "kernels",
            From::C(_) => self.name.split_once('-').map_or(self.name, |(program, _)| program),
            From::System(path) => path,
            From::Java(_) => JVM,
        };
        let words = self.arguments.iter().map(|word| word.escape_debug().to_string());
        std::iter::once(path.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// The C compiler that the system has.
const COMPILER: &str = "/usr/bin/cc";
/// The Java compiler and the virtual machine.
const JAVA_COMPILER: &str = "/usr/bin/javac";
const JVM: &str = "/usr/bin/java";

/// A folder with what programs need; it is removed in the end.
pub(super) struct Folder(tempfile::TempDir);

/// The lines of the text, and of the smaller one.
const LINES: u64 = 100_000;
const FEWER_LINES: u64 = 40_000;

impl Folder {
    /// Makes the folder and its files.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("pagewalk-validate-").tempdir();
        let folder = Self(folder.context("cannot make a folder for programs")?);
        let files = [
            ("TEXT", text(LINES)),
            ("DATA", text(FEWER_LINES)),
            ("SCRIPT", "set s 0; for {set i 0} {$i < 200000} {incr i} {set s [expr {($s + $i * 3) % 10007}]}; puts $s\n".to_owned()),
            ("SUMS", "s = 0; for (i = 1; i < 200000; i++) s += i % 7 * i; s\nquit\n".to_owned()),
            ("SOURCE", source()),
            ("random.h", RANDOM.to_owned()),
            ("work.h", WORK.to_owned()),
        ];
        for (name, content) in files {
            let path = folder.path(if name == "SOURCE" { "SOURCE.c" } else { name });
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a program that can be started, compiled if it is one of this repository.
    ///
    /// # Errors
    ///
    /// It cannot be compiled.
    pub(super) fn runnable(&self, entry: &Entry) -> anyhow::Result<Runnable> {
        let path = match entry.from {
            From::C(source) => self.compiled(entry.name, source)?.into(),
            From::System(path) => path.into(),
            From::Java(source) => self.classes(source)?.into(),
        };
        let word = |word: &&str| match *word {
            "SOURCE" => self.path("SOURCE.c").into(),
            "TEXT" | "DATA" | "SCRIPT" | "SUMS" => self.path(word).into(),
            "CLASSES" => self.path("").into(),
            other => other.into(),
        };
        let words = |words: &[&str]| words.iter().map(word).collect();
        Ok(Runnable {
            name: entry.name.to_owned(),
            path,
            arguments: words(entry.arguments),
            idle: entry.idle.map(words),
            is_micro: entry.is_micro,
            is_held_out: !entry.is_known,
        })
    }

    /// Compiles a class of this repository; returns the virtual machine that runs it.
    fn classes(&self, source: &str) -> anyhow::Result<&'static str> {
        let file = self.path("Main.java");
        fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
        let compiled = Command::new(JAVA_COMPILER).arg("-d").arg(self.path("")).arg(&file).output();
        let compiled = compiled.context("cannot start javac")?;
        if !compiled.status.success() {
            bail!("javac cannot compile Main.java: {}", String::from_utf8_lossy(&compiled.stderr).trim());
        }
        Ok(JVM)
    }

    fn compiled(&self, name: &str, source: &str) -> anyhow::Result<PathBuf> {
        let program = self.path(name);
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-O2", "-x", "c", "-o"]).arg(&program).arg("-").current_dir(self.0.path());
        let mut child =
            compiler.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start cc")?;
        let source = source.replace("../../capture/programs/", "");
        child
            .stdin
            .take()
            .context("a pipe to cc")?
            .write_all(source.as_bytes())
            .context("cannot write to cc")?;
        let ended = child.wait_with_output().context("cannot wait for cc")?;
        if !ended.status.success() {
            bail!("cc cannot compile {name}: {}", String::from_utf8_lossy(&ended.stderr).trim());
        }
        Ok(program)
    }
}

/// Lines of a number and a word, each repeated after a while.
fn text(lines: u64) -> String {
    let line =
        |i: u64| format!("{} {}\n", i * 7_919 % 100_003, format!("abc{:x}", i * 31_337 % 65_536).repeat(3));
    (0..lines).map(line).collect()
}

/// A program for a Java virtual machine, which compiles parts of it while it runs.
const JAVA: &str = "\
import java.util.HashMap;

class Main {
    public static void main(String[] arguments) {
        var counts = new HashMap<Integer, Integer>();
        for (int i = 0; i < 200_000; i++)
            counts.merge(i * 7919 % 10_007, 1, Integer::sum);
        System.out.println(counts.size());
    }
}
";

/// A C file of many small functions.
fn source() -> String {
    let function = |i: u32| {
        format!(
            "int f{i}(int x, int y) {{ int s = {i}; for (int i = 0; i < x; i++) {{ if (y & 1) s += i * y; else s ^= y >> 1; y = s + {}; \
             switch (y % 5) {{ case 0: s++; break; case 3: s -= x; break; default: y++; }} }} return s; }}\n",
            i * 3
        )
    };
    (0..20).map(function).collect()
}

/// Returns the programs that a user asks for by name; all of them for no names.
///
/// # Errors
///
/// A name is unknown.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Entry>> {
    let mut chosen = Vec::new();
    for name in names {
        let Some(entry) = PROGRAMS.iter().find(|entry| entry.name == name) else {
            let known: Vec<&str> = PROGRAMS.iter().map(|entry| entry.name).collect();
            bail!(
                "there is no program `{name}` to validate by; there are {}; or write your own after `--`",
                known.join(", ")
            );
        };
        chosen.push(entry);
    }
    Ok(if names.is_empty() { PROGRAMS.iter().collect() } else { chosen })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_enough_programs_and_each_has_a_name_of_its_own() {
        let names: BTreeSet<_> = PROGRAMS.iter().map(|entry| entry.name).collect();
        assert!(names.len() >= 24 && names.len() == PROGRAMS.len(), "{names:?}");
    }

    #[test]
    fn huge_pages_are_asked_for_by_a_variable() {
        let plain = Runnable {
            idle: Some(vec!["x".into()]),
            ..Runnable::of_user("/usr/bin/sort".as_ref(), &["TEXT".into()])
        };
        let huge = plain.with_huge_pages();
        assert_eq!((huge.name.as_str(), huge.path.to_str()), ("sort", Some("/usr/bin/env")));
        assert_eq!(huge.arguments, ["GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "/usr/bin/sort", "TEXT"]);
        let idle = huge.idle().expect("it has less to do");
        assert_eq!(idle.arguments, ["GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "/usr/bin/sort", "x"]);
    }

    #[test]
    fn programs_are_chosen_by_name() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let found = chosen(&names(&["sort", "gups"])).expect("both are known");
        assert_eq!(found.iter().map(|entry| entry.name).collect::<Vec<_>>(), ["sort", "gups"]);
        assert_eq!(chosen(&[]).expect("all").len(), PROGRAMS.len());
        let error = chosen(&names(&["sort", "none"])).err().expect("it is unknown").to_string();
        assert!(error.starts_with("there is no program `none`") && error.contains("gups"), "{error}");
    }

    #[test]
    fn every_program_of_this_repository_compiles() {
        let folder = Folder::new().expect("a folder");
        for entry in PROGRAMS.iter().filter(|entry| matches!(entry.from, From::C(_))) {
            if let Some(why) = entry.missing() {
                println!("{} skipped: {why}", entry.name);
                continue;
            }
            let runnable = folder.runnable(entry).expect("it compiles");
            assert!(Path::new(&runnable.path).exists(), "{}", entry.name);
        }
    }
}
