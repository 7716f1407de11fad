//! A workload as a source of events.

use pagewalk_trace::{Sink, Source, SourceError, SourceInfo};

use crate::emit::{Emitter, Halt};
use crate::program::Program;
use crate::spec;
use crate::units::about;
use crate::values::SpecError;

/// A workload with its parameters, ready to run.
pub struct Workload {
    name: String,
    program: Box<dyn Program>,
    wants_blocks: bool,
}

impl Workload {
    pub(crate) fn new(name: String, program: Box<dyn Program>) -> Self {
        Self { name, program, wants_blocks: false }
    }

    /// Lets the workload, if it can, also say which blocks of instructions it executes.
    #[must_use]
    pub fn blocks(mut self, wants_blocks: bool) -> Self {
        self.wants_blocks = wants_blocks;
        self
    }

    fn gives_blocks(&self) -> bool {
        self.wants_blocks && self.program.gives_blocks()
    }

    /// Reads a spec: `gups`, `gups-small`, `gups:table=64MiB,updates=4M`. `seed` holds unless the spec itself sets
    /// one; seed 0 is the generator as published, where the original program has a fixed one.
    ///
    /// # Errors
    ///
    /// Unknown names and values, with what is allowed.
    pub fn parse(spec: &str, seed: u64) -> Result<Self, SpecError> {
        spec::parse(spec, seed)
    }

    /// Returns the bytes of real memory that a run takes at most. A run that finds less available does not start.
    pub fn host_bytes(&self) -> u64 {
        self.program.host_bytes()
    }

    /// Returns the bytes of address space that the program maps at most: its footprint.
    pub fn footprint_bytes(&self) -> u64 {
        self.program.footprint_bytes()
    }

    fn check_memory(&self, available: Option<u64>) -> Result<(), SourceError> {
        let needed = self.host_bytes();
        match available {
            Some(available) if available < needed => Err(SourceError::Input(format!(
                "workload `{}` needs {} of memory, but only {} is available (MemAvailable in /proc/meminfo); \
                 choose smaller parameters or a smaller preset (`pagewalk workloads` lists them)",
                self.name,
                about(needed),
                about(available),
            ))),
            _ => Ok(()),
        }
    }
}

/// Reads a spec, for `--workload SPEC`; see [`Workload::parse`].
///
/// # Errors
///
/// Unknown names and values, with what is allowed.
pub fn parse(spec: &str, seed: u64) -> Result<Box<dyn Source + Send>, SpecError> {
    Ok(Box::new(Workload::parse(spec, seed)?))
}

impl Source for Workload {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: self.name.clone(),
            expected_accesses: Some(self.program.expected_accesses()),
            announces_mappings: true,
            counts_instructions: true,
            gives_frames: false,
            gives_blocks: self.gives_blocks(),
        }
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.check_memory(available_bytes())?;
        let mut out = Emitter::new(sink);
        if self.gives_blocks() {
            out = out.with_blocks();
        }
        match self.program.run(&mut out).and_then(|()| Ok(out.finish()?)) {
            Ok(()) | Err(Halt::Stopped) => Ok(()),
            Err(Halt::Wrong(what)) => Err(SourceError::Verification(format!(
                "workload `{}` computed a wrong answer: {what}; this is a bug, please report it with this line",
                self.name
            ))),
        }
    }
}

/// Linux's estimate of what can be had without swapping; none where there is no such file.
fn available_bytes() -> Option<u64> {
    mem_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       24576000 kB\nMemFree: 1 kB\nMemAvailable:   20480000 kB\n";
        assert_eq!(mem_available(text), Some(20_480_000 * 1024));
        assert_eq!(mem_available("MemTotal: 1 kB"), None);
    }

    #[test]
    fn a_workload_that_does_not_fit_is_refused_with_both_sizes() {
        let workload = Workload::parse("gups:table=8GiB", 0).unwrap();
        assert!(workload.check_memory(Some(9 << 30)).is_ok());
        assert!(workload.check_memory(None).is_ok());
        let text = workload.check_memory(Some(5 << 30)).unwrap_err().to_string();
        assert!(text.contains("needs 8.0 GiB") && text.contains("only 5.0 GiB"), "{text}");
    }

    #[test]
    fn a_wrong_answer_is_a_verification_error() {
        struct Wrong;
        impl Program for Wrong {
            fn footprint_bytes(&self) -> u64 {
                0
            }
            fn host_bytes(&self) -> u64 {
                0
            }
            fn expected_accesses(&self) -> u64 {
                0
            }
            fn run(&self, _: &mut Emitter<'_>) -> Result<(), Halt> {
                Err(Halt::Wrong("2 + 2 = 5".to_owned()))
            }
        }
        let mut workload = Workload::new("sum".to_owned(), Box::new(Wrong));
        let error = workload.run(&mut |_: &mut Batch| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(&error, SourceError::Verification(text) if text.contains("2 + 2 = 5")), "{error}");
    }
}
