//! Random traces of everything that can be done to a device, sensible or not, against the [`Model`].

use super::model::{Model, Touch};
use super::*;
use crate::random::SplitMix64;

/// How often which thing happened, so that a trace that tests nothing is noticed.
#[derive(Default, Debug)]
struct Seen {
    illegal: u64,
    faults: u64,
    waits: u64,
    reads: u64,
    refused: u64,
    evicted: u64,
    held_back: u64,
}

struct Pair {
    device: Accelerator,
    model: Model,
    /// By the model's number.
    handles: Vec<(u64, FetchHandle)>,
    random: SplitMix64,
    seen: Seen,
}

impl Pair {
    fn random(seed: u64) -> Self {
        let mut random = SplitMix64::of_item(seed, 0);
        let mut depth = || 1 + random.below(6) as usize;
        let depths = depths(depth(), depth(), depth());
        let fetches = 1 + [0, 0, 1, 2, 7][random.below(5) as usize];
        let remote_pages = [None, Some(5)][random.below(2) as usize];
        let design = AcceleratorDesign { depths, fetches, ram: RAM, remote_pages };
        let device = Accelerator::new(design.clone()).unwrap();
        Self { device, model: Model::new(design), handles: Vec::new(), random, seen: Seen::default() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len() as u64) as usize]) }
    }

    fn page(&mut self) -> PageId {
        let number = self.below(8) as u32;
        if number == 7 { PageId::MAX } else { id(number) }
    }

    /// A frame, mostly one that there is.
    fn any_frame(&mut self) -> u64 {
        let rare = self.below(20) == 0;
        if rare { RAM.end.0 + self.below(3) } else { RAM.start.0 + self.below(30) }
    }

    fn step(&mut self) {
        match self.below(16) {
            0..=2 => {
                let frame = self.any_frame();
                let unaligned = if self.below(20) == 0 { 1 << self.below(12) } else { 0 };
                self.store(0, 8, frame << 12 | unaligned);
            }
            3 | 4 => {
                let (page, frame) = (self.page(), self.any_frame());
                self.store(16, 8, u64::from(page.number()) << 36 | frame);
            }
            5 => self.load(32, 8),
            6 => self.load(40, 8),
            7 => {
                self.load(32, 8);
                self.load(40, 8);
            }
            8 => self.anything(),
            9..=11 => self.touch(),
            12 | 13 => self.end_fetch(),
            14 => self.send(),
            _ => self.complete(),
        }
        for offset in [8, 24, 48] {
            self.load(offset, 8);
        }
    }

    /// Any access at all.
    fn anything(&mut self) {
        let offset = if self.below(2) == 0 { 8 * self.below(9) } else { self.below(80) };
        let bytes = [8, 8, 1, 2, 4, 16][self.below(6) as usize];
        if self.below(2) == 0 {
            self.load(offset, bytes);
        } else {
            let value = self.random.next();
            self.store(offset, bytes, value);
        }
    }

    fn load(&mut self, offset: u64, bytes: u64) {
        let before = self.device.clone();
        let answer = self.device.load(offset, bytes);
        assert_eq!(answer.ok(), self.model.load(offset, bytes), "load of {bytes} bytes at {offset}");
        self.note(answer.is_err(), &before);
    }

    fn store(&mut self, offset: u64, bytes: u64, value: u64) {
        let before = self.device.clone();
        let answer = self.device.store(offset, bytes, value);
        assert_eq!(answer.ok(), self.model.store(offset, bytes, value), "store of {value:#x} at {offset}");
        self.note(answer.is_err(), &before);
    }

    fn note(&mut self, illegal: bool, before: &Accelerator) {
        self.seen.illegal += u64::from(illegal);
        assert!(!illegal || self.device == *before, "illegal, and {before:?} became {:?}", self.device);
    }

    fn touch(&mut self) {
        let protection = self.below(1 << 10) as u16;
        let reserved = self.below(1 << 24) as u32;
        let entry = RemotePte { id: self.page(), protection, reserved };
        let addr = VirtAddr(self.random.next());
        let before = self.device.clone();
        let fetch = self.device.begin_fetch(entry, addr);
        let touch = self.model.touch(entry, addr.0);
        match (fetch, touch) {
            (Fetch::NoFreeFrame | Fetch::NewQueueFull, Touch::Fault) => self.seen.faults += 1,
            (Fetch::AfterEviction(_) | Fetch::AfterFetch, Touch::Wait) => self.seen.waits += 1,
            (Fetch::Read { handle, id, frame }, Touch::Read(number, expected)) => {
                assert_eq!((id, frame), (entry.id, Pfn(expected)));
                self.handles.push((number, handle));
                self.seen.reads += 1;
                return;
            }
            _ => panic!("{fetch:?} instead of {touch:?}"),
        }
        assert_eq!(self.device, before, "no fetch began");
    }

    fn end_fetch(&mut self) {
        let arriving = self.model.arriving();
        assert_eq!(arriving.len(), self.device.fetches_under_way());
        let Some(number) = self.pick(&arriving) else { return };
        let at = self.handles.iter().position(|(other, _)| *other == number).unwrap();
        let (_, handle) = self.handles.swap_remove(at);
        if self.below(8) == 0 {
            let RefusedFetch { frame, overtaken_by } = self.device.refuse_fetch(handle).unwrap();
            assert_eq!((frame.0, overtaken_by), self.model.refuse(number));
            self.seen.refused += 1;
        } else {
            assert_eq!(self.device.finish_fetch(handle), Ok(self.model.arrive(number)));
        }
        assert_eq!(self.device.finish_fetch(handle), Err(NotUnderWay::Fetch(handle)));
    }

    fn send(&mut self) {
        let next = self.device.next_eviction().map(|next| (next.id.number(), next.frame.0));
        assert_eq!(next, self.model.send());
        self.seen.held_back += u64::from(next.is_none() && !self.model.sent().is_empty());
    }

    fn complete(&mut self) {
        let sent = self.model.sent();
        assert_eq!(sent.len(), self.device.evictions_under_way());
        let Some(number) = self.pick(&sent) else { return };
        assert_eq!(self.device.finish_eviction(id(number)), Ok(Pfn(self.model.complete(number))));
        self.seen.evicted += 1;
    }
}

fn run(traces: u64, steps: u64) {
    let mut total = Seen::default();
    for seed in 0..traces {
        let mut pair = Pair::random(seed);
        for _ in 0..steps {
            pair.step();
        }
        let Seen { illegal, faults, waits, reads, refused, evicted, held_back } = pair.seen;
        total.illegal += illegal;
        total.faults += faults;
        total.waits += waits;
        total.reads += reads;
        total.refused += refused;
        total.evicted += evicted;
        total.held_back += held_back;
    }
    let Seen { illegal, faults, waits, reads, refused, evicted, held_back } = total;
    for (what, count) in [
        ("illegal", illegal),
        ("faults", faults),
        ("waits", waits),
        ("reads", reads),
        ("refused", refused),
        ("evicted", evicted),
        ("held back", held_back),
    ] {
        assert!(count > traces * steps / 1000, "too few are {what}: {total:?}");
    }
}

#[test]
fn a_million_random_steps_agree_with_the_model() {
    run(500, 2_000);
}
