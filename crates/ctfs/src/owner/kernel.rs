//! The requests of the kernel that take more than one call of the file system: rights that end, leases that end, what the kernel is
//! told to forget, and answers that wait for that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pagewalk_vm::addr::PAGE_BYTES;
use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::extended::{self, CAPABILITIES, SetExtended};
use crate::core::file::Seek;
use crate::core::inode::Ino;
use crate::core::names::With;
use crate::core::retry::or_reclaim;
use crate::core::system::FileSystem;
use crate::core::types::{Attributes, Owner, Place, SetAttributes, Space};
use crate::memory::mapped::Mapped;
use crate::owner::known::PAGES;
use crate::owner::mounted::{Forgetting, Mounted, Told};
use crate::owner::{leases, service};
use crate::protocol::messages::{self, WORDS};
use crate::protocol::requests::Caller;

/// Modes of `fallocate`, as Linux has them.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// The program that the kernel asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Requester {
    pub(crate) owner: Owner,
    pub(crate) process: u32,
}

impl Requester {
    /// Whether the program may change a file's bytes and leave the file the rights that running it gives. The kernel looks at a
    /// capability, and does not say.
    fn may_keep_privileges(&self) -> bool {
        self.owner.uid == 0
    }
}

/// A time that a program sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Time {
    Now,
    /// Nanoseconds since 1970.
    To(i128),
}

/// Attributes that a program sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Setting {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<Time>,
    pub(crate) modified: Option<Time>,
    /// The kernel says this one only of what it has kept.
    pub(crate) changed: Option<i128>,
}

/// How the kernel passes bytes on that a program has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    /// The flags of `open`.
    pub(crate) flags: i32,
    /// The kernel had kept them in its pages.
    pub(crate) was_kept: bool,
    /// Running the file gives no rights any more.
    pub(crate) drops_privileges: bool,
}

impl Mounted {
    /// The mount has ended: whatever the kernel still knew it forgets.
    pub(crate) fn end(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // What cannot be given back now is when it is mounted again.
        let _ = self.write().and_then(|mut system| system.forget_all());
        self.syncer = None;
    }

    pub(crate) fn look_up(&self, requester: Requester, parent: Ino, name: &[u8]) -> Result<Told> {
        let mut system = self.volume.unnoticed();
        // Users who may not have the store's memory must not come by a file without the directories above it.
        let opened = service::handle_of(name)
            .filter(|_| parent == Ino::ROOT && leases::may_have_store(requester.owner.uid));
        if let Some(ino) = opened.and_then(|handle| self.leases.find_beside(handle)) {
            // A name for one `open`, of a file that may have none.
            return self.known(&mut system, ino).map(|(attributes, _)| (attributes, Duration::ZERO));
        }
        let found = system.look_up(parent, name);
        found.and_then(|ino| self.known(&mut system, ino))
    }

    /// The kernel takes back so many answers that named an inode.
    pub(crate) fn forget_lookups(&self, ino: Ino, lookups: u64) {
        let mut left = lookups;
        let mut system = self.volume.unnoticed();
        self.known.forgot(ino, lookups);
        // The root is known without having been looked up.
        while left > 0 && !system.goes_when_closed(ino) && system.close(ino).is_ok() {
            left -= 1;
        }
        drop(system);
        if left > 0 {
            self.sooner_or_later(move |system| (0..left).try_for_each(|_| system.close(ino)));
        }
    }

    pub(crate) fn set_attributes(&self, requester: Requester, ino: Ino, setting: Setting) -> Result<Told> {
        let Setting { mode, uid, gid, size, accessed, modified, changed } = setting;
        let changes_owner = uid.is_some() || gid.is_some();
        let change = |system: &mut FileSystem<Mapped>| {
            // By the clock of all other changes: with an exact one, a file that is written after another one's `touch` would be older.
            let now = i128::from(system.now() as i64);
            let time = |time: Time| match time {
                Time::To(time) => time,
                Time::Now => now,
            };
            let (accessed, modified) = (accessed.map(time), modified.map(time));
            let mut set = SetAttributes { mode, uid, gid, size, accessed, modified, changed };
            if mode.is_none() && (changes_owner || size.is_some() && !requester.may_keep_privileges()) {
                set.mode = system.inode(ino)?.without_privileges();
            }
            system.set_attributes(ino, &set)?;
            if system.has_privileges(ino)? {
                // A client would write without the kernel, which takes them away.
                self.leases.end_leases(ino);
            }
            self.told(system, ino)
        };
        self.waiting_for_room(|| self.volume.with(change))
    }

    /// Makes a file with a mode and a umask that a program opens with these flags: its attributes, and the handle.
    ///
    /// # Errors
    ///
    /// `STALE`: a client has made the name since the kernel looked for it, and only the kernel knows whether the program may open that
    /// file. It looks once more when it is told this, and then finds it.
    pub(crate) fn open_new(
        &self,
        requester: Requester,
        (parent, name): (Ino, &[u8]),
        mode: (u32, u32),
        flags: i32,
    ) -> Result<(Attributes, u64)> {
        // A program that opens it to write will write; what it has not used by then it gives back when it closes the file.
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let with = || if writes { With::Room(PAGE_BYTES) } else { With::Nothing };
        let mut was_there = false;
        let (mut attributes, _) = self.made(|system| {
            let made = system.create_for(parent, name, mode, requester.owner, with());
            was_there = made == Err(Errno::EXIST) && flags & libc::O_EXCL == 0;
            if was_there { self.made_meanwhile(system, requester, (parent, name), flags) } else { made }
        })?;
        let ino = attributes.ino;
        let opened = self.opened(ino, flags).and_then(|handle| {
            if was_there && flags & libc::O_TRUNC != 0 {
                // The kernel takes the file for a new one, which is empty.
                let empty = Setting { size: Some(0), ..Setting::default() };
                let emptied = self.set_attributes(requester, ino, empty);
                (attributes, _) = emptied.inspect_err(|_| _ = self.closed(ino, handle, flags))?;
            }
            Ok((attributes, handle))
        });
        opened.inspect_err(|_| self.forget_lookups(ino, 1))
    }

    /// The file of a name that a client has made since the kernel looked for it. Fails with `STALE` unless it is sure that the program may
    /// open the file: the kernel, which has looked at no file, checks no permissions of one that it is given now.
    fn made_meanwhile(
        &self,
        system: &mut FileSystem<Mapped>,
        requester: Requester,
        (parent, name): (Ino, &[u8]),
        flags: i32,
    ) -> Result<Ino> {
        let ino = system.look_up(parent, name)?;
        let Owner { uid, gid } = requester.owner;
        let caller = Caller { uid, gid, has_groups: true, ..Caller::default() };
        // A kernel that writes back has sizes of its own, and would keep the one from before the file is emptied.
        let has_other_size = self.writes_back && flags & libc::O_TRUNC != 0;
        match service::may_open(system, (parent, ino), &caller, flags) {
            Ok(()) if !has_other_size => Ok(ino),
            _ => Err(Errno::STALE),
        }
    }

    /// The last descriptor of what a program opened is closed. Answers whether the kernel knows no more how large the file is, and is to
    /// be told so ([`Mounted::forget_size`]) behind the answer to this request.
    pub(crate) fn closed(&self, ino: Ino, handle: u64, flags: i32) -> bool {
        if self.is_direct(flags) && self.known.was_read_beside(ino) {
            let known = self.known.clone();
            let _ = self.later.send(Box::new(move || known.forget(ino, PAGES)));
        }
        if !self.leases.has_lease(handle) {
            let has_written = self.leases.writes(handle);
            self.leases.closed(handle);
            let has_slack = has_written && !self.leases.is_written_beside(ino) && self.read().has_slack(ino);
            if has_slack {
                self.sooner_or_later(move |system| system.shrink(ino));
            }
            return has_slack;
        }
        if self.leases.writes(handle) {
            let leases = self.leases.clone();
            self.sooner_or_later(move |system| {
                let Some(ino) = leases.closed_leased(handle) else { return Ok(()) };
                system.shrink(ino)
            });
        } else {
            // The client that closed it has waited for its own reads.
            let _unnoticed = self.volume.unnoticed();
            self.leases.closed_leased(handle);
        }
        true
    }

    /// One of [`crate::protocol::messages`]'s messages.
    pub(crate) fn message(
        &self,
        requester: Requester,
        (ino, handle): (Ino, u64),
        (command, words): (u32, [u64; WORDS]),
        answer: impl FnOnce(Result<[u64; WORDS]>) + Send + 'static,
    ) {
        let user = requester.owner.uid;
        if command == messages::GROW && ![0, rustix::process::geteuid().as_raw()].contains(&user) {
            return answer(Err(Errno::PERM));
        }
        let is_shifted = matches!(command, messages::COLLAPSE | messages::INSERT);
        if is_shifted && !requester.may_keep_privileges() {
            self.drop_privileges(ino);
        }
        // Before the lease, which the next program to open the file ends.
        let forgetting = (command == messages::LEASE).then(|| Forgetting::begin(&self.forgetting));
        let words = match self.asked(ino, handle, command, words) {
            Ok(words) => words,
            Err(error) => return answer(Err(error)),
        };
        // What the kernel has read may soon be different, if the client writes.
        let is_written = command == messages::LEASE && words[3] != 0;
        if is_shifted || is_written && self.known.had_pages(ino) {
            let known = self.known.clone();
            // No request gets an answer any more when that thread is gone.
            drop(self.later.send(Box::new(move || {
                known.forget(ino, PAGES);
                drop(forgetting);
                answer(Ok(words));
            })));
            return;
        }
        drop(forgetting);
        if is_written {
            self.forget_size(ino);
        }
        answer(Ok(words));
    }

    pub(crate) fn read_bytes(&self, ino: Ino, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.known.keeps_pages(ino);
        self.kernel_uses(ino, false);
        self.volume.find(ino).and_then(|file| self.volume.read(&file, offset, bytes))
    }

    pub(crate) fn write_bytes(
        &self,
        ino: Ino,
        (offset, data): (u64, &[u8]),
        passed: Passed,
        answer: impl FnOnce(Result<usize>) + Send + 'static,
    ) {
        let is_direct = self.is_direct(passed.flags) && !passed.was_kept;
        if !is_direct {
            self.known.keeps_pages(ino);
        }
        self.kernel_uses(ino, true);
        // Where the file ends the kernel knows better if it has kept some of it.
        let is_appended = passed.flags & libc::O_APPEND != 0 && !self.writes_back;
        let place = if is_appended { Place::End } else { Place::At(offset) };
        if passed.drops_privileges {
            self.drop_privileges(ino);
        }
        if is_direct {
            self.drop_capabilities(ino);
        }
        let write = || self.volume.find(ino).and_then(|file| self.volume.write(&file, place, data));
        let reclaim = || self.write().and_then(|mut system| self.reclaim(&mut system)) == Ok(true);
        let written = self.waiting_for_room(|| or_reclaim(&mut (), |()| write(), |()| Ok(reclaim())));
        let count = written.map(|(_, count)| count);
        let known = self.known.clone();
        if is_direct && known.has_passed_on(ino) {
            drop(self.later.send(Box::new(move || {
                known.forget(ino, PAGES);
                answer(count);
            })));
            return;
        }
        if written.is_ok_and(|(at, _)| at != offset) {
            // The kernel has put the bytes where it believed that the file ends.
            let _ = self.later.send(Box::new(move || known.forget(ino, PAGES)));
        }
        answer(count);
    }

    /// Frames of a sparse store for which its disk has no room are not free.
    pub(crate) fn space(&self) -> Result<Space> {
        let system = self.read();
        let mut space = system.space();
        space.free = space.free.saturating_sub(system.store().memory().without_room() / PAGE_BYTES);
        system.sure(Ok(space))
    }

    pub(crate) fn set_extended(
        &self,
        requester: Requester,
        (ino, name): (Ino, &[u8]),
        value: &[u8],
        how: SetExtended,
    ) -> Result<()> {
        if !extended::is_kept(name) {
            return Err(Errno::OPNOTSUPP);
        }
        let drops_group = extended::is_list(name) && !self.is_in_group(requester, ino);
        self.change(|system| match extended::is_list(name) {
            true => system.set_list(ino, name, value, how, drops_group),
            false => {
                system.set_extended(ino, name, value, how)?;
                if name == CAPABILITIES {
                    self.leases.end_leases(ino);
                }
                Ok(())
            }
        })
    }

    pub(crate) fn extended(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if extended::is_kept(name) { self.read().extended(ino, name) } else { Err(Errno::OPNOTSUPP) }
    }

    /// `fallocate` with one of its modes.
    pub(crate) fn allocate(
        &self,
        requester: Requester,
        ino: Ino,
        (offset, length): (u64, u64),
        mode: i32,
    ) -> Result<()> {
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        let (range, keeps_size) = (offset..end, mode & KEEP_SIZE != 0);
        if !requester.may_keep_privileges() {
            self.drop_privileges(ino);
        }
        match mode & !KEEP_SIZE {
            0 => self.change(|system| system.allocate(ino, range.clone(), keeps_size)),
            PUNCH_HOLE if keeps_size => self.change(|system| system.punch(ino, range.clone())),
            ZERO_RANGE => self.change(|system| {
                system.punch(ino, range.clone())?;
                system.allocate(ino, range.clone(), keeps_size)
            }),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    pub(crate) fn seek(
        &self,
        ino: Ino,
        (offset, to): (u64, Seek),
        answer: impl FnOnce(Result<u64>) + Send + 'static,
    ) {
        let volume = self.volume.clone();
        let seek = move || answer(volume.shared().seek(ino, offset, to));
        // What a program has stored in a mapping the kernel may not have written yet: a hole that it covers is data.
        if self.leases.is_written(ino) && (self.writes_back || self.known.has_pages(ino)) {
            let known = self.known.clone();
            drop(self.later.send(Box::new(move || {
                // This writes dirty pages first.
                known.forget(ino, PAGES);
                seek();
            })));
            return;
        }
        seek();
    }
}

#[cfg(test)]
mod tests;
