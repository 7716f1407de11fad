//! Random sequences of calls, compared page by page with the obvious model: a map from page number to attributes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// The pages of the model: a few 2 MiB slots.
const PAGES: u64 = 4 * SLOT;
const SLOT: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    protection: Protection,
    backing: Backing,
    shared: bool,
    is_huge: bool,
    advice: HugePageAdvice,
    locked: bool,
    dont_fork: bool,
    wipe_on_fork: bool,
}

impl Page {
    const PLAIN: Self = Self {
        protection: Protection::READ_WRITE,
        backing: Backing::Anonymous,
        shared: false,
        is_huge: false,
        advice: HugePageAdvice::Default,
        locked: false,
        dont_fork: false,
        wipe_on_fork: false,
    };

    fn is_private_anonymous(&self) -> bool {
        self.backing == Backing::Anonymous && !self.shared && !self.is_huge
    }
}

#[derive(Clone, Debug)]
enum Call {
    Map { span: Span, protection: Protection, backing: Backing, shared: bool, is_huge: bool },
    Unmap(Span),
    Protect(Span, Protection),
    Advise(Span, Advice),
    Break(Span),
    Remap { from: Span, to: u64, pages: u64 },
}

/// Pages `[start, end)`, and how many bytes the call leaves out of the first and the last.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    end: u64,
    inset: [u64; 2],
}

impl Span {
    fn bytes(self) -> VirtRange {
        let [first, last] = self.inset;
        range(self.start * PAGE_BYTES + first, self.end * PAGE_BYTES - last)
    }

    fn iter(self) -> std::ops::Range<u64> {
        self.start..self.end
    }
}

/// What a refused call was refused for.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Misaligned,
    SplitsHuge,
    NotMapped,
    BadRemap,
}

#[derive(Default)]
struct Model {
    pages: BTreeMap<u64, Page>,
    heap: BTreeSet<u64>,
}

impl Model {
    fn is_mapped(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    fn mapped(&self, pages: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
        pages.into_iter().filter(|&page| self.is_mapped(page)).collect()
    }

    fn is_huge(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|page| page.is_huge)
    }

    /// Whether a range with these ends cuts an explicit huge page.
    fn check_edges(&self, edges: [u64; 2]) -> Result<(), Refusal> {
        match edges.iter().any(|&edge| edge % SLOT != 0 && self.is_huge(edge)) {
            true => Err(Refusal::SplitsHuge),
            false => Ok(()),
        }
    }

    /// The pages of the answer, and for `mremap` what moved where.
    fn apply(&mut self, call: &Call) -> Result<(BTreeSet<u64>, BTreeMap<u64, u64>), Refusal> {
        let mut moved = BTreeMap::new();
        let answer = match *call {
            Call::Map { span, protection, backing, shared, is_huge } => {
                let mut span = span;
                if is_huge {
                    if span.start % SLOT != 0 {
                        return Err(Refusal::Misaligned);
                    }
                    span.end = span.end.next_multiple_of(SLOT);
                }
                self.check_edges([span.start, span.end])?;
                let answer = self.mapped(span.iter());
                let page = Page { protection, backing, shared, is_huge, ..Page::PLAIN };
                self.pages.extend(span.iter().map(|number| (number, page)));
                answer
            }
            Call::Unmap(span) => {
                self.check_edges([span.start, span.end])?;
                let answer = self.mapped(span.iter());
                self.pages.retain(|page, _| !answer.contains(page));
                answer
            }
            Call::Protect(span, protection) => {
                self.check_edges([span.start, span.end])?;
                let changed = |page: &u64| self.pages[page].protection != protection;
                let answer: BTreeSet<u64> = self.mapped(span.iter()).into_iter().filter(changed).collect();
                for page in &answer {
                    self.pages.get_mut(page).unwrap().protection = protection;
                }
                answer
            }
            Call::Advise(span, advice) => self.advise(span, advice),
            Call::Break(span) => {
                // Rounded up at both ends.
                let start = span.start + u64::from(span.inset[0] > 0);
                self.set_break((start..span.end.max(start)).collect())?
            }
            Call::Remap { from, to, pages } => {
                let (answer, pairs) = self.remap(from, to, pages)?;
                moved = pairs;
                answer
            }
        };
        Ok((answer, moved))
    }

    fn advise(&mut self, span: Span, advice: Advice) -> BTreeSet<u64> {
        let pages_of = |is_meant: fn(&Page) -> bool| {
            let pages = self.pages.range(span.iter()).filter(|(_, page)| is_meant(page));
            pages.map(|(&number, _)| number).collect()
        };
        let all = pages_of(|_| true);
        let change: fn(&mut Page) = match advice {
            Advice::HugePage => |page| page.advice = HugePageAdvice::HugePage,
            Advice::NoHugePage => |page| page.advice = HugePageAdvice::NoHugePage,
            Advice::DontFork => |page| page.dont_fork = true,
            Advice::DoFork => |page| page.dont_fork = false,
            Advice::WipeOnFork => |page| page.wipe_on_fork = page.is_private_anonymous(),
            Advice::KeepOnFork => |page| page.wipe_on_fork = false,
            Advice::Lock | Advice::LockOnFault => |page| page.locked = true,
            Advice::Unlock => |page| page.locked = false,
            Advice::Populate | Advice::PopulateRead | Advice::PopulateWrite => return all,
            Advice::Free | Advice::WillNeed => return pages_of(Page::is_private_anonymous),
            Advice::Cold | Advice::PageOut => return pages_of(|page| !page.locked && !page.is_huge),
            Advice::Remove => return pages_of(|page| page.shared && !page.is_huge),
            // Of explicit huge pages only whole ones inside the span are dropped.
            Advice::DontNeed => {
                let is_whole = |page: &u64| {
                    let slot = page / SLOT * SLOT;
                    !self.is_huge(*page) || (span.start <= slot && slot + SLOT <= span.end)
                };
                return self.mapped(span.iter()).into_iter().filter(is_whole).collect();
            }
            Advice::Collapse => {
                let slots = span.start.div_ceil(SLOT)..span.end / SLOT;
                let whole = slots.filter(|&slot| {
                    self.uniform_private_slot(slot * SLOT)
                        .is_some_and(|page| page.advice != HugePageAdvice::NoHugePage)
                });
                return whole.flat_map(|slot| slot * SLOT..(slot + 1) * SLOT).collect();
            }
        };
        let changed = self.pages.range_mut(span.iter()).map(|(_, page)| page);
        changed.filter(|page| !page.is_huge).for_each(change);
        let tells = matches!(advice, Advice::Lock | Advice::LockOnFault | Advice::Unlock);
        if tells { all } else { BTreeSet::new() }
    }

    fn set_break(&mut self, new: BTreeSet<u64>) -> Result<BTreeSet<u64>, Refusal> {
        let old = &self.heap;
        let removed: BTreeSet<u64> = old.difference(&new).copied().collect();
        let added: BTreeSet<u64> = new.difference(old).copied().collect();
        for &page in removed.iter().chain(&added) {
            // An edge is where the set begins or ends.
            let set = if removed.contains(&page) { &removed } else { &added };
            let begins = page == 0 || !set.contains(&(page - 1));
            let ends = !set.contains(&(page + 1));
            self.check_edges([if begins { page } else { 0 }, if ends { page + 1 } else { 0 }])?;
        }
        let answer = self.mapped(removed.iter().chain(&added).copied());
        self.pages.retain(|page, _| !removed.contains(page));
        self.pages.extend(added.iter().map(|&number| (number, Page::PLAIN)));
        self.heap = new;
        Ok(answer)
    }

    fn remap(
        &mut self,
        from: Span,
        to: u64,
        pages: u64,
    ) -> Result<(BTreeSet<u64>, BTreeMap<u64, u64>), Refusal> {
        let unit = if self.is_huge(from.start) { SLOT } else { 1 };
        let from = from.start..from.end.next_multiple_of(unit);
        let to = to..(to + pages).next_multiple_of(unit);
        let in_place = from.start == to.start;
        if from.is_empty() || to.is_empty() || (!in_place && from.start < to.end && to.start < from.end) {
            return Err(Refusal::BadRemap);
        }
        self.check_edges([from.start, from.end])?;
        self.check_edges([to.start, to.end])?;
        let source = self.mapped(from.clone());
        let (old_len, new_len) = (from.end - from.start, to.end - to.start);
        if source.is_empty() || (new_len > old_len && !source.contains(&(from.end - 1))) {
            return Err(Refusal::NotMapped);
        }
        let moved_page = |page: u64| page - from.start + to.start;
        let mut result: BTreeMap<u64, Page> = source
            .iter()
            .map(|&page| (moved_page(page), self.pages[&page]))
            .filter(|&(page, _)| page < to.end)
            .collect();
        if new_len > old_len {
            let last = self.pages[&(from.end - 1)];
            result.extend((moved_page(from.end)..to.end).map(|page| (page, last)));
        }
        // Every run of huge pages begins and ends at multiples of their size.
        for (&page, attributes) in &result {
            let whole = (page / SLOT * SLOT..)
                .take(SLOT as usize)
                .all(|other| result.get(&other) == Some(attributes));
            if attributes.is_huge && !whole {
                return Err(Refusal::Misaligned);
            }
        }
        let kept: BTreeSet<u64> = source.iter().copied().filter(|&page| moved_page(page) < to.end).collect();
        let mut answer: BTreeSet<u64> = source.difference(&kept).copied().collect();
        answer.extend(self.mapped(to.clone()).into_iter().filter(|page| !in_place || *page >= from.end));
        self.pages.retain(|page, _| !from.contains(page) && !to.contains(page));
        self.pages.extend(result);
        let moved = kept.iter().filter(|_| !in_place).map(|&page| (page, moved_page(page))).collect();
        Ok((answer, moved))
    }

    /// The attributes of a 2 MiB slot whose pages are alike and could be served by a transparent huge page.
    fn uniform_private_slot(&self, first: u64) -> Option<Page> {
        let page = *self.pages.get(&first)?;
        let alike = (first..first + SLOT).all(|other| self.pages.get(&other) == Some(&page));
        (alike && page.is_private_anonymous()).then_some(page)
    }

    fn page_sizes(&self, policy: HugePagePolicy, page: u64) -> Vec<PageSize> {
        if self.is_huge(page) {
            return vec![PageSize::Size2M];
        }
        let wanted = self.uniform_private_slot(page / SLOT * SLOT).is_some_and(|page| match page.advice {
            HugePageAdvice::NoHugePage => false,
            HugePageAdvice::HugePage => policy != HugePagePolicy::Never,
            HugePageAdvice::Default => policy == HugePagePolicy::Always,
        });
        if wanted { vec![PageSize::Size2M, PageSize::Size4K] } else { vec![PageSize::Size4K] }
    }
}

/// Performs the call; answers pages and moves like [`Model::apply`].
fn perform(space: &mut AddressSpace, call: &Call) -> Result<(BTreeSet<u64>, BTreeMap<u64, u64>), Refusal> {
    let mut moved = BTreeMap::new();
    let answer = match *call {
        Call::Map { span, protection, backing, shared, is_huge } => {
            let huge = is_huge.then_some(PageSize::Size2M);
            space.map(Mapping { protection, backing, shared, huge, ..Mapping::anonymous(span.bytes()) })
        }
        Call::Unmap(span) => space.unmap(span.bytes()),
        Call::Protect(span, protection) => space.protect(span.bytes(), protection),
        Call::Advise(span, advice) => space.advise(span.bytes(), advice),
        Call::Break(span) => space.set_break(span.bytes()),
        Call::Remap { from, to, pages: count } => {
            space.remap(from.bytes(), pages(to, to + count)).map(|answer| {
                for (from, to) in answer.moved {
                    moved.extend(numbers(from).map(|page| (page, page - from.start.page().0 + to.page().0)));
                }
                answer.dropped
            })
        }
    };
    let answer = answer.map_err(|error| match error {
        SpaceError::MisalignedHugePages { .. } => Refusal::Misaligned,
        SpaceError::SplitsHugePage { .. } => Refusal::SplitsHuge,
        SpaceError::NotMapped { .. } => Refusal::NotMapped,
        SpaceError::BadRemap { .. } => Refusal::BadRemap,
        other => panic!("{other}"),
    })?;
    let listed: Vec<u64> = answer.into_iter().flat_map(numbers).collect();
    let set: BTreeSet<u64> = listed.iter().copied().collect();
    assert_eq!(set.len(), listed.len(), "the answer names a page twice");
    Ok((set, moved))
}

fn numbers(range: VirtRange) -> std::ops::Range<u64> {
    range.start.page().0..range.end.page().0
}

/// Every page has the model's attributes; VMAs are in order and cannot be merged further.
fn compare(space: &AddressSpace, model: &Model) {
    let mut pages = BTreeMap::new();
    let mut previous: Option<Vma> = None;
    for &vma in space.vmas() {
        let Vma { protection, backing, shared, advice, huge, locked, dont_fork, wipe_on_fork, .. } = vma;
        let is_huge = huge.is_some();
        let page = Page { protection, backing, shared, is_huge, advice, locked, dont_fork, wipe_on_fork };
        assert!(!vma.range.is_empty() && !vma.grows_down);
        if let Some(previous) = previous {
            assert!(previous.range.end <= vma.range.start, "{previous:?} overlaps {vma:?}");
            let alike = Vma { range: vma.range, ..previous } == vma;
            assert!(!alike || previous.range.end < vma.range.start, "{previous:?} and {vma:?} should be one");
        }
        previous = Some(vma);
        pages.extend(numbers(vma.range).map(|number| (number, page)));
    }
    assert_eq!(pages, model.pages);
    assert_eq!(space.mapped_bytes(), pages.len() as u64 * PAGE_BYTES);
}

fn compare_faults(space: &mut AddressSpace, model: &Model, page: u64, write: bool, execute: bool) {
    let addr = VirtAddr(page * PAGE_BYTES + 123);
    match (space.fault(addr, write, execute), model.pages.get(&page)) {
        (Err(FaultError::Unmapped { .. }), None) => {}
        (Err(FaultError::ProtectionViolation { protection, .. }), Some(expected)) => {
            assert_eq!(protection, expected.protection);
            assert!(!protection.allows(write, execute));
        }
        (Ok(plan), Some(expected)) => {
            assert!(expected.protection.allows(write, execute));
            assert!(plan.vma.range.contains(addr));
            assert_eq!(plan.page_sizes, model.page_sizes(space.policy, page));
        }
        (got, expected) => panic!("page {page:#x}: {got:?}, but the model has {expected:?}"),
    }
}

/// Page numbers that like the edges of slots.
fn page_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..PAGES,
        2 => (0..=PAGES / SLOT).prop_map(|slot| slot * SLOT),
        1 => (1..PAGES / SLOT, 0u64..3).prop_map(|(slot, offset)| slot * SLOT + offset - 1),
    ]
}

fn span() -> impl Strategy<Value = Span> {
    let inset = || prop_oneof![3 => Just(0u64), 1 => 1..PAGE_BYTES];
    (page_number(), page_number(), inset(), inset()).prop_filter_map(
        "an empty span",
        |(a, b, first, last)| {
            let (start, end) = (a.min(b), a.max(b));
            // A span of one page must keep a byte.
            let inset = if end - start < 2 { [0, 0] } else { [first, last] };
            (start < end).then_some(Span { start, end, inset })
        },
    )
}

fn protection() -> impl Strategy<Value = Protection> {
    prop_oneof![Just(Protection::READ_WRITE), Just(READ), Just(NONE)]
}

fn call() -> impl Strategy<Value = Call> {
    let kind = prop_oneof![
        4 => Just((Backing::Anonymous, false, false)),
        1 => Just((Backing::File, false, false)),
        1 => Just((Backing::Anonymous, true, false)),
        2 => Just((Backing::Anonymous, false, true)),
    ];
    let advice = proptest::sample::select(Advice::ALL.to_vec());
    prop_oneof![
        4 => (span(), protection(), kind).prop_map(|(span, protection, (backing, shared, is_huge))| {
            Call::Map { span, protection, backing, shared, is_huge }
        }),
        2 => span().prop_map(Call::Unmap),
        2 => (span(), protection()).prop_map(|(span, protection)| Call::Protect(span, protection)),
        2 => (span(), advice).prop_map(|(span, advice)| Call::Advise(span, advice)),
        2 => span().prop_map(Call::Break),
        2 => (span(), page_number(), 1..=SLOT).prop_map(|(from, to, pages)| Call::Remap { from, to, pages }),
        1 => (span(), 1..=2 * SLOT).prop_map(|(from, pages)| Call::Remap { from, to: from.start, pages }),
    ]
}

fn policy() -> impl Strategy<Value = HugePagePolicy> {
    prop_oneof![Just(HugePagePolicy::Never), Just(HugePagePolicy::Madvise), Just(HugePagePolicy::Always)]
}

proptest! {
    #[test]
    fn every_page_is_as_in_the_model(
        policy in policy(),
        calls in prop::collection::vec(call(), 1..25),
        faults in prop::collection::vec((0..PAGES, any::<bool>(), any::<bool>()), 25),
    ) {
        let mut space = AddressSpace::new(policy);
        let mut model = Model::default();
        for (call, &(page, write, execute)) in calls.iter().zip(&faults) {
            let before: Vec<Vma> = space.vmas().copied().collect();
            let (got, expected) = (perform(&mut space, call), model.apply(call));
            prop_assert_eq!(&got, &expected, "{:?}", call);
            if got.is_err() {
                prop_assert!(space.vmas().eq(&before), "a refused call changed something");
            }
            compare(&space, &model);
            compare_faults(&mut space, &model, page, write, execute);
        }
    }
}
