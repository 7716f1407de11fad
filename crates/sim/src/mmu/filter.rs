//! The exact filter in front of a core's TLBs.

use pagewalk_trace::Access;
use pagewalk_vm::addr::{PAGE_BYTES, PAGE_SHIFT, PageSize, Pfn, VirtAddr, Vpn};
use pagewalk_vm::tlb::{SetClasses, Tlb, Translation};

/// The exact filter in front of a core's TLBs: the host's shortcut for references that change nothing.
///
/// It stands before the two arrays of the first level that matter: the one for base pages, and the one for 2 MiB
/// pages if that is another. Of base pages of more than 4 KiB, it remembers the 4 KiB that were used last. Each array's
/// pages are divided into classes such that pages of different classes never share a set. The filter remembers for each
/// class the page that went through the array last. Referencing that page again finds its entry where a use changes no
/// replacement state (the most recently used of its set under LRU; under FIFO and random no hit changes any; under
/// tree-PLRU and NRU the same use has just set the same bits), so the look-up is skipped and counted as a hit. A
/// reference that another array of the level serves does not touch this one.
///
/// Where stores have arrays of their own, the filter stands before those for loads, and has a second one for stores.
///
/// Everything that enters the arrays passes the filter of its core, and every invalidation and every switch of
/// address space empties it; a test runs every policy with and without it and compares every count.
#[derive(Clone, Debug)]
pub(crate) struct FrontFilter {
    small: Classes<{ PageSize::Size4K.order() }>,
    huge: Classes<{ PageSize::Size2M.order() }>,
    /// The filter before the arrays for stores, if these are others.
    stores: Option<Box<Self>>,
    /// Whether anything but `small` may know a page: many programs never see a huge one.
    has_more: bool,
    /// A translation of a base page.
    base: Translation,
    /// By page size: which of the two such a page empties, because it goes through that array unseen.
    empties: [Option<PageSize>; PageSize::EVERY.len()],
}

impl FrontFilter {
    /// Creates the filter of a level with base pages of a size, which tells so many classes of pages apart at most.
    pub(crate) fn new(first_level: Option<&Tlb>, base: PageSize, classes: usize) -> Self {
        let Some(level) = first_level else { return Self::never() };
        // An array that does not say which pages never share a set is always looked up.
        let Some(of_array) = level.small().set_classes() else { return Self::never() };
        let of_small = SetClasses { shift: of_array.shift + base.order(), ..of_array };
        let small = Classes::new(of_small, classes);
        let huge = match level.large(PageSize::Size2M).and_then(|array| array.set_classes()) {
            // With one class for all pages a huge page would have to empty the other array's.
            Some(of_array) if classes > 1 => Classes::new(of_array, classes),
            _ => Classes::never(),
        };
        let empties = PageSize::EVERY.map(|size| match level.large(size) {
            None => (size != base).then_some(PageSize::Size4K),
            Some(array) => {
                (size > PageSize::Size2M && array.holds(PageSize::Size2M)).then_some(PageSize::Size2M)
            }
        });
        let base = Translation::new(Pfn(0), base, false, false);
        Self { small, huge, stores: None, has_more: false, base, empties }
    }

    /// Returns the filter with another for stores, whose arrays are others.
    pub(crate) fn with_stores(self, stores: Self) -> Self {
        Self { stores: Some(Box::new(stores)), has_more: true, ..self }
    }

    /// A filter that never learns: for a core without a TLB, where nothing ever hits.
    pub(crate) fn never() -> Self {
        Self {
            small: Classes::never(),
            huge: Classes::never(),
            stores: None,
            has_more: false,
            base: Translation::default(),
            empties: [None; PageSize::EVERY.len()],
        }
    }

    /// Returns the frame of the page that is used, if the use is known to change nothing.
    #[inline(always)]
    pub(crate) fn lookup(&self, used: PageUse) -> Option<Pfn> {
        // `or_else` would be a call: this is all that most references of a program cost.
        let known = self.small.lookup(used);
        if known.is_some() || !self.has_more {
            return known;
        }
        self.lookup_more(used)
    }

    #[inline]
    fn lookup_more(&self, used: PageUse) -> Option<Pfn> {
        match &self.stores {
            Some(stores) if used.is_store() => stores.lookup(used),
            _ => self.huge.lookup(used),
        }
    }

    /// Learns that `vpn` went through the first level with this translation.
    #[inline(always)]
    pub(crate) fn learn(&mut self, vpn: Vpn, translation: Translation) {
        if translation.has_size_of(self.base) {
            self.small.learn(vpn, translation);
        } else {
            self.learn_large(vpn, translation);
        }
    }

    /// Learns a translation that went through the arrays for stores, or through those for loads, where both differ.
    pub(crate) fn learn_split(&mut self, vpn: Vpn, translation: Translation, is_store: bool) {
        match &mut self.stores {
            Some(stores) if is_store => stores.learn(vpn, translation),
            // A store goes through other arrays: a page that is not known to be dirty is none that a store may skip here.
            _ => {
                let loaded = Translation::new(translation.frame(), translation.size(), false, false);
                self.learn(vpn, loaded);
            }
        }
    }

    fn learn_large(&mut self, vpn: Vpn, translation: Translation) {
        match self.empties[translation.size() as usize] {
            Some(PageSize::Size4K) => self.small.flush(),
            Some(_) => self.huge.flush(),
            None if translation.size() == PageSize::Size2M => {
                self.huge.learn(vpn, translation);
                self.has_more = true;
            }
            None => {}
        }
    }

    pub(crate) fn flush(&mut self) {
        self.small.flush();
        if self.has_more {
            self.huge.flush();
            self.stores.iter_mut().for_each(|stores| stores.flush());
            self.has_more = self.stores.is_some();
        }
    }
}

/// A 4 KiB page and the kind of its use: the bits of an [`Access`] that say these, so that a run without time makes one of an access
/// by a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageUse(u64);

impl PageUse {
    /// Creates the use of a page by an access.
    #[inline(always)]
    pub(crate) const fn of(access: Access) -> Self {
        Self(access.page_and_kind())
    }

    /// Creates the use of the page that holds an address.
    #[inline(always)]
    pub(crate) const fn new(addr: VirtAddr, write: bool) -> Self {
        Self::of(Access::new(addr, 1, write))
    }

    const fn is_store(self) -> bool {
        self.0 & Access::WRITE != 0
    }

    /// Returns the same kind of use of the first page of an aligned group of `1 << order`.
    #[inline(always)]
    const fn of_first(self, order: u32) -> Self {
        Self(self.0 & !((PAGE_BYTES << order) - 1))
    }

    /// Returns the place of the page in its aligned group of `1 << order`.
    #[inline(always)]
    const fn place(self, order: u32) -> u64 {
        self.0 >> PAGE_SHIFT & ((1 << order) - 1)
    }
}

/// The last page of each class, for one array and one page size of `1 << ORDER` base pages.
#[derive(Clone, Debug)]
struct Classes<const ORDER: u32> {
    slots: [Slot; MOST_CLASSES],
    mask: usize,
    /// The bit of an address where the number of a page's class begins.
    shift: u32,
    /// A bit that no use has, for a filter that never knows a page.
    blind: u64,
}

/// The last page of a class.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The use that is known to change nothing: a store of a page that is known to be writable and dirty, else a load.
    known: u64,
    frame: Pfn,
}

pub(crate) const MOST_CLASSES: usize = 16;
/// A bit that no use of a page has.
const NEVER: u64 = 1 << 63;
const NONE: Slot = Slot { known: NEVER, frame: Pfn(0) };

impl<const ORDER: u32> Classes<ORDER> {
    fn new(of_array: SetClasses, most: usize) -> Self {
        let shift = of_array.shift + ORDER + PAGE_SHIFT;
        // A class has bits of the address only: the bit of the kind of use is above these.
        let bits = Access::ADDR_BITS.saturating_sub(shift);
        let mask = (of_array.classes as usize).min(most).min(1 << bits) - 1;
        Self { slots: [NONE; MOST_CLASSES], mask, shift: shift.min(Access::ADDR_BITS), blind: 0 }
    }

    fn never() -> Self {
        Self { slots: [NONE; MOST_CLASSES], mask: 0, shift: 0, blind: NEVER }
    }

    #[inline(always)]
    fn lookup(&self, used: PageUse) -> Option<Pfn> {
        let slot = &self.slots[self.class(used)];
        // Equal, or a load where a store is known: then the difference is the bit of the kind. Two pages are less far apart.
        let is_known = slot.known.wrapping_sub(used.of_first(ORDER).0) & !Access::WRITE == 0;
        is_known.then_some(Pfn(slot.frame.0 + used.place(ORDER)))
    }

    #[inline(always)]
    fn class(&self, used: PageUse) -> usize {
        // Never above the mask: the remainder spares a bounds check.
        (used.0 >> (self.shift & 63)) as usize & (self.mask % MOST_CLASSES)
    }

    #[inline(always)]
    fn learn(&mut self, vpn: Vpn, translation: Translation) {
        let is_dirty = translation.is_writable() && translation.is_dirty();
        let first = Vpn(vpn.0 >> ORDER << ORDER);
        let used = PageUse::new(first.addr(), is_dirty);
        let frame = translation.frame_of(first);
        self.slots[self.class(used)] = Slot { known: used.0 | self.blind, frame };
    }

    fn flush(&mut self) {
        self.slots = [NONE; MOST_CLASSES];
    }
}
