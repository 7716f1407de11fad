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
    let prefix = folder.path().join("prefix");
    let installed =
        Command::new(crate_folder.join("install.sh")).arg(library()).arg(&prefix).status().expect("a shell");
    assert!(installed.success());
    let program = folder.path().join("use");
    let built = Command::new(&compiler)
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(crate_folder.join("tests/use.c"))
        .args(flags(&prefix))
        .status();
    assert!(built.expect("the compiler starts").success());
    let ended = Command::new(&program)
        .arg(folder.path().join("store"))
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .status()
        .expect("it starts");
    assert!(ended.success());
}

/// What the description for pkg-config says, which need not be here to read it.
fn flags(prefix: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(prefix.join("lib/pkgconfig/pagewalk-ctfs.pc")).expect("installed");
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("it is there").trim();
    assert_eq!(value("Version:"), "0.1.0");
    let prefix = value("prefix=");
    [value("Cflags:"), value("Libs:")]
        .iter()
        .flat_map(|flags| flags.split(' '))
        .map(|flag| {
            flag.replace("${includedir}", &format!("{prefix}/include"))
                .replace("${libdir}", &format!("{prefix}/lib"))
        })
        .collect()
}
