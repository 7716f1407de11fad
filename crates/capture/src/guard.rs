//! A process that ends the observed program when the command that observes it is killed.
//!
//! The command cannot do that itself once it has received SIGKILL, and the system only ends a process's own children with it. So
//! the command starts itself a second time, under another name and in a session of its own, where neither the terminal's
//! signals nor `pkill pagewalk` reach it. This process waits for the end of its standard input, whose other end only the command has.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use crate::family::{Family, Identity};

/// The name that a command is called by to be a guard.
const NAME: &str = "guard-of-observed";

/// A guard that waits, and that is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
}

impl Guard {
    /// Starts a guard over the processes that hold the socket `inode` or know `key`.
    ///
    /// # Errors
    ///
    /// The system starts no process.
    pub(crate) fn start(inode: u64, key: &str, logs: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = Self { process: command.spawn()? };
        let logs = logs.as_os_str().as_bytes();
        guard.tell(&[inode.to_string().as_bytes(), key.as_bytes(), logs])?;
        Ok(guard)
    }

    /// From now on also over this process and its descendants.
    pub(crate) fn watch(&mut self, child: Identity) -> io::Result<()> {
        self.tell(&[child.pid.to_string().as_bytes(), child.started.to_string().as_bytes()])
    }

    fn tell(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let text: Vec<u8> = words.iter().flat_map(|word| word.iter().copied().chain([0])).collect();
        self.process.stdin.as_ref().expect("its input is a pipe").write_all(&text)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It has nothing to guard any more; a guard that has ended before is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns whether a command was called, by the first of its words, to be a guard: it then calls [`guard`] and does
/// nothing else.
pub fn is_guard(name: Option<&OsStr>) -> bool {
    name == Some(OsStr::new(NAME))
}

/// Waits until the command that started this process has ended, and then ends what it observed.
pub fn guard() -> ExitCode {
    // Both fail only for a process that has it already.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"guard");
    let mut said = Vec::new();
    if io::stdin().lock().read_to_end(&mut said).is_err() {
        return ExitCode::FAILURE;
    }
    match family(&said) {
        Some(family) => {
            family.clean_up();
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

/// The family that a command has described, as far as it came.
fn family(said: &[u8]) -> Option<Family> {
    // What follows the last zero was cut off: a part of the key would be known to many processes.
    let end = said.iter().rposition(|&byte| byte == 0)?;
    let mut words = said[..end].split(|&byte| byte == 0);
    let text = |word: &[u8]| std::str::from_utf8(word).ok().map(str::to_owned);
    let inode = text(words.next()?)?.parse().ok()?;
    let key = text(words.next()?).filter(|key| !key.is_empty())?;
    let logs = PathBuf::from(std::ffi::OsString::from_vec(words.next()?.to_owned()));
    let mut number = || words.next().and_then(text);
    let child = number()
        .zip(number())
        .and_then(|(pid, started)| Some(Identity { pid: pid.parse().ok()?, started: started.parse().ok()? }));
    Some(Family::new(child, inode, key, logs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_understood_as_far_as_it_came() {
        let whole = b"7\0secret\0/tmp/x\0" as &[u8];
        assert_eq!(family(whole).expect("a family").child(), None);
        let with_child = [whole, b"12\x0034\0"].concat();
        let child = family(&with_child).expect("a family").child();
        assert_eq!(child, Some(Identity { pid: 12, started: 34 }));
        for part in [
            &b""[..],
            b"7",
            b"7\0",
            b"7\0secret",
            b"7\0secret\0/tm",
            b"7\0\0/tmp/x\0",
            b"x\0secret\0/tmp/x\0",
        ] {
            assert!(family(part).is_none(), "{part:?}");
        }
    }
}
