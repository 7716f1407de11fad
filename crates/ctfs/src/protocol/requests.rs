//! The requests of clients to the owner's service, as both sides know them.

use rustix::io::Errno;

use crate::core::inode::{Ino, kind};
use crate::core::types::Attributes;
use crate::memory::mailbox::WORDS;

/// Something that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum What {
    /// A file's attributes.
    Look = 1,
    /// A file is opened, and made if the flags say so.
    Open,
    /// What was opened is closed.
    Close,
    /// By which path what was opened can be opened again.
    Path,
    /// An open file gets frames.
    Reserve,
    MakeDirectory,
    Unlink,
    RemoveDirectory,
    Rename,
    Link,
    LinkTo,
    ReadLink,
    /// Attributes change.
    Change,
}

impl What {
    const ALL: [Self; 13] = [
        Self::Look,
        Self::Open,
        Self::Close,
        Self::Path,
        Self::Reserve,
        Self::MakeDirectory,
        Self::Unlink,
        Self::RemoveDirectory,
        Self::Rename,
        Self::Link,
        Self::LinkTo,
        Self::ReadLink,
        Self::Change,
    ];
}

/// The caller of a request, as permissions have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// The number of the user.
    pub uid: u32,
    /// The first group's number.
    pub gid: u32,
    /// Permissions that what it makes does not get.
    pub umask: u32,
    /// The caller may do what root may.
    pub is_root: bool,
    /// The caller has more groups than one.
    pub has_groups: bool,
}

/// The file at which a path begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The path begins in a directory.
    Directory(Ino),
    /// The file was opened by the service; there is no path.
    Handle(u64),
}

/// A change of times: what is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetTime {
    /// The time stays as it is.
    #[default]
    No,
    /// The time becomes the present.
    Now,
    /// The time becomes so many nanoseconds since 1970.
    To(i64),
}

/// A request: not all of it means something for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) what: What,
    pub(crate) caller: Caller,
    pub(crate) base: Base,
    /// Of the second path.
    pub(crate) other: Ino,
    /// Bytes of the texts.
    pub(crate) texts: [usize; 2],
    /// Of `open`, or [`FOLLOW`] and [`REPLACES_NOTHING`].
    pub(crate) flags: u32,
    /// Permissions; [`NO_ID`] for none.
    pub(crate) mode: u32,
    pub(crate) ids: [u32; 2],
    pub(crate) times: [SetTime; 2],
    /// Offset and bytes.
    pub(crate) range: [u64; 2],
}

/// A symbolic link in the path's last place is followed.
pub(crate) const FOLLOW: u32 = 1;
/// A rename takes no name from a file.
pub(crate) const REPLACES_NOTHING: u32 = 2;
/// No user, group, or mode.
pub(crate) const NO_ID: u32 = u32::MAX;

const IS_ROOT: u64 = 1;
const HAS_GROUPS: u64 = 2;
const IS_HANDLE: u64 = 4;

fn pair([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn parts(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

impl Request {
    pub(crate) fn new(what: What, caller: Caller, base: Base) -> Self {
        Self {
            what,
            caller,
            base,
            other: Ino::NONE,
            texts: [0; 2],
            flags: 0,
            mode: NO_ID,
            ids: [NO_ID; 2],
            times: [SetTime::No; 2],
            range: [0; 2],
        }
    }

    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let Caller { uid, gid, umask, is_root, has_groups } = self.caller;
        let (base, is_handle) = match self.base {
            Base::Directory(ino) => (ino.0, 0),
            Base::Handle(handle) => (handle, IS_HANDLE),
        };
        let is = u64::from(is_root) * IS_ROOT + u64::from(has_groups) * HAS_GROUPS + is_handle;
        let time = |time| match time {
            SetTime::No => [0, 0],
            SetTime::Now => [1, 0],
            SetTime::To(nanoseconds) => [2, nanoseconds as u64],
        };
        let mut words = [0; WORDS];
        let known = [
            self.what as u64,
            pair([uid, gid]),
            u64::from(umask),
            is,
            base,
            self.other.0,
            self.texts[0] as u64,
            self.texts[1] as u64,
            pair([self.flags, self.mode]),
            pair(self.ids),
            time(self.times[0])[0],
            time(self.times[0])[1],
            time(self.times[1])[0],
            time(self.times[1])[1],
            self.range[0],
            self.range[1],
        ];
        words[..known.len()].copy_from_slice(&known);
        words
    }

    /// Nothing if the words are no request.
    pub(crate) fn of_words(words: &[u64; WORDS]) -> Option<Self> {
        let what = What::ALL.into_iter().find(|&what| what as u64 == words[0])?;
        let [uid, gid] = parts(words[1]);
        let is = |bit| words[3] & bit != 0;
        let caller =
            Caller { uid, gid, umask: words[2] as u32, is_root: is(IS_ROOT), has_groups: is(HAS_GROUPS) };
        let base = if is(IS_HANDLE) { Base::Handle(words[4]) } else { Base::Directory(Ino(words[4])) };
        let time = |at: usize| match words[at] {
            0 => Some(SetTime::No),
            1 => Some(SetTime::Now),
            2 => Some(SetTime::To(words[at + 1] as i64)),
            _ => None,
        };
        let [flags, mode] = parts(words[8]);
        Some(Self {
            what,
            caller,
            base,
            other: Ino(words[5]),
            texts: [usize::try_from(words[6]).ok()?, usize::try_from(words[7]).ok()?],
            flags,
            mode,
            ids: parts(words[9]),
            times: [time(10)?, time(12)?],
            range: [words[14], words[15]],
        })
    }
}

/// The reason why the owner's service has not done something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The kernel is to be asked: it does it, or says what is wrong.
    Kernels,
    /// That is the answer.
    Error(Errno),
}

/// The prefix by which an open file is found in the root directory, if its name leads elsewhere by now: its handle follows in hexadecimal
/// digits.
pub const BY_HANDLE: &[u8] = b".pagewalk-open-";

/// What became of a request, in an answer's first word; otherwise it is an error's number.
pub(crate) const DONE: u64 = 0;
/// The kernel is to be asked instead.
pub(crate) const KERNELS: u64 = u64::MAX;

/// Attributes behind an answer's first word; nothing if a time does not fit into one.
pub(crate) fn put_attributes(words: &mut [u64; WORDS], attributes: &Attributes) -> Option<()> {
    let time = |nanoseconds| i64::try_from(nanoseconds).ok().map(|time| time as u64);
    let known = [
        attributes.ino.0,
        u64::from(attributes.mode),
        attributes.links,
        pair([attributes.uid, attributes.gid]),
        attributes.size,
        attributes.blocks,
        time(attributes.accessed)?,
        time(attributes.modified)?,
        time(attributes.changed)?,
    ];
    words[1..=known.len()].copy_from_slice(&known);
    Some(())
}

/// The same, back. Only files, directories and symbolic links have them here: there is no device number.
pub(crate) fn attributes(words: &[u64; WORDS]) -> Attributes {
    let [uid, gid] = parts(words[4]);
    Attributes {
        ino: Ino(words[1]),
        generation: 0,
        mode: words[2] as u32,
        links: words[3],
        uid,
        gid,
        device: 0,
        size: words[5],
        blocks: words[6],
        accessed: i128::from(words[7] as i64),
        modified: i128::from(words[8] as i64),
        changed: i128::from(words[9] as i64),
    }
}

/// Whether a file of this kind is answered for.
pub(crate) fn is_plain(mode: u32) -> bool {
    [kind::FILE, kind::DIRECTORY, kind::SYMLINK].contains(&(mode & kind::MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_words_are_one() {
        let caller = Caller { uid: 7, gid: 8, umask: 0o27, is_root: false, has_groups: true };
        for (number, what) in (1..).zip(What::ALL) {
            assert_eq!(what as u64, number);
            let request = Request {
                other: Ino(3),
                texts: [5, 9],
                flags: 0o101,
                mode: 0o644,
                ids: [4, NO_ID],
                times: [SetTime::To(-5), SetTime::Now],
                range: [1 << 40, 7],
                ..Request::new(what, caller, Base::Handle(11))
            };
            assert_eq!(Request::of_words(&request.to_words()), Some(request));
        }
        let request = Request::new(What::Look, Caller { is_root: true, ..caller }, Base::Directory(Ino(2)));
        assert_eq!(Request::of_words(&request.to_words()), Some(request));
        for (at, word) in [(0, 0), (0, 99), (10, 3)] {
            let mut words = request.to_words();
            words[at] = word;
            assert_eq!(Request::of_words(&words), None);
        }
    }
}
