//! Pages of a partition that all move by the same distance: what is behind a range that goes, or behind one that comes.
//!
//! ```text
//!  collapse  | kept | range | behind ...   |     ->   | kept | behind ...   |
//!  insert    | kept | behind ... |               ->   | kept | hole  | behind ... |
//! ```
//!
//! Where the distance is a multiple of 2 MiB, entries of 2 MiB move: one word for each. Otherwise every table of 4 KiB entries is written
//! anew, beside the log, in a frame that no walk reaches before the transaction counts; the log has the entry that leads to the
//! table. No byte of a page is copied, and all of the shift is one transaction.

use std::ops::ControlFlow;

use super::error::StoreError;
use super::mapping::{Pages, Persistent};
use super::memory::{PersistentMemory, Remapped};
use super::store::Transaction;
use crate::addr::{Pfn, PhysAddr, Vpn};
use crate::table::{Entry, Geometry, Leaf};

/// Pages of a table of 4 KiB entries.
const CHUNK_PAGES: u64 = 512;
/// Words of the log that one table of entries takes at most: its entry, the bits of the old and the new frame, and what new
/// tables above take.
const MOST_WORDS_OF_A_CHUNK: u64 = 16;

/// The target of an entry of 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chunk {
    Empty,
    Large(Pfn),
    Table(Pfn),
}

/// Frames of the pages of a chunk, by their order.
type Frames = [Option<Pfn>; CHUNK_PAGES as usize];

impl<M: PersistentMemory> Transaction<'_, M> {
    /// Takes so many pages out of a range: their frames are given back, what lies behind them moves to their place, and as many pages
    /// at the end of the range are holes afterwards.
    ///
    /// # Errors
    ///
    /// The log has no room for that, there is no frame for a table, or the range is empty or shorter than what is taken out; the
    /// transaction is not to be committed then.
    pub fn collapse(&mut self, start: Vpn, end: Vpn, pages: u64) -> Result<(), StoreError> {
        let taken_out = Vpn(start.0.checked_add(pages).ok_or(StoreError::Range)?);
        if pages == 0 || taken_out > end {
            return Err(StoreError::Range);
        }
        for border in [start, taken_out] {
            self.split_around(border)?;
        }
        if self.unmap(start, taken_out) < taken_out {
            return Err(self.log_full().into());
        }
        let chunks = start.0 / CHUNK_PAGES..end.0.div_ceil(CHUNK_PAGES);
        let source = |page: u64| Some(page + pages).filter(|&page| page < end.0);
        for chunk in chunks {
            self.shift_chunk(chunk, (start.0, end.0), &source)?;
        }
        self.remapped.push(Remapped::Changed { first: start, pages: end.0 - start.0 });
        Ok(())
    }

    /// Puts a hole of so many pages into a range: what lies there moves behind the hole. The last pages of the range must be holes, as
    /// many as are put in.
    ///
    /// # Errors
    ///
    /// As [`Transaction::collapse`]; [`StoreError::Range`] also if something lies in the last pages.
    pub fn insert(&mut self, start: Vpn, end: Vpn, pages: u64) -> Result<(), StoreError> {
        let behind = start.0.checked_add(pages).ok_or(StoreError::Range)?;
        if pages == 0 || behind > end.0 {
            return Err(StoreError::Range);
        }
        let last = Pages(self.memory()).scan(Vpn(end.0 - pages)..end, &mut |_, frame| match frame {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        });
        if last.is_break() {
            return Err(StoreError::Range);
        }
        self.split_around(start)?;
        let chunks = start.0 / CHUNK_PAGES..end.0.div_ceil(CHUNK_PAGES);
        let source = |page: u64| page.checked_sub(pages).filter(|&page| page >= start.0);
        for chunk in chunks.rev() {
            self.shift_chunk(chunk, (start.0, end.0), &source)?;
        }
        self.remapped.push(Remapped::Changed { first: start, pages: end.0 - start.0 });
        Ok(())
    }

    /// A large page that begins before a page and ends behind the page becomes small ones.
    fn split_around(&mut self, page: Vpn) -> Result<(), StoreError> {
        let is_inside = !page.0.is_multiple_of(CHUNK_PAGES);
        if is_inside && self.find(page).is_some_and(|mapped| mapped.large) {
            self.split(page)
        } else {
            Ok(())
        }
    }

    /// Returns the address of a chunk's entry, if there is a table for it.
    fn chunk_entry(&self, chunk: u64) -> Option<PhysAddr> {
        let page = Vpn(chunk * CHUNK_PAGES);
        let mut node = self.table_root();
        for level in (2..Persistent::LEVELS).rev() {
            let at = node.addr().0 + 8 * (page.0 / Persistent::leaf_pages(level) % CHUNK_PAGES);
            let Entry::Table(next) = Persistent::decode(self.load(at), level) else { return None };
            node = next;
        }
        Some(node.addr().add(8 * (chunk % CHUNK_PAGES)))
    }

    fn chunk(&self, chunk: u64) -> Chunk {
        let Some(at) = self.chunk_entry(chunk) else { return Chunk::Empty };
        match Persistent::decode(self.load(at.0), 1) {
            Entry::Empty => Chunk::Empty,
            Entry::Leaf(leaf) => Chunk::Large(leaf.frame),
            Entry::Table(node) => Chunk::Table(node),
        }
    }

    fn frame_in(&self, chunk: Chunk, page: u64) -> Option<Pfn> {
        let inside = page % CHUNK_PAGES;
        match chunk {
            Chunk::Empty => None,
            Chunk::Large(frame) => Some(frame.add(inside)),
            Chunk::Table(node) => match Persistent::decode(self.load(node.addr().0 + 8 * inside), 0) {
                Entry::Leaf(leaf) => Some(leaf.frame),
                _ => None,
            },
        }
    }

    /// Lets the pages of a chunk that lie in the range be what their sources are. Chunks are shifted in an order in which no source has
    /// been shifted before.
    fn shift_chunk(
        &mut self,
        chunk: u64,
        (start, end): (u64, u64),
        source: &impl Fn(u64) -> Option<u64>,
    ) -> Result<(), StoreError> {
        if self.room() < MOST_WORDS_OF_A_CHUNK {
            return Err(self.log_full().into());
        }
        let (first, behind) = (chunk * CHUNK_PAGES, (chunk + 1) * CHUNK_PAGES);
        let old = self.chunk(chunk);
        let is_whole = start <= first && behind <= end;
        let of_first = source(first).filter(|page| page.is_multiple_of(CHUNK_PAGES));
        if let Some(from) = of_first.filter(|from| is_whole && from + CHUNK_PAGES <= end) {
            // All of it moves by its entry. The source has nothing afterwards, so that a table belongs to one chunk at any time.
            let from = from / CHUNK_PAGES;
            let moved = self.chunk(from);
            if moved != Chunk::Empty {
                let at = self.chunk_entry(from).expect("it leads somewhere");
                self.set(at.0, 0);
            }
            return self.replace_chunk(chunk, old, moved);
        }
        let mut frames: Frames = [None; CHUNK_PAGES as usize];
        let mut known = None;
        for page in first..behind {
            let from = if (start..end).contains(&page) { source(page) } else { Some(page) };
            let Some(from) = from else { continue };
            let number = from / CHUNK_PAGES;
            let of_source = match known {
                Some((known, chunk)) if known == number => chunk,
                _ => self.chunk(number),
            };
            known = Some((number, of_source));
            frames[(page - first) as usize] = self.frame_in(of_source, from);
        }
        let new = self.make_chunk(&frames, is_whole)?;
        self.replace_chunk(chunk, old, new)
    }

    /// Makes an entry for these frames: empty, a table that is written now, or a large page where the frames are one
    /// and the chunk lies in one partition.
    fn make_chunk(&mut self, frames: &Frames, may_be_large: bool) -> Result<Chunk, StoreError> {
        if frames.iter().all(Option::is_none) {
            return Ok(Chunk::Empty);
        }
        if let Some(first) = frames[0].filter(|first| may_be_large && first.0.is_multiple_of(CHUNK_PAGES))
            && (0..).zip(frames).all(|(number, frame)| *frame == Some(first.add(number)))
        {
            return Ok(Chunk::Large(first));
        }
        let node = self.take_frames(0)?;
        let memory = self.memory();
        memory.clear_frame(node);
        for (number, frame) in (0..).zip(frames) {
            if let Some(frame) = frame {
                memory.store(node.addr().0 + 8 * number, Persistent::leaf(Leaf::data(*frame), 0));
            }
        }
        memory.flush(node.addr().0, 8 * CHUNK_PAGES);
        Ok(Chunk::Table(node))
    }

    /// Lets the entry of a chunk lead elsewhere. A table that it led to until now is free.
    fn replace_chunk(&mut self, chunk: u64, old: Chunk, new: Chunk) -> Result<(), StoreError> {
        if old == Chunk::Empty && new == Chunk::Empty {
            return Ok(());
        }
        let at = self.table().entry(self, Vpn(chunk * CHUNK_PAGES), 1)?;
        let word = match new {
            Chunk::Empty => 0,
            Chunk::Large(frame) => Persistent::leaf(Leaf::data(frame), 1),
            Chunk::Table(node) => Persistent::table(node),
        };
        if let Chunk::Table(node) = old {
            self.give_frames(node, 1);
        }
        self.set(at.0, word);
        Ok(())
    }
}
