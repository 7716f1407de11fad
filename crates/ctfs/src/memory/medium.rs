//! The medium in which a store lies: a regular file, a block device, or persistent memory as a device (`/dev/dax`).

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, StatxFlags};

/// The kinds of what a store can lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    /// The medium can become longer.
    File,
    /// As long as it is.
    Block,
    /// The same, and stored bytes persist without being written back.
    Dax,
}

impl Medium {
    /// That of an open file.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is of another kind.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Self::of_metadata(&file.metadata()?)
    }

    /// That of a file which is not open: to open others may wait, or act.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is of another kind; and there is none.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Self::of_metadata(&std::fs::metadata(path)?)
    }

    fn of_metadata(metadata: &Metadata) -> io::Result<Self> {
        let kind = metadata.file_type();
        if kind.is_file() {
            return Ok(Self::File);
        }
        if kind.is_block_device() {
            return Ok(Self::Block);
        }
        let subsystem = std::fs::read_link(described("char", metadata.rdev()).join("subsystem"));
        if kind.is_char_device() && subsystem.is_ok_and(|subsystem| subsystem.ends_with("dax")) {
            return Ok(Self::Dax);
        }
        let message = "neither a regular file, nor a block device, nor persistent memory (/dev/dax)";
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }
}

/// Opens a file that is there to change it. A block device is opened alone: the kernel lets no file system use it meanwhile, and
/// refuses if one does.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let alone = if Medium::at(path)? == Medium::Block { libc::O_EXCL } else { 0 };
    File::options().read(true).write(true).custom_flags(alone).open(path)
}

/// Opens a file to read it.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    Medium::at(path)?;
    File::open(path)
}

/// Bytes that there are.
pub(crate) fn length(file: &File) -> io::Result<u64> {
    match Medium::of(file)? {
        Medium::File => Ok(file.metadata()?.len()),
        Medium::Block => {
            let mut file = file;
            file.seek(SeekFrom::End(0))
        }
        Medium::Dax => number(&described("char", file.metadata()?.rdev()).join("size")),
    }
}

/// Whether a file is nowhere but in memory. A device has its name there, and its bytes elsewhere.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> io::Result<bool> {
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) == FileType::RegularFile;
    Ok(is_file && matches!(rustix::fs::fstatfs(file)?.f_type, libc::TMPFS_MAGIC | libc::HUGETLBFS_MAGIC))
}

/// What holds a file's pages until they are written back: this run of the kernel, and the disk as it is attached now, whichever mount
/// leads to it, as a container has mounts of its own. A file system that lies on no disk of this machine is known by its mount alone.
/// 0 if that cannot be known.
pub(crate) fn identity(file: &File) -> u64 {
    let Ok(boot) = std::fs::read("/proc/sys/kernel/random/boot_id") else { return 0 };
    let Ok(metadata) = file.metadata() else { return 0 };
    let words = match Medium::of(file) {
        Ok(Medium::File) => attachment(metadata.dev())
            .or_else(|| mount_number(file))
            .map(|held_by| [metadata.dev(), metadata.ino(), held_by]),
        Ok(Medium::Block) => {
            attachment(metadata.rdev()).map(|attached| [metadata.rdev(), u64::MAX, attached])
        }
        _ => None,
    };
    let Some(words) = words else { return 0 };
    xxhash_rust::xxh3::xxh3_64(&[&boot[..], &words.map(u64::to_le_bytes).concat()].concat()).max(1)
}

/// Since Linux 5.8, unique from 6.8 on.
fn mount_number(file: &File) -> Option<u64> {
    let unique = StatxFlags::from_bits_retain(0x4000);
    [unique, StatxFlags::MNT_ID].into_iter().find_map(|asked| {
        let got = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, asked).ok()?;
        (got.stx_mask & asked.bits() != 0).then_some(got.stx_mnt_id)
    })
}

/// A number that no other disk gets in this run of the kernel, nor this one when it is attached again; since Linux 5.15. A part of a disk
/// has its disk's.
fn attachment(disk: u64) -> Option<u64> {
    let described = described("block", disk).canonicalize().ok()?;
    let disk = [described.clone(), described.parent()?.to_owned()];
    disk.iter().find_map(|folder| number(&folder.join("diskseq")).ok())
}

/// Where the kernel describes a device.
fn described(kind: &str, device: u64) -> PathBuf {
    format!("/sys/dev/{kind}/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)).into()
}

fn number(path: &Path) -> io::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{}: `{}`", path.display(), text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_kind() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(12_345).unwrap();
        assert_eq!((Medium::of(&file).unwrap(), length(&file).unwrap()), (Medium::File, 12_345));
        assert!(identity(&file) != 0);
        for other in ["/dev/null", "/"] {
            let other = File::open(other).unwrap();
            assert_eq!(length(&other).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(identity(&other), 0);
        }
    }
}
