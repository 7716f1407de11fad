//! A C program that uses the header, built with the system's compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The shared library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a program");
    let folder = test.parent().expect("a folder");
    folder.to_owned()
}

#[test]
fn a_c_program_uses_the_header() {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        println!("skipped: there is no C compiler");
        return;
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("use");
    let built = Command::new(&compiler)
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(crate_folder.join("tests/use.c"))
        .arg("-I")
        .arg(crate_folder.join("include"))
        .arg("-L")
        .arg(library())
        .arg("-lpagewalk_ctfs_c")
        .status();
    assert!(built.expect("the compiler starts").success());
    let ended = Command::new(&program)
        .arg(folder.path().join("store"))
        .env("LD_LIBRARY_PATH", library())
        .status()
        .expect("it starts");
    assert!(ended.success());
}
