//! Memory that remembers what was done to it, for tests of what a crash leaves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::checkpoint::{Checkpoints, NotPersistent};
use super::memory::PersistentMemory;
use crate::addr::PAGE_BYTES;
use crate::random::{SplitMix64, mix};

/// The contents of a memory.
pub type Image = Vec<u8>;

const PAGE: usize = PAGE_BYTES as usize;

/// The contents of a memory in pages, which copies of it share until one of them writes there: of thousands that a crash may
/// leave each differs in a few words.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<Arc<[u8; PAGE]>>);

impl From<Image> for Snapshot {
    fn from(image: Image) -> Self {
        let (pages, rest) = image.as_chunks();
        assert!(rest.is_empty(), "whole pages");
        Self(pages.iter().map(|&page| Arc::new(page)).collect())
    }
}

impl Snapshot {
    fn bytes(&self) -> usize {
        self.0.len() * PAGE
    }

    fn word(&self, at: u64) -> [u8; 8] {
        let (page, offset) = (at as usize / PAGE, at as usize % PAGE);
        self.0[page][offset..offset + 8].try_into().expect("eight bytes")
    }

    fn set_word(&mut self, at: u64, word: [u8; 8]) {
        let (page, offset) = (at as usize / PAGE, at as usize % PAGE);
        Arc::make_mut(&mut self.0[page])[offset..offset + 8].copy_from_slice(&word);
    }

    /// The parts of a range that lie in one page each: page, offset there, offset in the range, bytes.
    fn parts(at: u64, bytes: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let place = at as usize + done;
            let part = (bytes - done).min(PAGE - place % PAGE);
            let item = (place / PAGE, place % PAGE, done, part);
            done += part;
            (part > 0).then_some(item)
        })
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        for (page, offset, from, bytes) in Self::parts(at, into.len()) {
            into[from..from + bytes].copy_from_slice(&self.0[page][offset..offset + bytes]);
        }
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        for (page, offset, from, bytes) in Self::parts(at, data.len()) {
            Arc::make_mut(&mut self.0[page])[offset..offset + bytes]
                .copy_from_slice(&data[from..from + bytes]);
        }
    }
}

/// Contents that are changed word by word, and a number that depends on all of them and not on the way to them.
#[derive(Clone)]
struct Known {
    contents: Snapshot,
    number: u64,
}

impl Known {
    fn set(&mut self, at: u64, word: [u8; 8]) {
        let old = self.contents.word(at);
        if old != word {
            let number = |word| mix(mix(at) ^ u64::from_le_bytes(word));
            self.number ^= number(old) ^ number(word);
            self.contents.set_word(at, word);
        }
    }
}

/// The most choices of stores that are all made.
const MOST_CHOICES: u64 = 1 << 8;
/// The number of stores from which only some are persisted alone, or left out.
const MOST_ALONE: usize = 128;

/// Memory that records every store of a word, flush and fence.
#[derive(Debug)]
pub struct Recording {
    contents: RefCell<Snapshot>,
    events: RefCell<Vec<Event>>,
    is_on: RefCell<bool>,
    /// Numbers of what was visited since the recording began.
    visited: RefCell<FxHashSet<u64>>,
    /// The checkpoints where fences do not wait, and the identity of what the contents are in.
    checkpoints: Option<(Checkpoints, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Store { at: u64, word: [u8; 8] },
    Flush { at: u64, bytes: u64 },
    Fence,
}

/// The unit that persists by itself: a word of a cache line that is written back, or a page of a page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// Each word of eight bytes, any of its values since it last persisted for sure.
    Word,
    /// Each page of 4 KiB, whole or up to some word of it.
    Page,
}

impl Recording {
    /// Creates a memory with these contents, whole pages.
    pub fn new(contents: impl Into<Snapshot>) -> Self {
        let contents = RefCell::new(contents.into());
        let (events, visited) = (RefCell::default(), RefCell::default());
        Self { contents, events, is_on: RefCell::new(false), visited, checkpoints: None }
    }

    /// Creates a memory with these contents in which only [`PersistentMemory::persist`] waits, with the identity of
    /// what the contents are in.
    pub fn with_checkpoints(contents: impl Into<Snapshot>, identity: u64) -> Self {
        Self { checkpoints: Some((Checkpoints::default(), identity)), ..Self::new(contents) }
    }

    /// Begins a recording from what is there now, all of which persists.
    pub fn begin(&self) -> Snapshot {
        *self.is_on.borrow_mut() = true;
        self.events.borrow_mut().clear();
        self.visited.borrow_mut().clear();
        self.contents.borrow().clone()
    }

    /// Returns the contents of the memory now.
    pub fn image(&self) -> Image {
        let contents = self.contents.borrow();
        let mut image = vec![0; contents.bytes()];
        contents.read(0, &mut image);
        image
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let mut contents = self.contents.borrow_mut();
        contents.write(at, bytes);
        if *self.is_on.borrow() {
            let mut events = self.events.borrow_mut();
            let (first, end) = (at & !7, (at + bytes.len() as u64).next_multiple_of(8));
            for at in (first..end).step_by(8) {
                events.push(Event::Store { at, word: contents.word(at) });
            }
        }
    }

    /// Returns the images that a crash may leave, for crashes at every fence and at the end: All choices are made if
    /// there are at most 256; otherwise each alone and each left out, or an even choice of 128 of them, and `some`
    /// at random. What was visited since the recording began is not visited again. Stops when `visit` says so.
    pub fn crashes(
        &self,
        before: &Snapshot,
        grain: Grain,
        some: u64,
        seed: u64,
        visit: &mut dyn FnMut(Snapshot) -> bool,
    ) {
        let mut random = SplitMix64::new(seed);
        let mut durable = Known { contents: before.clone(), number: 0 };
        let mut visited = self.visited.borrow_mut();
        let mut visit_new = |known: Known| !visited.insert(known.number) || visit(known.contents);
        // Stores that may persist, in their order, and whether each was flushed.
        let mut pending: Vec<(u64, [u8; 8], bool)> = Vec::new();
        let events = self.events.borrow();
        for event in events.iter().chain([&Event::Fence]) {
            match *event {
                Event::Store { at, word } => pending.push((at, word, false)),
                Event::Flush { at, bytes } => {
                    let range = at & !63..(at + bytes).next_multiple_of(64);
                    pending.iter_mut().filter(|(at, ..)| range.contains(at)).for_each(|store| store.2 = true);
                }
                Event::Fence => {
                    let units = units_of(&pending, grain);
                    if !choose(&units, &durable, some, &mut random, &mut visit_new) {
                        return;
                    }
                    for (at, word, _) in pending.extract_if(.., |store| store.2) {
                        durable.set(at, word);
                    }
                }
            }
        }
    }
}

/// Stores that persist one after the other, or not: of a word, or of a page.
fn units_of(pending: &[(u64, [u8; 8], bool)], grain: Grain) -> Vec<Vec<(u64, [u8; 8])>> {
    let unit_bytes = match grain {
        Grain::Word => 8,
        Grain::Page => PAGE_BYTES,
    };
    let mut units: BTreeMap<u64, Vec<(u64, [u8; 8])>> = BTreeMap::new();
    for &(at, word, _) in pending {
        units.entry(at / unit_bytes).or_default().push((at, word));
    }
    units.into_values().collect()
}

fn choose(
    units: &[Vec<(u64, [u8; 8])>],
    durable: &Known,
    some: u64,
    random: &mut SplitMix64,
    visit: &mut dyn FnMut(Known) -> bool,
) -> bool {
    // How many of each unit's stores persist.
    let mut with = |counts: &[usize]| {
        let mut left = durable.clone();
        for (unit, &count) in units.iter().zip(counts) {
            for &(at, word) in &unit[..count] {
                left.set(at, word);
            }
        }
        visit(left)
    };
    let none = vec![0; units.len()];
    let all: Vec<usize> = units.iter().map(Vec::len).collect();
    let choices = all.iter().try_fold(1u64, |product, &count| {
        product.checked_mul(count as u64 + 1).filter(|&product| product <= MOST_CHOICES)
    });
    if let Some(choices) = choices {
        return (0..choices).all(|mut choice| {
            let counts: Vec<usize> = all
                .iter()
                .map(|&count| {
                    let taken = choice % (count as u64 + 1);
                    choice /= count as u64 + 1;
                    taken as usize
                })
                .collect();
            with(&counts)
        });
    }
    if !with(&none) || !with(&all) {
        return false;
    }
    for at in (0..units.len()).step_by(units.len().div_ceil(MOST_ALONE)) {
        let (mut alone, mut left_out) = (none.clone(), all.clone());
        (alone[at], left_out[at]) = (all[at], 0);
        if !with(&alone) || !with(&left_out) {
            return false;
        }
    }
    (0..some).all(|_| {
        let counts: Vec<usize> = all.iter().map(|&count| random.below(count as u64 + 1) as usize).collect();
        with(&counts)
    })
}

impl PersistentMemory for Recording {
    fn bytes(&self) -> u64 {
        self.contents.borrow().bytes() as u64
    }

    fn load(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.contents.borrow().word(at))
    }

    fn store(&self, at: u64, word: u64) {
        assert!(at.is_multiple_of(8), "{at:#x}");
        self.put(at, &word.to_le_bytes());
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.contents.borrow().read(at, into);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.put(at, bytes);
    }

    fn zero(&self, at: u64, bytes: u64) {
        self.put(at, &vec![0; bytes as usize]);
    }

    fn flush(&self, at: u64, bytes: u64) {
        if *self.is_on.borrow() && self.checkpoints.is_none() {
            self.events.borrow_mut().push(Event::Flush { at, bytes });
        }
    }

    fn fence(&self) {
        if *self.is_on.borrow() && self.checkpoints.is_none() {
            self.events.borrow_mut().push(Event::Fence);
        }
    }

    fn persist(&self, at: u64, bytes: u64) -> Result<(), NotPersistent> {
        if *self.is_on.borrow() {
            self.events.borrow_mut().extend([Event::Flush { at, bytes }, Event::Fence]);
        }
        Ok(())
    }

    fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_ref().map(|(checkpoints, _)| checkpoints)
    }

    fn identity(&self) -> u64 {
        self.checkpoints.as_ref().map_or(0, |(_, identity)| *identity)
    }
}
