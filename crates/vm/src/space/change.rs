//! The system calls that change an address space.
//!
//! Each answers what the page table must forget or change; pages that were never touched are part of the answer,
//! the page table knows which ones exist.

use arrayvec::ArrayVec;

use super::address_space::{ADDRESS_LIMIT, AddressSpace, SpaceError, push_range};
use super::huge::whole_slots;
use super::mapping::{Advice, Mapping, Protection};
use super::vma::{HugePageAdvice, Vma};
use crate::addr::{PAGE_BYTES, PageSize, VirtAddr, VirtRange};

/// The changes to the page table that a [`AddressSpace::remap`] asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remapped {
    /// First: these translations go away (what was mapped at the destination, and the tail of a shrunk mapping).
    pub dropped: Vec<VirtRange>,
    /// Then: the translations of each range move, to the same distances from the address beside it. A huge page
    /// whose new place is not aligned to its size must be split.
    pub moved: Vec<(VirtRange, VirtAddr)>,
}

impl AddressSpace {
    /// Maps a range as `mmap` does, and unmaps what was mapped there before. With explicit huge pages the end is
    /// rounded up to a whole one. Answers what was mapped there.
    ///
    /// # Errors
    ///
    /// Too many VMAs, addresses beyond [`ADDRESS_LIMIT`], or cut huge pages; nothing has changed then.
    pub fn map(&mut self, mapping: Mapping) -> Result<Vec<VirtRange>, SpaceError> {
        self.map_vma(mapping, false)
    }

    /// Maps a stack, which grows down when it is accessed just below (`MAP_GROWSDOWN`); otherwise like
    /// [`AddressSpace::map`]. The mapping must be private, anonymous and without explicit huge pages to grow.
    ///
    /// # Errors
    ///
    /// As [`AddressSpace::map`].
    pub fn map_stack(&mut self, mapping: Mapping) -> Result<Vec<VirtRange>, SpaceError> {
        self.map_vma(mapping, true)
    }

    /// Unmaps a range as `munmap` does. Answers what was mapped there.
    ///
    /// # Errors
    ///
    /// A hole that makes two VMAs of one where there are too many already, or cut huge pages; nothing has
    /// changed then.
    pub fn unmap(&mut self, range: VirtRange) -> Result<Vec<VirtRange>, SpaceError> {
        let range = range.to_pages();
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.check_huge_pages(range)?;
        let dropped = self.mapped_in(range);
        self.rewrite(range, None, &mut |_| None)?;
        Ok(dropped)
    }

    /// Changes the protection of everything mapped in the range (`mprotect`). Answers where the protection changed.
    ///
    /// # Errors
    ///
    /// As [`AddressSpace::unmap`].
    pub fn protect(
        &mut self,
        range: VirtRange,
        protection: Protection,
    ) -> Result<Vec<VirtRange>, SpaceError> {
        let range = range.to_pages();
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.check_huge_pages(range)?;
        let mut changed = Vec::new();
        self.rewrite(range, None, &mut |vma| {
            if vma.protection != protection {
                push_range(&mut changed, vma.range);
            }
            Some(Vma { protection, ..vma })
        })?;
        Ok(changed)
    }

    /// Gives advice on everything mapped in the range (`madvise` or `mlock`). Answers the ranges whose pages
    /// something must happen to now:
    ///
    /// - for [`Advice::DontNeed`] whole pages of explicit huge ones are dropped,
    /// - for [`Advice::Collapse`] the aligned 2 MiB slots, joined, that may become huge pages,
    /// - for [`Advice::Free`] and [`Advice::WillNeed`] private anonymous memory,
    /// - for [`Advice::Cold`] and [`Advice::PageOut`] what is not locked,
    /// - for [`Advice::Remove`] shared memory,
    /// - for populating and locking everything; not across mappings, whose protections differ,
    /// - for the others nothing: they matter at the next fault, or at the next `fork`.
    ///
    /// # Errors
    ///
    /// Too many VMAs; nothing has changed then.
    pub fn advise(&mut self, range: VirtRange, advice: Advice) -> Result<Vec<VirtRange>, SpaceError> {
        let range = range.to_pages();
        let mut affected = Vec::new();
        match advice {
            _ if range.is_empty() => {}
            Advice::HugePage => self.set(range, |vma| vma.advice = HugePageAdvice::HugePage)?,
            Advice::NoHugePage => self.set(range, |vma| vma.advice = HugePageAdvice::NoHugePage)?,
            Advice::DontFork => self.set(range, |vma| vma.dont_fork = true)?,
            Advice::DoFork => self.set(range, |vma| vma.dont_fork = false)?,
            Advice::WipeOnFork => self.set(range, |vma| vma.wipe_on_fork = vma.is_private_anonymous())?,
            Advice::KeepOnFork => self.set(range, |vma| vma.wipe_on_fork = false)?,
            Advice::Lock | Advice::LockOnFault => {
                self.set(range, |vma| vma.locked = true)?;
                affected.extend(self.parts_in(range).map(|part| part.range));
            }
            Advice::Unlock => {
                self.set(range, |vma| vma.locked = false)?;
                affected.extend(self.parts_in(range).map(|part| part.range));
            }
            Advice::Populate | Advice::PopulateRead | Advice::PopulateWrite => {
                affected.extend(self.parts_in(range).map(|part| part.range));
            }
            Advice::Free | Advice::WillNeed => {
                affected = self.ranges_of(range, |part| part.is_private_anonymous());
            }
            Advice::Cold | Advice::PageOut => {
                affected = self.ranges_of(range, |part| !part.locked && part.huge.is_none());
            }
            Advice::Remove => affected = self.ranges_of(range, |part| part.shared && part.huge.is_none()),
            Advice::DontNeed => {
                for part in self.parts_in(range) {
                    push_nonempty(&mut affected, whole_slots(part.range, part.huge.unwrap_or_default()));
                }
            }
            Advice::Collapse => {
                for part in self.parts_in(range) {
                    if part.is_private_anonymous() && part.advice != HugePageAdvice::NoHugePage {
                        push_nonempty(&mut affected, whole_slots(part.range, self.granule.large()));
                    }
                }
            }
        }
        Ok(affected)
    }

    /// Makes `range`, possibly empty, the heap segment as `brk` does. What both the old and the new segment cover
    /// stays as it is. Both ends are rounded up: the page that a break lies in the middle of belongs to what is
    /// below.
    ///
    /// # Errors
    ///
    /// As [`AddressSpace::map`].
    pub fn set_break(&mut self, range: VirtRange) -> Result<Vec<VirtRange>, SpaceError> {
        let start = range.start.align_up(PAGE_BYTES);
        let new = VirtRange::new(start, range.end.align_up(PAGE_BYTES).max(start));
        let old = self.heap;
        check_limit(new)?;
        let (removed, added) = (difference(old, new), difference(new, old));
        for &part in removed.iter().chain(&added) {
            self.check_huge_pages(part)?;
        }
        // The ordinary break moves one end and is one rewrite, which fails or succeeds as a whole.
        let parts = removed.len() + added.len();
        if parts > 1 {
            self.check_room(2 * parts, new)?;
        }
        let mut dropped = Vec::new();
        for part in removed {
            dropped.extend(self.unmap(part)?);
        }
        for part in added {
            dropped.extend(self.map(Mapping::anonymous(part))?);
        }
        self.heap = new;
        Ok(dropped)
    }

    /// Moves the mapping at `from` to `to` as `mremap` does. A longer `to` adds fresh pages at the end, like the last
    /// one; a shorter one drops pages. If both begin alike, the mapping grows or shrinks in place.
    ///
    /// # Errors
    ///
    /// Empty or overlapping ranges, nothing mapped at `from`, cut or misaligned huge pages, too many VMAs;
    /// nothing has changed then.
    pub fn remap(&mut self, from: VirtRange, to: VirtRange) -> Result<Remapped, SpaceError> {
        let (from, to) = self.round_remap(from, to);
        let in_place = from.start == to.start;
        if from.is_empty() || to.is_empty() || (!in_place && !from.intersect(to).is_empty()) {
            return Err(SpaceError::BadRemap { from, to });
        }
        check_limit(to)?;
        self.check_huge_pages(from)?;
        self.check_huge_pages(to)?;
        self.check_room(3, to)?;
        let mut parts = self.parts_to_move(from, to)?;

        // Pages beyond the shorter of the two lengths stay behind, or are new.
        let kept = VirtRange::sized(from.start, from.bytes().min(to.bytes()));
        let mut dropped = match in_place {
            true => self.mapped_in(VirtRange::new(from.end, to.end)),
            false => self.mapped_in(to),
        };
        dropped.extend(self.mapped_in(VirtRange::new(kept.end, from.end)));
        let mut moved = Vec::new();
        if in_place {
            self.resize_in_place(from, to, parts.last())?;
        } else {
            moved = self
                .mapped_in(kept)
                .into_iter()
                .map(|part| (part, moved_addr(part.start, from, to)))
                .collect();
            self.rewrite(to, None, &mut |_| None)?;
            self.rewrite(from, None, &mut |_| None)?;
            for part in &mut parts {
                if part.origin != 0 {
                    part.origin = self.fresh_origin();
                }
                self.rewrite(part.range, Some(*part), &mut |_| None)?;
            }
        }
        Ok(Remapped { dropped, moved })
    }

    fn map_vma(&mut self, mapping: Mapping, grows_down: bool) -> Result<Vec<VirtRange>, SpaceError> {
        let huge = mapping.huge.filter(|&size| size > PageSize::Size4K);
        let mut range = mapping.range.to_pages();
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(size) = huge {
            if range.start.offset_in(size) != 0 {
                return Err(SpaceError::MisalignedHugePages { range, size });
            }
            range.end = range.end.align_up(size.bytes());
        }
        check_limit(range)?;
        self.check_huge_pages(range)?;
        let mut vma = Vma {
            backing: mapping.backing,
            shared: mapping.shared,
            huge,
            ..Vma::anonymous(range, mapping.protection)
        };
        if vma.is_private_anonymous() {
            vma.grows_down = grows_down;
        } else {
            vma.origin = self.fresh_origin();
            let distance = |first: u64| first.wrapping_sub(range.start.page().0);
            vma.object = mapping.object.map(|of| (of.object, distance(of.first)));
        }
        let dropped = self.mapped_in(range);
        self.rewrite(range, Some(vma), &mut |_| None)?;
        Ok(dropped)
    }

    /// Changes an attribute of everything mapped in `range`; explicit huge pages take no advice.
    fn set(&mut self, range: VirtRange, mut change: impl FnMut(&mut Vma)) -> Result<(), SpaceError> {
        self.rewrite(range, None, &mut |mut vma| {
            if vma.huge.is_none() {
                change(&mut vma);
            }
            Some(vma)
        })
    }

    /// Returns what is mapped inside `range` by mappings of a kind.
    fn ranges_of(&self, range: VirtRange, is_meant: impl Fn(&Vma) -> bool) -> Vec<VirtRange> {
        let mut ranges = Vec::new();
        for part in self.parts_in(range).filter(is_meant) {
            push_range(&mut ranges, part.range);
        }
        ranges
    }

    /// Both ranges of an `mremap` in whole pages of the mapping at `from`.
    fn round_remap(&self, from: VirtRange, to: VirtRange) -> (VirtRange, VirtRange) {
        let (from, to) = (from.to_pages(), to.to_pages());
        let size = self.find(from.start).and_then(|vma| vma.huge).unwrap_or_default();
        let round = |range: VirtRange| VirtRange::new(range.start, range.end.align_up(size.bytes()));
        (round(from), round(to))
    }

    /// The VMAs of an `mremap` as they will be at `to`: the last one grown, or all cut to the new length.
    fn parts_to_move(&self, from: VirtRange, to: VirtRange) -> Result<Vec<Vma>, SpaceError> {
        let mut parts: Vec<Vma> = self.parts_in(from).collect();
        let Some(last) = parts.last_mut() else {
            return Err(SpaceError::NotMapped { range: from });
        };
        if to.bytes() > from.bytes() {
            if last.range.end != from.end {
                return Err(SpaceError::NotMapped { range: VirtRange::new(last.range.end, from.end) });
            }
            last.range.end = from.start.add(to.bytes());
        }
        parts.retain_mut(|part| {
            let VirtRange { start, end } = part.range;
            part.range = VirtRange::new(moved_addr(start, from, to), moved_addr(end, from, to)).intersect(to);
            if let Some((_, distance)) = &mut part.object {
                *distance = distance.wrapping_add(from.start.page().0).wrapping_sub(to.start.page().0);
            }
            !part.range.is_empty()
        });
        for &Vma { range, huge, .. } in &parts {
            if let Some(size) = huge
                && (range.start.offset_in(size) | range.end.offset_in(size)) != 0
            {
                return Err(SpaceError::MisalignedHugePages { range, size });
            }
        }
        Ok(parts)
    }

    /// Grows the mapping at `from` with more of `last`, its last part, or cuts its tail.
    fn resize_in_place(
        &mut self,
        from: VirtRange,
        to: VirtRange,
        last: Option<&Vma>,
    ) -> Result<(), SpaceError> {
        let (growth, tail) = (VirtRange::new(from.end, to.end), VirtRange::new(to.end, from.end));
        if !growth.is_empty() {
            self.rewrite(growth, last.and_then(|last| last.clip(growth)), &mut |_| None)?;
        }
        if !tail.is_empty() {
            self.rewrite(tail, None, &mut |_| None)?;
        }
        Ok(())
    }
}

fn check_limit(range: VirtRange) -> Result<(), SpaceError> {
    match range.end <= ADDRESS_LIMIT {
        true => Ok(()),
        false => Err(SpaceError::BeyondAddressLimit { range }),
    }
}

/// Returns the address of `from`, or of its growth, after the move to `to`.
fn moved_addr(addr: VirtAddr, from: VirtRange, to: VirtRange) -> VirtAddr {
    to.start.add(addr.0 - from.start.0)
}

/// Returns what `a` holds and `b` does not: at most a part below and a part above.
fn difference(a: VirtRange, b: VirtRange) -> ArrayVec<VirtRange, 2> {
    let shared = a.intersect(b);
    let parts = match shared.is_empty() {
        true => [a, VirtRange::default()],
        false => [VirtRange::new(a.start, shared.start), VirtRange::new(shared.end, a.end)],
    };
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

fn push_nonempty(ranges: &mut Vec<VirtRange>, range: VirtRange) {
    if !range.is_empty() {
        push_range(ranges, range);
    }
}
