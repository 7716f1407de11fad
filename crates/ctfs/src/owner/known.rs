//! The state of the file system that the kernel knows, and is told when it is no longer so.
//!
//! The kernel may keep what it is told for a long time: whatever it does itself it sees. What clients have done beside it by the owner's
//! service ([`service`](super::service)) it does not see. So the owner notes what it has told, and takes that back where it has changed. What is told
//! and noted under the file system's lock is noted before it can change.

use std::sync::OnceLock;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::core::inode::Ino;

/// What the kernel is to forget of a file: from which offset on its pages, and its attributes; or these alone.
pub(crate) const PAGES: i64 = 0;
pub(crate) const ATTRIBUTES: i64 = -1;

/// The kernel's knowledge of one inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Facts {
    /// Answers that named it, less those that were taken back.
    lookups: u64,
    has_attributes: bool,
    has_names: bool,
    /// The kernel may have pages: it has read there, or written and kept that.
    has_pages: bool,
    /// The kernel may have read pages while something was written that it passes on without keeping it.
    was_read_beside: bool,
}

/// What has to be taken back, when the locks are free again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stale {
    /// The attributes of an inode are stale.
    Attributes(Ino),
    /// A directory's attributes and names.
    Names(Ino),
    /// That there is a name.
    Name(Ino, Vec<u8>),
}

/// The way to the kernel. It may not know at all what it is told to forget.
pub(crate) trait Notify: Send + Sync {
    /// An inode's attributes, and its pages from an offset on.
    fn forget(&self, ino: Ino, from: i64);
    fn forget_name(&self, parent: Ino, name: &[u8]);
}

/// What the kernel knows.
#[derive(Default)]
pub(crate) struct Known {
    notify: OnceLock<Box<dyn Notify>>,
    files: Mutex<FxHashMap<Ino, Facts>>,
}

impl Known {
    /// The way to the kernel, when the file system is mounted.
    pub(crate) fn notify_by(&self, notify: Box<dyn Notify>) {
        let _ = self.notify.set(notify);
    }

    /// An answer will name an inode.
    pub(crate) fn named(&self, ino: Ino) {
        self.files.lock().entry(ino).or_default().lookups += 1;
    }

    /// An answer will say an inode's attributes.
    pub(crate) fn told(&self, ino: Ino) {
        self.files.lock().entry(ino).or_default().has_attributes = true;
    }

    /// An answer will list a directory's names.
    pub(crate) fn listed(&self, ino: Ino) {
        self.files.lock().entry(ino).or_default().has_names = true;
    }

    /// The kernel reads bytes of a file, or writes some and keeps them.
    pub(crate) fn keeps_pages(&self, ino: Ino) {
        self.files.lock().entry(ino).or_default().has_pages = true;
    }

    /// Whether the kernel may have pages of a file.
    pub(crate) fn has_pages(&self, ino: Ino) -> bool {
        self.files.lock().get(&ino).is_some_and(|facts| facts.has_pages)
    }

    /// The same of a kernel that is about to be told to forget them.
    pub(crate) fn had_pages(&self, ino: Ino) -> bool {
        self.files.lock().get_mut(&ino).is_some_and(|facts| std::mem::take(&mut facts.has_pages))
    }

    /// A program has written bytes that the kernel does not keep: whether the kernel must forget pages. It dropped its pages before it passed
    /// the write on, and another program's read may have filled them again with the old bytes. Some kernels drop them once more behind the
    /// write, others do not.
    pub(crate) fn has_passed_on(&self, ino: Ino) -> bool {
        let mut files = self.files.lock();
        let Some(facts) = files.get_mut(&ino).filter(|facts| facts.has_pages) else { return false };
        (facts.has_pages, facts.was_read_beside) = (false, true);
        true
    }

    /// A program closes a file that it has written so: whether the kernel must forget pages once more. If the program wrote a page from a
    /// mapping of that same page, the kernel could not let go of it during the write.
    pub(crate) fn was_read_beside(&self, ino: Ino) -> bool {
        self.files.lock().get_mut(&ino).is_some_and(|facts| std::mem::take(&mut facts.was_read_beside))
    }

    /// The kernel has taken back so many names.
    pub(crate) fn forgot(&self, ino: Ino, lookups: u64) {
        let mut files = self.files.lock();
        let Some(facts) = files.get_mut(&ino) else { return };
        facts.lookups = facts.lookups.saturating_sub(lookups);
        if facts.lookups == 0 && ino != Ino::ROOT {
            files.remove(&ino);
        }
    }

    /// Whether the kernel knows an inode.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        ino == Ino::ROOT || self.files.lock().get(&ino).is_some_and(|facts| facts.lookups > 0)
    }

    /// Under the file system's lock: attributes of an inode, and names of a directory, have changed.
    pub(crate) fn changed(&self, ino: Ino) -> Option<Stale> {
        let mut files = self.files.lock();
        let facts = files.get_mut(&ino)?;
        let (has_attributes, has_names) = (facts.has_attributes, facts.has_names);
        (facts.has_attributes, facts.has_names) = (false, false);
        match (has_names, has_attributes) {
            (true, _) => Some(Stale::Names(ino)),
            (false, true) => Some(Stale::Attributes(ino)),
            (false, false) => None,
        }
    }

    /// Tells the kernel what is stale. Without the file system's lock: it may wait for answers to other requests.
    pub(crate) fn take_back(&self, stale: Stale) {
        match stale {
            Stale::Attributes(ino) => self.forget(ino, ATTRIBUTES),
            Stale::Names(ino) => self.forget(ino, PAGES),
            Stale::Name(parent, name) => {
                if let Some(notify) = self.notify.get() {
                    notify.forget_name(parent, &name);
                }
            }
        }
    }

    /// Lets the kernel forget an inode's attributes, and its pages from an offset on.
    pub(crate) fn forget(&self, ino: Ino, from: i64) {
        if let Some(notify) = self.notify.get() {
            notify.forget(ino, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_forgotten_when_others_change_them() {
        let known = Known::default();
        let file = Ino(7);
        known.named(file);
        assert!(!known.has_pages(file) && !known.had_pages(file) && !known.has_passed_on(file));
        known.keeps_pages(file);
        assert!(known.has_pages(file) && known.had_pages(file) && !known.has_pages(file));
        assert!(!known.was_read_beside(file));
        known.keeps_pages(file);
        assert!(known.has_passed_on(file) && !known.has_passed_on(file), "they were forgotten");
        assert!(known.was_read_beside(file) && !known.was_read_beside(file));
        known.keeps_pages(file);
        known.forgot(file, 1);
        assert!(!known.has_pages(file), "the kernel has nothing of what it does not know");
    }

    #[test]
    fn what_was_told_is_taken_back_once() {
        let known = Known::default();
        let (file, folder) = (Ino(7), Ino(8));
        assert!(known.has(Ino::ROOT) && !known.has(file));
        assert_eq!(known.changed(file), None);
        known.named(file);
        assert_eq!(known.changed(file), None, "it knows no more than the name");
        known.told(file);
        assert_eq!(known.changed(file), Some(Stale::Attributes(file)));
        assert_eq!(known.changed(file), None);
        known.named(folder);
        known.told(folder);
        known.listed(folder);
        assert_eq!(known.changed(folder), Some(Stale::Names(folder)));
        known.named(file);
        known.forgot(file, 1);
        assert!(known.has(file));
        known.told(file);
        known.forgot(file, 1);
        assert!(!known.has(file));
        assert_eq!(known.changed(file), None);
        known.listed(Ino::ROOT);
        known.forgot(Ino::ROOT, 1);
        assert_eq!(known.changed(Ino::ROOT), Some(Stale::Names(Ino::ROOT)), "that is never forgotten");
    }
}
