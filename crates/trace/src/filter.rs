//! The exact filter: drops accesses that cannot change what a TLB misses.
//!
//! The filter keeps the last page of each of `S` classes of pages. An access to the last page of its class is
//! dropped: it hits the entry that its set touched last, so under LRU it changes nothing, and **misses stay
//! exactly the same**. What is dropped is counted, because each is a hit of every first-level TLB.
//!
//! That argument holds only if nothing else touched the set since. With one class (`S` = 1) the dropped access
//! follows directly on one to the same page. With 16 classes (`S` = 16), which drop more, all pages of a set must
//! be of one class: every TLB must be indexed by low bits of the page number, among them the four that form the
//! class. [`ExactFilter::new`] checks this, takes 16 classes where they are exact and 1 otherwise, and refuses
//! consumers for which neither is.
//!
//! It is for consumers that are not Pagewalk's own: a model behind a trace, a simulator fed by a library. The machines
//! and the bank of TLBs have the same rule built in, each in the form that its state allows without being told: a
//! machine's front filter remembers the frame as well and learns from what the TLB answered, so it also holds for
//! stores and large pages; the bank's stands inside its vector loop.
//!
//! The consumer must tell of everything that takes entries away or brings others in: see
//! [`ExactFilter::observe`]. In a hierarchy only the first level must meet the conditions; the levels below see
//! nothing but its misses.

use std::fmt;

use pagewalk_vm::addr::PAGE_SHIFT;

use crate::event::{Access, Event};

/// The function by which a TLB finds an entry's set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SetIndex {
    /// The page number, shifted, modulo the number of sets.
    LowBits,
    /// A hash of the page number.
    Hashed,
    /// Low bits, but of page numbers of several sizes side by side in one array.
    MixedSizes,
}

/// Replacement policies, as far as they matter here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FilterPolicy {
    /// True least recently used.
    Lru,
    /// First in, first out.
    Fifo,
    /// The pseudo-LRU policy over a tree.
    TreePlru,
    /// Not recently used; a fill sets the reference bit.
    Nru,
    /// Random, drawing on misses only.
    Random,
    /// Clock; a fill sets the reference bit.
    Clock,
    /// Clock; a fill leaves the reference bit clear, the next hit sets it.
    ClockClearOnFill,
    /// Re-reference interval prediction with promotion on a hit.
    Srrip,
    /// The least frequently used.
    Lfu,
}

impl FilterPolicy {
    /// Whether touching the entry that its set touched last changes no replacement state.
    const fn repeats_are_idle(self) -> bool {
        !matches!(self, Self::ClockClearOnFill | Self::Srrip | Self::Lfu)
    }
}

/// The properties of a first-level TLB that the filter which feeds it must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlbDescription {
    /// The name of the TLB in messages.
    pub name: String,
    /// Number of sets; 1 if fully associative.
    pub sets: u64,
    /// Ways of a set.
    pub ways: u64,
    /// The function by which a set is found.
    pub index: SetIndex,
    /// The base-2 logarithm of the bytes within which two accesses following on each other cannot differ in hit or
    /// miss:
    pub page_shift: u32,
    /// The base-2 logarithm of the bytes that an entry spans, above which the index bits lie; `page_shift` unless an
    /// entry holds several pages.
    pub index_shift: u32,
    /// The policy that chooses the entry to evict.
    pub policy: FilterPolicy,
    /// Whether anything but the accesses brings entries in: prefetches, another stream, thread or address space.
    pub other_inputs: bool,
}

impl TlbDescription {
    /// Returns an ordinary LRU TLB of pages of `1 << page_shift` bytes, indexed by low bits, fed by this stream
    /// alone.
    pub fn lru(name: &str, sets: u64, ways: u64, page_shift: u32) -> Self {
        Self {
            name: name.to_owned(),
            sets,
            ways,
            index: SetIndex::LowBits,
            page_shift,
            index_shift: page_shift,
            policy: FilterPolicy::Lru,
            other_inputs: false,
        }
    }
}

/// The policies that a filter accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    /// LRU only, for which exactness is a theorem and has been shown on real traces.
    #[default]
    LruOnly,
    /// Every policy under which a repeated touch changes no state.
    IdleRepeats,
}

/// The wishes of the consumer besides misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterOptions {
    /// Keep the first store to a page after loads of it, for dirty bits.
    pub dirty_bits: bool,
    /// The policies to accept.
    pub admission: Admission,
}

/// The reason why a consumer cannot be fed through a filter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterRefusal {
    /// The consumer has no TLB to feed.
    #[error("no TLB to filter for")]
    NoTlb,
    /// A geometry that no TLB has.
    #[error("TLB `{0}`: {1}")]
    Impossible(String, &'static str),
    /// The policy takes notice of repeated touches, or is not admitted.
    #[error("TLB `{tlb}`: filtering is not exact under {policy:?} replacement{}", if *.repeats_are_idle {
        "as far as is shown; it is allowed for Lru only"
    } else {
        ", which counts repeated touches; run it without the filter"
    })]
    Policy {
        /// The name of the TLB.
        tlb: String,
        /// The replacement policy of the TLB.
        policy: FilterPolicy,
        /// Whether only the proof on real traces is missing.
        repeats_are_idle: bool,
    },
    /// Entries come in that the filter does not see.
    #[error(
        "TLB `{0}`: prefetches, other threads or other address spaces fill it too, which the filter does not see"
    )]
    OtherInputs(String),
    /// 16 classes need low-bit indexing.
    #[error("TLB `{0}`: 16 classes are not exact with a hashed or mixed-size index; use 1 class")]
    Index(String),
    /// 16 classes need sets that hold pages of one class.
    #[error(
        "TLB `{tlb}`: 16 classes of {class_bytes} bytes are not exact with {sets} sets; the number of sets must be \
         a multiple of {multiple}; use 1 class"
    )]
    Sets {
        /// The name of the TLB.
        tlb: String,
        /// The number of the TLB's sets.
        sets: u64,
        /// Bytes of a page as the class counts them.
        class_bytes: u64,
        /// The number that would divide the sets.
        multiple: u64,
    },
}

/// The number of classes that a filter keeps apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Classes {
    /// There is one class: only an immediate repetition is dropped.
    One,
    /// There are sixteen classes.
    Sixteen,
}

impl Classes {
    /// Returns the number of classes.
    pub const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Sixteen => 16,
        }
    }
}

/// The filter, made for certain consumers.
#[derive(Clone)]
pub struct ExactFilter {
    /// The last page of each class, with the store flag in bit 0 if stores matter; `EMPTY` if there is none.
    last: [u64; 16],
    classes: Classes,
    key_shift: u32,
    class_shift: u32,
    class_mask: u64,
    dirty_bits: bool,
    dropped: u64,
    dropped_writes: u64,
}

/// No page number, with or without its store flag.
const EMPTY: u64 = u64::MAX;

impl ExactFilter {
    /// Returns the filter that drops most and is exact for all of `tlbs`.
    ///
    /// # Errors
    ///
    /// If no filter is exact for them, and why.
    pub fn new(tlbs: &[TlbDescription], options: FilterOptions) -> Result<Self, FilterRefusal> {
        Self::with_classes(tlbs, options, Classes::Sixteen).or_else(|refusal| match refusal {
            FilterRefusal::Index(_) | FilterRefusal::Sets { .. } => {
                Self::with_classes(tlbs, options, Classes::One)
            }
            final_refusal => Err(final_refusal),
        })
    }

    /// Creates a filter with this number of classes.
    ///
    /// # Errors
    ///
    /// If it is not exact for all of `tlbs`, and why.
    pub fn with_classes(
        tlbs: &[TlbDescription],
        options: FilterOptions,
        classes: Classes,
    ) -> Result<Self, FilterRefusal> {
        for tlb in tlbs {
            check_any(tlb, options.admission)?;
        }
        let key_shift = tlbs.iter().map(|tlb| tlb.page_shift).min().ok_or(FilterRefusal::NoTlb)?;
        let class_shift = tlbs.iter().map(|tlb| tlb.index_shift).max().ok_or(FilterRefusal::NoTlb)?;
        if classes == Classes::Sixteen {
            for tlb in tlbs {
                check_sixteen(tlb, class_shift)?;
            }
        }
        Ok(Self {
            last: [EMPTY; 16],
            classes,
            key_shift,
            class_shift,
            class_mask: classes.count() as u64 - 1,
            dirty_bits: options.dirty_bits,
            dropped: 0,
            dropped_writes: 0,
        })
    }

    /// Returns the number of classes that the filter keeps apart.
    pub fn classes(&self) -> Classes {
        self.classes
    }

    /// Returns whether the consumer must see `access`. Records that stand for no access are neither seen nor counted.
    ///
    /// An access that crosses a page touches two: the consumer should split it first. If it does so afterwards
    /// that is exact too, because such an access is always passed.
    #[inline]
    pub fn admits(&mut self, access: Access) -> bool {
        let address = access.addr().0;
        let write = u64::from(access.is_write() && self.dirty_bits);
        let page = address >> self.key_shift;
        let last_byte = address + access.bytes() - 1;
        if last_byte >> self.key_shift != page {
            self.touch_all(address, last_byte, write);
            return true;
        }
        let slot = &mut self.last[(address >> self.class_shift & self.class_mask) as usize];
        // A page last seen with a store is dirty; then loads and stores of it are alike.
        let repeated = *slot >> 1 == page && *slot & 1 >= write;
        if repeated || !access.is_some() {
            self.dropped += u64::from(access.is_some());
            self.dropped_writes += u64::from(access.is_write());
            return false;
        }
        *slot = page << 1 | write;
        true
    }

    /// Appends those of `accesses` that the consumer must see.
    pub fn filter(&mut self, accesses: &[Access], kept: &mut Vec<Access>) {
        let start = kept.len();
        kept.resize(start + accesses.len(), Access::NONE);
        let mut end = start;
        for &access in accesses {
            // Written in any case, kept if admitted: the branch would be mispredicted often.
            kept[end] = access;
            end += usize::from(self.admits(access));
        }
        kept.truncate(end);
    }

    /// Forgets what it knows where `event` may take entries out of a TLB or bring others in: a change of thread
    /// or process, and every change of the address space. What the consumer does by itself (an eviction of a
    /// page, a promotion to a huge page, a shootdown) it must tell by [`ExactFilter::flush`].
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::Instructions(_)
            | Event::Code(_)
            | Event::Phase(_)
            | Event::Unobserved(_)
            | Event::ThreadEnd(_)
            | Event::JobBegin { .. }
            | Event::JobEnd
            | Event::ThreadStack(_) => {}
            Event::Thread(_)
            | Event::Process(_)
            | Event::Fork { .. }
            | Event::Exec
            | Event::ProcessEnd
            | Event::Map(_)
            | Event::Unmap(_)
            | Event::Protect(..)
            | Event::Advise(..)
            | Event::Remap { .. }
            | Event::Break(_)
            | Event::KernelWrite(_)
            | Event::Frame(_) => self.flush(),
        }
    }

    /// Forgets every page: the next access to each is passed.
    pub fn flush(&mut self) {
        self.last = [EMPTY; 16];
    }

    /// Accesses dropped since the last call, each a hit; and how many of them were stores.
    pub fn take_dropped(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.dropped), std::mem::take(&mut self.dropped_writes))
    }

    /// An access to several pages leaves each of them as its class's last.
    #[cold]
    fn touch_all(&mut self, first: u64, last: u64, write: u64) {
        for page in first >> self.key_shift..=last >> self.key_shift {
            let address = (page << self.key_shift).max(first);
            let class = (address >> self.class_shift & self.class_mask) as usize;
            self.last[class] = page << 1 | write;
        }
    }
}

impl fmt::Debug for ExactFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExactFilter")
            .field("classes", &self.classes)
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

/// What any filter needs.
fn check_any(tlb: &TlbDescription, admission: Admission) -> Result<(), FilterRefusal> {
    let impossible = |why| Err(FilterRefusal::Impossible(tlb.name.clone(), why));
    if tlb.sets == 0 || tlb.ways == 0 {
        return impossible("sets and ways must be at least 1");
    }
    if !(PAGE_SHIFT..48).contains(&tlb.page_shift) || !(tlb.page_shift..48).contains(&tlb.index_shift) {
        return impossible("its pages must have at least 4 KiB, and an entry must span at least a page");
    }
    if tlb.other_inputs {
        return Err(FilterRefusal::OtherInputs(tlb.name.clone()));
    }
    let repeats_are_idle = tlb.policy.repeats_are_idle();
    let admitted = tlb.policy == FilterPolicy::Lru || repeats_are_idle && admission == Admission::IdleRepeats;
    if admitted {
        return Ok(());
    }
    Err(FilterRefusal::Policy { tlb: tlb.name.clone(), policy: tlb.policy, repeats_are_idle })
}

/// What 16 classes need besides: the set of an address must determine the four class bits from `class_shift` on.
fn check_sixteen(tlb: &TlbDescription, class_shift: u32) -> Result<(), FilterRefusal> {
    if tlb.index != SetIndex::LowBits {
        return Err(FilterRefusal::Index(tlb.name.clone()));
    }
    // The set is (address >> index_shift) mod sets, so it determines the low bits that divide `sets`.
    let multiple = 16 << (class_shift - tlb.index_shift);
    if !tlb.sets.is_multiple_of(multiple) {
        let (tlb, sets) = (tlb.name.clone(), tlb.sets);
        return Err(FilterRefusal::Sets { tlb, sets, class_bytes: 1 << class_shift, multiple });
    }
    Ok(())
}
