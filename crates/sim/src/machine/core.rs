//! What a core has of its own: TLBs, walk caches, and the front filter.

use pagewalk_vm::addr::{Asid, PageSize, Pfn, Vpn};
use pagewalk_vm::table::WalkCache;
use pagewalk_vm::tlb::{Tlb, TlbArray, Tlbs, Translation};

/// A core's translation hardware.
pub(super) struct Core {
    pub(super) tlbs: Tlbs,
    pub(super) walk_cache: Option<WalkCache>,
    pub(super) front: FrontFilter,
    /// Accesses that took the slow path: all others are known hits of the first level.
    pub(super) looked_up: u64,
    /// All accesses of this core.
    pub(super) accesses: u64,
}

impl Core {
    pub(super) fn new(tlbs: Tlbs, walk_cache: Option<WalkCache>) -> Self {
        let front = FrontFilter::new(tlbs.levels().first());
        Self { tlbs, walk_cache, front, looked_up: 0, accesses: 0 }
    }

    /// Forgets one page's translation.
    pub(super) fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.tlbs.invalidate(asid, vpn);
        self.front.flush();
    }

    /// Forgets an address space's translations.
    pub(super) fn flush(&mut self, asid: Asid) {
        self.tlbs.flush(Some(asid));
        self.flush_walk_cache(asid);
        self.front.flush();
    }

    pub(super) fn flush_walk_cache(&mut self, asid: Asid) {
        if let Some(cache) = &mut self.walk_cache {
            cache.flush(Some(asid));
        }
    }
}

/// The exact filter in front of a core's TLBs: the host's shortcut for references that change nothing.
///
/// Pages are divided into classes such that pages of different classes never share a set of the first level's
/// array. The filter remembers for each class the page that went through the array last. Referencing that page
/// again finds its entry where a use changes no replacement state (the most recently used of its set under LRU;
/// under FIFO and random no hit changes any; under tree-PLRU and NRU the same use has just set the same bits),
/// so the look-up is skipped and counted as a hit. A reference that another array of the level serves (a larger
/// page) does not touch this one and needs no class here.
///
/// Everything that enters the array passes the filter of its core, and every invalidation and every switch of
/// address space empties it; a test runs every policy with and without it and compares every count.
#[derive(Clone, Debug)]
pub(super) struct FrontFilter {
    slots: [Slot; Self::MOST_CLASSES],
    class_mask: usize,
    class_shift: u32,
    /// Whether the first level's array for 4 KiB pages also holds larger ones: these then empty the filter.
    shared: bool,
}

/// The last page of a class.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Page number times four, plus one if it is known to be writable and dirty; `NONE` matches no reference.
    tag: u64,
    frame: Pfn,
}

/// The class shift of a filter that never learns.
const NEVER: u32 = u32::MAX;
const NONE: Slot = Slot { tag: u64::MAX / 2, frame: Pfn(0) };

impl FrontFilter {
    const MOST_CLASSES: usize = 16;

    fn new(first_level: Option<&Tlb>) -> Self {
        let array =
            first_level.and_then(|level| level.arrays().iter().find(|array| array.holds(PageSize::Size4K)));
        let (sets, class_shift, shared) = match array {
            None => (1, 0, false),
            Some(array @ TlbArray::SetAssociative(tlb)) => {
                (tlb.sets(), 0, array.holds(PageSize::Size2M) || array.holds(PageSize::Size1G))
            }
            Some(TlbArray::Mosaic(tlb)) => (tlb.sets(), tlb.arity().trailing_zeros(), false),
        };
        let class_mask = (sets as usize).min(Self::MOST_CLASSES) - 1;
        let filter = Self { slots: [NONE; Self::MOST_CLASSES], class_mask, class_shift, shared };
        if array.is_some() { filter } else { Self::never() }
    }

    /// A filter that never learns: for a core without a TLB, where nothing ever hits.
    pub(super) fn never() -> Self {
        Self { slots: [NONE; Self::MOST_CLASSES], class_mask: 0, class_shift: NEVER, shared: false }
    }

    /// The frame of `vpn` if a reference to it is known to change nothing.
    #[inline(always)]
    pub(super) fn lookup(&self, vpn: Vpn, write: bool) -> Option<Pfn> {
        let slot = &self.slots[self.class(vpn)];
        // Equal, or a load of a page that is known to be dirty. A store's wanted tag is odd, and tags with other
        // low bits do not exist, so one comparison decides.
        (slot.tag.wrapping_sub(vpn.0 << 2 | u64::from(write)) <= 1).then_some(slot.frame)
    }

    #[inline(always)]
    fn class(&self, vpn: Vpn) -> usize {
        (vpn.0 >> (self.class_shift & 63)) as usize & self.class_mask
    }

    /// Learns that `vpn` went through the first level with this translation.
    #[inline]
    pub(super) fn learn(&mut self, vpn: Vpn, translation: Translation) {
        if self.class_shift == NEVER {
            return;
        }
        if translation.size() == PageSize::Size4K {
            let dirty = translation.is_writable() && translation.is_dirty();
            self.slots[self.class(vpn)] =
                Slot { tag: vpn.0 << 2 | u64::from(dirty), frame: translation.frame() };
        } else if self.shared {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        self.slots = [NONE; Self::MOST_CLASSES];
    }
}
