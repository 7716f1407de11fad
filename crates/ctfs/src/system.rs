//! The file system: names, files and their attributes, by inode. Paths and who may do what are the business of the doors to it.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{NotPersistent, OpenError, PersistentMemory, Recovered, Store};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::bytes;
use crate::directory::Directory;
use crate::error::{Result, of_store};
use crate::extended::CAPABILITIES;
use crate::inode::{self, Field, Ino, Inode, Inodes, kind};
use crate::names::fill;
use crate::usage::PageCounts;

/// Words of the store's root frame.
pub(crate) mod root {
    /// "pwfiles1": the store has been made a file system.
    pub(crate) const MAGIC: u64 = 0;
    /// The first inode without a name that somebody used.
    pub(crate) const ORPHANS: u64 = 1;
}

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"pwfiles1");
/// Names of a file at most, and links that are reported of a directory at most, as ext4 has it.
pub const MOST_LINKS: u64 = 65_000;
/// Names that indices hold before the least needed are forgotten.
const MOST_INDEXED: usize = 1 << 22;

/// Why a file system cannot be mounted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Its store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A store with nothing in it that is ours.
    #[error("the store holds no file system")]
    NoFileSystem,
    /// Something in it is not what it must be.
    #[error("damaged: {0}; `pagewalk fs fsck` says what is wrong, with --repair it repairs it")]
    Damaged(String),
}

/// When something happened, in nanoseconds since 1970.
pub type Clock = fn() -> i64;

/// Who is told of a directory's entries: name, inode, kind (the highest four bits of the mode), and where the listing goes on
/// behind it. It ends when the answer is false.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], Ino, u8, u64) -> bool;

/// Whose a new file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group; that of the directory instead, if its set-group bit is on.
    pub gid: u32,
}

/// What is known of a file, beside its name and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attributes {
    /// Number.
    pub ino: Ino,
    /// How often the number was used.
    pub generation: u64,
    /// Kind and permissions.
    pub mode: u32,
    /// Names that a file has; of a directory, 2 and one for each directory in it, or 1 if these are [`MOST_LINKS`] or more.
    pub links: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub device: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// Nanoseconds since 1970: access.
    pub accessed: i128,
    /// Change of its bytes.
    pub modified: i128,
    /// Change of anything.
    pub changed: i128,
}

/// Changes of attributes; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Access.
    pub accessed: Option<i128>,
    /// Change of its bytes.
    pub modified: Option<i128>,
    /// Change of anything; `None` is now.
    pub changed: Option<i128>,
}

/// How a rename treats a name that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replace {
    /// The file that has it loses it.
    #[default]
    Yes,
    /// The rename is refused.
    No,
    /// Both files swap their names.
    Exchange,
}

/// What becomes of a write that a crash interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overwrites {
    /// Each byte is old or new. The article's sync mode.
    #[default]
    InPlace,
    /// All bytes are old, or all are new; of a write of more than [`MOST_WHOLE_BYTES`](crate::MOST_WHOLE_BYTES) a part is done,
    /// and its length answered. The article's strict mode.
    Whole,
}

/// What a file system did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Moves of a file to a partition of another size.
    pub moves: u64,
    /// Entries of the page table that one of them exchanged at most.
    pub most_entries_moved: u64,
}

/// Room in a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Space {
    /// Frames of 4 KiB.
    pub frames: u64,
    /// Of these, free.
    pub free: u64,
    /// Inodes at most.
    pub inodes: u64,
    /// Of these, used.
    pub used_inodes: u64,
}

/// A mounted file system.
pub struct FileSystem<M> {
    pub(crate) store: Store<M>,
    pub(crate) directories: FxHashMap<Ino, Directory>,
    /// How often each inode is open.
    pub(crate) users: FxHashMap<Ino, u64>,
    /// How often each file's frames are kept where they are.
    pins: FxHashMap<Ino, u64>,
    /// Up to which byte behind its end each file keeps the frames that `fallocate` gave it.
    pub(crate) preallocated: FxHashMap<Ino, u64>,
    pub(crate) page_counts: PageCounts,
    pub(crate) hint: Ino,
    pub(crate) used_inodes: u64,
    clock: Clock,
    pub(crate) overwrites: Overwrites,
    pub(crate) counts: Counts,
    /// What a crash left in the log, or had not written, was applied when this was mounted.
    pub(crate) was_recovered: bool,
}

/// A directory with very many directories in it says that its links were not counted, as ext4 does with `dir_nlink`: programs such as
/// `find` take any other number as that of its directories, and some keep it in 16 bits.
fn reported_links(inode: &Inode) -> u64 {
    let is_uncounted = inode.is(kind::DIRECTORY) && inode.links() >= MOST_LINKS;
    if is_uncounted { 1 } else { inode.links() }
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Makes an empty file system of all of the memory.
    ///
    /// # Errors
    ///
    /// The memory is too small or too large.
    pub fn format(memory: M, owner: Owner, clock: Clock) -> std::result::Result<Self, MountError> {
        let mut store = Store::format(memory)?;
        let now = clock() as u64;
        let mut transaction = store.begin();
        let mut make = || -> Result<()> {
            transaction.mark_inode(Ino::ROOT, true)?;
            fill(&mut transaction, Ino::ROOT, kind::DIRECTORY | 0o755, owner, now)?;
            transaction.set_field(Ino::ROOT, Field::Links, 2)?;
            transaction.set_field(Ino::ROOT, Field::Parent, Ino::ROOT.0)
        };
        make().map_err(|error| MountError::Damaged(format!("an empty store has no room: {error}")))?;
        transaction.set_root_word(root::MAGIC, MAGIC);
        transaction.commit().map_err(|error| MountError::Damaged(error.to_string()))?;
        Self::mount(store.into_memory(), clock).map(|(system, _)| system)
    }

    /// Mounts a file system: applies what a crash left in the log, looks at all of it, and gives back what files without a name
    /// had. In a memory that is there to be read only ([`Mapped::open_read_only`](crate::Mapped::open_read_only)) the log is applied to
    /// what this process sees, and nothing else is changed: every operation that would change something fails with `EROFS`.
    ///
    /// # Errors
    ///
    /// [`MountError`].
    pub fn mount(memory: M, clock: Clock) -> std::result::Result<(Self, Recovered), MountError> {
        let (mut system, recovered) = Self::mount_unchecked(memory, clock)?;
        let problem = crate::check::check(&system).into_iter().next();
        if system.store.memory().has_failed() {
            return Err(OpenError::from(NotPersistent).into());
        }
        if let Some(problem) = problem {
            return Err(MountError::Damaged(problem));
        }
        // Read only, nothing needs the room that they take.
        while !system.is_read_only()
            && let orphan @ Ino(1..) = Ino(system.store.root_word(root::ORPHANS))
        {
            system
                .reclaim(orphan)
                .map_err(|error| MountError::Damaged(format!("inode {}: {error}", orphan.0)))?;
        }
        Ok((system, recovered))
    }

    /// Ends a store that nothing is changed in any more, with everything in its place: whoever gets the file, on this machine or another one,
    /// finds what is there now. Does nothing where programs do not ask for that anyway ([`Survives::Synced`](crate::Survives::Synced)).
    ///
    /// # Errors
    ///
    /// The disk refuses (`EIO`).
    pub fn end(&self) -> Result<()> {
        let memory = self.store.memory();
        memory.checkpoints().map_or(Ok(()), |checkpoints| checkpoints.end(memory)).map_err(|_| Errno::IO)
    }

    /// The same without looking, for [`check`](crate::check()): nothing else may be done with it, as anything may be wrong.
    ///
    /// # Errors
    ///
    /// [`MountError`].
    pub fn mount_unchecked(memory: M, clock: Clock) -> std::result::Result<(Self, Recovered), MountError> {
        let (store, recovered) = Store::open(memory)?;
        let magic = store.root_word(root::MAGIC);
        if store.memory().has_failed() {
            return Err(OpenError::from(NotPersistent).into());
        }
        if magic != MAGIC {
            return Err(MountError::NoFileSystem);
        }
        let mut system = Self {
            store,
            directories: FxHashMap::default(),
            users: FxHashMap::default(),
            pins: FxHashMap::default(),
            preallocated: FxHashMap::default(),
            page_counts: PageCounts::default(),
            hint: Ino(2),
            used_inodes: 0,
            clock,
            overwrites: Overwrites::default(),
            counts: Counts::default(),
            was_recovered: recovered != Recovered::Nothing,
        };
        // A page table that is damaged cannot be followed.
        if system.store.check().is_ok() {
            inode::visit(&system.store, &mut |_| system.used_inodes += 1);
        }
        Ok((system, recovered))
    }

    /// Whether nothing can be changed.
    pub fn is_read_only(&self) -> bool {
        self.store.memory().is_read_only()
    }

    /// Refuses where nothing can be changed (`EROFS`), for what would find out too late, or never, as it changes nothing by a transaction.
    pub(crate) fn may_change(&self) -> Result<()> {
        if self.is_read_only() { Err(Errno::ROFS) } else { Ok(()) }
    }

    /// Says what becomes of interrupted writes from now on.
    pub fn set_overwrites(&mut self, overwrites: Overwrites) {
        self.overwrites = overwrites;
    }

    /// Gives the memory back.
    pub fn into_memory(self) -> M {
        self.store.into_memory()
    }

    /// The store.
    pub fn store(&self) -> &Store<M> {
        &self.store
    }

    /// What it did.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How much room there is.
    pub fn space(&self) -> Space {
        let (frames, free) = self.store.frame_counts();
        Space { frames, free, inodes: inode::MOST_INODES, used_inodes: self.used_inodes }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)() as u64
    }

    /// What an operation answers, unless the memory has failed meanwhile: then what was found or done means nothing.
    pub(crate) fn sure<T>(&self, answer: Result<T>) -> Result<T> {
        if self.store.memory().has_failed() { Err(Errno::IO) } else { answer }
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<Inode> {
        self.sure(inode::read(&self.store, ino))
    }

    pub(crate) fn directory_inode(&self, ino: Ino) -> Result<Inode> {
        let inode = self.inode(ino)?;
        if inode.is(kind::DIRECTORY) { Ok(inode) } else { Err(Errno::NOTDIR) }
    }

    /// A directory's index, which is made if there is none yet.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<&mut Directory> {
        // One that has an index is a directory as long as there is its number.
        if !self.directories.contains_key(&ino) {
            let inode = self.directory_inode(ino)?;
            let directory = self.read_directory(&inode)?;
            let indexed: usize = self.directories.values().map(Directory::len).sum();
            if indexed + directory.len() > MOST_INDEXED {
                self.directories.clear();
            }
            self.directories.insert(ino, directory);
        }
        Ok(self.directories.get_mut(&ino).expect("it was just made"))
    }

    pub(crate) fn read_directory(&self, inode: &Inode) -> Result<Directory> {
        let mut bytes = vec![0; inode.size() as usize];
        self.read_bytes(inode, 0, &mut bytes);
        self.sure(Directory::of_bytes(&bytes))
    }

    /// What is known of a file.
    ///
    /// # Errors
    ///
    /// There is no such inode.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes> {
        self.sure(self.attributes_present(ino))
    }

    fn attributes_present(&self, ino: Ino) -> Result<Attributes> {
        let inode = self.inode(ino)?;
        let owner = inode.get(Field::Owner);
        Ok(Attributes {
            ino,
            generation: inode.get(Field::Generation),
            mode: inode.mode(),
            links: reported_links(&inode),
            uid: owner as u32,
            gid: (owner >> 32) as u32,
            device: inode.get(Field::Device),
            size: inode.size(),
            blocks: self.mapped_bytes(ino, &inode) / 512,
            accessed: inode.time(Field::Accessed),
            modified: inode.time(Field::Modified),
            changed: inode.time(Field::Changed),
        })
    }

    /// Whether running a file gives a program rights that its user does not have, which a write by another user takes away.
    pub(crate) fn has_privileges(&self, ino: Ino) -> Result<bool> {
        Ok(self.inode(ino)?.without_privileges().is_some() || self.has_capabilities(ino)?)
    }

    /// Whether a file has capabilities for whoever runs it.
    pub(crate) fn has_capabilities(&self, ino: Ino) -> Result<bool> {
        let inode = self.inode(ino)?;
        if !inode.is(kind::FILE) || inode.get(Field::Attributes) == Ino::NONE.0 {
            return Ok(false);
        }
        match self.extended(ino, CAPABILITIES) {
            Ok(_) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes attributes.
    ///
    /// # Errors
    ///
    /// The size is not a file's, or too large; a time's seconds do not fit into 64 bits (`EINVAL`).
    pub fn set_attributes(&mut self, ino: Ino, set: &SetAttributes) -> Result<()> {
        let inode = self.inode(ino)?;
        if let Some(size) = set.size {
            match inode.mode() & kind::MASK {
                kind::FILE => self.set_size(ino, size)?,
                kind::DIRECTORY => return Err(Errno::ISDIR),
                _ => return Err(Errno::INVAL),
            }
        }
        if let Some(mode) = set.mode {
            self.set_list_permissions(ino, mode)?;
        }
        let now = self.now();
        let inode = self.inode(ino)?;
        let mut transaction = self.store.begin();
        if let Some(mode) = set.mode {
            let word = inode.get(Field::Mode) & !0o7777 | u64::from(mode & 0o7777);
            transaction.set_field(ino, Field::Mode, word)?;
        }
        let owner = inode.get(Field::Owner);
        let (uid, gid) = (set.uid.unwrap_or(owner as u32), set.gid.unwrap_or((owner >> 32) as u32));
        transaction.set_field(ino, Field::Owner, u64::from(uid) | u64::from(gid) << 32)?;
        for (field, time) in [(Field::Accessed, set.accessed), (Field::Modified, set.modified)] {
            if let Some(time) = time {
                transaction.set_time(ino, field, time)?;
            }
        }
        match set.changed {
            Some(time) => transaction.set_time(ino, Field::Changed, time)?,
            None => transaction.set_field(ino, Field::Changed, now)?,
        }
        transaction.commit().map_err(of_store)
    }

    /// Somebody uses a file: it stays when its last name goes.
    ///
    /// # Errors
    ///
    /// There is no such inode.
    pub fn open(&mut self, ino: Ino) -> Result<()> {
        self.inode(ino)?;
        *self.users.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Somebody uses a file no more.
    ///
    /// # Errors
    ///
    /// It goes, and something is wrong with it.
    pub fn close(&mut self, ino: Ino) -> Result<()> {
        let users = self.users.get_mut(&ino).ok_or(Errno::BADF)?;
        *users -= 1;
        if *users > 0 {
            return Ok(());
        }
        self.users.remove(&ino);
        if self.inode(ino)?.links() == 0 { self.reclaim(ino) } else { Ok(()) }
    }

    /// Whether there are files without a name, which somebody uses.
    pub(crate) fn has_nameless(&self) -> bool {
        Ino(self.store.root_word(root::ORPHANS)) != Ino::NONE
    }

    /// Whether exactly one handle of a file is open.
    pub(crate) fn has_one_user(&self, ino: Ino) -> bool {
        self.users.get(&ino) == Some(&1)
    }

    /// Whether a file goes when one fewer uses it.
    pub(crate) fn goes_when_closed(&self, ino: Ino) -> bool {
        self.has_one_user(ino) && self.inode(ino).is_ok_and(|inode| inode.links() == 0)
    }

    /// Uses a file, and lets it keep every frame that it has, in its place: somebody maps them. What lies behind the file's end in
    /// its last page is zero, as everybody sees that.
    ///
    /// # Errors
    ///
    /// It is no file, or its overwrites are whole: these take other frames.
    pub(crate) fn pin(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        // Read only, what lies behind the end in the store's file cannot be made zero.
        if !inode.is(kind::FILE) || self.overwrites == Overwrites::Whole || self.is_read_only() {
            return Err(Errno::NODEV);
        }
        if let Some(partition) = inode.partition() {
            let size = inode.size();
            bytes::zero(self.store.memory(), partition, size..size.next_multiple_of(PAGE_BYTES));
        }
        self.open(ino)?;
        *self.pins.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Undoes one [`FileSystem::pin`].
    ///
    /// # Errors
    ///
    /// The file goes, and something is wrong with it.
    pub(crate) fn unpin(&mut self, ino: Ino) -> Result<()> {
        // After all were forgotten there may be nothing to undo.
        let Some(pins) = self.pins.get_mut(&ino) else { return Ok(()) };
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&ino);
            self.shrink(ino)?;
        }
        self.close(ino)
    }

    pub(crate) fn is_pinned(&self, ino: Ino) -> bool {
        self.pins.contains_key(&ino)
    }

    /// Nobody uses any file any more.
    ///
    /// # Errors
    ///
    /// Something is wrong with a file that goes.
    pub fn forget_all(&mut self) -> Result<()> {
        self.pins.clear();
        let mut users: Vec<Ino> = self.users.drain().map(|(ino, _)| ino).collect();
        users.sort();
        for ino in users {
            if self.inode(ino)?.links() == 0 {
                self.reclaim(ino)?;
            }
        }
        Ok(())
    }

    /// Reads a file's bytes at an offset; how many there were.
    ///
    /// # Errors
    ///
    /// It is a directory.
    pub fn read(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize> {
        let read = self.inode(ino).and_then(|inode| match inode.is(kind::DIRECTORY) {
            true => Err(Errno::ISDIR),
            false => Ok(self.read_bytes(&inode, offset, into)),
        });
        self.sure(read)
    }

    /// Writes a file's bytes at an offset; they persist before it returns. How many there was room for.
    ///
    /// # Errors
    ///
    /// There is no room at all, or the file would be too large.
    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize> {
        if !self.inode(ino)?.is(kind::FILE) {
            return Err(Errno::INVAL);
        }
        self.write_bytes(ino, offset, data)
    }

    /// A symbolic link's target.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let target = self.inode(ino).and_then(|inode| {
            if !inode.is(kind::SYMLINK) {
                return Err(Errno::INVAL);
            }
            let mut target = vec![0; inode.size().min(4_096) as usize];
            self.read_bytes(&inode, 0, &mut target);
            Ok(target)
        });
        self.sure(target)
    }
}
