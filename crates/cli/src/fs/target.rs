//! Places that bytes are written to and read from, all used alike.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
pub(super) use pagewalk_ctfs::measure::Look;
use pagewalk_ctfs::measure::Timed;
use pagewalk_ctfs::{Blocks, FileSystem, Files, Mapped, OpenOptions, Owner, Survives, coarse_now};
use pagewalk_vm::file::PersistentMemory;

const NAME: &[u8] = b"file";

/// A place with one file to measure.
pub(super) trait Target {
    /// Empties the file.
    fn empty(&mut self) -> anyhow::Result<()>;
    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()>;
    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()>;
    /// From now on looks at what is done to bytes alone, where that can be told apart; answers for how long the clock has been seen to
    /// run meanwhile since the last time, and how often.
    fn look_at_data(&mut self, _look: Look) -> Option<(Duration, u64)> {
        None
    }
}

/// The library, on a store in the folder.
pub(super) struct Library {
    files: Files<Timed<Mapped>>,
    file: pagewalk_ctfs::File<Timed<Mapped>>,
    _store: Removed,
}

impl Library {
    pub(super) fn new(folder: &Path, bytes: u64) -> anyhow::Result<Self> {
        let store = Removed::new(folder, "store");
        // Room for the file, its tables and inodes.
        let memory = Mapped::create(&store.0, bytes + bytes / 4 + (64 << 20), Survives::ProcessCrash)
            .with_context(|| format!("cannot make a store in {}", folder.display()))?;
        memory.make_huge_pages(|_| {});
        let system = FileSystem::format(Timed::new(memory), Owner::default(), coarse_now)?;
        let files = Files::new(system);
        let file = files.open(NAME, &OpenOptions::updating())?;
        Ok(Self { files, file, _store: store })
    }
}

impl Target for Library {
    fn empty(&mut self) -> anyhow::Result<()> {
        self.files.remove_file(NAME)?;
        self.file = self.files.open(NAME, &OpenOptions::updating())?;
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        let written = self.file.write_at(data, offset)?;
        anyhow::ensure!(written == data.len(), "the store is full");
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        let read = self.file.read_at(into, offset)?;
        anyhow::ensure!(read == into.len(), "the file ends at {}", offset + read as u64);
        Ok(())
    }

    fn look_at_data(&mut self, look: Look) -> Option<(Duration, u64)> {
        Some(self.files.look_at_data(look))
    }
}

/// System calls on a file of the folder.
pub(super) struct Calls {
    file: File,
    _path: Removed,
}

impl Calls {
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let path = Removed::new(folder, "calls");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path.0).with_context(|| format!("cannot make {}", path.0.display()))?;
        Ok(Self { file, _path: path })
    }
}

impl Target for Calls {
    fn empty(&mut self) -> anyhow::Result<()> {
        Ok(self.file.set_len(0)?)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        Ok(self.file.write_all_at(data, offset)?)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.file.read_exact_at(into, offset)?)
    }
}

/// A file of the folder, mapped. An empty one is as long already, has its blocks, and none of its pages is mapped.
pub(super) struct Mapping {
    memory: Option<Mapped>,
    bytes: u64,
    path: Removed,
}

impl Mapping {
    pub(super) fn new(folder: &Path, bytes: u64) -> anyhow::Result<Self> {
        Self::named(folder, "mapped", bytes)
    }

    fn named(folder: &Path, what: &str, bytes: u64) -> anyhow::Result<Self> {
        let mut own = Self { memory: None, bytes, path: Removed::new(folder, what) };
        own.empty()?;
        Ok(own)
    }

    fn memory(&self) -> &Mapped {
        self.memory.as_ref().expect("it has been mapped")
    }
}

impl Target for Mapping {
    fn empty(&mut self) -> anyhow::Result<()> {
        // A process that maps the file keeps it locked.
        self.memory = None;
        let memory = Mapped::create_over(&self.path.0, self.bytes, Survives::ProcessCrash, Blocks::AtOnce)
            .with_context(|| format!("cannot map {}", self.path.0.display()))?;
        self.memory = Some(memory);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        self.memory().write(offset, data);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        self.memory().read(offset, into);
        Ok(())
    }
}

/// The limit: copying to memory whose pages are all there. No more of it is used than this, again and again.
pub(super) const LIMIT_BYTES: u64 = 256 << 20;

/// A target that copies memory by `memcpy`.
pub(super) struct Copies(Vec<u8>);

impl Copies {
    pub(super) fn new(bytes: u64) -> Self {
        Self(vec![1; bytes.min(LIMIT_BYTES) as usize])
    }

    fn place(&self, offset: u64, bytes: usize) -> std::ops::Range<usize> {
        let begin = (offset % self.0.len() as u64) as usize;
        begin..begin + bytes
    }
}

impl Target for Copies {
    fn empty(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        let place = self.place(offset, data.len());
        self.0[place].copy_from_slice(data);
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        let place = self.place(offset, into.len());
        into.copy_from_slice(&self.0[place]);
        Ok(())
    }
}

/// By stores that go past the caches, as the library writes; in memory if there is a folder for that.
pub(super) struct Stores(Mapping);

impl Stores {
    pub(super) fn new(folder: &Path, bytes: u64) -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory } else { folder };
        Ok(Self(Mapping::named(folder, "limit", bytes.min(LIMIT_BYTES))?))
    }
}

impl Target for Stores {
    fn empty(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> anyhow::Result<()> {
        self.0.write(offset % self.0.bytes, data)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        self.0.read(offset % self.0.bytes, into)
    }
}

/// A file of this process that goes with it.
struct Removed(PathBuf);

impl Removed {
    fn new(folder: &Path, what: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!("pagewalk-bench-{}-{number}-{what}", std::process::id())))
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_keep_what_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = 1 << 20;
        let targets: [Box<dyn Target>; 5] = [
            Box::new(Library::new(folder.path(), bytes).expect("room")),
            Box::new(Calls::new(folder.path()).expect("room")),
            Box::new(Mapping::new(folder.path(), bytes).expect("room")),
            Box::new(Copies::new(bytes)),
            Box::new(Stores::new(folder.path(), bytes).expect("room")),
        ];
        for mut target in targets {
            target.empty().expect("emptied");
            for at in 0..16u8 {
                target.write(u64::from(at) << 16, &[at + 1; 1 << 16]).expect("written");
            }
            let mut read = vec![0; 1 << 16];
            target.read(5 << 16, &mut read).expect("read");
            assert!(read.iter().all(|&byte| byte == 6));
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left");
    }

    /// Both lie in /dev/shm if that is the folder; they once had one name, and the second found the first's lock.
    #[test]
    fn the_limit_stands_beside_a_mapped_file_of_its_folder() {
        let folder = Path::new("/dev/shm");
        if !folder.is_dir() {
            eprintln!("skipped: there is no /dev/shm");
            return;
        }
        let (mut mapping, mut limit) =
            (Mapping::new(folder, 4_096).unwrap(), Stores::new(folder, 4_096).unwrap());
        mapping.write(0, &[1; 64]).expect("written");
        limit.write(0, &[2; 64]).expect("written");
        let mut read = [0; 64];
        mapping.read(0, &mut read).expect("read");
        assert_eq!(read, [1; 64]);
    }

    #[test]
    fn only_bytes_are_timed_and_only_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut library = Library::new(folder.path(), 1 << 20).expect("room");
        library.write(0, &[7; 4_096]).expect("written");
        let nothing = Some((Duration::ZERO, 0));
        assert_eq!(library.look_at_data(Look::Waiting), nothing, "not yet");
        library.write(4_096, &[7; 4_096]).expect("written");
        assert_eq!(library.look_at_data(Look::Timing), nothing, "it was only waited for");
        library.write(8_192, &[7; 4_096]).expect("written");
        library.read(0, &mut [0; 100]).expect("read");
        let (time, calls) = library.look_at_data(Look::Away).expect("it can tell");
        assert_eq!(calls, 3, "a write, its fence and a read");
        assert!(time > Duration::ZERO);
        library.write(0, &[7; 4_096]).expect("written");
        assert_eq!(library.look_at_data(Look::Away), nothing, "no more");
    }
}
