//! The reasons why a program could not be observed.

use std::io;
use std::path::PathBuf;

use pagewalk_trace::SourceError;

use crate::protocol::ProtocolError;
use crate::unobserved::Unobserved;

/// The reason why a program could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The program was not found.
    #[error("program `{program}` not found{}", if *.searched_path { " in PATH; give its path, or check the spelling" } else { "" })]
    NotFound {
        /// The program's name as the user wrote it.
        program: String,
        /// Whether PATH was searched.
        searched_path: bool,
    },
    /// The file exists and is not a program.
    #[error("`{}` cannot be run: {why}", .path.display())]
    NotExecutable {
        /// The path of the file.
        path: PathBuf,
        /// The reason, and what would help.
        why: String,
    },
    /// The program is for another architecture.
    #[error("`{}` is {found}; {}", .path.display(), if *.emulated {
        "`--frontend qemu` observes it, the others take 64-bit x86-64 programs only"
    } else {
        "only 64-bit programs can be observed: x86-64 by any front-end, AArch64, RISC-V and LoongArch by \
         `--frontend qemu`"
    })]
    Architecture {
        /// The path of the file.
        path: PathBuf,
        /// The architecture that the file was built for.
        found: String,
        /// Whether the QEMU plugin takes it.
        emulated: bool,
    },
    /// The front-end's files are missing.
    #[error("the {what} is not built: `{file}` is in none of {}; run `make` in the Pagewalk folder, or set \
             PAGEWALK_LIB to the folder that holds it", .searched.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotBuilt {
        /// `Valgrind tool`, `call-out runtime` or `QEMU plugin`.
        what: &'static str,
        /// The file that is looked for.
        file: &'static str,
        /// The folders that were searched.
        searched: Vec<PathBuf>,
    },
    /// Valgrind itself is missing.
    #[error("valgrind is not installed: `{}` is missing; install the package `valgrind`", .0.display())]
    NoValgrind(PathBuf),
    /// The tool was linked against another Valgrind.
    #[error(
        "the Valgrind tool was built for valgrind {built}, installed is {installed}; rebuild it with `make`"
    )]
    ValgrindVersion {
        /// The version of Valgrind that the tool was built for.
        built: String,
        /// The version of Valgrind that is installed.
        installed: String,
    },
    /// Valgrind gave up on the program.
    #[error("valgrind could not {} `{program}` ({status}){}", if *.started { "go on with" } else { "start" }, log_suffix(.log))]
    Valgrind {
        /// The name of the program.
        program: String,
        /// Whether the program had begun.
        started: bool,
        /// The status with which Valgrind ended.
        status: String,
        /// The text that Valgrind printed.
        log: String,
    },
    /// An option for an engine that takes none.
    #[error(
        "option `{option}` is for Valgrind, and another front-end was chosen\n  = help: leave --engine-option out; QEMU takes \
         its options from its variables, QEMU_CPU for instance, and the call-out runtime has none"
    )]
    EngineOption {
        /// The first such option.
        option: String,
    },
    /// QEMU itself is missing.
    #[error("{0} is not installed; install the package `qemu-user`")]
    NoQemu(&'static str),
    /// QEMU gave up on the program.
    #[error("QEMU could not start `{program}` ({status}); its own message is above")]
    Qemu {
        /// The name of the program.
        program: String,
        /// The status with which QEMU ended.
        status: String,
    },
    /// The call-out runtime never spoke.
    #[error(
        "`{program}` made no access records: it was not built with the call-out runtime, or nothing in it was \
             instrumented (see docs/capture.md; `--frontend valgrind` takes any program)"
    )]
    NoRecords {
        /// The name of the program.
        program: String,
    },
    /// The program's first process went on unobserved.
    #[error("`{program}` could not be observed to its end: {why}")]
    CutOff {
        /// The name of the program.
        program: String,
        /// The reason, as far as it is known.
        why: Unobserved,
    },
    /// The channel ended before the program.
    #[error("`{program}` cut its records off: it closed descriptor {fd}, on which they are sent")]
    ChannelClosed {
        /// The name of the program.
        program: String,
        /// The descriptor of the channel.
        fd: i32,
    },
    /// The front-end sent something strange.
    #[error("the records of `{program}` are damaged: {error}")]
    Protocol {
        /// The name of the program.
        program: String,
        /// The defect of the records.
        error: ProtocolError,
    },
    /// The system refused an operation.
    #[error("{what}: {error}")]
    Io {
        /// The operation that was being done.
        what: String,
        /// The system's answer, in the text already, and therefore no source: a chain of errors would say it twice.
        error: io::Error,
    },
}

fn log_suffix(log: &str) -> String {
    if log.is_empty() { "; its own message is above".to_owned() } else { format!(": {log}") }
}

impl CaptureError {
    pub(crate) fn io(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), error: error.into() }
    }
}

impl From<CaptureError> for SourceError {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::Io { what, error } => Self::Io { what, error },
            other => Self::Input(other.to_string()),
        }
    }
}
