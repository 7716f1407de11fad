//! The end of a mount, which leaves the tree of folders while its files are open.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// The folder that a file system was mounted at.
#[derive(Debug)]
pub(crate) struct MountPoint {
    folder: PathBuf,
    /// The number that the kernel gave the mounted file system.
    device: u64,
}

impl MountPoint {
    /// Remembers which file system is mounted at a folder now.
    ///
    /// # Errors
    ///
    /// The file system does not answer.
    pub(crate) fn of_mounted(folder: PathBuf) -> io::Result<Self> {
        let device = std::fs::metadata(&folder)?.dev();
        Ok(Self { folder, device })
    }

    /// Detaches the file system from the folder: paths do not lead to it any more, open files do. Answers whether it was still there;
    /// another file system at the same folder stays.
    ///
    /// # Errors
    ///
    /// The kernel, or `fusermount3` for users other than root, refuses.
    pub(crate) fn detach(&self) -> io::Result<bool> {
        if !std::fs::metadata(&self.folder).is_ok_and(|metadata| metadata.dev() == self.device) {
            return Ok(false);
        }
        match rustix::mount::unmount(&self.folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => self.detach_by_helper().map(|()| true),
            Err(error) => Err(error.into()),
        }
    }

    /// Only root may unmount; the helper may do it for the user who mounted.
    fn detach_by_helper(&self) -> io::Result<()> {
        let mut command = Command::new("fusermount3");
        command.args(["-u", "-z", "-q", "--"]).arg(&self.folder);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot run fusermount3, which unmounts for users: {error}"))
        })?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {status}"))) }
    }
}
