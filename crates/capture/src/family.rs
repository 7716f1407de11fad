//! The processes of an observed program, and how they are ended: none of them outlives the observation that was cut short.
//!
//! A family is the program that was started, every process that holds the program's end of the channel or was told how to come
//! back to it, and the descendants of all of them. The program stays in the process group of the command that observes it, as a program that reads
//! from the terminal must, so the group itself cannot be signalled: other commands of a shell's pipeline belong to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Families that are observed at this moment, for [`kill_observed`].
static OBSERVED: Mutex<Vec<Arc<Family>>> = Mutex::new(Vec::new());

/// Rounds of SIGKILL: a process may fork between the look and the signal.
const KILL_ROUNDS: u32 = 50;
/// Between two of them.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// A process, by its number and the time at which it began: the system gives a number to another process later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Identity {
    /// The system's number of the process.
    pub(crate) pid: i32,
    /// The system's clock ticks from its own start to the process's.
    pub(crate) started: u64,
}

/// A started program and its processes.
#[derive(Debug)]
pub(crate) struct Family {
    /// The process that was started; none if nothing is known of it.
    child: Option<Identity>,
    /// The inode of the program's end of the channel.
    inode: u64,
    /// What a process that has closed the channel says to come back.
    key: String,
    /// The folder with what a front-end has to say, removed at the end.
    logs: PathBuf,
}

impl Family {
    /// The family of a child that has just been started, entered into the list of observed ones.
    pub(crate) fn observed(child: u32, inode: u64, key: &str, logs: &Path) -> Arc<Self> {
        let child = i32::try_from(child).ok().and_then(|pid| Some(Look::at(pid)?.identity));
        let family = Arc::new(Self::new(child, inode, key.to_owned(), logs.to_owned()));
        observed().push(Arc::clone(&family));
        family
    }

    /// A family that is not in the list.
    pub(crate) fn new(child: Option<Identity>, inode: u64, key: String, logs: PathBuf) -> Self {
        Self { child, inode, key, logs }
    }

    /// The process that was started.
    pub(crate) fn child(&self) -> Option<Identity> {
        self.child
    }

    /// Takes the family from the list.
    pub(crate) fn forget(self: &Arc<Self>) {
        observed().retain(|other| !Arc::ptr_eq(other, self));
    }

    /// Sends a signal to every process.
    pub(crate) fn signal(&self, signal: Signal) {
        for member in self.members() {
            // The process may have ended on its own just now, and its number may be another one's.
            let Some(pid) = Pid::from_raw(member.pid) else { continue };
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if Look::at(member.pid).is_some_and(|look| look.identity == member) {
                let _ = pidfd_send_signal(&process, signal);
            }
        }
    }

    /// Whether no process is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.members().is_empty()
    }

    /// Ends every process with SIGKILL, those born meanwhile included.
    pub(crate) fn kill(&self) {
        for _ in 0..KILL_ROUNDS {
            if self.has_ended() {
                return;
            }
            self.signal(Signal::KILL);
            std::thread::sleep(KILL_PAUSE);
        }
    }

    /// Ends every process, and removes what is left of the run.
    pub(crate) fn clean_up(&self) {
        self.kill();
        // Nothing more can be done about a folder that stays.
        let _ = fs::remove_dir_all(&self.logs);
    }

    /// All processes that have not ended.
    fn members(&self) -> BTreeSet<Identity> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut all: BTreeMap<i32, Look> = BTreeMap::new();
        let mut members = BTreeSet::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(look) = pid.filter(|&pid| pid != own).and_then(Look::at) else { continue };
            if look.has_ended {
                continue;
            }
            if self.child == Some(look.identity)
                || self.is_held_by(&entry.path())
                || self.is_known_to(&entry.path())
            {
                members.insert(look.identity.pid);
            }
            all.insert(look.identity.pid, look);
        }
        loop {
            let is_new =
                |look: &&Look| members.contains(&look.parent) && !members.contains(&look.identity.pid);
            let born: Vec<i32> = all.values().filter(is_new).map(|look| look.identity.pid).collect();
            if born.is_empty() {
                return members.iter().map(|pid| all[pid].identity).collect();
            }
            members.extend(born);
        }
    }

    /// Whether a process has the key among its variables or its arguments, wherever it has gone.
    fn is_known_to(&self, process: &Path) -> bool {
        ["environ", "cmdline"].iter().any(|name| {
            let text = fs::read(process.join(name)).unwrap_or_default();
            text.windows(self.key.len()).any(|part| part == self.key.as_bytes())
        })
    }

    fn is_held_by(&self, process: &Path) -> bool {
        let link = format!("socket:[{}]", self.inode);
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        descriptors.into_iter().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == link.as_str())
        })
    }
}

/// What the system says of a process.
struct Look {
    identity: Identity,
    parent: i32,
    /// Whether it only waits to be asked for its status.
    has_ended: bool,
}

impl Look {
    /// None if there is no process of this number.
    fn at(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // `pid (name) state parent ...`, the start as the 22nd; a name may hold anything, parentheses included.
        let behind_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
        let text = std::str::from_utf8(&stat[behind_name..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(22 - 5)?.parse().ok()?;
        Some(Self { identity: Identity { pid, started }, parent, has_ended })
    }
}

fn observed() -> MutexGuard<'static, Vec<Arc<Family>>> {
    // A list is whole after every change.
    OBSERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every program that this process observes, with all its processes and at once: for a command that is about to exit
/// in the middle of its work. Whether there was such a program.
pub fn kill_observed() -> bool {
    let families = observed();
    for family in families.iter() {
        family.clean_up();
    }
    !families.is_empty()
}
