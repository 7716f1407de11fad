//! The programs of `examples/riscv`. The command's tests use this file as well.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the built programs; `None`, with the reason, where there is no compiler for them.
pub(crate) fn built() -> Option<&'static Path> {
    // Tests run side by side, and the compiler replaces what it makes.
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("riscv");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/riscv/build.sh");
        let output = Command::new(script).arg(&folder).output().expect("the script runs");
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(0) => Ok(folder),
            Some(3) => Err(reason),
            _ => panic!("{reason}"),
        }
    });
    match built {
        Ok(folder) => Some(folder),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}
