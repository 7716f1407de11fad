//! The parts of a program that were not observed, and why: by name, as far as a name is known.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use pagewalk_trace::ProcessId;

use crate::elf::{self, Kind, Machine};
use crate::error::CaptureError;
use crate::frontend::Frontend;
use crate::protocol::Body;

/// A process, or a program that a process was to become, that was not observed, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unobserved {
    /// The process, numbered in order of appearance.
    pub process: ProcessId,
    /// The file of the program, where it is known.
    pub program: Option<String>,
    /// The reason why the process was not observed.
    pub reason: Reason,
}

/// The reason why a process was not observed, or not to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The process executed a program that runs with other rights than those of the user who starts it.
    SetUserId,
    /// Under Valgrind the system refused to start such a program.
    SetUserIdRefused,
    /// The process executed a program for another instruction set than the front-end takes here.
    InstructionSet,
    /// The process executed a program that has not the call-out runtime, or did not find the way back to the command.
    NoRuntime,
    /// The process started such a program in another process without a fork, by `posix_spawn`, `system` or `popen`.
    SpawnedWithoutRuntime,
    /// The process executed a program that the front-end left to the system.
    LeftToSystem,
    /// The process set a filter of system calls for itself that refuses those by which it is observed.
    Filter,
    /// The process was announced by its parent, and never heard of.
    NeverHeard,
    /// The process ended without a word: it was killed.
    Killed,
}

impl Reason {
    /// Returns the name of the reason in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::SetUserId => "set-user-id",
            Self::SetUserIdRefused => "set-user-id-refused",
            Self::InstructionSet => "instruction-set",
            Self::NoRuntime => "no-runtime",
            Self::SpawnedWithoutRuntime => "spawned-without-runtime",
            Self::LeftToSystem => "left-to-system",
            Self::Filter => "filter",
            Self::NeverHeard => "never-heard",
            Self::Killed => "killed",
        }
    }

    /// What a reader is told behind the process and its program.
    fn text(self) -> &'static str {
        match self {
            Self::SetUserId => {
                "not observed: it is set-user-ID, set-group-ID or has capabilities of its own, and runs with other rights; \
                 copy it and run the copy"
            }
            Self::SetUserIdRefused => {
                "not started: it is set-user-ID, set-group-ID or has capabilities of its own, which Valgrind cannot run; copy \
                 it and run the copy, or take --frontend qemu, which lets it run unobserved"
            }
            Self::InstructionSet => {
                "not observed: it is for another instruction set than the program that was started"
            }
            Self::NoRuntime => {
                "not observed: it was built without the call-out runtime, or started without open descriptors and without the \
                 variable PAGEWALK_CHANNEL"
            }
            Self::SpawnedWithoutRuntime => {
                "not observed: that process started it by posix_spawn, system or popen, and it was built without the call-out \
                 runtime"
            }
            Self::LeftToSystem => "not observed: this front-end leaves it to the system",
            Self::Filter => {
                "not observed to the end: its own filter of system calls (seccomp) refuses those by which it is observed; \
                 switch its sandbox off"
            }
            Self::NeverHeard => "not observed: it ended, or executed another program, before it said a word",
            Self::Killed => "not observed to the end: it was killed",
        }
    }
}

impl fmt::Display for Unobserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process.0)?;
        if let Some(program) = &self.program {
            write!(f, ", {program}")?;
        }
        write!(f, ": {}", self.reason.text())
    }
}

/// What the processes of a run say of themselves: the programs that they are, and what may keep them from being observed.
#[derive(Debug)]
pub(crate) struct Programs {
    frontend: Frontend,
    known: BTreeMap<ProcessId, Known>,
    /// The numbers of all processes that have announced their start, since that may come before the news of a spawn.
    started: BTreeSet<u32>,
    /// Processes that were started without a fork and have not announced it, with the one that started them.
    spawned: BTreeMap<u32, Unobserved>,
    unobserved: Vec<Unobserved>,
}

#[derive(Clone, Default, Debug)]
struct Known {
    /// The program that runs.
    name: Option<OsString>,
    /// What it is about to execute instead, and why that will not be observed.
    next: Option<(OsString, Reason)>,
    filter: Filter,
    /// Whether the process itself has said anything.
    is_heard: bool,
}

/// Whether a process has set a filter of system calls for itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Filter {
    #[default]
    None,
    /// The process has, and nothing was heard since.
    Silent,
    /// The process has, and it is still observed.
    Passes,
}

impl Programs {
    /// Those of a run that begins with `program`.
    pub(crate) fn new(frontend: Frontend, program: &OsStr) -> Self {
        let first = Known { name: Some(program.to_owned()), ..Known::default() };
        Self {
            frontend,
            known: BTreeMap::from([(ProcessId(0), first)]),
            started: BTreeSet::new(),
            spawned: BTreeMap::new(),
            unobserved: Vec::new(),
        }
    }

    /// Takes note of what a process says, `pid` being the system's number of it.
    pub(crate) fn hear(&mut self, process: ProcessId, pid: u32, body: &Body<'_>) {
        let known = self.known.entry(process).or_default();
        known.is_heard = true;
        if known.filter == Filter::Silent {
            known.filter = Filter::Passes;
        }
        match body {
            Body::Exec(Some(path)) => {
                known.next = Some(((*path).to_owned(), reason_of(Path::new(path), self.frontend)));
            }
            Body::Exec(None) => {
                if let Some((path, Reason::SetUserId)) = known.next.take()
                    && self.frontend == Frontend::Valgrind
                {
                    self.add(Unobserved::new(process, Some(path), Reason::SetUserIdRefused));
                }
            }
            Body::Start => {
                let spawned = self.spawned.remove(&pid).and_then(|spawned| spawned.program);
                self.started.insert(pid);
                let next = known.next.take().map(|(path, _)| path);
                known.name = next.or(spawned.map(OsString::from)).or(known.name.take());
            }
            Body::Spawn(pid, path) => {
                let changes_rights = elf::changes_rights(Path::new(path));
                let reason = if changes_rights { Reason::SetUserId } else { Reason::SpawnedWithoutRuntime };
                let spawned = Unobserved::new(process, Some((*path).to_owned()), reason);
                match pid {
                    Some(pid) if self.started.contains(pid) => {}
                    Some(pid) => drop(self.spawned.insert(*pid, spawned)),
                    None => self.add(spawned),
                }
            }
            Body::Filter(is_set) => known.filter = if *is_set { Filter::Silent } else { Filter::None },
            _ => {}
        }
    }

    /// Takes note that `child` came from `parent`.
    pub(crate) fn forked(&mut self, parent: ProcessId, child: ProcessId) {
        let parent = self.known.get(&parent).cloned().unwrap_or_default();
        self.known.insert(child, Known { next: None, is_heard: false, ..parent });
    }

    /// Whether a filter of its own may have refused a system call of the first process, which the signal of a refusal, or any other
    /// one, has ended.
    pub(crate) fn first_has_filter(&self, is_refusal: bool) -> bool {
        let filter = self.known.get(&ProcessId(0)).map_or(Filter::None, |known| known.filter);
        filter == Filter::Silent || is_refusal && filter == Filter::Passes
    }

    /// Why a process that did not announce its end was not observed to it.
    pub(crate) fn cut_off(&self, process: ProcessId) -> Unobserved {
        let Known { name, next, filter, is_heard } = self.known.get(&process).cloned().unwrap_or_default();
        let (program, reason) = match next {
            Some((path, reason)) => (Some(path), reason),
            None if filter == Filter::Silent => (name, Reason::Filter),
            None if is_heard => (name, Reason::Killed),
            None => (name, Reason::NeverHeard),
        };
        Unobserved::new(process, program, reason)
    }

    /// Everything that was not observed, `unended` being the processes that did not announce their end.
    pub(crate) fn finish(&mut self, unended: impl Iterator<Item = ProcessId>) -> Vec<Unobserved> {
        for spawned in std::mem::take(&mut self.spawned).into_values() {
            self.add(spawned);
        }
        let mut all = std::mem::take(&mut self.unobserved);
        all.extend(unended.map(|process| self.cut_off(process)));
        all.sort_by_key(|each| each.process);
        all
    }

    fn add(&mut self, added: Unobserved) {
        if !self.unobserved.contains(&added) {
            self.unobserved.push(added);
        }
    }
}

impl Unobserved {
    fn new(process: ProcessId, program: Option<OsString>, reason: Reason) -> Self {
        let program = program.map(|program| program.to_string_lossy().into_owned());
        Self { process, program, reason }
    }
}

/// Why a program that is about to be executed is not observed, if it turns out that it is not.
fn reason_of(path: &Path, frontend: Frontend) -> Reason {
    if elf::changes_rights(path) {
        return Reason::SetUserId;
    }
    match (frontend, elf::kind(path)) {
        (Frontend::Callout, _) => Reason::NoRuntime,
        (Frontend::Valgrind, Ok(Kind::Program(Machine::X86_64)))
        | (_, Ok(Kind::Script { .. }) | Err(CaptureError::NotExecutable { .. } | CaptureError::Io { .. })) => {
            Reason::LeftToSystem
        }
        (_, Ok(Kind::Program(_)) | Err(_)) => Reason::InstructionSet,
    }
}
