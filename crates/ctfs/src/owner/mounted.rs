//! A mounted file system, and what the kernel's requests have in common: which of them has it to itself, what the kernel is told and may
//! keep, and when the kernel and the clients must not use a file at the same time.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::extended::CAPABILITIES;
use crate::core::inode::Ino;
use crate::core::retry::or_reclaim;
use crate::core::system::FileSystem;
use crate::core::types::{Attributes, SetAttributes};
use crate::core::volume::{Exclusive, Volume};
use crate::memory::gate::SHORT_PATIENCE;
use crate::memory::mapped::Mapped;
use crate::owner::kernel::Requester;
use crate::owner::known::{ATTRIBUTES, Known, PAGES};
use crate::owner::leases::LeaseTable;
use crate::owner::room::Room;
use crate::owner::syncer::{Answer, Syncer};

/// How long work that no request waits for is put off where a client was stopped in the middle of a copy.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// How long the kernel may keep what the owner told it. Only the owner changes the store.
pub(crate) const KEPT: Duration = Duration::from_secs(3_600);

pub(crate) struct Mounted {
    pub(crate) volume: Arc<Volume<Mapped>>,
    pub(crate) leases: Arc<LeaseTable>,
    /// What the kernel was told, and the way to take it back.
    pub(crate) known: Arc<Known>,
    /// What is done by a thread of its own, as it may wait for the kernel, which waits for answers to other requests.
    pub(crate) later: mpsc::Sender<Later>,
    /// Files whose pages the kernel is about to forget, as a client got a lease.
    pub(crate) forgetting: Arc<AtomicUsize>,
    /// How requests that find no room wait for it.
    pub(crate) room: Room,
    /// Where `fsync` has something to do.
    pub(crate) syncer: Option<Syncer>,
    /// The mount has ended: no process may use the store any more.
    pub(crate) is_over: Arc<AtomicBool>,
    /// Whether other processes may use the store's memory. They may not where the kernel keeps writes, nor where the store is there to be
    /// read only and had to be recovered: its file is not what this process sees then.
    pub(crate) has_clients: bool,
    /// The kernel keeps what programs write for a while, and knows a file's size and times better than its owner meanwhile.
    pub(crate) writes_back: bool,
}

pub(crate) type Later = Box<dyn FnOnce() + Send>;

/// What the kernel is told of an inode, and how long it may keep that.
pub(crate) type Told = (Attributes, Duration);

/// One of those that are counted, until it is dropped.
pub(crate) struct Forgetting(Arc<AtomicUsize>);

impl Forgetting {
    pub(crate) fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Forgetting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Does work that no request waits for, as soon as no client is stopped in the middle of a copy. What fails for another reason is given back
/// when the store is mounted again.
pub(crate) fn sooner_or_later(
    volume: &Volume<Mapped>,
    act: impl FnOnce(&mut FileSystem<Mapped>) -> Result<()>,
) {
    loop {
        match volume.exclusive() {
            Ok(mut system) => {
                let _ = act(&mut system);
                return;
            }
            // Programs that go on are let in meanwhile.
            Err(Errno::BUSY) => std::thread::sleep(BETWEEN_TRIES),
            Err(_) => return,
        }
    }
}

impl Mounted {
    pub(crate) fn read(&self) -> impl Deref<Target = FileSystem<Mapped>> {
        self.volume.shared()
    }

    pub(crate) fn write(&self) -> Result<Exclusive<'_, Mapped>> {
        self.volume.exclusive()
    }

    /// Changes the file system. Where the store is full, clients lose the frames that they have ahead of what they write.
    pub(crate) fn change<T>(
        &self,
        mut change: impl FnMut(&mut FileSystem<Mapped>) -> Result<T>,
    ) -> Result<T> {
        self.waiting_for_room(|| {
            self.volume.with(|system| {
                system.may_change()?;
                or_reclaim(system, &mut change, |system| self.reclaim(system))
            })
        })
    }

    /// Does something again that has found no room, while removed files may still give theirs back.
    pub(crate) fn waiting_for_room<T>(&self, act: impl FnMut() -> Result<T>) -> Result<T> {
        self.room.wait_for(act, || self.read().newest_nameless())
    }

    /// Whether the store has failed: whatever is asked for is answered with `EIO` then.
    pub(crate) fn is_well(&self) -> Result<()> {
        self.read().sure(Ok(()))
    }

    /// Changes names, and files that no client uses: clients go on meanwhile.
    pub(crate) fn change_names<T>(
        &self,
        mut change: impl FnMut(&mut FileSystem<Mapped>) -> Result<T>,
    ) -> Result<T> {
        self.waiting_for_room(|| {
            self.volume.with_names(|system| {
                or_reclaim(
                    system,
                    |system| change(system),
                    |system| {
                        system.keep_others_out()?;
                        self.reclaim(system)
                    },
                )
            })
        })
    }

    /// Gives back the frames behind the ends of files that are open to write; whether there were any.
    pub(crate) fn reclaim(&self, system: &mut FileSystem<Mapped>) -> Result<bool> {
        let free = system.space().free;
        self.leases.open_to_write().into_iter().try_for_each(|ino| system.shrink(ino))?;
        Ok(system.space().free > free)
    }

    /// How long the kernel may keep what it is told of a file.
    pub(crate) fn kept(&self, ino: Ino) -> Duration {
        if self.leases.is_written_beside(ino) { Duration::ZERO } else { KEPT }
    }

    /// The kernel knows no more how large a file is.
    pub(crate) fn forget_size(&self, ino: Ino) {
        self.known.forget(ino, ATTRIBUTES);
    }

    /// A program opens a file: its handle, as soon as no client changes the file in ways that the program would not see.
    pub(crate) fn opened(&self, ino: Ino, flags: i32) -> Result<u64> {
        self.is_well()?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if writes {
            self.read().may_change()?;
        }
        let (handle, ends_leases) = self.leases.opened(ino, writes);
        if ends_leases {
            match self.write() {
                Ok(_closed) => self.leases.end_leases(ino),
                Err(error) => {
                    self.leases.closed(handle);
                    return Err(error);
                }
            }
            self.forget_size(ino);
        }
        // Each write is to persist, which the kernel asks for and a client would not.
        if self.syncer.is_some() && flags & libc::O_DSYNC != 0 {
            let closed = self.write()?;
            self.leases.bar(handle)?;
            drop(closed);
        }
        Ok(handle)
    }

    /// The kernel reads or writes bytes of a file, whichever call of whichever process makes it do so: what clients do with them beside
    /// it ends first. So the kernel has no page of a file that a client may write, and a program that makes system calls the client's
    /// library does not see finds what it wrote.
    pub(crate) fn kernel_uses(&self, ino: Ino, writes: bool) {
        if !self.leases.keeps_kernel_out(ino, writes) {
            return;
        }
        let closed = self.volume.unnoticed().noticed_within(SHORT_PATIENCE);
        self.leases.end_leases(ino);
        if closed.is_err() {
            // A client is in the middle of a copy, and perhaps waits for these very bytes: its buffer is a mapping of the file. What it
            // stores from now on the kernel is told to forget when the client is out.
            let (volume, known) = (self.volume.clone(), self.known.clone());
            let _ = self.later.send(Box::new(move || {
                sooner_or_later(&volume, |_| Ok(()));
                known.forget(ino, PAGES);
            }));
        }
    }

    /// Answers an open when the kernel has forgotten what it is to forget. It lets others have a page that is written
    /// before the write has come here: if it forgot the page meanwhile, it would read it again as it was, and keep that.
    pub(crate) fn behind_forgetting(&self, answer: impl FnOnce() + Send + 'static) {
        if self.forgetting.load(Ordering::SeqCst) == 0 {
            return answer();
        }
        drop(self.later.send(Box::new(answer)));
    }

    /// What the kernel is told of an inode that it will know from now on.
    pub(crate) fn known(&self, system: &mut FileSystem<Mapped>, ino: Ino) -> Result<Told> {
        system.open(ino)?;
        self.known.named(ino);
        self.told(system, ino)
    }

    /// What the kernel is told of an inode that it knows.
    pub(crate) fn told(&self, system: &FileSystem<Mapped>, ino: Ino) -> Result<Told> {
        self.known.told(ino);
        // Before: a lease that begins behind this lets the kernel forget what it is told now, and one that ended has changed what is
        // read now.
        let kept = self.kept(ino);
        Ok((system.attributes(ino)?, kept))
    }

    /// Lists names of a directory, with what the kernel would ask of each next, until an answer has no more room.
    pub(crate) fn list_known(
        &self,
        system: &mut FileSystem<Mapped>,
        directory: Ino,
        cookie: u64,
        mut is_full: impl FnMut(&[u8], u64, &Told) -> bool,
    ) -> Result<()> {
        const AT_ONCE: usize = 32;
        let mut cookie = cookie;
        let mut is_empty = true;
        loop {
            let mut part = Vec::with_capacity(AT_ONCE);
            system.list(directory, cookie, &mut |name, ino, _, next| {
                part.push((name.to_vec(), ino, next));
                part.len() < AT_ONCE
            })?;
            for (name, ino, next) in &part {
                let told = match self.told(system, *ino) {
                    Ok(told) => told,
                    Err(error) if is_empty => return Err(error),
                    // The kernel knows the names before this one, and asks once more.
                    Err(_) => return Ok(()),
                };
                if is_full(name, *next, &told) {
                    return Ok(());
                }
                is_empty = false;
                // These two it knows already.
                if !matches!(&name[..], b"." | b"..") {
                    system.open(*ino)?;
                    self.known.named(*ino);
                }
                cookie = *next;
            }
            if part.len() < AT_ONCE {
                return Ok(());
            }
        }
    }

    /// The same of an inode, or a name of it, that is made.
    pub(crate) fn made(&self, mut make: impl FnMut(&mut FileSystem<Mapped>) -> Result<Ino>) -> Result<Told> {
        self.change_names(|system| {
            let ino = make(system)?;
            self.known(system, ino)
        })
    }

    /// Does work that no request waits for: now, or later if a client is stopped in the middle of a copy.
    pub(crate) fn sooner_or_later(
        &self,
        act: impl FnOnce(&mut FileSystem<Mapped>) -> Result<()> + Send + 'static,
    ) {
        match self.write() {
            Ok(mut system) => {
                // What fails is given back when the store is mounted again.
                let _ = act(&mut system);
            }
            Err(_) => {
                let volume = self.volume.clone();
                let _ = self.later.send(Box::new(move || sooner_or_later(&volume, act)));
            }
        }
    }

    /// Drops a file's privileges where a user other than root changes its bytes: a program that is run from it gets its owner's rights no
    /// more.
    pub(crate) fn drop_privileges(&self, ino: Ino) {
        let mode = self.read().inode(ino).ok().and_then(|inode| inode.without_privileges());
        if let Some(mode) = mode {
            let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            // What cannot be done now fails for the bytes, too.
            let _ = self.write().and_then(|mut system| system.set_attributes(ino, &set));
            // Before the answer: the kernel keeps the old mode, and would run the changed file with its owner's rights.
            self.known.forget(ino, ATTRIBUTES);
        }
    }

    /// Takes a file's capabilities away, as a program changes its bytes, root's as well. The kernel does that itself before it keeps what is
    /// written, but not before it passes a direct write on.
    pub(crate) fn drop_capabilities(&self, ino: Ino) {
        if self.read().has_capabilities(ino) == Ok(true) {
            // What cannot be done now fails for the bytes, too.
            let _ = self.write().and_then(|mut system| system.remove_extended(ino, CAPABILITIES));
        }
    }

    /// Answers when everything that was done persists. Where that is always so, or never, there is nothing to do; the kernel asks all the
    /// same each time, as the store may have failed.
    pub(crate) fn sync(&self, answer: Answer) {
        match &self.syncer {
            None => answer(self.is_well()),
            Some(syncer) => syncer.ask(answer),
        }
    }

    /// Whether a caller may leave a file the right to act as its group: root, or a member of that group.
    pub(crate) fn is_in_group(&self, Requester { owner, process }: Requester, ino: Ino) -> bool {
        let group = self.read().attributes(ino).map(|attributes| attributes.gid);
        owner.uid == 0 || group.is_ok_and(|group| group == owner.gid || has_group(process, group))
    }

    /// Whether the kernel passes on what a program writes without keeping it in pages, which takes longer than everything else about a large
    /// write. A descriptor that can also read gets pages: the program may read back, or map, what it has written.
    pub(crate) fn is_direct(&self, flags: i32) -> bool {
        !self.writes_back && flags & libc::O_ACCMODE == libc::O_WRONLY
    }
}

/// Whether a process has a group beside its first one. The kernel does not send these.
fn has_group(process: u32, group: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|known| known.parse() == Ok(group))
}
