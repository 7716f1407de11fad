//! The requests of clients to the owner without the kernel: names and attributes.
//!
//! ```text
//!   client -> mailbox -> service -> the same operations as the kernel's requests
//! ```
//!
//! The kernel makes three requests to open a file that it does not know, each with two switches of processes. A client that asks by itself
//! pays for one message. The service does what it can be sure of, for callers that the kernel would let: what depends on more than modes
//! and owners, what is used in other ways, and everything that fails for another reason than a name that is there or is not, the client is
//! told to leave to the kernel ([`Refused::Kernels`]). So there is one place that knows all rules.
//!
//! What the kernel has been told and is not so any more it is told before the client hears of the change ([`Known`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewalk_vm::addr::PAGE_BYTES;
use rustix::io::Errno;

use crate::core::error::{Error, Result};
use crate::core::extended::DEFAULT_LIST;
use crate::core::inode::{self, Field, Ino, Inode, kind};
use crate::core::names::With;
use crate::core::names::{MOST_LINKS_FOLLOWED, MOST_PATH_BYTES};
use crate::core::system::FileSystem;
use crate::core::types::{Overwrites, Owner, Replace, SetAttributes};
use crate::core::volume::{Exclusive, Volume};
use crate::memory::gate::Gate;
use crate::memory::mailbox::{Sleep, WORDS};
use crate::memory::mapped::Mapped;
use crate::owner::known::{Known, Stale};
use crate::owner::leases::LeaseTable;
use crate::owner::syncer::Holder;
use crate::protocol::requests::{
    BY_HANDLE, Base, Caller, DONE, FOLLOW, KERNELS, NO_ID, REPLACES_NOTHING, Refused, Request, SetTime, What,
    is_plain, put_attributes,
};

/// How often the service looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;
/// In a directory: a user that may change it still may not take away or use in every way what belongs to others.
const STICKY: u32 = 0o1000;
const PRIVILEGES: u32 = 0o6000;

impl From<Error> for Refused {
    /// Whether a name is there is all that is sure here.
    fn from(error: Error) -> Self {
        if error == Errno::NOENT { Self::Error(error) } else { Self::Kernels }
    }
}

type Done<T> = std::result::Result<T, Refused>;

/// The owner's side of the service.
pub(crate) struct Service {
    pub(crate) volume: Arc<Volume<Mapped>>,
    pub(crate) leases: Arc<LeaseTable>,
    pub(crate) known: Arc<Known>,
    pub(crate) holder: Option<Holder>,
    /// The file system is no longer mounted.
    pub(crate) is_over: Arc<AtomicBool>,
}

/// Where a path leads.
struct Reached {
    parent: Ino,
    name: Vec<u8>,
    ino: Option<Ino>,
}

impl Reached {
    fn file(&self) -> Done<Ino> {
        self.ino.ok_or(Refused::Error(Errno::NOENT))
    }
}

/// An answer that is being made.
struct Answer<'a> {
    words: &'a mut [u64; WORDS],
    text: &'a mut Vec<u8>,
    stale: &'a mut Vec<Stale>,
}

fn mode_of(inode: &Inode) -> u32 {
    inode.mode() & 0o7777
}

/// Whether the kernel lets a caller do something with a file, as its mode says.
fn may(inode: &Inode, caller: &Caller, wants: u32) -> Done<()> {
    if caller.is_root {
        return Ok(());
    }
    let owner = inode.get(Field::Owner);
    let (uid, gid) = (owner as u32, (owner >> 32) as u32);
    let mode = mode_of(inode);
    let has = |shift: u32| mode >> shift & wants == wants;
    // An access control list says more than the mode.
    let is_sure = inode.get(Field::Attributes) == Ino::NONE.0;
    let may = match () {
        () if !is_sure => false,
        () if uid == caller.uid => has(6),
        () if gid == caller.gid => has(3),
        // Which of the two it is only the kernel knows.
        () if caller.has_groups => has(3) && has(0),
        () => has(0),
    };
    if may { Ok(()) } else { Err(Refused::Kernels) }
}

/// The permissions that a caller needs to open a file with these flags.
fn wanted(flags: i32) -> Done<u32> {
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY if flags & libc::O_TRUNC == 0 => Ok(READ),
        libc::O_WRONLY => Ok(WRITE),
        libc::O_RDWR => Ok(READ | WRITE),
        _ => Err(Refused::Kernels),
    }
}

/// Succeeds if it is sure that the kernel lets a caller open this file, which is in the directory `parent`, with these flags.
pub(crate) fn may_open(
    system: &FileSystem<Mapped>,
    (parent, ino): (Ino, Ino),
    caller: &Caller,
    flags: i32,
) -> Done<()> {
    let inode = system.inode(ino)?;
    // There the kernel may keep a caller from what belongs to others (`fs.protected_regular`).
    let is_guarded = flags & libc::O_CREAT != 0
        && mode_of(&system.inode(parent)?) & STICKY != 0
        && inode.get(Field::Owner) as u32 != caller.uid;
    if !inode.is(kind::FILE) || is_guarded {
        return Err(Refused::Kernels);
    }
    may(&inode, caller, wanted(flags)?)
}

fn is_owner(inode: &Inode, caller: &Caller) -> bool {
    caller.is_root || inode.get(Field::Owner) as u32 == caller.uid
}

/// Follows a path as the kernel does for a caller, within this file system.
fn reach(
    system: &mut FileSystem<Mapped>,
    caller: &Caller,
    base: Ino,
    path: &[u8],
    follows_last: bool,
) -> Done<Reached> {
    if path.is_empty() || path.ends_with(b"/") || path.len() > MOST_PATH_BYTES || path.contains(&0) {
        return Err(Refused::Kernels);
    }
    let mut at = base;
    let mut path = Cow::Borrowed(path);
    for _ in 0..MOST_LINKS_FOLLOWED {
        match reach_part(system, caller, (at, &path), follows_last)? {
            Part::There(reached) => return Ok(reached),
            Part::Again(from, next) => (at, path) = (from, Cow::Owned(next)),
        }
    }
    Err(Refused::Kernels)
}

/// What a part of a path leads to: where it ends, or a path from a directory on.
enum Part {
    There(Reached),
    Again(Ino, Vec<u8>),
}

fn reach_part(
    system: &mut FileSystem<Mapped>,
    caller: &Caller,
    (base, path): (Ino, &[u8]),
    follows_last: bool,
) -> Done<Part> {
    let mut at = base;
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let directory = system.directory_inode(at)?;
        may(&directory, caller, SEARCH)?;
        if name == b".." && at == Ino::ROOT {
            return Err(Refused::Kernels);
        }
        let found = match system.look_up(at, name) {
            Err(Errno::NOENT) if is_last => None,
            found => Some(found?),
        };
        let is_link = match found {
            Some(ino) => system.inode(ino)?.is(kind::SYMLINK),
            None => false,
        };
        if let Some(ino) = found.filter(|_| is_link && (!is_last || follows_last)) {
            let mut target = system.read_link(ino)?;
            // Whose links may be followed there the kernel knows; and where other file systems are.
            if mode_of(&directory) & STICKY != 0 || target.starts_with(b"/") || target.ends_with(b"/") {
                return Err(Refused::Kernels);
            }
            for name in names {
                target.push(b'/');
                target.extend(name);
            }
            if target.len() > MOST_PATH_BYTES {
                return Err(Refused::Kernels);
            }
            return Ok(Part::Again(at, target));
        }
        match found {
            Some(ino) if !is_last => at = ino,
            ino => return Ok(Part::There(Reached { parent: at, name: name.into(), ino })),
        }
    }
    Err(Refused::Kernels)
}

/// A directory in which a caller may make and remove names. Where only some of them may be removed by it, the kernel decides.
fn may_change_names(system: &FileSystem<Mapped>, directory: Ino, caller: &Caller) -> Done<()> {
    let inode = system.directory_inode(directory)?;
    if mode_of(&inode) & STICKY != 0 {
        return Err(Refused::Kernels);
    }
    may(&inode, caller, WRITE | SEARCH)
}

/// "." and ".." are no names of their own.
fn is_own_name(name: &[u8]) -> Done<()> {
    if matches!(name, b"." | b"..") { Err(Refused::Kernels) } else { Ok(()) }
}

impl Service {
    /// Answers clients until it is told to stop.
    pub(crate) fn run(&self, gate: &Gate, stop: &AtomicBool) {
        let (sleep, bell) = (Sleep::plain(), gate.bell());
        let mut texts = [Vec::new(), Vec::new()];
        while !stop.load(Ordering::Relaxed) {
            for client in bell.wait(LOOK, sleep) {
                let mailbox = gate.mailbox(client);
                let Some(words) = mailbox.asked() else { continue };
                let mut answer = [0; WORDS];
                let mut text = Vec::new();
                let done = Request::of_words(&words)
                    .filter(|request| mailbox.texts(request.texts, &mut texts).is_some())
                    .map_or(Err(Refused::Kernels), |request| {
                        self.answer((client, gate.serial(client)), &request, &texts, (&mut answer, &mut text))
                    });
                answer[0] = match done {
                    Ok(()) => DONE,
                    Err(Refused::Kernels) => KERNELS,
                    Err(Refused::Error(error)) => error.raw_os_error() as u64,
                };
                mailbox.answer(&answer, &text, sleep);
            }
        }
    }

    fn answer(
        &self,
        client: (usize, u64),
        request: &Request,
        texts: &[Vec<u8>; 2],
        (words, text): (&mut [u64; WORDS], &mut Vec<u8>),
    ) -> Done<()> {
        let mut stale = Vec::new();
        // Where the store has failed the kernel is to be asked, which hears that.
        let done = self.volume.with_names(|system| {
            if self.is_over.load(Ordering::SeqCst) {
                return Err(Refused::Kernels);
            }
            let answer = Answer { words, text, stale: &mut stale };
            self.act(system, client, request, texts, answer)
        });
        stale.into_iter().for_each(|stale| self.known.take_back(stale));
        done
    }

    fn act(
        &self,
        system: &mut Exclusive<'_, Mapped>,
        client: (usize, u64),
        request: &Request,
        [path, other]: &[Vec<u8>; 2],
        answer: Answer<'_>,
    ) -> Done<()> {
        let caller = &request.caller;
        let owner = Owner { uid: caller.uid, gid: caller.gid };
        match request.what {
            What::Look => {
                let ino = self.subject(system, client, request, path)?;
                let attributes = system.attributes(ino)?;
                if !is_plain(attributes.mode) {
                    return Err(Refused::Kernels);
                }
                put_attributes(answer.words, &attributes).ok_or(Refused::Kernels)
            }
            What::Open => self.open(system, client, request, path, answer),
            What::Close => {
                let Base::Handle(handle) = request.base else { return Err(Refused::Kernels) };
                let (ino, may_have_slack) = self.leases.close_beside(handle, client.0)?;
                if may_have_slack {
                    if system.has_slack(ino) {
                        // What fails is given back when the store is mounted again.
                        let _ = system.shrink(ino);
                    }
                    answer.stale.extend(self.known.changed(ino));
                }
                Ok(system.close(ino)?)
            }
            What::Path => {
                let Base::Handle(handle) = request.base else { return Err(Refused::Kernels) };
                let (ino, parent, name) = self.leases.name_beside(handle, client.0)?;
                *answer.text = path_of(system, ino, parent, &name)
                    .unwrap_or_else(|| [BY_HANDLE, format!("{handle:x}").as_bytes()].concat());
                answer.words[1] = answer.text.len() as u64;
                answer.words[2] = ino.0;
                Ok(())
            }
            What::Reserve => {
                let Base::Handle(handle) = request.base else { return Err(Refused::Kernels) };
                let ino = self.leases.opened_beside(handle, client.0)?;
                let [offset, bytes] = request.range;
                let end = offset.checked_add(bytes).ok_or(Refused::Kernels)?;
                answer.words[1] = system.reserve(ino, offset..end)?;
                Ok(())
            }
            What::MakeDirectory => {
                let to = self.new_name(system, request, path)?;
                let mode = (request.mode & 0o7777 | kind::DIRECTORY, caller.umask);
                system.create_for(to.parent, &to.name, mode, owner, With::Nothing)?;
                answer.stale.extend(self.known.changed(to.parent));
                Ok(())
            }
            What::LinkTo => {
                let to = self.new_name(system, request, path)?;
                system.create_link_to(to.parent, &to.name, other, owner)?;
                answer.stale.extend(self.known.changed(to.parent));
                Ok(())
            }
            What::Link => {
                let ino = self.subject(system, client, request, path)?;
                let inode = system.inode(ino)?;
                // Which files of others may get names here depends on the machine's settings.
                if !inode.is(kind::FILE) || !is_owner(&inode, caller) {
                    return Err(Refused::Kernels);
                }
                let to = reach(system, caller, request.other, other, false)?;
                Self::is_free(system, caller, &to)?;
                system.link(ino, to.parent, &to.name)?;
                for changed in [to.parent, ino] {
                    answer.stale.extend(self.known.changed(changed));
                }
                Ok(())
            }
            What::ReadLink => {
                let ino = self.subject(system, client, request, path)?;
                *answer.text = system.read_link(ino)?;
                answer.words[1] = answer.text.len() as u64;
                Ok(())
            }
            What::Unlink | What::RemoveDirectory => self.remove(system, request, path, answer),
            What::Rename => self.rename(system, request, (path, other), answer),
            What::Change => self.change(system, client, request, path, answer),
        }
    }

    /// The file that a request is about.
    fn subject(
        &self,
        system: &mut FileSystem<Mapped>,
        client: (usize, u64),
        request: &Request,
        path: &[u8],
    ) -> Done<Ino> {
        match request.base {
            Base::Handle(handle) => Ok(self.leases.opened_beside(handle, client.0)?),
            Base::Directory(base) => {
                reach(system, &request.caller, base, path, request.flags & FOLLOW != 0)?.file()
            }
        }
    }

    fn from(system: &mut FileSystem<Mapped>, request: &Request, path: &[u8], follows: bool) -> Done<Reached> {
        let Base::Directory(base) = request.base else { return Err(Refused::Kernels) };
        reach(system, &request.caller, base, path, follows)
    }

    /// Where a caller may make a name.
    fn new_name(&self, system: &mut FileSystem<Mapped>, request: &Request, path: &[u8]) -> Done<Reached> {
        let to = Self::from(system, request, path, false)?;
        Self::is_free(system, &request.caller, &to)?;
        Ok(to)
    }

    fn is_free(system: &FileSystem<Mapped>, caller: &Caller, to: &Reached) -> Done<()> {
        if to.ino.is_some() {
            return Err(Refused::Error(Errno::EXIST));
        }
        may_change_names(system, to.parent, caller)
    }

    fn open(
        &self,
        system: &mut Exclusive<'_, Mapped>,
        client: (usize, u64),
        request: &Request,
        path: &[u8],
        answer: Answer<'_>,
    ) -> Done<()> {
        let (flags, caller) = (request.flags as i32, &request.caller);
        let has = |flag| flags & flag == flag;
        let wants = wanted(flags)?;
        let writes = wants & WRITE != 0;
        let is_new_only = has(libc::O_CREAT | libc::O_EXCL);
        // Overwriting as a whole needs the log, which is the owner's.
        if writes && system.overwrites == Overwrites::Whole {
            return Err(Refused::Kernels);
        }
        let reached = Self::from(system, request, path, !is_new_only && !has(libc::O_NOFOLLOW))?;
        let (ino, is_new) = match reached.ino {
            Some(_) if is_new_only => return Err(Refused::Error(Errno::EXIST)),
            Some(ino) => {
                may_open(system, (reached.parent, ino), caller, flags)?;
                if writes && (system.has_privileges(ino)? || self.known.has_pages(ino)) {
                    return Err(Refused::Kernels);
                }
                (ino, false)
            }
            None if has(libc::O_CREAT) => {
                is_own_name(&reached.name)?;
                may_change_names(system, reached.parent, caller)?;
                let (mode, owner) = (request.mode & 0o7777, Owner { uid: caller.uid, gid: caller.gid });
                // It has to be opened once more where the kernel needs it.
                let kept = mode & !caller.umask;
                if !caller.is_root && (kept >> 6 & wants != wants || self.has_default(system, reached.parent))
                {
                    return Err(Refused::Kernels);
                }
                let mode = (mode | kind::FILE, caller.umask);
                // What there is no room for the client asks for when it writes.
                let with = if writes { With::Room(PAGE_BYTES) } else { With::Nothing };
                let ino = system.create_for(reached.parent, &reached.name, mode, owner, with)?;
                answer.stale.extend(self.known.changed(reached.parent));
                (ino, true)
            }
            None => return Err(Refused::Error(Errno::NOENT)),
        };
        let opened = self.leases.open_beside((ino, writes), client, (reached.parent, &reached.name));
        let opened = match opened {
            Ok(opened) => opened,
            Err(_) if is_new => {
                system.unlink(reached.parent, &reached.name)?;
                return Err(Refused::Kernels);
            }
            Err(_) => return Err(Refused::Kernels),
        };
        let used = self.use_opened(system, (ino, writes), has(libc::O_TRUNC), is_new);
        let at = match used {
            Ok(at) => at,
            Err(refused) => {
                let _ = self.leases.close_beside(opened.handle, client.0);
                return Err(refused);
            }
        };
        if writes {
            answer.stale.extend(self.known.changed(ino));
        }
        let opened =
            [opened.handle, ino.0, opened.index as u64, opened.word, at, u64::from(opened.is_written)];
        answer.words[1..7].copy_from_slice(&opened);
        Ok(())
    }

    /// A client uses a file that was just opened: where its inode lies.
    fn use_opened(
        &self,
        system: &mut Exclusive<'_, Mapped>,
        (ino, writes): (Ino, bool),
        truncates: bool,
        is_new: bool,
    ) -> Done<u64> {
        let at = inode::address(system.store(), ino).ok_or(Refused::Kernels)?;
        if truncates && !is_new {
            if system.inode(ino)?.size() > 0 {
                system.keep_others_out()?;
            }
            let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
            system.set_attributes(ino, &set)?;
        }
        if let Some(holder) = self.holder.as_ref().filter(|_| writes) {
            holder.hold(at);
        }
        system.open(ino)?;
        Ok(at)
    }

    fn has_default(&self, system: &FileSystem<Mapped>, directory: Ino) -> bool {
        system.extended(directory, DEFAULT_LIST) != Err(Errno::NODATA)
    }

    fn remove(
        &self,
        system: &mut FileSystem<Mapped>,
        request: &Request,
        path: &[u8],
        answer: Answer<'_>,
    ) -> Done<()> {
        let from = Self::from(system, request, path, false)?;
        let ino = from.file()?;
        is_own_name(&from.name)?;
        may_change_names(system, from.parent, &request.caller)?;
        let (is_known, is_directory) = (self.known.has(ino), system.inode(ino)?.is(kind::DIRECTORY));
        match request.what {
            What::Unlink if !is_directory => system.unlink(from.parent, &from.name)?,
            // A process may work in it, or have mounted something there.
            What::RemoveDirectory if is_directory && !is_known => {
                system.remove_directory(from.parent, &from.name)?;
            }
            _ => return Err(Refused::Kernels),
        }
        if is_known {
            answer.stale.push(Stale::Name(from.parent, from.name));
            answer.stale.extend(self.known.changed(ino));
        }
        answer.stale.extend(self.known.changed(from.parent));
        Ok(())
    }

    fn rename(
        &self,
        system: &mut FileSystem<Mapped>,
        request: &Request,
        (path, other): (&[u8], &[u8]),
        answer: Answer<'_>,
    ) -> Done<()> {
        let caller = &request.caller;
        let from = Self::from(system, request, path, false)?;
        let to = reach(system, caller, request.other, other, false)?;
        let moved = from.file()?;
        for at in [&from, &to] {
            is_own_name(&at.name)?;
            may_change_names(system, at.parent, caller)?;
        }
        let is_directory = |ino: Ino| Ok::<_, Refused>(system.inode(ino)?.is(kind::DIRECTORY));
        let has_directory = is_directory(moved)? || to.ino.map_or(Ok(false), is_directory)?;
        // The kernel keeps where directories are, and lets only some callers move them elsewhere.
        let knows = |ino: Ino| self.known.has(ino);
        let is_others = has_directory && (from.parent != to.parent && !caller.is_root || knows(moved))
            || to.ino.is_some_and(|ino| has_directory && knows(ino));
        if is_others {
            return Err(Refused::Kernels);
        }
        let replace = if request.flags & REPLACES_NOTHING != 0 { Replace::No } else { Replace::Yes };
        if replace == Replace::No && to.ino.is_some() {
            return Err(Refused::Error(Errno::EXIST));
        }
        system.rename((from.parent, &from.name), (to.parent, &to.name), replace)?;
        for (ino, at) in [(Some(moved), &from), (to.ino, &to)] {
            if let Some(ino) = ino.filter(|&ino| knows(ino)) {
                answer.stale.push(Stale::Name(at.parent, at.name.to_vec()));
                answer.stale.extend(self.known.changed(ino));
            }
        }
        for parent in [from.parent, to.parent] {
            answer.stale.extend(self.known.changed(parent));
        }
        Ok(())
    }

    fn change(
        &self,
        system: &mut FileSystem<Mapped>,
        client: (usize, u64),
        request: &Request,
        path: &[u8],
        answer: Answer<'_>,
    ) -> Done<()> {
        let caller = &request.caller;
        let ino = self.subject(system, client, request, path)?;
        let inode = system.inode(ino)?;
        let given = |value: u32| (value != NO_ID).then_some(value);
        let now = i128::from(system.now() as i64);
        let time = |time| match time {
            SetTime::No => None,
            SetTime::Now => Some(now),
            SetTime::To(nanoseconds) => Some(nanoseconds.into()),
        };
        let mut set = SetAttributes {
            mode: given(request.mode),
            uid: given(request.ids[0]),
            gid: given(request.ids[1]),
            size: None,
            accessed: time(request.times[0]),
            modified: time(request.times[1]),
            changed: None,
        };
        let changes_owner = set.uid.is_some() || set.gid.is_some();
        let gives_privileges = set.mode.is_some_and(|mode| mode & PRIVILEGES != 0);
        let is_usual =
            is_plain(inode.mode()) && is_owner(&inode, caller) && (!changes_owner || caller.is_root);
        if !is_usual || gives_privileges && !(inode.is(kind::DIRECTORY) && caller.is_root) {
            return Err(Refused::Kernels);
        }
        // An open file has to be opened once more where the kernel needs it.
        if set.mode.is_some_and(|mode| mode & 0o600 != 0o600)
            && !caller.is_root
            && matches!(request.base, Base::Handle(_))
        {
            return Err(Refused::Kernels);
        }
        if set.mode.is_none() && changes_owner {
            set.mode = inode.without_privileges();
        }
        system.set_attributes(ino, &set)?;
        answer.stale.extend(self.known.changed(ino));
        Ok(())
    }
}

/// The path from the root on by which an open file can be opened again: the name that it was opened by, if it still has it.
fn path_of(system: &mut FileSystem<Mapped>, ino: Ino, parent: Ino, name: &[u8]) -> Option<Vec<u8>> {
    let mut names = vec![name.to_vec()];
    if system.look_up(parent, name) != Ok(ino) {
        return None;
    }
    let mut at = parent;
    // Deeper than any path that the kernel takes.
    while at != Ino::ROOT && names.len() <= MOST_PATH_BYTES / 2 {
        let above = system.look_up(at, b"..").ok()?;
        let entry = system.directory(above).ok()?.entries_from(0).find(|(_, entry)| entry.ino == at)?;
        names.push(entry.0.to_vec());
        at = above;
    }
    names.reverse();
    let path = names.join(&b'/');
    (at == Ino::ROOT && path.len() <= MOST_PATH_BYTES).then_some(path)
}

/// The handle in a name by which the kernel looks for an open file that has another one, or none.
pub(crate) fn handle_of(name: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(name.strip_prefix(BY_HANDLE)?).ok()?;
    u64::from_str_radix(digits, 16).ok().filter(|handle| format!("{handle:x}") == digits)
}

/// A client is gone: what it had open is closed.
pub(crate) fn close_left(system: &mut FileSystem<Mapped>, files: &[Ino]) -> Result<()> {
    files.iter().try_for_each(|&ino| {
        if system.has_slack(ino) {
            system.shrink(ino)?;
        }
        system.close(ino)
    })
}

#[cfg(test)]
mod tests;
