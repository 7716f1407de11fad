//! The README cannot rot: its transcript is what the command prints, and what it links to exists.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("a README")
}

/// `PAGEWALK_BLESS=1` writes the transcript anew.
#[test]
fn the_transcript_is_what_the_command_prints() {
    let text = readme();
    let (before, rest) = text.split_once("```console\n$ pagewalk ").expect("a console block");
    let (command, rest) = rest.split_once('\n').expect("a command line");
    let (transcript, after) = rest.split_once("```").expect("the block's end");
    let output = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(command.split(' '))
        .env_remove("COLUMNS")
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    if std::env::var_os("PAGEWALK_BLESS").is_some() {
        let blessed = format!("{before}```console\n$ pagewalk {command}\n{printed}```{after}");
        std::fs::write(root().join("README.md"), blessed).expect("a writable README");
        return;
    }
    assert_eq!(transcript, printed, "PAGEWALK_BLESS=1 cargo test -p pagewalk-cli writes it anew");
}

#[test]
fn everything_it_links_to_exists() {
    for part in readme().split("](").skip(1) {
        let (target, _) = part.split_once(')').expect("a closed link");
        assert!(root().join(target).exists(), "{target}");
    }
}

#[test]
fn the_make_targets_it_names_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let text = readme();
    let named: Vec<&str> = text
        .split("make ")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next())
        .filter(|name| ["run", "test", "bench", "lint", "fuzz", "papers"].contains(name))
        .collect();
    assert!(named.len() >= 5, "{named:?}");
    for name in named {
        assert!(makefile.contains(&format!("\n{name}:")), "{name}");
    }
}
