//! `pagewalk fs mkfs`: an empty file system, made beside the file that it replaces.
//!
//! Everything is checked before anything is touched. The new store is made in a file without a name, or in a temporary file where the
//! host's file system has no such files, and takes the old file's name when it is complete. A command that fails, or is ended by a signal,
//! leaves the old file as it was and no other one; one that is killed may leave the temporary file.

use std::fs::{File, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use pagewalk_ctfs::{Blocks, FileSystem, Mapped, Owner, Space, Survives};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{LEAST_FRAMES, MOST_FRAMES};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};

use super::{SAY, clock};
use crate::args::MkfsArguments;
use crate::ending;
use crate::exit::Done;
use crate::say::note;

/// A store holds the bytes of all users of its mount: only its owner may open the file.
const PRIVATE: u32 = 0o600;

/// The size of a store, in bytes, if the command line names none; a device is used as a whole.
const USUAL_BYTES: u64 = 1 << 30;
/// Of a device: no common file system begins behind these.
const FIRST_BYTES: u64 = 128 << 10;

/// Runs the command `fs mkfs`.
pub(super) fn mkfs(arguments: &MkfsArguments) -> anyhow::Result<Done> {
    let MkfsArguments { file, size, sparse, force } = arguments;
    let blocks = if *sparse { Blocks::AsNeeded } else { Blocks::AtOnce };
    let of_device = match Mapped::most_bytes(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => found.with_context(|| file.display().to_string())?,
    };
    let size = &size.or(of_device).unwrap_or(USUAL_BYTES);
    let frames = size / PAGE_BYTES;
    anyhow::ensure!(
        (LEAST_FRAMES..=MOST_FRAMES).contains(&frames),
        "{}: {frames} frames of 4 KiB; allowed: {LEAST_FRAMES} to {MOST_FRAMES}",
        file.display()
    );
    if let Some(most) = of_device {
        anyhow::ensure!(*size <= most, "{}: {size} bytes; allowed: up to {most}", file.display());
        return on_device(file, *size, *force);
    }
    let old = Old::look(file, *force)?;
    let path = old.path();
    ending::end_at_signal()?;
    let new = New::beside(path)?;
    let space = format(&new.path(), *size, blocks).with_context(|| match &old {
        Old::File { .. } => format!(
            "{} stays as it was; the disk needs room for both, or remove the file first",
            path.display()
        ),
        Old::None(_) => format!("{} was not made", path.display()),
    })?;
    if let Old::File { kept, .. } = &old {
        new.belong_to_owner_of(kept)?;
    }
    new.take_name(path).with_context(|| format!("cannot give the store its name {}", path.display()))?;
    Ok(made(file, space))
}

fn made(file: &Path, space: Space) -> Done {
    note!("{}: {} of {} bytes are free", file.display(), space.free * PAGE_BYTES, space.frames * PAGE_BYTES);
    Done::Well
}

/// Makes the file system in a device, which cannot be replaced: what it held is gone from the first write on.
fn on_device(device: &Path, size: u64, force: bool) -> anyhow::Result<Done> {
    anyhow::ensure!(
        force || is_blank(device)?,
        "{} holds something, or cannot be read without being changed; --force overwrites it",
        device.display()
    );
    let space = format(device, size, Blocks::AtOnce).with_context(|| device.display().to_string())?;
    Ok(made(device, space))
}

/// Returns whether the first bytes of a device are zero, where file systems, tables of partitions and stores begin.
fn is_blank(device: &Path) -> anyhow::Result<bool> {
    let mut first = Vec::new();
    let read = File::open(device).and_then(|file| file.take(FIRST_BYTES).read_to_end(&mut first));
    Ok(read.is_ok() && first.iter().all(|byte| *byte == 0))
}

/// Makes the file system in a file that is there.
fn format(path: &Path, size: u64, blocks: Blocks) -> anyhow::Result<Space> {
    let memory = Mapped::create_over(path, size, Survives::PowerFailure, blocks)
        .with_context(|| format!("cannot make a store of {size} bytes"))?;
    let mut said = Instant::now();
    // A huge page that is made takes its room.
    if blocks == Blocks::AtOnce {
        memory.make_huge_pages(|done| {
            if said.elapsed() >= SAY {
                said = Instant::now();
                note!("huge pages for {} of {}", super::size(done), super::size(size));
            }
        });
    }
    let owner = Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let system = FileSystem::format(memory, owner, clock()).context("cannot make a file system")?;
    Ok(system.space())
}

/// The file or device that had the store's name before.
enum Old {
    /// No file: the name is free.
    None(PathBuf),
    /// A file, behind all symbolic links. No mount uses the file while this value keeps its lock.
    File { path: PathBuf, kept: File },
}

impl Old {
    fn path(&self) -> &Path {
        match self {
            Self::None(path) | Self::File { path, .. } => path,
        }
    }

    /// Looks whether the store may have this name.
    fn look(path: &Path, force: bool) -> anyhow::Result<Self> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                anyhow::ensure!(
                    std::fs::symlink_metadata(path).is_err(),
                    "{} is a symbolic link that leads to no file",
                    path.display()
                );
                return Ok(Self::None(path.to_owned()));
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        anyhow::ensure!(force || metadata.len() == 0, "{} exists; --force overwrites it", path.display());
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        // A file that may not be written is not replaced either.
        let kept = File::options().read(true).write(true).open(&path);
        let kept = kept.with_context(|| format!("cannot open {}", path.display()))?;
        rustix::fs::flock(&kept, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                anyhow::anyhow!("{}: another process has the store mounted", path.display())
            }
            error => anyhow::Error::new(error).context(path.display().to_string()),
        })?;
        Ok(Self::File { path, kept })
    }
}

/// A file in the folder of the store's name, which goes if it does not get the name.
struct New {
    file: File,
    /// The file's temporary path, if it has a name already.
    temporary: Option<PathBuf>,
}

impl New {
    fn beside(path: &Path) -> anyhow::Result<Self> {
        let folder = folder_of(path);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let nameless = rustix::fs::open(folder, flags, Mode::from_raw_mode(PRIVATE));
        let made = nameless.map(|file| Self { file: file.into(), temporary: None }).or_else(|_| {
            // Not every file system has files without a name.
            let temporary = temporary_name(path);
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(PRIVATE);
            let file = ending::temporary(&temporary, || options.open(&temporary))?;
            Ok::<_, io::Error>(Self { file, temporary: Some(temporary) })
        });
        made.with_context(|| format!("cannot make a file in {}", folder.display()))
    }

    /// Returns a path that leads to the file, with a name or without.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Lets the users that could use the old file use this one: `--force` is no change of owner.
    fn belong_to_owner_of(&self, old: &File) -> anyhow::Result<()> {
        let (old, new) = (old.metadata()?, self.file.metadata()?);
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            std::os::unix::fs::fchown(&self.file, Some(old.uid()), Some(old.gid()))
                .context("cannot give the store to the old file's owner")?;
        }
        self.file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        Ok(())
    }

    /// Gives the file the store's name, in one step.
    fn take_name(mut self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        if self.temporary.is_none() {
            let temporary = temporary_name(path);
            ending::temporary(&temporary, || {
                let link = rustix::fs::linkat(CWD, self.path(), CWD, &temporary, AtFlags::SYMLINK_FOLLOW);
                link.map_err(io::Error::from)
            })?;
            self.temporary = Some(temporary);
        }
        if let Some(temporary) = &self.temporary {
            ending::named(|| std::fs::rename(temporary, path))?;
        }
        self.temporary = None;
        File::open(folder_of(path))?.sync_all()
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // What cannot be removed the user sees by its name.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".mkfs-{}", std::process::id()));
    folder_of(path).join(name)
}
