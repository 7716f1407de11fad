//! DRAM as a cache over flash, in time.
//!
//! The mechanism is [`Tier`]; here its effects take time. Per controller:
//!
//! ```text
//! frontside   tag check; on a hit also the data; a miss goes into the queue, and an answer to the core
//! queue       full: the frontside stalls, with everything that comes to it, until the backside takes a miss out
//! backside    one thing at a time, arrivals of pages before misses; each command takes its time, and DRAM's
//! flash       reads before writes
//! ```
//!
//! A core hears of a page when it is installed. Where the kernel manages pages there are neither tags nor controllers'
//! queues: it asks for a page, and the machine charges the kernel's steps itself.

mod kernel;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::sched::Ticket;
use pagewalk_vm::tier::{Completion, Effect, Event, FlashPage, FrameIndex, Tier};

use super::device::Flash;
use super::dram::{DramRequest, PagedDram};
use super::{EventQueue, MissKind, Missed};
use crate::metrics::Rows;
use crate::metrics::names::tier;
use crate::spec::settings::{DramSpec, TierSpec};

/// The owner of an access that waits: a core, and the run of a thread on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The number of the core.
    pub core: u32,
    /// The run of a thread on the core.
    pub ticket: Ticket,
}

/// The waiter of a page that no access waits for.
const NO_WAITER: Waiter = Waiter { core: u32::MAX, ticket: Ticket { place: 0, run: 0 } };

/// The arrival of a page that a core or thread waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// The owner of the access that waited.
    pub waiter: Waiter,
    /// Whether the core was waiting, and goes on with the access.
    pub is_synchronous: bool,
    /// The page that has arrived.
    pub page: FlashPage,
}

/// The requester of an access, and whether a core that waits must complete the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester {
    /// The owner of the access.
    pub waiter: Waiter,
    /// The forward-progress bit of the access.
    pub must_complete: bool,
    /// The page that has just arrived for the requester: its access uses the page, even if that has left again.
    pub granted: Option<FlashPage>,
}

impl Requester {
    /// Returns the requester for a core that waits for every page.
    pub fn waiting(core: usize, granted: Option<FlashPage>) -> Self {
        let waiter = Waiter { core: core as u32, ticket: Ticket { place: 0, run: 0 } };
        Self { waiter, must_complete: true, granted }
    }
}

/// An event of the memory system that happens without a core.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The backside of a controller takes the next miss.
    Backside(usize),
    /// Flash has read a page.
    Arrived(FlashPage),
    /// A page is in its place.
    Wake(Woken),
}

/// A miss on its way to the backside.
#[derive(Clone, Copy, Debug)]
struct Request {
    page: FlashPage,
    waiter: Waiter,
    completes: Completion,
}

#[derive(Clone, Debug)]
struct Controller {
    tier: Tier<Waiter>,
    queue: VecDeque<Request>,
    /// Until when the backside is busy.
    busy_ps: u64,
    /// Whether it is going to take the next miss.
    is_called: bool,
    /// Cores that wait for the frontside.
    stalled: Vec<Waiter>,
}

/// Hits, and what was late.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    walk_hits: u64,
    walk_misses: u64,
    stalls: u64,
    /// Lines that came from the last cache for a page that was not there any more.
    orphans: u64,
    synchronous: u64,
}

/// DRAM as a cache over flash, with its controllers and the flash device.
#[derive(Clone, Debug)]
pub struct TieredMemory {
    controllers: Vec<Controller>,
    dram: PagedDram,
    flash: Flash,
    due: EventQueue<Due>,
    effects: Vec<Effect<Waiter>>,
    /// Of a kernel that manages pages: those that left since it was asked.
    left: Vec<FlashPage>,
    manner: Manner,
    counts: Counts,
}

/// The way in which pages are brought in and out.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Whether the kernel does it, and not the controllers.
    by_kernel: bool,
    /// Whether page tables are in a part of DRAM of their own.
    tables_in_dram: bool,
    /// Most misses that a controller has waiting.
    queue_depth: usize,
    /// The backside controller's time for each of its commands.
    command_ps: u64,
}

impl TieredMemory {
    pub(super) fn new(dram: &DramSpec, spec: &TierSpec) -> Self {
        let controllers = (0..dram.channels).map(|_| Controller {
            tier: Tier::new(spec.design.clone()).expect("the machine file was checked"),
            queue: VecDeque::new(),
            busy_ps: 0,
            is_called: false,
            stalled: Vec::new(),
        });
        let by_kernel = spec.manager.kernel_interrupt_ps().is_some();
        Self {
            controllers: controllers.collect(),
            dram: PagedDram::new(dram),
            flash: Flash::new(&spec.flash),
            due: EventQueue::new(),
            effects: Vec::new(),
            left: Vec::new(),
            manner: Manner {
                by_kernel,
                tables_in_dram: spec.tables_in_dram,
                queue_depth: if by_kernel { usize::MAX } else { spec.design.queue as usize },
                command_ps: spec.manager.command_ps(),
            },
            counts: Counts::default(),
        }
    }

    fn controller_of(&self, page: FlashPage) -> usize {
        self.controllers[0].tier.design().controller_of(page)
    }

    /// Requests a line at `at_ps`; returns when it is there.
    ///
    /// # Errors
    ///
    /// Its page is not in DRAM, or the controller does not answer.
    pub(super) fn read(
        &mut self,
        at_ps: u64,
        addr: PhysAddr,
        write: bool,
        walk: bool,
        who: Requester,
    ) -> Result<u64, Missed> {
        let page = FlashPage(addr.frame().0);
        if self.manner.by_kernel || walk && self.manner.tables_in_dram {
            return Ok(self.plain(at_ps, page));
        }
        if who.granted == Some(page) {
            // It comes with the page; the tag check was before.
            return Ok(at_ps);
        }
        let number = self.controller_of(page);
        if !self.controllers[number].stalled.is_empty() {
            return Err(self.stall(number, page, at_ps, who));
        }
        let controller = &mut self.controllers[number];
        let set = controller.tier.tags().set_of(page);
        if let Some(_frame) = controller.tier.lookup(page, write) {
            #[cfg(test)]
            crate::witness::note(2, page.0, _frame.0.into(), at_ps);
            *if walk { &mut self.counts.walk_hits } else { &mut self.counts.hits } += 1;
            return Ok(self.dram.set(at_ps, number, set, DramRequest::Hit));
        }
        let signal_ps = self.dram.set(at_ps, number, set, DramRequest::Miss);
        if !self.has_room(number) {
            return Err(self.stall(number, page, signal_ps, who));
        }
        *if walk { &mut self.counts.walk_misses } else { &mut self.counts.misses } += 1;
        let completes = match who.must_complete {
            true => Completion::Now { write },
            false => Completion::Later,
        };
        self.counts.synchronous += u64::from(who.must_complete);
        #[cfg(test)]
        crate::witness::note(5, page.0, who.waiter.core.into(), signal_ps);
        self.ask(number, signal_ps, Request { page, waiter: who.waiter, completes });
        let kind = if who.must_complete { MissKind::Synchronous } else { MissKind::Away };
        Err(Missed { page, signal_ps, kind })
    }

    /// Requests a line of DRAM that has no tags; returns when it is there.
    fn plain(&mut self, at_ps: u64, page: FlashPage) -> u64 {
        self.dram.line(at_ps, page.0)
    }

    /// Takes a line that the last cache writes back.
    pub(super) fn write_back(&mut self, at_ps: u64, addr: PhysAddr) {
        let page = FlashPage(addr.frame().0);
        let number = self.controller_of(page);
        let controller = &mut self.controllers[number];
        let set = controller.tier.tags().set_of(page);
        if self.manner.by_kernel || controller.tier.lookup(page, true).is_some() {
            self.dram.set(at_ps, number, set, DramRequest::Hit);
            return;
        }
        // The page has left with an older line. It comes back for this one; no core waits.
        self.counts.orphans += 1;
        let checked_ps = self.dram.set(at_ps, number, set, DramRequest::Miss);
        let completes = Completion::Now { write: true };
        self.ask(number, checked_ps, Request { page, waiter: NO_WAITER, completes });
    }

    fn has_room(&self, number: usize) -> bool {
        let controller = &self.controllers[number];
        controller.queue.len() + controller.tier.queued() < self.manner.queue_depth
    }

    fn stall(&mut self, number: usize, page: FlashPage, signal_ps: u64, who: Requester) -> Missed {
        self.counts.stalls += 1;
        self.controllers[number].stalled.push(who.waiter);
        Missed { page, signal_ps, kind: MissKind::Stalled }
    }

    /// Puts a miss into the backside's queue.
    fn ask(&mut self, number: usize, at_ps: u64, request: Request) {
        self.controllers[number].queue.push_back(request);
        self.call(number, at_ps);
    }

    /// Lets the backside take the next miss when it can.
    fn call(&mut self, number: usize, at_ps: u64) {
        let controller = &mut self.controllers[number];
        let can = controller.tier.blocked().is_none() && !controller.queue.is_empty();
        if can && !controller.is_called {
            controller.is_called = true;
            self.due.push(controller.busy_ps.max(at_ps), Due::Backside(number));
        }
    }

    /// Returns the time of the next event; the end of time if there is none.
    #[inline]
    pub(super) fn next_ps(&self) -> u64 {
        self.due.next_ps().min(self.flash.next_written_ps())
    }

    /// Lets happen what is due by `until_ps`, until a waiter is woken; returns when that was.
    pub(super) fn advance(&mut self, until_ps: u64) -> Option<(u64, Woken)> {
        loop {
            let written_ps = self.flash.next_written_ps();
            if written_ps <= until_ps && written_ps <= self.due.next_ps() {
                if let Some((at_ps, page)) = self.flash.pop_written_by(written_ps) {
                    let page = FlashPage(page);
                    self.backside(at_ps, self.controller_of(page), Event::Written { page });
                }
                debug_assert!(self.flash.next_written_ps() >= written_ps);
                continue;
            }
            match self.due.pop_by(until_ps)? {
                (at_ps, Due::Wake(woken)) => return Some((at_ps, woken)),
                (at_ps, Due::Arrived(page)) => {
                    let number = self.controller_of(page);
                    let busy_ps = self.controllers[number].busy_ps;
                    match busy_ps > at_ps {
                        true => self.due.push(busy_ps, Due::Arrived(page)),
                        false => self.backside(at_ps, number, Event::Arrived { page }),
                    }
                }
                (at_ps, Due::Backside(number)) => {
                    let controller = &mut self.controllers[number];
                    controller.is_called = false;
                    if controller.busy_ps > at_ps || controller.tier.blocked().is_some() {
                        self.call(number, at_ps);
                        continue;
                    }
                    let Some(Request { page, waiter, completes }) = controller.queue.pop_front() else {
                        continue;
                    };
                    self.backside(at_ps, number, Event::Miss { page, waiter, completes });
                    self.unstall(number, at_ps);
                }
            }
        }
    }

    /// Cores that waited for the frontside try again.
    fn unstall(&mut self, number: usize, at_ps: u64) {
        if !self.has_room(number) {
            return;
        }
        let page = FlashPage(0);
        for waiter in std::mem::take(&mut self.controllers[number].stalled) {
            self.due.push(at_ps, Due::Wake(Woken { waiter, is_synchronous: true, page }));
        }
    }

    /// Gives the backside of a controller an event; what it then does takes its time.
    fn backside(&mut self, at_ps: u64, number: usize, event: Event<Waiter>) {
        let Self { controllers, dram, flash, due, effects, left, manner, .. } = self;
        let Manner { by_kernel, command_ps, .. } = *manner;
        let controller = &mut controllers[number];
        let set_of = |frame: FrameIndex, ways: u32| (frame.0 / ways) as usize;
        let ways = controller.tier.design().ways;
        let mut now_ps = at_ps;
        if matches!(event, Event::Miss { .. }) && !by_kernel {
            // The miss-status row.
            now_ps = dram.set(now_ps + command_ps, number, 0, DramRequest::Status);
        }
        controller.tier.step(event, effects).expect("it happened because it was asked for");
        for effect in effects.drain(..) {
            #[cfg(test)]
            match effect {
                Effect::Copy { page, frame, .. } | Effect::Discard { page, frame } => {
                    crate::witness::note(3, page.0, frame.0.into(), at_ps);
                }
                Effect::Install { page, frame } | Effect::Restore { page, frame, .. } => {
                    crate::witness::note(4, page.0, frame.0.into(), at_ps);
                }
                _ => {}
            }
            if !matches!(effect, Effect::Wake { .. } | Effect::Discard { .. }) {
                now_ps += command_ps;
            }
            match effect {
                Effect::Read { page, .. } => due.push(flash.read(now_ps, page.0), Due::Arrived(page)),
                Effect::Write { page, .. } => flash.write(now_ps, page.0),
                Effect::Copy { page, frame, .. } => {
                    now_ps = dram.set(now_ps, number, set_of(frame, ways), DramRequest::Page);
                    left.extend(by_kernel.then_some(page));
                }
                Effect::Discard { page, .. } => left.extend(by_kernel.then_some(page)),
                Effect::Install { frame, .. } | Effect::Restore { frame, .. } => {
                    now_ps = dram.set(now_ps, number, set_of(frame, ways), DramRequest::Page);
                }
                Effect::Wake { waiter: NO_WAITER, .. } => {}
                Effect::Wake { waiter, completes, page, .. } => {
                    let is_synchronous = completes != Completion::Later;
                    due.push(now_ps, Due::Wake(Woken { waiter, is_synchronous, page }));
                }
            }
        }
        controller.busy_ps = if by_kernel { at_ps } else { now_ps };
        self.call(number, now_ps);
    }

    /// Uses a page without time.
    pub(super) fn touch(&mut self, page: FlashPage, write: bool) {
        let number = self.controller_of(page);
        self.controllers[number].tier.touch(page, write);
    }

    pub(super) fn rows(&self, rows: &mut Rows) {
        let counts = &self.counts;
        rows.sum(tier::ACCESSES, counts.hits + counts.misses);
        rows.sum(tier::HITS, counts.hits);
        rows.sum(tier::MISSES, counts.misses);
        rows.sum(tier::WALK_HITS, counts.walk_hits);
        rows.sum(tier::WALK_MISSES, counts.walk_misses);
        rows.sum(tier::STALLS, counts.stalls);
        rows.sum(tier::ORPHAN_WRITE_BACKS, counts.orphans);
        rows.sum(tier::SYNCHRONOUS_MISSES, counts.synchronous);
        let all = || self.controllers.iter().map(|controller| controller.tier.counts());
        rows.sum(tier::MERGED_MISSES, all().map(|of| of.merged).sum());
        rows.sum(tier::PAGES_IN, all().map(|of| of.reads).sum());
        rows.sum(tier::PAGES_OUT, all().map(|of| of.writes).sum());
        rows.sum(tier::RESTORES, all().map(|of| of.restores).sum());
        rows.sum(tier::CLEAN_EVICTIONS, all().map(|of| of.discards).sum());
        rows.sum(tier::DIRTY_EVICTIONS, all().map(|of| of.copies).sum());
        rows.sum(tier::BLOCKED_BY_MISS_STATUS, all().map(|of| of.blocked_by_miss_status).sum());
        rows.sum(tier::BLOCKED_BY_WAYS, all().map(|of| of.blocked_by_ways).sum());
        rows.sum(tier::BLOCKED_BY_EVICT_BUFFER, all().map(|of| of.blocked_by_evict_buffer).sum());
        rows.level(tier::MOST_PENDING, all().map(|of| of.most_pending as u64).max().unwrap_or(0));
        self.flash.counts().rows(rows);
        self.dram.rows(rows);
    }
}
