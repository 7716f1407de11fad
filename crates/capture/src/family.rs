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

use rustix::process::{Pid, Signal, kill_process};

/// Families that are observed at this moment, for [`kill_observed`].
static OBSERVED: Mutex<Vec<Arc<Family>>> = Mutex::new(Vec::new());

/// Rounds of SIGKILL: a process may fork between the look and the signal.
const KILL_ROUNDS: u32 = 50;
/// Between two of them.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// A started program and its processes.
#[derive(Debug)]
pub(crate) struct Family {
    /// The process that was started; its number belongs to it until it has been waited for.
    child: Pid,
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
        let child = i32::try_from(child).ok().and_then(Pid::from_raw).expect("a child has a number");
        let family = Arc::new(Self { child, inode, key: key.to_owned(), logs: logs.to_owned() });
        observed().push(Arc::clone(&family));
        family
    }

    /// Takes the family from the list. From then on its child may be waited for.
    pub(crate) fn forget(self: &Arc<Self>) {
        observed().retain(|other| !Arc::ptr_eq(other, self));
    }

    /// Sends a signal to every process.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.members().into_iter().filter_map(Pid::from_raw) {
            // The process may have ended on its own just now.
            let _ = kill_process(pid, signal);
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

    /// The numbers of all processes that have not ended.
    fn members(&self) -> BTreeSet<i32> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let child = self.child.as_raw_nonzero().get();
        let mut parents: BTreeMap<i32, i32> = BTreeMap::new();
        let mut members = BTreeSet::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(pid) = pid.filter(|&pid| pid != own) else { continue };
            let Some(parent) = parent_of_living(&entry.path()) else { continue };
            parents.insert(pid, parent);
            if pid == child || self.is_held_by(&entry.path()) || self.is_known_to(&entry.path()) {
                members.insert(pid);
            }
        }
        loop {
            let is_new = |(pid, parent): &(&i32, &i32)| members.contains(parent) && !members.contains(pid);
            let born: Vec<i32> = parents.iter().filter(is_new).map(|(pid, _)| *pid).collect();
            if born.is_empty() {
                return members;
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

/// The parent of a process that runs; none of one that has ended and only waits to be asked for its status.
fn parent_of_living(process: &Path) -> Option<i32> {
    let stat = fs::read(process.join("stat")).ok()?;
    // `pid (name) state parent ...`; a name may hold anything, parentheses included.
    let behind_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = stat[behind_name..].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let state = fields.next()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    (!matches!(state, b"Z" | b"X")).then_some(parent)
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
        family.kill();
        // Nothing more can be done about a folder that stays.
        let _ = fs::remove_dir_all(&family.logs);
    }
    !families.is_empty()
}
