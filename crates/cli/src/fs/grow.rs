//! `pagewalk fs grow`: a store gets more room, in its file or while it is mounted.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use pagewalk_ctfs::{Error, Mapped, Survives, grow_on_mount};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::MOST_FRAMES;

use super::{recovered, size};
use crate::args::GrowArguments;
use crate::exit::Done;
use crate::say::{complain, note};

/// Runs the command `fs grow`.
pub(super) fn grow(arguments: &GrowArguments) -> anyhow::Result<Done> {
    let GrowArguments { store, size: bytes } = arguments;
    let (store, bytes) = (store.as_path(), bytes / PAGE_BYTES * PAGE_BYTES);
    let metadata = std::fs::metadata(store).with_context(|| format!("cannot open {}", store.display()))?;
    let (before, after, free) =
        if metadata.is_dir() { grow_mounted(store, bytes)? } else { grow_file(store, bytes)? };
    let how = if before == after { "has" } else { "has got" };
    note!("{} {how} {after} bytes, {free} are free", store.display());
    Ok(Done::Well)
}

/// Bytes before and after, and how many are free.
type Grown = (u64, u64, u64);

fn grow_file(store: &Path, bytes: u64) -> anyhow::Result<Grown> {
    // Whatever the store is mounted with otherwise, its size is to survive a power failure.
    let memory = Mapped::open(store, Survives::PowerFailure).inspect_err(|error| {
        if error.kind() == std::io::ErrorKind::ResourceBusy {
            complain!("`pagewalk fs grow FOLDER SIZE` lets a store grow where it is mounted");
        }
    });
    let mut system = recovered(store, memory)?;
    let before = system.space().frames;
    system.grow(bytes).with_context(|| format!("{} stays as it was", store.display()))?;
    // As `mkfs` makes them.
    system.store().memory().make_huge_pages(|_| {});
    let space = system.space();
    Ok((before * PAGE_BYTES, space.frames * PAGE_BYTES, space.free * PAGE_BYTES))
}

fn grow_mounted(folder: &Path, bytes: u64) -> anyhow::Result<Grown> {
    let opened = File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    let room = || rustix::fs::fstatfs(&opened).with_context(|| folder.display().to_string());
    let before = room()?.f_blocks * PAGE_BYTES;
    grow_on_mount(opened.as_fd(), bytes).map_err(|error| match error {
        Error::NOTTY | Error::NOSYS => anyhow::anyhow!("{} lies on no mounted store", folder.display()),
        Error::INVAL => anyhow::anyhow!(
            "{}: the store has {} and cannot become smaller: {bytes} bytes",
            folder.display(),
            size(before)
        ),
        Error::RANGE => anyhow::anyhow!(
            "{}: {bytes} bytes; allowed: from some pages more than {before} bytes, for its bitmap, to {}",
            folder.display(),
            size(MOST_FRAMES * PAGE_BYTES)
        ),
        Error::PERM => {
            anyhow::anyhow!("{}: only root and the user of the mount may do that", folder.display())
        }
        error => anyhow::Error::new(std::io::Error::from(error))
            .context(format!("the store at {} stays as it was", folder.display())),
    })?;
    let after = room()?;
    Ok((before, after.f_blocks * PAGE_BYTES, after.f_bfree * PAGE_BYTES))
}
