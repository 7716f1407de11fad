//! Frames that a trace gives: where the pages of a program were in the memory that it ran in.
//!
//! ```text
//!  physical frames
//!  0   1                                       OWN_START                2^40
//!  +---+---------------------------------------+------------------------+
//!  | - |  given, wherever the trace says       |  the machine's own     |
//!  +---+---------------------------------------+------------------------+
//! ```
//!
//! Physical addresses have 52 bits, as x86-64 allows. A machine that takes given frames has its own memory in the last TiB, so
//! that page tables and pages without a given frame never lie in one. Nothing here is as large as the highest frame: only
//! pages and blocks that are named take memory.

use std::collections::BTreeMap;

use super::MAX_MEMORY_BYTES;
use crate::addr::{Asid, PAGE_SHIFT, PageSize, Pfn, PhysAddr, VirtAddr, VirtRange, Vpn};

/// The first frame of a machine's own memory, if it takes given frames: all of these lie below.
pub const OWN_START: Pfn = Pfn((1 << 40) - (MAX_MEMORY_BYTES >> PAGE_SHIFT));

/// A page of some size, and the frame that it has: a translation as a trace gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageFrame {
    page: Vpn,
    size: PageSize,
    frame: Pfn,
}

/// A translation that no machine can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageFrameError {
    /// The page or the frame does not begin at a multiple of the page's size.
    #[error("a page of {size} at {page} in memory at {frame}: both must be multiples of its size")]
    Misaligned {
        /// The virtual address of the page.
        page: VirtAddr,
        /// The physical address of the frame.
        frame: PhysAddr,
        /// The size of the page.
        size: PageSize,
    },
    /// The frame is, or holds, frame 0, which stands for none.
    #[error("the page at {page} is in frame 0, which stands for no frame")]
    FrameZero {
        /// The virtual address of the page.
        page: VirtAddr,
    },
    /// The frame lies where a machine has its own memory.
    #[error("the page at {page} is in memory at {frame}; physical addresses below {end} are allowed", end = OWN_START.addr())]
    TooHigh {
        /// The virtual address of the page.
        page: VirtAddr,
        /// The physical address of the frame.
        frame: PhysAddr,
    },
}

impl PageFrame {
    /// Returns the page of `size` at `page`, which is in memory at `frame`.
    ///
    /// # Errors
    ///
    /// See [`PageFrameError`].
    pub fn new(page: VirtAddr, frame: PhysAddr, size: PageSize) -> Result<Self, PageFrameError> {
        if (page.0 | frame.0) & (size.bytes() - 1) != 0 {
            return Err(PageFrameError::Misaligned { page, frame, size });
        }
        if frame.0 == 0 {
            return Err(PageFrameError::FrameZero { page });
        }
        // Both are multiples of the size: a frame that begins below ends below.
        if frame.frame() >= OWN_START {
            return Err(PageFrameError::TooHigh { page, frame });
        }
        Ok(Self { page: page.page(), size, frame: frame.frame() })
    }

    /// Returns the number of the virtual page.
    pub fn page(self) -> Vpn {
        self.page
    }

    /// Returns the size of the page.
    pub fn size(self) -> PageSize {
        self.size
    }

    /// Returns the first frame of the page's block.
    pub fn frame(self) -> Pfn {
        self.frame
    }

    /// Returns the addresses of the page.
    pub fn range(self) -> VirtRange {
        VirtRange::sized(self.page.addr(), self.size.bytes())
    }

    /// Returns the frame of base page `vpn`, as if the translation went on in both directions.
    pub fn frame_of(self, vpn: Vpn) -> Pfn {
        Pfn(self.frame.0.wrapping_add(vpn.0.wrapping_sub(self.page.0)))
    }

    /// Returns the part of the page that has `size` and holds `vpn`.
    pub fn part(self, vpn: Vpn, size: PageSize) -> Self {
        debug_assert!(self.holds(vpn) && size <= self.size);
        let page = vpn.align_down(size);
        Self { page, size, frame: self.frame_of(page) }
    }

    fn holds(self, vpn: Vpn) -> bool {
        vpn.align_down(self.size) == self.page
    }

    fn end(self) -> Vpn {
        Vpn(self.page.0 + self.size.base_pages())
    }
}

/// The places of pages that a trace has named so far. No two of the translations are about the same address.
#[derive(Clone, Debug, Default)]
pub struct GivenPages {
    pages: BTreeMap<(Asid, Vpn), (PageSize, Pfn)>,
}

impl GivenPages {
    /// Returns the translation of a page.
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<PageFrame> {
        let (&(owner, page), &(size, frame)) = self.pages.range(..=(asid, vpn)).next_back()?;
        let found = PageFrame { page, size, frame };
        (owner == asid && found.holds(vpn)).then_some(found)
    }

    /// Returns whether there is a translation of any page in the slot of `size` that begins at `first`.
    pub fn any_in(&self, asid: Asid, first: Vpn, size: PageSize) -> bool {
        let end = Vpn(first.0 + size.base_pages());
        self.find(asid, first).is_some() || self.pages.range((asid, first)..(asid, end)).next().is_some()
    }

    /// Takes in a translation, which replaces what was said of these addresses before. A larger page around it is kept if it
    /// says the same, and falls into parts if not. Tells whether anything is new.
    pub fn insert(&mut self, asid: Asid, given: PageFrame) -> bool {
        if let Some(around) = self.find(asid, given.page)
            && around.size >= given.size
        {
            if around.part(given.page, given.size) == given {
                return false;
            }
            self.break_up(asid, around, given);
        }
        let inside = self.pages.range((asid, given.page)..(asid, given.end()));
        let inside: Vec<_> = inside.map(|(&key, _)| key).collect();
        for key in inside {
            self.pages.remove(&key);
        }
        self.pages.insert((asid, given.page), (given.size, given.frame));
        true
    }

    /// All parts of a page but `hole` stay where they are.
    fn break_up(&mut self, asid: Asid, mut around: PageFrame, hole: PageFrame) {
        self.pages.remove(&(asid, around.page));
        while around.size > hole.size {
            let below = PageSize::ALL[around.size as usize - 1];
            for page in (around.page.0..around.end().0).step_by(below.base_pages() as usize).map(Vpn) {
                if page != hole.page.align_down(below) {
                    self.pages.insert((asid, page), (below, around.frame_of(page)));
                }
            }
            around = around.part(hole.page, below);
        }
    }

    /// Forgets an address space.
    pub fn forget(&mut self, asid: Asid) {
        self.pages.retain(|&(owner, _), _| owner != asid);
    }
}

/// The blocks of given frames that are in use. Pages share a block if a trace gives it to several.
#[derive(Clone, Debug, Default)]
pub struct GivenBlocks {
    /// The number of pages that have each block, by size.
    users: [BTreeMap<Pfn, u32>; 3],
    /// The number of blocks in use that lie in no larger one in use, by size.
    resident: [u64; 3],
}

impl GivenBlocks {
    /// Takes note that one page more has the block.
    pub fn take(&mut self, frame: Pfn, size: PageSize) {
        match self.users[size as usize].get_mut(&frame) {
            Some(users) => *users += 1,
            None => self.change(frame, size, |users| users.insert(frame, 1)),
        }
    }

    /// Takes note that one page less has the block.
    ///
    /// # Panics
    ///
    /// If none had it.
    pub fn release(&mut self, frame: Pfn, size: PageSize) {
        match self.users[size as usize].get_mut(&frame) {
            None => panic!("given frame {frame} is given back as a block of {size}, which no page has"),
            Some(1) => self.change(frame, size, |users| users.remove(&frame)),
            Some(users) => *users -= 1,
        }
    }

    /// Returns the number of blocks in use, by size; a block that several pages have counts once, also if they have
    /// it in blocks of several sizes.
    pub fn resident(&self) -> [u64; 3] {
        self.resident
    }

    fn change(
        &mut self,
        frame: Pfn,
        size: PageSize,
        change: impl FnOnce(&mut BTreeMap<Pfn, u32>) -> Option<u32>,
    ) {
        let before = self.resident_in(frame, size);
        change(&mut self.users[size as usize]);
        let after = self.resident_in(frame, size);
        for ((resident, before), after) in self.resident.iter_mut().zip(before).zip(after) {
            *resident = *resident - before + after;
        }
    }

    /// Returns how many blocks in a block, that one included, count as resident, by size.
    fn resident_in(&self, first: Pfn, most: PageSize) -> [u64; 3] {
        let end = Pfn(first.0 + most.base_pages());
        PageSize::ALL.map(|size| {
            let larger = |block: Pfn| {
                PageSize::ALL.into_iter().filter(move |&larger| larger > size).any(|larger| {
                    let around = Pfn(block.0 & !(larger.base_pages() - 1));
                    self.users[larger as usize].contains_key(&around)
                })
            };
            if size > most {
                return 0;
            }
            self.users[size as usize].range(first..end).filter(|&(&block, _)| !larger(block)).count() as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    const ASID: Asid = Asid(3);

    fn given(page: u64, frame: u64, size: PageSize) -> PageFrame {
        PageFrame::new(Vpn(page).addr(), Pfn(frame).addr(), size).unwrap()
    }

    #[test]
    fn translations_that_no_machine_can_have_are_refused() {
        let new = |page, frame, size| PageFrame::new(VirtAddr(page), PhysAddr(frame), size);
        let error = |page, frame, size| new(page, frame, size).unwrap_err().to_string();
        assert!(error(0x1001, 0x2000, PageSize::Size4K).contains("both must be multiples"));
        assert!(error(0x20_0000, 0x1000, PageSize::Size2M).contains("2MiB at 0x200000 in memory at 0x1000"));
        assert!(error(0x1000, 0, PageSize::Size4K).contains("frame 0"));
        let end = OWN_START.addr().0;
        assert_eq!(end, (1 << 52) - (1 << 40));
        assert!(error(0x1000, end, PageSize::Size4K).contains("below 0xfff0000000000 are allowed"));
        assert!(new(0x1000, end - 0x1000, PageSize::Size4K).is_ok());
        assert!(new(0, end - (1 << 30), PageSize::Size1G).is_ok());
    }

    #[test]
    fn a_page_falls_into_parts_around_one_that_is_elsewhere() {
        let mut pages = GivenPages::default();
        assert!(pages.insert(ASID, given(1 << 18, 1 << 20, PageSize::Size1G)));
        // The same, said of a part: nothing new.
        assert!(!pages.insert(ASID, given((1 << 18) + 7, (1 << 20) + 7, PageSize::Size4K)));
        assert_eq!(pages.pages.len(), 1);
        assert!(pages.insert(ASID, given((1 << 18) + 7, 99, PageSize::Size4K)));
        assert_eq!(pages.pages.len(), 511 + 511 + 1);
        let found = |page| pages.find(ASID, Vpn(page)).unwrap();
        assert_eq!(found((1 << 18) + 7), given((1 << 18) + 7, 99, PageSize::Size4K));
        assert_eq!(found((1 << 18) + 8), given((1 << 18) + 8, (1 << 20) + 8, PageSize::Size4K));
        assert_eq!(found((1 << 18) + 600), given((1 << 18) + 512, (1 << 20) + 512, PageSize::Size2M));
        assert_eq!(pages.find(ASID, Vpn(2 << 18)), None);
        assert_eq!(pages.find(Asid(2), Vpn((1 << 18) + 7)), None);
        // And one that covers all of them.
        assert!(pages.insert(ASID, given(1 << 18, 5 << 18, PageSize::Size1G)));
        assert_eq!(pages.pages.len(), 1);
        pages.forget(ASID);
        assert_eq!(pages.pages.len(), 0);
    }

    #[test]
    fn slots_know_whether_any_of_their_pages_is_given() {
        let mut pages = GivenPages::default();
        pages.insert(ASID, given(512 + 511, 7, PageSize::Size4K));
        let any = |first| pages.any_in(ASID, Vpn(first), PageSize::Size2M);
        assert_eq!([any(0), any(512), any(1024)], [false, true, false]);
    }

    /// Blocks of several sizes over each other, against a count of base frames.
    #[test]
    fn frames_count_once_however_many_pages_have_them() {
        let mut random = SplitMix64::new(1);
        let mut blocks = GivenBlocks::default();
        let mut taken: Vec<(Pfn, PageSize)> = Vec::new();
        for step in 0..3_000 {
            if !taken.is_empty() && random.below(100) < if step < 2_000 { 40 } else { 80 } {
                let (frame, size) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                blocks.release(frame, size);
            } else {
                let size = PageSize::ALL[[0, 0, 0, 0, 1, 1, 2][random.below(7) as usize]];
                let frame = Pfn((1 << 18) + random.below(1 << 19) / 97 * 97).0 & !(size.base_pages() - 1);
                taken.push((Pfn(frame), size));
                blocks.take(Pfn(frame), size);
            }
            let mut sorted = taken.clone();
            sorted.sort_unstable_by_key(|&(frame, size)| (frame, std::cmp::Reverse(size)));
            let (mut counts, mut covered) = ([0; 3], 0);
            for (frame, size) in sorted {
                if frame.0 >= covered {
                    counts[size as usize] += 1;
                    covered = frame.0 + size.base_pages();
                }
            }
            assert_eq!(blocks.resident(), counts, "step {step}");
        }
    }
}
