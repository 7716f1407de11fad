//! The controllers once more, from the rules and as naively as they read: lists that are searched and nothing kept that can
//! be counted. It answers the same effects, except that it numbers slots in its own way.

use super::*;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Free,
    Reserved,
    Page { page: u64, dirty: bool, used_at: u64 },
}

struct Pending {
    page: u64,
    way: (usize, usize),
    waiters: Vec<(u32, Completion)>,
}

/// A page of the evict buffer.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    page: u64,
    slot: u16,
    /// The page that the thread waits for.
    waits_for: Option<u64>,
    writing: bool,
}

pub(super) struct Model {
    design: TierDesign,
    sets: Vec<Vec<Way>>,
    /// NRU: ways that were used, by set.
    used: Vec<Vec<usize>>,
    uses: u64,
    pending: Vec<Pending>,
    leaving: Vec<Leaving>,
    queue: Vec<(u64, u32, Completion)>,
}

impl Model {
    pub(super) fn new(design: &TierDesign) -> Self {
        Self {
            sets: vec![vec![Way::Free; design.ways as usize]; design.sets as usize],
            used: vec![Vec::new(); design.sets as usize],
            uses: 0,
            pending: Vec::new(),
            leaving: Vec::new(),
            queue: Vec::new(),
            design: design.clone(),
        }
    }

    fn above_controller(&self, page: u64) -> u64 {
        page / 2u64.pow(self.design.index_shift)
    }

    fn set_of(&self, page: u64) -> usize {
        (self.above_controller(page) % u64::from(self.design.sets)) as usize
    }

    fn miss_set_of(&self, page: u64) -> u64 {
        self.above_controller(page) % u64::from(self.design.miss_status.sets)
    }

    fn frame(&self, (set, way): (usize, usize)) -> u32 {
        set as u32 * self.design.ways + way as u32
    }

    fn find(&self, wanted: u64) -> Option<(usize, usize)> {
        let set = self.set_of(wanted);
        let holds = |way: &Way| matches!(way, Way::Page { page, .. } if *page == wanted);
        Some((set, self.sets[set].iter().position(holds)?))
    }

    pub(super) fn lookup(&mut self, page: u64, write: bool) -> Option<u32> {
        let (set, at) = self.find(page)?;
        let Way::Page { dirty, .. } = self.sets[set][at] else { unreachable!() };
        self.put((set, at), page, dirty || write);
        Some(self.frame((set, at)))
    }

    fn put(&mut self, (set, at): (usize, usize), page: u64, dirty: bool) {
        self.uses += 1;
        self.sets[set][at] = Way::Page { page, dirty, used_at: self.uses };
        let used = &mut self.used[set];
        if !used.contains(&at) {
            used.push(at);
            if used.len() == self.design.ways as usize {
                *used = vec![at];
            }
        }
    }

    fn victim(&self, set: usize) -> Option<usize> {
        let ways = &self.sets[set];
        if let Some(free) = ways.iter().position(|way| *way == Way::Free) {
            return Some(free);
        }
        let resident: Vec<usize> = (0..ways.len()).filter(|&at| ways[at] != Way::Reserved).collect();
        let used_at = |at: usize| if let Way::Page { used_at, .. } = ways[at] { used_at } else { u64::MAX };
        match self.design.replacement {
            Replacement::Lru => resident.into_iter().min_by_key(|&at| used_at(at)),
            Replacement::Nru => {
                let unused = resident.iter().find(|at| !self.used[set].contains(at));
                unused.or(resident.first()).copied()
            }
        }
    }

    pub(super) fn accepts(&self) -> bool {
        self.queue.len() < self.design.queue as usize
    }

    pub(super) fn step(&mut self, event: Event<u32>) -> Step {
        let mut effects = Vec::new();
        match event {
            Event::Miss { page, waiter, completes } => self.queue.push((page.0, waiter, completes)),
            Event::Arrived { page } => self.arrive(page.0, &mut effects),
            Event::Written { page } => {
                let at = self.leaving.iter().position(|it| it.page == page.0 && it.writing).unwrap();
                self.leaving.remove(at);
            }
        }
        self.write_what_may_go(&mut effects);
        while let Some(&(page, waiter, completes)) = self.queue.first() {
            if !self.serve(page, waiter, completes, &mut effects) {
                break;
            }
            self.queue.remove(0);
        }
        // Wakes come after writes.
        effects
    }

    fn arrive(&mut self, page: u64, effects: &mut Step) {
        let at = self.pending.iter().position(|it| it.page == page).unwrap();
        let Pending { way, waiters, .. } = self.pending.remove(at);
        let writes = waiters.iter().any(|(_, completes)| *completes == NOW_WRITE);
        self.put(way, page, writes);
        effects.push(install(page, self.frame(way)));
        for it in &mut self.leaving {
            if it.waits_for == Some(page) {
                it.waits_for = None;
            }
        }
        self.write_what_may_go(effects);
        for (waiter, completes) in waiters {
            effects.push(wake(waiter, completes, page, self.frame(way)));
        }
    }

    /// Everything in the buffer that waits for nothing, unless the page is being written already.
    fn write_what_may_go(&mut self, effects: &mut Step) {
        for at in 0..self.leaving.len() {
            let Leaving { page, slot, waits_for, writing } = self.leaving[at];
            let busy = self.leaving.iter().any(|it| it.page == page && it.writing);
            if waits_for.is_none() && !writing && !busy {
                self.leaving[at].writing = true;
                effects.push(super::write(page, slot));
            }
        }
    }

    /// The page of this way leaves. `None` if there is no room.
    fn clear(
        &mut self,
        (set, at): (usize, usize),
        waits_for: Option<u64>,
        room: usize,
        effects: &mut Step,
    ) -> Option<()> {
        let frame = self.frame((set, at));
        match self.sets[set][at] {
            Way::Page { dirty: true, .. } if self.leaving.len() >= room => return None,
            Way::Page { page, dirty: true, .. } => {
                let slot = (0..).find(|slot| self.leaving.iter().all(|it| it.slot != *slot)).unwrap();
                self.leaving.push(Leaving { page, slot, waits_for, writing: false });
                effects.push(copy(page, frame, slot));
            }
            Way::Page { page, .. } => effects.push(discard(page, frame)),
            _ => {}
        }
        Some(())
    }

    /// Whether the miss could be served.
    fn serve(&mut self, page: u64, waiter: u32, completes: Completion, effects: &mut Step) -> bool {
        if let Some(pending) = self.pending.iter_mut().find(|it| it.page == page) {
            pending.waiters.push((waiter, completes));
            return true;
        }
        if let Some(way) = self.find(page) {
            if let Completion::Now { write } = completes {
                self.lookup(page, write);
            }
            effects.push(wake(waiter, completes, page, self.frame(way)));
            return true;
        }
        let here: Vec<usize> = (0..self.leaving.len()).filter(|&at| self.leaving[at].page == page).collect();
        let newest = here.iter().copied().find(|&at| !self.leaving[at].writing).or(here.first().copied());
        let full =
            self.pending.iter().filter(|it| self.miss_set_of(it.page) == self.miss_set_of(page)).count()
                == self.design.miss_status.ways as usize;
        if newest.is_none() && full {
            return false;
        }
        let set = self.set_of(page);
        let Some(at) = self.victim(set) else { return false };
        let way = (set, at);
        let room = self.design.evict_buffer as usize;
        if let Some(newest) = newest {
            let Leaving { slot, writing, .. } = self.leaving[newest];
            if self.clear(way, None, if writing { room } else { room + 1 }, effects).is_none() {
                return false;
            }
            effects.push(restore(page, slot, self.frame(way)));
            if !writing {
                self.leaving.remove(newest);
            }
            self.put(way, page, !writing || completes == NOW_WRITE);
            self.write_what_may_go(effects);
            effects.push(wake(waiter, completes, page, self.frame(way)));
        } else {
            let mut leaves = Vec::new();
            if self.clear(way, Some(page), room, &mut leaves).is_none() {
                return false;
            }
            effects.push(read(page, self.frame(way)));
            effects.append(&mut leaves);
            self.sets[set][at] = Way::Reserved;
            self.pending.push(Pending { page, way, waiters: vec![(waiter, completes)] });
        }
        true
    }
}
