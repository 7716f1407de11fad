//! A heap in two halves, one of which is empty: objects are allocated one behind the other, and when there is no more room,
//! those that can be reached are copied to the other half (Cheney, CACM 1970).
//!
//! ```text
//!   word 0      identity << 1, or, once copied, the copy << 1 | 1
//!   word 1      how many fields, in 4 bytes, and 4 bytes that a class would take
//!   word 2...   references
//! ```

use super::sites;
use crate::emit::{Emitter, Stop};
use crate::random::mix;
use crate::space::AddressSpace;
use crate::traced::Traced;
use pagewalk_vm::addr::PAGE_BYTES;

/// A reference: the number of the object's first word, counted over both halves.
pub(crate) type Object = usize;

/// No object: halves begin with a gap.
pub(crate) const NULL: Object = 0;
const GAP_WORDS: usize = 2;
/// Words before the fields.
pub(crate) const HEADER_WORDS: usize = 2;
const WORD_BYTES: u64 = 8;

/// Instructions per object allocated; per reference that the collector looks at, per root and per field that holds one; per
/// object copied, and per word of it; per copy searched for references.
pub(super) const ALLOCATE_INSTRUCTIONS: u64 = 9;
pub(super) const FORWARD_INSTRUCTIONS: u64 = 5;
pub(super) const ROOT_INSTRUCTIONS: u64 = 6;
pub(super) const REFERENCE_INSTRUCTIONS: u64 = 10;
pub(super) const COPY_INSTRUCTIONS: u64 = 13;
pub(super) const WORD_INSTRUCTIONS: u64 = 5;
pub(super) const SCAN_INSTRUCTIONS: u64 = 7;

pub(crate) struct Heap {
    words: Traced<u64, WORD_BYTES>,
    half_words: usize,
    /// Of the half in use, where it begins and where free memory does.
    start: usize,
    top: usize,
}

/// What the place of objects does not change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reachable {
    objects: u64,
    words: usize,
    mixed: u64,
}

impl Reachable {
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    pub(crate) fn words(&self) -> usize {
        self.words
    }
}

impl Heap {
    /// What a half for `bytes` takes.
    pub(crate) fn half_bytes(bytes: u64) -> u64 {
        bytes.next_multiple_of(PAGE_BYTES)
    }

    pub(crate) fn new(half_bytes: u64, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        let half_words = (half_bytes / WORD_BYTES) as usize;
        let words = Traced::mapped(2 * half_words, 0, space, out);
        Self { words, half_words, start: 0, top: GAP_WORDS }
    }

    /// Words that are free.
    pub(crate) fn room(&self) -> usize {
        self.start + self.half_words - self.top
    }

    /// Words of all objects, garbage included.
    pub(crate) fn used_words(&self) -> usize {
        self.top - self.start - GAP_WORDS
    }

    /// A new object, whose fields the caller sets; there must be room.
    pub(crate) fn allocate(
        &mut self,
        identity: u64,
        fields: usize,
        out: &mut Emitter<'_>,
    ) -> Result<Object, Stop> {
        debug_assert!(self.room() >= HEADER_WORDS + fields, "no room for {fields} fields");
        out.block(&sites::ALLOCATE)?;
        let object = self.top;
        self.top += HEADER_WORDS + fields;
        self.words.store(object, identity << 1, out)?;
        self.words.store(object + 1, fields as u64, out)?;
        Ok(object)
    }

    #[inline(always)]
    pub(crate) fn identity(&self, object: Object, out: &mut Emitter<'_>) -> Result<u64, Stop> {
        Ok(self.words.load(object, out)? >> 1)
    }

    /// How many fields an object has.
    #[inline(always)]
    pub(crate) fn fields(&self, object: Object, out: &mut Emitter<'_>) -> Result<usize, Stop> {
        Ok(self.words.load_part(object + 1, 0, 4, out)? as usize)
    }

    #[inline(always)]
    pub(crate) fn get(&self, object: Object, field: usize, out: &mut Emitter<'_>) -> Result<Object, Stop> {
        Ok(self.words.load(object + HEADER_WORDS + field, out)? as Object)
    }

    #[inline(always)]
    pub(crate) fn set(
        &mut self,
        object: Object,
        field: usize,
        target: Object,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        self.words.store(object + HEADER_WORDS + field, target as u64, out)
    }

    /// Copies what can be reached from `roots` to the other half, and changes all references.
    pub(crate) fn collect(
        &mut self,
        roots: &mut Traced<Object, 8>,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        self.start = self.half_words - self.start;
        self.top = self.start + GAP_WORDS;
        for root in 0..roots.len() {
            out.work(ROOT_INSTRUCTIONS);
            out.enter(&sites::ROOT)?;
            let object = roots.load(root, out)?;
            let copy = self.forward(object, out)?;
            out.enter(&sites::SET_ROOT)?;
            roots.store(root, copy, out)?;
        }
        // Copies up to `scan` refer to copies only; all are copied when it meets the end.
        let mut scan = self.start + GAP_WORDS;
        while scan < self.top {
            out.block(&sites::SCAN)?;
            let fields = self.fields(scan, out)?;
            for field in 0..fields {
                out.work(REFERENCE_INSTRUCTIONS);
                out.enter(&sites::REFERENCE)?;
                let object = self.get(scan, field, out)?;
                if object != NULL {
                    let copy = self.forward(object, out)?;
                    out.enter(&sites::SET_REFERENCE)?;
                    self.set(scan, field, copy, out)?;
                }
                out.enter(&sites::NEXT_REFERENCE)?;
            }
            scan += HEADER_WORDS + fields;
        }
        Ok(())
    }

    /// An object's copy, made now if there is none yet.
    #[inline(always)]
    fn forward(&mut self, object: Object, out: &mut Emitter<'_>) -> Result<Object, Stop> {
        out.block(&sites::FORWARD)?;
        let mark = self.words.load(object, out)?;
        if mark & 1 == 1 {
            return Ok((mark >> 1) as Object);
        }
        let copy = self.top;
        out.enter(&sites::BEGIN_COPY)?;
        let words = HEADER_WORDS + self.fields(object, out)?;
        out.work(COPY_INSTRUCTIONS + WORD_INSTRUCTIONS * words as u64);
        for word in 0..words {
            out.enter(&sites::COPY_WORD)?;
            let content = self.words.load(object + word, out)?;
            self.words.store(copy + word, content, out)?;
        }
        self.top += words;
        out.enter(&sites::MOVED)?;
        self.words.store(object, (copy as u64) << 1 | 1, out)?;
        Ok(copy)
    }

    /// What can be reached, without events: objects by their identities, with those of all they refer to.
    pub(crate) fn reachable(&self, roots: &[Object]) -> Reachable {
        let words = self.words.untraced();
        let identity = |object: Object| if object == NULL { u64::MAX } else { words[object] };
        let mut reachable = Reachable::default();
        let mut seen = vec![0u64; words.len().div_ceil(64)];
        let mut waiting = Vec::new();
        let mut reach = |object: Object, waiting: &mut Vec<Object>| {
            let bit = 1 << (object % 64);
            if object != NULL && seen[object / 64] & bit == 0 {
                seen[object / 64] |= bit;
                waiting.push(object);
            }
        };
        for (root, &object) in roots.iter().enumerate() {
            reachable.mixed = reachable.mixed.wrapping_add(mix(mix(root as u64) ^ identity(object)));
            reach(object, &mut waiting);
        }
        while let Some(object) = waiting.pop() {
            let fields = words[object + 1] as usize;
            let mut hash = mix(words[object] ^ mix(fields as u64));
            for &target in &words[object + HEADER_WORDS..object + HEADER_WORDS + fields] {
                hash = mix(hash ^ identity(target as Object));
                reach(target as Object, &mut waiting);
            }
            reachable.objects += 1;
            reachable.words += HEADER_WORDS + fields;
            reachable.mixed = reachable.mixed.wrapping_add(hash);
        }
        reachable
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn rings_and_shared_objects_are_copied_once_and_changes_are_seen() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut heap = Heap::new(PAGE_BYTES, &mut space, &mut out);
        let [a, b, garbage, c] =
            [10, 11, 12, 13].map(|identity| heap.allocate(identity, 2, &mut out).unwrap());
        for (object, targets) in [(a, [b, c]), (b, [c, a]), (c, [c, NULL]), (garbage, [a, b])] {
            for (field, target) in targets.into_iter().enumerate() {
                heap.set(object, field, target, &mut out).unwrap();
            }
        }
        let mut roots = Traced::local(vec![c, a], &mut space);
        let before = heap.reachable(roots.untraced());
        assert_eq!((before.objects(), before.words(), heap.used_words()), (3, 12, 16));
        // There and back.
        for _ in 0..2 {
            heap.collect(&mut roots, &mut out).unwrap();
            assert_eq!(heap.reachable(roots.untraced()), before);
            assert_eq!(heap.used_words(), 12);
        }
        // Same objects, another shape; or the roots exchanged.
        let a = roots.untraced()[1];
        let (b, c) = (heap.get(a, 0, &mut out).unwrap(), heap.get(a, 1, &mut out).unwrap());
        heap.set(a, 0, c, &mut out).unwrap();
        heap.set(a, 1, b, &mut out).unwrap();
        assert_ne!(heap.reachable(roots.untraced()), before);
        heap.set(a, 0, b, &mut out).unwrap();
        heap.set(a, 1, c, &mut out).unwrap();
        assert_eq!(heap.reachable(roots.untraced()), before);
        roots.untraced_mut().swap(0, 1);
        assert_ne!(heap.reachable(roots.untraced()), before);
    }
}
