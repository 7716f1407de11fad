//! The recipes of docs/capture.md, as they stand there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewalk_capture::Frontend;

use crate::common::{self, clang, install, program, record};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Runs a line of the shell in which DIR, SOURCE and OUT stand for the runtime's folder, the source and the program;
/// none if the compiler refuses for want of something that is not installed.
fn build(line: &str, source: &str) -> Option<PathBuf> {
    let stem = Path::new(source).file_stem().expect("a file").display();
    // Tests run side by side, and each program is one test's own.
    static BUILT: AtomicU32 = AtomicU32::new(0);
    let out = Path::new(TMP).join(format!("{stem}-{}", BUILT.fetch_add(1, Ordering::Relaxed)));
    let status = Command::new("sh")
        .args(["-ec", line])
        .env("DIR", install().callout().expect("runtime"))
        .env("SOURCE", Path::new(CRATE).join(source))
        .env("OUT", &out)
        .status()
        .expect("sh");
    if !status.success() {
        println!("skipped: {line} does not build here");
    }
    status.success().then_some(out)
}

/// The commands between the fences that follow `heading` in the document.
fn recipe(heading: &str) -> String {
    let document =
        std::fs::read_to_string(Path::new(CRATE).join("../../docs/capture.md")).expect("docs/capture.md");
    let (_, section) = document.split_once(&format!("### {heading}\n")).expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("a block");
    let (lines, _) = block.split_once("```").expect("its end");
    lines
        .lines()
        .filter(|line| !line.starts_with("pagewalk ") && !line.starts_with("DIR="))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn gcc() {
    let path = build(&recipe("gcc"), "tests/c/sizes.c").expect("gcc");
    let (stream, _) = record(program(&path, &[], Frontend::Callout));
    assert_eq!(stream.counts(0x8_0000_0000, 65_536)[&(8, true)], 20_002);
    assert!(keeps_its_records(&path));
}

/// What the assembler reads: a pipe, calls without the PLT, calls of code that is not optimised; and what it leaves alone.
#[test]
fn gcc_by_other_ways() {
    let recipe = recipe("gcc");
    for flags in ["-pipe", "-fno-plt", "-O0", "-ffunction-sections"] {
        let path = build(&recipe.replace("-O2", &format!("-O2 {flags}")), "tests/c/sizes.c").expect("gcc");
        let (stream, _) = record(program(&path, &[], Frontend::Callout));
        assert_eq!(stream.counts(0x8_0000_0000, 65_536)[&(8, true)], 20_002, "{flags}");
        assert!(keeps_its_records(&path), "{flags}");
    }
    let accesses = |recipe: &str| {
        let path = build(recipe, "programs/gups.c").expect("gcc");
        let (stream, _) = record(program(&path, &["1", "1"], Frontend::Callout));
        (stream.counts(0, u64::MAX), keeps_its_records(&path))
    };
    let (expected, inlined) = accesses(&recipe);
    assert!(inlined);
    assert_eq!(accesses(&recipe.replace("-O2", "-O2 -masm=intel")), (expected.clone(), false));
    assert_eq!(accesses(&recipe.replace("-B\"$DIR/inline\"", "")), (expected, false));
}

/// The assembler's errors name the compiler's file and line.
#[test]
fn assembler_errors_are_passed_on() {
    let source = Path::new(TMP).join("bad.s");
    std::fs::write(&source, "\tnop\n\tno_such_instruction\n").unwrap();
    let assembler = install().callout().expect("runtime").join("inline/as");
    let run = |args: &[&str]| {
        let output = Command::new(&assembler).args(args).args(["-o", "/dev/null"]).arg(&source).output();
        let output = output.expect("the assembler");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = run(&["--64"]);
    assert!(text.contains("bad.s:2: Error") && text.contains("no_such_instruction"), "{text}");
    assert!(run(&["other.s"]).contains("one file at a time"));
}

/// Whether `main` makes records itself, rather than by calls alone.
fn keeps_its_records(path: &Path) -> bool {
    let text = Command::new("objdump").arg("-d").arg(path).output().expect("objdump").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (_, main) = text.split_once("<main>:").expect("main");
    let (main, _) = main.split_once("\n\n").expect("its end");
    main.lines().any(|line| line.contains("movb") && line.contains(",0x6(%rax)"))
}

#[test]
fn clang_by_tsan() {
    let Some(name) = clang() else { return println!("skipped: clang is not installed") };
    let Some(path) = build(&recipe("clang").replace("clang-19", name), "tests/c/sizes.c") else { return };
    let (stream, _) = record(program(&path, &[], Frontend::Callout));
    assert_eq!(stream.counts(0x8_0000_0000, 65_536)[&(8, true)], 20_002);
    assert!(keeps_its_records(&path));
}

#[test]
fn clang_inlined() {
    let Some(name) = clang() else { return println!("skipped: clang is not installed") };
    let path = build(&recipe("clang, inlined at linking").replace("clang-19", name), "tests/c/sizes.c")
        .expect("clang");
    let (stream, _) = record(program(&path, &[], Frontend::Callout));
    assert_eq!(stream.counts(0x8_0000_0000, 65_536)[&(8, true)], 20_002);
    let text = Command::new("objdump").arg("-d").arg(&path).output().expect("objdump").stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("<pw_record_slowly"), "recording in the program");
    assert!(!text.contains("<__tsan_write8"), "a call where the access should record itself");
}

#[test]
fn clang_by_coverage() {
    let Some(name) = clang() else { return println!("skipped: clang is not installed") };
    let recipe = recipe("clang, coverage call-outs").replace("clang-19", name);
    let Some(path) = build(&recipe, "tests/c/sizes.c") else { return };
    let (stream, _) = record(program(&path, &[], Frontend::Callout));
    let counts = stream.counts(0x8_0000_0000, 65_536);
    assert_eq!((counts[&(8, true)], counts[&(1, false)], counts[&(16, true)]), (20_002, 101, 602));
}

#[test]
fn rust_on_stable() {
    let Some(path) = build(&recipe("Rust, stable"), "tests/rust/stores.rs") else { return };
    let (stream, outcome) = record(program(&path, &[], Frontend::Callout));
    assert!(outcome.status.success());
    let counts = stream.counts(0, u64::MAX);
    let (stores, loads) = (counts[&(2, true)], counts[&(2, false)]);
    assert!((12_345..12_445).contains(&stores) && (6_789..6_889).contains(&loads), "{counts:?}");
}

/// Programs that call the sanitizer by themselves, to annotate a lock of their own, did not link.
#[test]
fn a_programs_own_calls_of_the_sanitizer_work() {
    for name in ["gcc", "clang"] {
        let Some(path) = build(&recipe(name), "tests/c/interface.c") else { continue };
        let (stream, outcome) = record(program(&path, &[], Frontend::Callout));
        assert_eq!(outcome.status.code(), Some(0), "{name}");
        let expected = BTreeMap::from([((4, false), 50), ((4, true), 80), ((8, false), 70), ((8, true), 90)]);
        assert_eq!(stream.counts(0x8_0000_0000, 65_536), expected, "{name}");
    }
}

/// The names that a library defines for programs, of the sanitizer's interface.
fn interface(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm");
    assert!(output.status.success(), "{}", library.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    let prefixes = ["__tsan_", "__sanitizer_", "Annotate", "WTFAnnotate", "RunningOnValgrind"];
    let is_interface = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    names.filter(is_interface).map(str::to_owned).collect()
}

/// Every name of the real runtimes' interface, wherever their compilers put them.
#[test]
fn the_runtime_has_what_the_real_ones_have() {
    let ours = interface(&install().callout().expect("runtime").join("libtsan.so.2"));
    let asked = [
        ("gcc", "-print-file-name=libtsan.so"),
        (common::clang().unwrap_or("clang"), "-print-file-name=libclang_rt.tsan-x86_64.so"),
    ];
    for (compiler, question) in asked {
        let answer = Command::new(compiler).arg(question).output();
        let path =
            answer.map(|answer| PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim().to_owned()));
        let Some(path) = path.ok().filter(|path| path.is_absolute() && path.exists()) else {
            println!("skipped: {compiler} has no thread sanitizer");
            continue;
        };
        let real = interface(&path);
        assert!(real.contains("__tsan_acquire"), "{}", path.display());
        let missing: Vec<&String> = real.difference(&ours).collect();
        assert!(missing.is_empty(), "{} of {} names are missing: {missing:?}", missing.len(), real.len());
    }
}
