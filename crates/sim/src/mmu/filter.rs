//! The exact filter in front of a core's TLBs.

use pagewalk_vm::addr::{PageSize, Pfn, Vpn};
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

    /// The frame of `vpn` if a reference to it is known to change nothing.
    #[inline(always)]
    pub(crate) fn lookup(&self, vpn: Vpn, write: bool) -> Option<Pfn> {
        // `or_else` would be a call: this is all that most references of a program cost.
        let known = self.small.lookup(vpn, write);
        if known.is_some() || !self.has_more {
            return known;
        }
        self.lookup_more(vpn, write)
    }

    #[inline]
    fn lookup_more(&self, vpn: Vpn, write: bool) -> Option<Pfn> {
        match &self.stores {
            Some(stores) if write => stores.lookup(vpn, write),
            _ => self.huge.lookup(vpn, write),
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

/// The last page of each class, for one array and one page size of `1 << ORDER` base pages.
#[derive(Clone, Debug)]
struct Classes<const ORDER: u32> {
    slots: [Slot; MOST_CLASSES],
    mask: usize,
    shift: u32,
}

/// The last page of a class.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Page number times four, plus one if it is known to be writable and dirty; `NONE` matches no reference.
    tag: u64,
    frame: Pfn,
}

pub(crate) const MOST_CLASSES: usize = 16;
/// The class shift of a filter that never learns.
const NEVER: u32 = u32::MAX;
const NONE: Slot = Slot { tag: u64::MAX / 2, frame: Pfn(0) };

impl<const ORDER: u32> Classes<ORDER> {
    fn new(of_array: SetClasses, most: usize) -> Self {
        let mask = (of_array.classes as usize).min(most) - 1;
        Self { slots: [NONE; MOST_CLASSES], mask, shift: of_array.shift }
    }

    fn never() -> Self {
        Self { slots: [NONE; MOST_CLASSES], mask: 0, shift: NEVER }
    }

    #[inline(always)]
    fn lookup(&self, vpn: Vpn, write: bool) -> Option<Pfn> {
        let number = vpn.0 >> ORDER;
        let slot = &self.slots[self.class(number)];
        // Equal, or a load of a page that is known to be dirty. A store's wanted tag is odd, and tags with other
        // low bits do not exist, so one comparison decides.
        let known = slot.tag.wrapping_sub(number << 2 | u64::from(write)) <= 1;
        known.then_some(Pfn(slot.frame.0 + (vpn.0 & ((1 << ORDER) - 1))))
    }

    #[inline(always)]
    fn class(&self, number: u64) -> usize {
        // Never above the mask: the remainder spares a bounds check.
        (number >> (self.shift & 63)) as usize & (self.mask % MOST_CLASSES)
    }

    #[inline(always)]
    fn learn(&mut self, vpn: Vpn, translation: Translation) {
        if self.shift == NEVER {
            return;
        }
        let number = vpn.0 >> ORDER;
        let dirty = translation.is_writable() && translation.is_dirty();
        let frame = translation.frame_of(Vpn(number << ORDER));
        self.slots[self.class(number)] = Slot { tag: number << 2 | u64::from(dirty), frame };
    }

    fn flush(&mut self) {
        self.slots = [NONE; MOST_CLASSES];
    }
}
