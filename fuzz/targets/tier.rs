//! Any bytes as requests of threads to a cache over flash, with arrivals and writes in any order, sensible or not.
//!
//! Eight bytes are the shape. Then each step is two bytes: what, and an operand. No page may be in two places or lose a
//! write, every thread that waits must be woken once, and nothing that is refused may do anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_vm::tier::{
    Completion, Effect, Event, FlashPage, FrameIndex, MissStatusShape, Partition, Replacement, Tier,
    TierDesign,
};

const PAGES: usize = 24;
const THREADS: usize = 16;

/// Data: a page's number and version.
type Data = Option<(u64, u64)>;

struct Watch {
    tier: Tier<u8>,
    frames: Vec<Data>,
    slots: Vec<Data>,
    flash: [u64; PAGES],
    newest: [u64; PAGES],
    reading: Vec<u64>,
    writing: Vec<(u64, usize)>,
    waiting: [Option<(u64, Completion)>; THREADS],
}

impl Watch {
    fn new(design: TierDesign) -> Self {
        Self {
            frames: vec![None; design.frames() as usize],
            slots: vec![None; design.slots() as usize],
            tier: Tier::new(design).expect("a possible design"),
            flash: [0; PAGES],
            newest: [0; PAGES],
            reading: Vec::new(),
            writing: Vec::new(),
            waiting: [None; THREADS],
        }
    }

    fn step(&mut self, what: u8, operand: u8) {
        let page = u64::from(operand) % PAGES as u64;
        match what % 16 {
            0..=7 => {
                let thread = what / 16;
                let write = what % 2 == 1;
                if self.waiting[usize::from(thread)].is_some() {
                    return;
                }
                if let Some(frame) = self.tier.lookup(FlashPage(page), write) {
                    return self.access(frame, page, write);
                }
                let completes = if what % 16 < 4 { Completion::Later } else { Completion::Now { write } };
                let accepts = self.tier.accepts();
                if accepts {
                    self.waiting[usize::from(thread)] = Some((page, completes));
                }
                let done = self.event(Event::Miss { page: FlashPage(page), waiter: thread, completes });
                assert_eq!(done, accepts);
            }
            8..=11 => self.arrive(usize::from(operand)),
            12..=14 => self.finish_write(usize::from(operand)),
            _ if operand % 2 == 0 => {
                let sensible = self.reading.contains(&page);
                self.reading.retain(|&other| other != page);
                assert_eq!(self.event(Event::Arrived { page: FlashPage(page) }), sensible);
            }
            _ if self.writing.iter().all(|&(other, _)| other != page) => {
                assert!(!self.event(Event::Written { page: FlashPage(page) }));
            }
            _ => {}
        }
    }

    fn arrive(&mut self, at: usize) {
        if !self.reading.is_empty() {
            let page = self.reading.swap_remove(at % self.reading.len());
            assert!(self.event(Event::Arrived { page: FlashPage(page) }));
        }
    }

    fn finish_write(&mut self, at: usize) {
        if !self.writing.is_empty() {
            let (page, slot) = self.writing.swap_remove(at % self.writing.len());
            let (found, version) = self.slots[slot].take().expect("data that are written stay");
            assert_eq!(found, page);
            self.flash[page as usize] = version;
            assert!(self.event(Event::Written { page: FlashPage(page) }));
        }
    }

    /// Tells whether it was possible.
    fn event(&mut self, event: Event<u8>) -> bool {
        let mut effects = Vec::new();
        let done = self.tier.step(event, &mut effects).is_ok();
        assert!(done || effects.is_empty());
        effects.into_iter().for_each(|effect| self.perform(effect));
        self.tier.check();
        done
    }

    fn access(&mut self, frame: FrameIndex, page: u64, write: bool) {
        let newest = &mut self.newest[page as usize];
        assert_eq!(self.frames[frame.0 as usize], Some((page, *newest)));
        *newest += u64::from(write);
        self.frames[frame.0 as usize] = Some((page, *newest));
    }

    fn perform(&mut self, effect: Effect<u8>) {
        match effect {
            Effect::Read { page, .. } => {
                assert!(
                    !self.reading.contains(&page.0) && self.writing.iter().all(|&(other, _)| other != page.0)
                );
                self.reading.push(page.0);
            }
            Effect::Copy { page, frame, slot } => {
                let data = self.frames[frame.0 as usize].take();
                assert_eq!(data.map(|data| data.0), Some(page.0));
                assert_eq!(std::mem::replace(&mut self.slots[usize::from(slot.0)], data), None);
            }
            Effect::Discard { page, frame } => {
                let data = self.frames[frame.0 as usize].take();
                let sent = self.writing.iter().any(|&(_, slot)| self.slots[slot] == data);
                assert!(
                    sent || data == Some((page.0, self.flash[page.0 as usize])),
                    "page {} is lost",
                    page.0
                );
            }
            Effect::Install { page, frame } => {
                let data = Some((page.0, self.flash[page.0 as usize]));
                assert_eq!(std::mem::replace(&mut self.frames[frame.0 as usize], data), None);
            }
            Effect::Restore { page, slot, frame } => {
                let slot = usize::from(slot.0);
                let data = self.slots[slot];
                assert_eq!(data.map(|data| data.0), Some(page.0));
                if self.writing.iter().all(|&(_, other)| other != slot) {
                    self.slots[slot] = None;
                }
                assert_eq!(std::mem::replace(&mut self.frames[frame.0 as usize], data), None);
            }
            Effect::Write { page, slot } => {
                assert!(self.writing.iter().all(|&(other, _)| other != page.0), "two writes under way");
                self.writing.push((page.0, usize::from(slot.0)));
            }
            Effect::Wake { waiter, completes, page, frame } => {
                let waited = self.waiting[usize::from(waiter)].take();
                assert_eq!(waited, Some((page.0, completes)), "woken once");
                if let Completion::Now { write } = completes {
                    self.access(frame, page.0, write);
                }
            }
        }
    }

    /// Everything ends, and every page has its newest version somewhere.
    fn drain(&mut self) {
        while self.reading.len() + self.writing.len() > 0 {
            self.arrive(0);
            self.finish_write(0);
        }
        assert!(
            self.tier.is_idle() && self.waiting.iter().all(Option::is_none),
            "a thread waits for nothing"
        );
        for page in 0..PAGES {
            let resident = self.tier.resident(FlashPage(page as u64));
            let clean = resident.is_none_or(|resident| !resident.dirty);
            assert!(!clean || self.flash[page] == self.newest[page], "page {page} is lost");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((shape, steps)) = data.split_first_chunk::<8>() else { return };
    let small = |at: usize, most: u8| 1 + u32::from(shape[at] % most);
    let design = TierDesign {
        sets: 1 << (shape[0] % 3),
        ways: small(1, 9),
        index_shift: u32::from(shape[2] % 3),
        replacement: if shape[3] % 2 == 0 { Replacement::Lru } else { Replacement::Nru },
        miss_status: MissStatusShape { sets: 1 << (shape[4] % 2), ways: small(5, 4) },
        evict_buffer: small(6, 4),
        queue: small(7, 4),
        partition: Partition::default(),
    };
    let mut watch = Watch::new(design);
    for step in steps.chunks_exact(2) {
        watch.step(step[0], step[1]);
    }
    watch.drain();
});
