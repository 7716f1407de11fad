//! Checkpoints: a power failure between two of them leaves the state of the last one.
//!
//! A host writes pages of a mapped file back whenever it likes, so between two waits for the disk any of the changed pages may be
//! on it. Waiting for every transaction takes milliseconds each. Here the store waits when a program asks for that (`fsync`), and
//! a power failure takes the store's own pages back to what they were then.
//!
//! ```text
//!  behind the store's last frame, two halves, each:
//!  +------+--------+----------+------+--------+---
//!  | head | images | unused   | head | images | ...      a head names the frames of its images
//!  +------+--------+----------+------+--------+---
//!   checkpoint                 saved since, before their first change
//! ```
//!
//! A *page of the store's own* is one that transactions change, or words of inodes: tables, bitmaps, inodes, directories. Before the
//! first change of such a page behind a checkpoint its image is in the current half and persists, or it was free then. The next
//! checkpoint first makes everything persist where it lies, then writes images of the pages that have changed to the other half; once
//! these persist, that half is the current one. Pages that change again and again so have their image already, and nothing waits.
//!
//! Frames that are given back keep what they hold until a checkpoint says that they are free. Bytes of files change in place, without
//! images.
//!
//! The idea of images that undo is the rollback journal's of databases (Gray and Reuter, Transaction Processing, 1993, 10.3); that
//! only the first change since a checkpoint needs one, and frees wait for it, is as in Linux's jbd2. The format is ours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::Xxh3;

use super::memory::PersistentMemory;
use crate::addr::{PAGE_BYTES, Pfn};

/// "pwchkpt1".
const MAGIC: u64 = u64::from_le_bytes(*b"pwchkpt1");
/// The magic number of a head without a checkpoint to go back to. The sequence number stays, as images from before
/// must never be taken for images of a later checkpoint.
const ENDED: u64 = u64::from_le_bytes(*b"pwchkend");
/// Bytes of a head before the numbers of its frames.
const HEAD_BYTES: u64 = 64;
/// Images that a checkpoint takes over although their pages have not changed since the last one: they may change soon.
const MOST_KEPT: usize = 32;
/// Checkpoints behind its last change for which a page's image is taken over.
const KEPT_FOR: u64 = 8;
/// Pages that are saved together with one that has to be: each wait for the disk takes long, however much is written.
const SAVED_TOGETHER: usize = 128;
/// Frames of both halves, at least.
const LEAST_CHECKPOINT_FRAMES: u64 = 1 << 11;
/// Frames of both halves, at most.
const MOST_CHECKPOINT_FRAMES: u64 = 1 << 14;

/// The memory has failed ([`PersistentMemory::has_failed`]): what was written since may not persist; what was promised before still holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the store's file cannot be read or written back")]
pub struct NotPersistent;

/// Frames for checkpoints behind a store of so many.
pub fn checkpoint_frames(frames: u64) -> u64 {
    (frames / 8).clamp(LEAST_CHECKPOINT_FRAMES, MOST_CHECKPOINT_FRAMES) & !1
}

/// Two halves behind the store.
#[derive(Clone, Copy, Debug)]
struct Area {
    first: u64,
    half: u64,
}

impl Area {
    /// Returns the area behind a store's frames.
    fn behind(memory: &impl PersistentMemory, frames: u64) -> Self {
        // However much longer the file is: where the halves lie must not change when it becomes so.
        let room = (memory.bytes() / PAGE_BYTES).saturating_sub(frames).min(checkpoint_frames(frames));
        Self { first: frames, half: room / 2 }
    }

    /// Pages that may change between two checkpoints: an image of each, and room for those that are taken over.
    fn most_touched(&self) -> u64 {
        self.half / 8 * 7
    }

    fn at(&self, half: u64, page: u64) -> u64 {
        (self.first + half * self.half + page) * PAGE_BYTES
    }
}

/// Pages of a head for so many images.
fn head_pages(images: usize) -> u64 {
    (HEAD_BYTES + 8 * images as u64).div_ceil(PAGE_BYTES)
}

/// A head with its images, as it lies in a half.
#[derive(Debug)]
struct Images {
    sequence: u64,
    identity: u64,
    frames: Vec<u64>,
    /// The place of the images: bytes behind the head.
    at: u64,
    /// The number of pages of all images.
    pages: u64,
}

/// Reads what lies at a page of a half, if that is whole.
fn read_images(memory: &impl PersistentMemory, area: Area, half: u64, page: u64) -> Option<Images> {
    if page >= area.half {
        return None;
    }
    let at = area.at(half, page);
    let [magic, sequence, identity, count, checksum] =
        std::array::from_fn(|word| memory.load(at + 8 * word as u64));
    if magic != MAGIC || sequence == 0 || count > area.half {
        return None;
    }
    let head = head_pages(count as usize);
    let pages = head + count;
    if page + pages > area.half {
        return None;
    }
    let mut bytes = vec![0; PAGE_BYTES as usize];
    let mut sum = Xxh3::with_seed(sequence);
    for number in 0..pages {
        memory.read(at + number * PAGE_BYTES, &mut bytes);
        if number == 0 {
            bytes[32..40].fill(0);
        }
        sum.update(&bytes);
    }
    if sum.digest() != checksum {
        return None;
    }
    let frames: Vec<u64> = (0..count).map(|index| memory.load(at + HEAD_BYTES + 8 * index)).collect();
    let are_ours = frames.iter().all(|&frame| frame < area.first);
    are_ours.then_some(Images { sequence, identity, frames, at: at + head * PAGE_BYTES, pages })
}

/// Writes a head with images; where the next one may lie.
fn write_images(
    memory: &impl PersistentMemory,
    (area, half, page): (Area, u64, u64),
    (sequence, identity): (u64, u64),
    images: &[(u64, Box<[u8]>)],
) -> Result<u64, NotPersistent> {
    let at = area.at(half, page);
    let head = head_pages(images.len());
    let mut bytes = vec![0; (head * PAGE_BYTES) as usize];
    for (index, word) in [MAGIC, sequence, identity, images.len() as u64].into_iter().enumerate() {
        bytes[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
    }
    for (index, (frame, _)) in images.iter().enumerate() {
        let place = HEAD_BYTES as usize + 8 * index;
        bytes[place..place + 8].copy_from_slice(&frame.to_le_bytes());
    }
    let mut sum = Xxh3::with_seed(sequence);
    sum.update(&bytes);
    images.iter().for_each(|(_, image)| sum.update(image));
    bytes[32..40].copy_from_slice(&sum.digest().to_le_bytes());
    memory.write(at, &bytes);
    for (number, (_, image)) in images.iter().enumerate() {
        memory.write(at + (head + number as u64) * PAGE_BYTES, image);
    }
    let pages = head + images.len() as u64;
    memory.persist(at, pages * PAGE_BYTES)?;
    Ok(page + pages)
}

/// The last checkpoint that persists, and in which half.
fn last(memory: &impl PersistentMemory, area: Area) -> Option<(u64, Images)> {
    let found = (0..2).filter_map(|half| Some((half, read_images(memory, area, half, 0)?)));
    found.max_by_key(|(_, images)| images.sequence)
}

/// Takes a store whose memory lost its power back to the last checkpoint: the number of pages that were put back, if there was such a
/// checkpoint. Where the memory never lost its power, everything that was stored is there, and nothing is put back.
///
/// # Errors
///
/// [`NotPersistent`].
pub(super) fn restore(
    memory: &impl PersistentMemory,
    frames: u64,
    log: u64,
) -> Result<Option<u64>, NotPersistent> {
    let area = Area::behind(memory, frames);
    let Some((half, checkpoint)) = last(memory, area) else { return Ok(None) };
    let is_whole = checkpoint.identity != 0 && checkpoint.identity == memory.identity();
    let mut restored = 0;
    if !is_whole {
        let (sequence, mut images) = (checkpoint.sequence, Some(checkpoint));
        let mut page = 0;
        let mut bytes = vec![0; PAGE_BYTES as usize];
        while let Some(some) = images.filter(|images| images.sequence == sequence) {
            for (number, frame) in some.frames.iter().enumerate() {
                memory.read(some.at + number as u64 * PAGE_BYTES, &mut bytes);
                memory.write(frame * PAGE_BYTES, &bytes);
                restored += 1;
            }
            page += some.pages;
            images = read_images(memory, area, half, page);
        }
        // What was committed behind the checkpoint must not be applied to it.
        memory.zero(log, HEAD_BYTES);
    }
    if memory.checkpoints().is_none() || !is_whole {
        // Whatever changes from now on, there is nothing to go back to.
        memory.persist(0, memory.bytes())?;
        if memory.checkpoints().is_none() {
            end_at(memory, area)?;
        }
    }
    Ok((!is_whole).then_some(restored))
}

/// Lets none of the images behind a store's end be found any more, as the room becomes frames of the store and, perhaps, room for other
/// checkpoints. Its checkpoints have ended.
///
/// The heads stay: a crash leaves the store as it is, and their numbers must not be used again while images are there that bear them.
pub(super) fn erase(memory: &impl PersistentMemory, frames: u64) -> Result<(), NotPersistent> {
    let area = Area::behind(memory, frames);
    let heads = [area.at(0, 0), area.at(1, 0)];
    for at in (0..2 * area.half).map(|page| area.at(0, page)) {
        if !heads.contains(&at) && memory.load(at) == MAGIC {
            memory.store(at, 0);
        }
    }
    memory.persist(area.at(0, 0), 2 * area.half * PAGE_BYTES)
}

fn end_at(memory: &impl PersistentMemory, area: Area) -> Result<(), NotPersistent> {
    if area.half == 0 {
        return Ok(());
    }
    for at in (0..2).map(|half| area.at(half, 0)).filter(|&at| memory.load(at) == MAGIC) {
        memory.store(at, ENDED);
    }
    (0..2).try_for_each(|half| memory.persist(area.at(half, 0), HEAD_BYTES))
}

#[derive(Debug, Default)]
struct State {
    /// The sequence numbers of the last checkpoint that persists, and of the last one that was taken.
    sequence: u64,
    taken: u64,
    /// The place where the current half has room.
    half: u64,
    page: u64,
    /// Pages with an image of every checkpoint that a power failure may lead back to.
    saved: FxHashSet<u64>,
    /// Pages that have changed since the last one was taken, some of them before they are marked.
    touched: FxHashSet<u64>,
    /// Pages that others change without saying so.
    held: FxHashSet<u64>,
    /// The checkpoint at which each page was touched last.
    recent: FxHashMap<u64, u64>,
    /// Frames that were free when the last one was taken, a bit each.
    fresh: Vec<u64>,
    /// Pages that are known to be the store's own, a bit each.
    own: Vec<u64>,
    has_failed: bool,
}

impl State {
    fn is_fresh(&self, page: u64) -> bool {
        self.fresh[page as usize / 64] >> (page % 64) & 1 != 0
    }

    /// A checkpoint was taken that does not persist yet.
    fn is_in_flight(&self) -> bool {
        self.taken > self.sequence
    }

    /// The store's own pages behind one, which have no image, up to some.
    fn own_behind(&self, page: u64, most: usize, found: &mut Vec<u64>) {
        let words = self.own.len();
        let first = page as usize / 64;
        for at in (first..words).chain(0..first) {
            let mut word = self.own[at] & !self.fresh[at];
            while word != 0 {
                let other = 64 * at as u64 + u64::from(word.trailing_zeros());
                word &= word - 1;
                if found.len() >= most {
                    return;
                }
                if !self.saved.contains(&other) && !found.contains(&other) {
                    found.push(other);
                }
            }
        }
    }
}

#[derive(Debug)]
struct Running {
    area: Area,
    /// Pages that may be changed at once, a bit each: they are touched.
    open: Vec<AtomicU64>,
}

/// The checkpoints of a store, which begin when it is opened.
#[derive(Debug, Default)]
pub struct Checkpoints {
    running: OnceLock<Running>,
    state: Mutex<State>,
    landed: Condvar,
    /// The last one that persists, for those that look often.
    durable: AtomicU64,
}

impl Checkpoints {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the lock has not left the state half changed: what it says is made true first.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins with what is there, all of which is made to persist. Where no room was left for them, there are none.
    pub(super) fn begin(&self, memory: &impl PersistentMemory, frames: u64) -> Result<(), NotPersistent> {
        let area = Area::behind(memory, frames);
        if area.half == 0 || self.running.get().is_some() {
            return Ok(());
        }
        let half = last(memory, area).map_or(0, |(half, _)| 1 - half);
        let used =
            (0..2).map(|half| area.at(half, 0)).filter(|&at| [MAGIC, ENDED].contains(&memory.load(at)));
        let sequence = used.map(|at| memory.load(at + 8)).max().unwrap_or(0);
        memory.persist(0, memory.bytes())?;
        let page = write_images(memory, (area, half, 0), (sequence + 1, memory.identity()), &[])?;
        let words = frames.div_ceil(64) as usize;
        *self.state() = State {
            sequence: sequence + 1,
            taken: sequence + 1,
            half,
            page,
            fresh: vec![0; words],
            own: vec![0; words],
            ..State::default()
        };
        self.durable.store(sequence + 1, Ordering::Release);
        let open = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        let _ = self.running.set(Running { area, open });
        Ok(())
    }

    /// Takes note that what was stored cannot be made to persist from now on.
    pub(super) fn fail(&self) {
        self.state().has_failed = true;
    }

    /// Returns whether checkpoints have begun.
    pub fn is_running(&self) -> bool {
        self.running.get().is_some()
    }

    /// Pages from which on a transaction ought to end: no step of it changes more than twice as many.
    pub(super) fn enough_pages(&self) -> Option<usize> {
        self.running.get().map(|running| running.area.half as usize / 4)
    }

    /// Returns the number of the last checkpoint that persists.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// The number of the next one: what is changed now persists with that.
    pub(super) fn next(&self) -> u64 {
        self.state().taken + 1
    }

    /// Returns whether a power failure now would take any change back.
    pub fn is_needed(&self) -> bool {
        self.is_running() && !self.state().touched.is_empty()
    }

    /// Frames that were free get a use.
    pub(super) fn taken(&self, first: Pfn, count: u64) {
        if self.is_running() {
            let mut state = self.state();
            for frame in first.0..first.0 + count {
                state.fresh[frame as usize / 64] |= 1 << (frame % 64);
            }
        }
    }

    /// Says that pages are the store's own: they are saved together.
    pub fn own(&self, pages: impl Iterator<Item = u64>) {
        if self.is_running() {
            let mut state = self.state();
            for page in pages {
                state.own[page as usize / 64] |= 1 << (page % 64);
            }
        }
    }

    /// Saves pages of the store before they change. Must be called before words of the store's own pages are stored:
    #[inline]
    pub fn before_change(&self, memory: &impl PersistentMemory, pages: impl Iterator<Item = u64>) {
        let Some(running) = self.running.get() else { return };
        let is_open =
            |page: u64| running.open[page as usize / 64].load(Ordering::Relaxed) >> (page % 64) & 1 != 0;
        let closed: Vec<u64> = pages.filter(|&page| !is_open(page)).collect();
        if !closed.is_empty() {
            self.open(memory, running, closed);
        }
    }

    #[cold]
    fn open(&self, memory: &impl PersistentMemory, running: &Running, mut pages: Vec<u64>) {
        pages.sort_unstable();
        pages.dedup();
        let mut may_help = true;
        loop {
            let mut state = self.state();
            // The next checkpoint has an image of each of them.
            let touched = (state.touched.len() + pages.len()) as u64;
            if touched > running.area.most_touched() && may_help && !state.has_failed {
                may_help = false;
                drop(state);
                let _ = self.checkpoint(memory, None);
                continue;
            }
            let is_cold = |page: &&u64| !state.is_fresh(**page) && !state.saved.contains(page);
            let mut cold: Vec<u64> = pages.iter().filter(is_cold).copied().collect();
            if !cold.is_empty() && !state.has_failed {
                if state.is_in_flight() {
                    // An image would have to lie in both halves.
                    drop(self.landed.wait(state));
                    continue;
                }
                let room = running.area.half - state.page;
                let needed = |images: usize| head_pages(images) + images as u64;
                if needed(cold.len()) > room {
                    if may_help {
                        may_help = false;
                        drop(state);
                        let _ = self.checkpoint(memory, None);
                        continue;
                    }
                    // No half has room for so many pages.
                    state.has_failed = true;
                    continue;
                }
                let last = *cold.last().expect("not empty");
                let most = SAVED_TOGETHER.min((room as usize).saturating_sub(2)).max(cold.len());
                let fewer = if needed(most) > room { cold.len() } else { most };
                state.own_behind(last, fewer, &mut cold);
                let images: Vec<_> = cold.iter().map(|&page| (page, image(memory, page))).collect();
                let place = (running.area, state.half, state.page);
                match write_images(memory, place, (state.sequence, memory.identity()), &images) {
                    Ok(page) => state.page = page,
                    Err(NotPersistent) => state.has_failed = true,
                }
                state.saved.extend(cold);
            }
            let taken = state.taken;
            for page in pages {
                state.touched.insert(page);
                state.recent.insert(page, taken);
                state.own[page as usize / 64] |= 1 << (page % 64);
                running.open[page as usize / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
            }
            return;
        }
    }

    /// Takes note that other code changes a page from now on, and does not say when.
    pub fn hold(&self, memory: &impl PersistentMemory, page: u64) {
        if self.is_running() {
            self.before_change(memory, std::iter::once(page));
            self.state().held.insert(page);
        }
    }

    /// Makes a checkpoint: what was stored before persists when this returns. `held` says which pages others change,
    /// if the caller knows that better than [`Checkpoints::hold`].
    ///
    /// No transaction may be applied while it begins; `begun` is called when one may.
    ///
    /// # Errors
    ///
    /// [`NotPersistent`], from then on always.
    pub fn checkpoint_then(
        &self,
        memory: &impl PersistentMemory,
        held: Option<FxHashSet<u64>>,
        begun: impl FnOnce(),
    ) -> Result<(), NotPersistent> {
        let Some(running) = self.running.get() else {
            begun();
            return memory.persist(0, memory.bytes());
        };
        let mut state = self.state();
        while state.is_in_flight() && !state.has_failed {
            state = self.landed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if state.has_failed {
            return Err(NotPersistent);
        }
        if let Some(held) = held {
            state.held = held;
        }
        let (taken, most) = (state.taken, running.area.half / 4);
        state.recent.retain(|_, touched| *touched + KEPT_FOR >= taken);
        let mut pages: Vec<u64> = state.touched.union(&state.held).copied().collect();
        let room = MOST_KEPT.min((most as usize).saturating_sub(pages.len()));
        let is_kept = |page: &&u64| {
            state.saved.contains(page) && !state.touched.contains(page) && !state.held.contains(page)
        };
        let mut kept: Vec<u64> = state.recent.keys().filter(is_kept).copied().collect();
        kept.sort_unstable_by_key(|page| (std::cmp::Reverse(state.recent[page]), *page));
        pages.extend(kept.into_iter().take(room));
        pages.sort_unstable();
        let images: Vec<_> = pages.iter().map(|&page| (page, image(memory, page))).collect();
        state.touched.drain().for_each(|page| {
            running.open[page as usize / 64].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
        });
        state.fresh.fill(0);
        state.saved = pages.into_iter().collect();
        // The code that holds them does not ask.
        state.touched = state.held.clone();
        state.taken += 1;
        let (sequence, half) = (state.taken, 1 - state.half);
        drop(state);
        begun();
        let written = memory.persist(0, running.area.first * PAGE_BYTES).and_then(|()| {
            write_images(memory, (running.area, half, 0), (sequence, memory.identity()), &images)
        });
        let mut state = self.state();
        match written {
            Ok(page) => {
                (state.sequence, state.half, state.page) = (sequence, half, page);
                self.durable.store(sequence, Ordering::Release);
            }
            Err(NotPersistent) => state.has_failed = true,
        }
        self.landed.notify_all();
        written.map(|_| ())
    }

    /// Makes a checkpoint like [`Checkpoints::checkpoint`], where no transaction can be begun meanwhile anyway.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn checkpoint(
        &self,
        memory: &impl PersistentMemory,
        held: Option<FxHashSet<u64>>,
    ) -> Result<(), NotPersistent> {
        self.checkpoint_then(memory, held, || {})
    }

    /// Ends the checkpoints: everything persists in its place, and nothing is undone when the store is opened next.
    /// Nothing may be changed behind this.
    ///
    /// # Errors
    ///
    /// [`NotPersistent`].
    pub fn end(&self, memory: &impl PersistentMemory) -> Result<(), NotPersistent> {
        self.checkpoint(memory, None)?;
        match self.running.get() {
            Some(running) => end_at(memory, running.area),
            None => Ok(()),
        }
    }
}

fn image(memory: &impl PersistentMemory, page: u64) -> Box<[u8]> {
    // Others may store words there meanwhile, each of them whole.
    let words =
        (0..PAGE_BYTES).step_by(8).flat_map(|offset| memory.load(page * PAGE_BYTES + offset).to_le_bytes());
    words.collect()
}
