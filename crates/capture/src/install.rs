//! The places of the front-ends' files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::CaptureError;

const TOOL: &str = "valgrind/pagewalk-amd64-linux";
const RUNTIME: &str = "callout/libtsan.so";
const PLUGIN: &str = "qemu/pagewalk.so";
/// The part of Valgrind that starts the tool again after an exec.
const LAUNCHERS: [&str; 3] = ["/usr/bin/valgrind.bin", "/usr/bin/valgrind", "/usr/local/bin/valgrind"];

/// The folder that holds the built front-ends, as the Makefile of this crate fills it:
/// `valgrind/` (the tool), `callout/` (the runtime for `-fsanitize=thread`) and `qemu/` (the plugin).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    candidates: Vec<PathBuf>,
}

impl Install {
    /// Looks, in this order, in `PAGEWALK_LIB`; in `../lib/pagewalk`, `../pagewalk` and `../../pagewalk` seen from
    /// the folder of the running executable; and in the folder that `PAGEWALK_LIB_DIR` named when this was compiled.
    pub fn find() -> Self {
        if let Some(folder) = std::env::var_os("PAGEWALK_LIB") {
            return Self { candidates: vec![folder.into()] };
        }
        let mut candidates = Vec::new();
        if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
            for way in ["../lib/pagewalk", "../pagewalk", "../../pagewalk"] {
                candidates.push(folder.join(way));
            }
        }
        candidates.extend(option_env!("PAGEWALK_LIB_DIR").map(PathBuf::from));
        Self { candidates }
    }

    /// Looks in `folder` only.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { candidates: vec![folder.into()] }
    }

    fn folder_with(&self, file: &'static str, what: &'static str) -> Result<PathBuf, CaptureError> {
        let found = self.candidates.iter().find(|folder| folder.join(file).is_file());
        let folder =
            found.ok_or_else(|| CaptureError::NotBuilt { what, file, searched: self.candidates.clone() })?;
        folder.canonicalize().map_err(|e| CaptureError::io(format!("reading `{}`", folder.display()), e))
    }

    /// The folder with the Valgrind tool, made for the installed Valgrind, and Valgrind's launcher.
    pub(crate) fn valgrind(&self) -> Result<(PathBuf, PathBuf), CaptureError> {
        let folder = self.folder_with(TOOL, "Valgrind tool")?.join("valgrind");
        let launcher = LAUNCHERS.iter().map(PathBuf::from).find(|p| p.is_file());
        let launcher =
            launcher.ok_or_else(|| CaptureError::NoValgrind(PathBuf::from("/usr/bin/valgrind")))?;
        let preload = folder.join("vgpreload_core-amd64-linux.so");
        if !preload.is_file() {
            return Err(CaptureError::NoValgrind(preload));
        }
        let file = folder.join("version");
        let built = std::fs::read_to_string(&file)
            .map_err(|e| CaptureError::io(format!("reading `{}`", file.display()), e))?;
        let built = built.trim().to_owned();
        let installed = installed_version(&launcher)?;
        if built != installed {
            return Err(CaptureError::ValgrindVersion { built, installed });
        }
        Ok((folder, launcher))
    }

    /// The plugin for QEMU.
    pub(crate) fn qemu(&self) -> Result<PathBuf, CaptureError> {
        Ok(self.folder_with(PLUGIN, "QEMU plugin")?.join(PLUGIN))
    }

    /// Returns the folder with the call-out runtime, for linker flags.
    ///
    /// # Errors
    ///
    /// It is not built.
    pub fn callout(&self) -> Result<PathBuf, CaptureError> {
        Ok(self.folder_with(RUNTIME, "call-out runtime")?.join("callout"))
    }
}

/// `valgrind --version` prints `valgrind-3.19.0`.
fn installed_version(launcher: &Path) -> Result<String, CaptureError> {
    let output = Command::new(launcher)
        .arg("--version")
        .output()
        .map_err(|e| CaptureError::io(format!("running `{} --version`", launcher.display()), e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim();
    Ok(version.strip_prefix("valgrind-").unwrap_or(version).to_owned())
}
