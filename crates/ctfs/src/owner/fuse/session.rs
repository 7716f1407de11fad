//! The session with the kernel: how a mount begins, hears of the kernel and ends.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::{BackgroundSession, Config, INodeNo, MountOption, Notifier, SessionACL};

use crate::core::inode::Ino;
use crate::owner::known::Notify;
use crate::owner::mount::MountRules;
use crate::owner::mounted::Mounted;

/// Threads that serve requests at most.
const MOST_THREADS: usize = 8;

impl Notify for Notifier {
    fn forget(&self, ino: Ino, from: i64) {
        let _ = self.inval_inode(INodeNo(ino.0), from, 0);
    }

    fn forget_name(&self, parent: Ino, name: &[u8]) {
        let _ = self.inval_entry(INodeNo(parent.0), OsStr::from_bytes(name));
    }
}

/// The kernel's requests are answered until it ends.
pub(crate) struct Session(BackgroundSession);

impl Session {
    /// Threads that serve requests. Reads go on beside each other, and a request that waits for room needs another thread to give it.
    pub(crate) fn threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).clamp(2, MOST_THREADS)
    }

    /// Mounts a file system at a folder.
    ///
    /// # Errors
    ///
    /// The kernel, or `fusermount3` for users other than root, refuses.
    pub(crate) fn begin(
        mounted: Mounted,
        at: &Path,
        (name, rules, is_read_only): (&str, MountRules, bool),
    ) -> io::Result<Self> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(name.to_owned()), MountOption::DefaultPermissions, MountOption::NoAtime];
        let is_root = rustix::process::geteuid().is_root();
        // The helper for other users has an option for the subtype, the kernel a word of what root mounts.
        config.mount_options.push(match is_root {
            true => MountOption::CUSTOM("subtype=pagewalk".to_owned()),
            false => MountOption::Subtype("pagewalk".to_owned()),
        });
        let flags = [
            (is_root && !rules.no_suid, MountOption::Suid),
            (is_root && !rules.no_dev, MountOption::Dev),
            (rules.no_exec, MountOption::NoExec),
            // The owner refuses changes, too: root can mount the file system again, to be written.
            (is_read_only, MountOption::RO),
        ];
        config.mount_options.extend(flags.into_iter().filter(|(is_on, _)| *is_on).map(|(_, option)| option));
        config.n_threads = Some(Self::threads());
        config.acl = if rules.allow_other { SessionACL::All } else { SessionACL::Owner };
        fuser::spawn_mount(mounted, at, &config).map(Self)
    }

    /// The way to tell the kernel what it does not ask for.
    pub(crate) fn notify(&self) -> Box<dyn Notify> {
        Box::new(self.0.notifier())
    }

    /// Whether the kernel asks for no more.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.guard.is_finished()
    }

    /// Unmounts the file system, and waits for the last request.
    pub(crate) fn end(self) -> io::Result<()> {
        let ended = if self.is_finished() { self.0.join() } else { self.0.umount_and_join() };
        // Behind the last request, the kernel says to some of the threads that it has closed the connection, and to others that there is
        // no device any more.
        ended.or_else(|error| match error.kind() {
            io::ErrorKind::ConnectionAborted => Ok(()),
            _ => Err(error),
        })
    }
}
