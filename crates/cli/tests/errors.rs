//! Errors say everything once. A text that names its cause and a `source()` that is the same cause are printed twice where a chain
//! of errors is (`{:#}`), as the command does. The rule of all crates: **an error with a text of its own holds its cause in the text
//! and has no source; only a transparent one has, whose text is the cause's.**

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every Rust file of the crates' sources.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let mut folders: Vec<PathBuf> = listed(&crates).into_iter().map(|path| path.join("src")).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in if folder.is_dir() { listed(&folder) } else { Vec::new() } {
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "rs" => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// The variants and structs of `text` whose errors have a text of their own: what stands behind each attribute, up to the next
/// variant or the end of the item.
fn with_text(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[error(").skip(1).filter(|part| !part.starts_with("transparent")).map(|part| {
        let ends = ["#[derive(", "\nimpl", "\n}\n"].into_iter().filter_map(|end| part.find(end));
        &part[..ends.min().unwrap_or(part.len())]
    })
}

/// Whether such a variant or struct has a source all the same.
fn has_source(variant: &str) -> bool {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let words = ["#[source]", "#[from]", " source:", "(source:"];
    variant.lines().filter(code).any(|line| words.into_iter().any(|word| line.contains(word)))
}

#[test]
fn no_error_type_repeats_its_source() {
    let (mut variants, mut wrong) = (0, Vec::new());
    for path in sources() {
        let text = fs::read_to_string(&path).expect("a source");
        variants += with_text(&text).count();
        wrong.extend(
            with_text(&text)
                .filter(|variant| has_source(variant))
                .map(|variant| format!("{}: {}", path.display(), variant.lines().next().unwrap_or_default())),
        );
        // One made by hand: the same rule, which no attribute shows.
        if text.contains("fn source(&self) -> Option<&") {
            wrong.push(format!("{}: a source made by hand", path.display()));
        }
    }
    assert!(variants > 100, "{variants} variants only were found");
    assert!(wrong.is_empty(), "these say their source twice where a chain is printed:\n{}", wrong.join("\n"));
}

#[test]
fn the_rule_finds_what_it_is_for() {
    let wrong = [
        "#[error(\"{what}: {source}\")]\n    Io { what: String, source: io::Error },\n",
        "#[error(\"a: {0}\")]\n    Shape(#[from] serde_json::Error),\n",
        "#[error(\"no: {reason}\")]\npub struct R {\n    #[source]\n    reason: Why,\n}\n",
    ];
    for text in wrong {
        assert!(with_text(text).any(has_source), "{text}");
    }
    let right = "#[error(transparent)]\n    A(#[from] B),\n    #[error(\"{what}: {error}\")]\n    Io { error: io::Error },\n}\n";
    assert!(!with_text(right).any(has_source));
}

/// The system's answer stood twice in these.
#[test]
fn the_command_says_each_reason_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none");
    let in_none = none.join("t.pwt");
    for (arguments, file) in [
        ("run --machine x86-64 --trace", &none),
        ("trace info", &none),
        ("trace convert -o /dev/null", &none),
        ("record --workload gups-small -o", &in_none),
        ("run --machine x86-64 --workload gups-small --machine", &none),
        ("fs fsck", &none),
        ("riscv", &none),
    ] {
        let ended =
            Command::new(env!("CARGO_BIN_EXE_pagewalk")).args(arguments.split(' ')).arg(file).output();
        let ended = ended.expect("it starts");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.matches("No such file or directory").count() <= 1, "{arguments}: {text}");
    }
}
