//! Lines on their way, and prefetchers: what a core that executes instructions adds to its caches.

use pagewalk_vm::addr::PhysAddr;

use super::arrivals::Arrivals;
use super::cache::{LINE_SHIFT, MemoryHierarchy};
use super::filling::Filling;
use super::pool::Pool;
use super::prefetch::{Ask, Heard, Prefetchers, Wanted};
use super::reference::MemoryReference;
use crate::metrics::Rows;
use crate::metrics::names::{cache, memory};
use crate::spec::settings::MachineSpec;

/// What a hierarchy knows of each core's lines on their way, and its prefetchers.
#[derive(Clone, Debug)]
pub(super) struct Following {
    /// By core.
    cores: Vec<Core>,
    has_caches: bool,
    /// By level, the lines that prefetchers brought there; none if no level has prefetchers.
    prefetched: Option<Vec<u64>>,
    memory_prefetch_reads: u64,
}

#[derive(Clone, Debug)]
struct Core {
    arrivals: Arrivals,
    /// The first cache, as it takes lines.
    filling: Filling,
    /// By level, nearest first.
    prefetchers: Vec<Option<Prefetchers>>,
    /// Lines that its prefetchers wait for.
    under_way: Pool,
}

/// An access of an executed instruction that was found at a level, after so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) instruction: u64,
    /// The page of the virtual address, in 4 KiB.
    pub(super) page: u64,
    pub(super) addr: PhysAddr,
    pub(super) at_ps: u64,
    /// What its translation had taken by then.
    pub(super) translation_ps: u64,
    pub(super) level: usize,
    pub(super) latency_ps: u64,
}

/// What becomes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Followed {
    pub(super) latency_ps: u64,
    /// How long of the latency memory hands over other lines.
    pub(super) queued_ps: u64,
    /// By how much the access goes out earlier: a prefetcher has had its page translated.
    pub(super) earlier_ps: u64,
}

impl Found {
    fn line(&self) -> u64 {
        self.addr.0 >> LINE_SHIFT
    }
}

impl Following {
    /// Creates the prefetchers of a machine's cores, which have heard of nothing.
    pub(super) fn new(spec: &MachineSpec) -> Self {
        let caches = &spec.hierarchy.caches;
        let own = spec.core.dataflow.as_ref();
        let under_way = own.map_or(1, |own| own.prefetches);
        let core = || Core {
            arrivals: Arrivals::new(),
            filling: Filling::new(&spec.core, caches.first()),
            prefetchers: caches.iter().map(Prefetchers::new).collect(),
            under_way: Pool::new(under_way),
        };
        Self {
            cores: (0..spec.core.count).map(|_| core()).collect(),
            has_caches: !caches.is_empty(),
            prefetched: caches.iter().any(|cache| cache.prefetch.is_some()).then(|| vec![0; caches.len()]),
            memory_prefetch_reads: 0,
        }
    }

    /// Adds the counts of prefetchers to the rows, if there are any.
    pub(super) fn rows(&self, rows: &mut Rows) {
        let Some(prefetched) = &self.prefetched else { return };
        for (level, count) in (1..).zip(prefetched) {
            rows.sum(cache::prefetches(level), *count);
        }
        rows.sum(memory::PREFETCH_READS, self.memory_prefetch_reads);
    }
}

impl MemoryHierarchy {
    /// Follows the accesses of the machine's cores from now on.
    pub(super) fn follow_cores(&mut self, spec: &MachineSpec) {
        self.followed = Some(Box::new(Following::new(spec)));
    }

    /// Follows an access: it waits for a line that is on its way, and prefetchers hear of it.
    #[inline]
    pub(super) fn follow(&mut self, core: usize, found: &Found) -> Followed {
        match &mut self.followed {
            Some(followed) if found.level == 0 && followed.has_caches => {
                let arrives_ps = followed.cores[core].arrivals.behind(found.line(), found.at_ps).unwrap_or(0);
                self.let_hear(core, found, 0);
                let latency_ps = found.latency_ps.max(arrives_ps.saturating_sub(found.at_ps));
                Followed { latency_ps, ..Followed::default() }
            }
            _ => self.follow_farther(core, found),
        }
    }

    /// The same of an access that is not found in the nearest cache.
    #[inline(never)]
    fn follow_farther(&mut self, core: usize, found: &Found) -> Followed {
        let (levels, line) = (self.levels(), found.line());
        let queued_ps = self.queued_ps(found.level, found.latency_ps);
        let Found { at_ps, translation_ps, mut latency_ps, .. } = *found;
        let mut earlier_ps = 0;
        let Some(followed) = &mut self.followed else {
            return Followed { latency_ps, queued_ps, earlier_ps };
        };
        let arrivals = &mut followed.cores[core].arrivals;
        let is_under_way = arrivals.behind(line, found.at_ps).filter(|_| found.level < levels);
        if let Some(arrives_ps) = is_under_way {
            latency_ps = latency_ps.max(arrives_ps.saturating_sub(found.at_ps));
        }
        let nearest_ps = self.nearest_latency_ps();
        for level in 0..levels.min(found.level + 1) {
            if let Some(asked_ps) = self.let_hear(core, found, level) {
                // It was asked for when its page had not been reached yet, with a translation of its own.
                let gone_ps = asked_ps + translation_ps;
                earlier_ps = translation_ps.min(at_ps.saturating_sub(gone_ps));
                let left_ps = (gone_ps + latency_ps).saturating_sub(at_ps - earlier_ps);
                latency_ps = latency_ps.min(left_ps.max(nearest_ps));
            }
        }
        if found.level > 0
            && is_under_way.is_none()
            && let Some(followed) = &mut self.followed
        {
            let own = &mut followed.cores[core];
            let at_ps = at_ps - earlier_ps;
            let arrives_ps = own.filling.take(line, at_ps, latency_ps);
            own.arrivals.note(line, arrives_ps);
            latency_ps = arrives_ps - at_ps;
        }
        Followed { latency_ps, queued_ps: queued_ps.min(latency_ps), earlier_ps }
    }

    /// Lets the prefetchers of a level that an access reached hear of it; returns when they asked for its line, if that was earlier.
    #[inline(always)]
    fn let_hear(&mut self, core: usize, found: &Found, level: usize) -> Option<u64> {
        let &Found { instruction, page, at_ps, .. } = found;
        let heard = Heard { instruction, page, line: found.line(), is_miss: found.level > level, at_ps };
        let mut wanted = Wanted::new();
        // Taken out, because a prefetcher may ask which lines the level has.
        let mut followed = self.followed.take()?;
        let prefetchers = followed.cores[core].prefetchers.get_mut(level).and_then(Option::as_mut);
        let asked_ps =
            prefetchers.and_then(|own| own.hear(&heard, |line| self.holds(core, line, level), &mut wanted));
        self.followed = Some(followed);
        if !wanted.is_empty() {
            self.prefetch_all(core, &wanted, level, at_ps);
        }
        asked_ps
    }

    #[inline(never)]
    fn prefetch_all(&mut self, core: usize, wanted: &Wanted, into: usize, now_ps: u64) {
        let farthest = self.levels() - 1;
        wanted
            .iter()
            .for_each(|ask| self.prefetch(core, ask, farthest.min(into + usize::from(ask.is_far)), now_ps));
    }

    /// Brings a line into a level from below, as of a time, unless it is there. If too much is under way, it is asked for later; not at all, if
    /// that is later than what is under way has to wait for memory, or if a set of the first cache has no room. What the next cache has is not waited for.
    fn prefetch(&mut self, core: usize, &Ask { line, at_ps, .. }: &Ask, into: usize, now_ps: u64) {
        if self.holds(core, line, into) {
            return;
        }
        let (levels, next) = (self.levels(), into + 1);
        let is_next = next < levels && self.holds(core, line, next);
        let Some(followed) = &self.followed else { return };
        let free_ps = if is_next { 0 } else { followed.cores[core].under_way.next_free_ps() };
        let asked_ps = free_ps.max(at_ps);
        if free_ps > now_ps + self.memory_latency_ps()
            || (into == 0 && !followed.cores[core].filling.has_room(line, asked_ps))
        {
            return;
        }
        let from = match is_next {
            true => next,
            false => (next + 1..levels).find(|&at| self.holds(core, line, at)).unwrap_or(levels),
        };
        if from == levels && self.tier().is_some() {
            // A page that comes from flash wakes the core that asked for it, and no core waits for a prefetch.
            return;
        }
        let latency_ps = match from < levels {
            true => self.hit_latency_ps(core, line, from),
            false => {
                let addr = PhysAddr(line << LINE_SHIFT);
                let Ok(latency_ps) = self.below(core, addr, MemoryReference::Load, asked_ps) else { return };
                latency_ps
            }
        };
        self.fill(core, line, into, from, false, asked_ps);
        let Some(followed) = &mut self.followed else { return };
        let Following { cores, prefetched, memory_prefetch_reads, .. } = &mut **followed;
        *memory_prefetch_reads += u64::from(from == levels);
        if !is_next {
            cores[core].under_way.take(asked_ps, |start_ps| start_ps + latency_ps);
        }
        let Core { arrivals, filling, .. } = &mut cores[core];
        // It may still be on its way to the level that has it.
        let pending_ps = if from < levels { arrivals.behind(line, asked_ps).unwrap_or(0) } else { 0 };
        let taken_ps =
            if into == 0 { filling.take(line, asked_ps, latency_ps) } else { asked_ps + latency_ps };
        let arrives_ps = taken_ps.max(pending_ps);
        arrivals.note(line, arrives_ps);
        if let Some(prefetched) = prefetched {
            prefetched[into] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use crate::spec::settings::{PrefetchSpec, StreamSpec};

    /// A page's lines in turn, a microsecond apart, and then the first line of the next page, whose translation took so long: what becomes of
    /// it.
    fn into_the_next_page(translation_ps: u64, prefetch: Option<PrefetchSpec>) -> Followed {
        let mut spec = spec::load("zen3").expect("a built-in machine");
        spec.hierarchy.memory.refresh = None;
        spec.hierarchy.caches.iter_mut().for_each(|cache| cache.prefetch = None);
        spec.hierarchy.caches[0].prefetch = prefetch;
        let mut memory = MemoryHierarchy::new(&spec, PhysAddr(1 << 30));
        memory.follow_cores(&spec);
        let mut last = Followed::default();
        for line in 0..65 {
            let addr = PhysAddr(line << LINE_SHIFT);
            let translation_ps = if line == 64 { translation_ps } else { 0 };
            let at_ps = (line + 1) * 1_000_000 + translation_ps;
            let answer = memory.access(0, addr, MemoryReference::Load, at_ps).ok();
            let (level, latency_ps) = answer.expect("no page is elsewhere");
            let found =
                Found { instruction: 0, page: line / 64, addr, at_ps, translation_ps, level, latency_ps };
            last = memory.follow(0, &found);
        }
        last
    }

    #[test]
    fn a_stream_has_its_next_page_translated_while_the_program_is_in_the_one_before() {
        let stream = || {
            let stream = Some(StreamSpec { pages: 4, distance: 8, near: 0, crosses_pages: true });
            Some(PrefetchSpec { next_line: None, stride: None, stream })
        };
        let nearest_ps = into_the_next_page(0, stream()).latency_ps;
        let memory_ps = into_the_next_page(0, None).latency_ps;
        assert!(memory_ps > 10 * nearest_ps, "{nearest_ps}, {memory_ps}");
        let of = |ps| into_the_next_page(ps, stream());
        let all = |latency_ps, earlier_ps| Followed { latency_ps, queued_ps: 0, earlier_ps };
        // It was asked for eight microseconds before.
        assert_eq!(of(100_000), all(nearest_ps, 100_000));
        assert_eq!(
            of(8_000_000),
            all(memory_ps, 8_000_000),
            "there just in time, and then its line is asked for"
        );
        assert_eq!(of(9_000_000), all(memory_ps, 8_000_000), "the rest of a walk that is longer");
        assert_eq!(into_the_next_page(100_000, None), all(memory_ps, 0));
    }
}
