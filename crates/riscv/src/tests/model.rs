//! The whole device once more, from its rules: random register accesses, touches and evictions, and every answer, entry and
//! byte is compared.

use std::collections::{BTreeMap, VecDeque};

use pagewalk_vm::fault::RemotePte;
use pagewalk_vm::random::SplitMix64;

use super::accelerator::{BLOCK, EVICT, FRAMES, LEAVES, pager};
use super::*;
use crate::DeviceTimes;
use crate::trap::Access;

const PAGES: u64 = 12;
const FRAME_COUNT: u64 = 24;
const IDS: u64 = 16;
const V: u64 = 1;
const R: u64 = 2;
const W: u64 = 4;
const X: u64 = 8;
const A: u64 = 64;
const D: u64 = 128;

trait Choice {
    fn of<T: Copy>(&mut self, values: &[T]) -> T;
}

impl Choice for SplitMix64 {
    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// An eviction: page, its data, when it begins and when it will be complete.
struct Leaving {
    id: u64,
    data: Vec<u8>,
    begin: u64,
    due: u64,
}

struct Model {
    depth: usize,
    latency: u64,
    free: VecDeque<u64>,
    ids: VecDeque<u64>,
    addrs: VecDeque<u64>,
    leaving: Vec<Leaving>,
    blade: BTreeMap<u64, Vec<u8>>,
    entries: Vec<u64>,
    /// By frame, which are memory's from `FRAMES` on.
    frames: Vec<Vec<u8>>,
}

impl Model {
    fn pass(&mut self, now: u64) {
        // Of one page at a time in their order, and of all in the order of their ends.
        while let Some(first) = (0..self.leaving.len())
            .filter(|&at| self.leaving[at].due <= now)
            .min_by_key(|&at| self.leaving[at].due)
        {
            let Leaving { id, data, .. } = self.leaving.remove(first);
            self.blade.insert(id, data);
        }
    }

    fn load(&mut self, offset: u64, bytes: u64) -> Option<u64> {
        match offset {
            _ if bytes != 8 => None,
            0x08 => Some((self.depth - self.free.len()) as u64),
            0x18 => Some((self.depth - self.leaving.len()) as u64),
            0x20 => self.ids.pop_front(),
            0x28 => self.addrs.pop_front(),
            0x30 => Some(self.ids.len().max(self.addrs.len()) as u64),
            _ => None,
        }
    }

    fn store(&mut self, offset: u64, bytes: u64, value: u64, now: u64) -> Option<()> {
        let in_ram = |paddr: u64| (RAM_BASE..RAM_BASE + MEMORY).contains(&paddr);
        match offset {
            _ if bytes != 8 => None,
            0x00 => {
                let legal = self.free.len() < self.depth && value.is_multiple_of(4_096) && in_ram(value);
                legal.then(|| self.free.push_back(value))
            }
            0x10 => {
                let (paddr, id) = ((value << 28) >> 16, value >> 36);
                if self.leaving.len() == self.depth || !in_ram(paddr) {
                    return None;
                }
                // In their order, and behind the last one of the same page.
                let begins =
                    self.leaving.iter().map(|other| if other.id == id { other.due } else { other.begin });
                let begin = begins.max().unwrap_or(0).max(now);
                let data = self.frames[((paddr - FRAMES) / 4_096) as usize].clone();
                self.leaving.push(Leaving { id, data, begin, due: begin + self.latency });
                Some(())
            }
            0x38 => Some(()),
            _ => None,
        }
    }

    /// Where the byte lies, and the cycle at which it can be used; `None` is a page fault.
    fn walk(&mut self, addr: u64, access: Access, now: &mut u64) -> Option<u64> {
        let page = (addr / 4_096) as usize;
        let raw = self.entries[page];
        if raw & 3 == 2 {
            if self.free.is_empty() || self.ids.len() == self.depth || self.addrs.len() == self.depth {
                return None;
            }
            let id = raw >> 12 & 0xfff_ffff;
            let waits = self.leaving.iter().filter(|other| other.id == id).map(|other| other.due).max();
            *now = waits.unwrap_or(0).max(*now);
            self.pass(*now);
            let frame = self.free.pop_front().expect("it is not empty");
            self.frames[((frame - FRAMES) / 4_096) as usize] =
                self.blade.get(&id).cloned().unwrap_or(vec![0; 4_096]);
            self.entries[page] = raw >> 2 & 0x3ff | (frame / 4_096) << 10;
            self.ids.push_back(raw >> 12);
            self.addrs.push_back(addr / 4_096 * 4_096);
        }
        let raw = self.entries[page];
        let needed = match access {
            Access::Fetch => V | X | A,
            Access::Load => V | R | A,
            Access::Store => V | R | W | A | D,
        };
        (raw & needed == needed).then_some((raw >> 10) * 4_096 + addr % 4_096)
    }

    fn byte(&mut self, paddr: u64) -> &mut u8 {
        &mut self.frames[((paddr - FRAMES) / 4_096) as usize][(paddr % 4_096) as usize]
    }

    /// Reads or writes bytes that may lie in two pages; the address that faults, if one does.
    fn touch(&mut self, addr: u64, bytes: u64, store: Option<u64>, now: &mut u64) -> Result<u64, u64> {
        let access = if store.is_some() { Access::Store } else { Access::Load };
        let mut places = Vec::new();
        for at in addr..addr + bytes {
            let first_of_page = if at == addr { addr } else { at / 4_096 * 4_096 };
            places.push(self.walk(at, access, now).ok_or(first_of_page.max(addr))?);
        }
        let mut value = 0;
        for (at, place) in (0..).zip(places) {
            let byte = self.byte(place);
            value |= u64::from(*byte) << (8 * at);
            if let Some(new) = store {
                *byte = (new >> (8 * at)) as u8;
            }
        }
        Ok(value)
    }
}

/// One life of a device.
fn live(seed: u64, depth: usize, latency: u64, steps: usize) -> [u64; 4] {
    let mut random = SplitMix64::new(seed);
    let (mut machine, _) = pager(depth, DeviceTimes { fetch: 0, eviction: latency });
    let mut model = Model {
        depth,
        latency,
        free: VecDeque::new(),
        ids: VecDeque::new(),
        addrs: VecDeque::new(),
        leaving: Vec::new(),
        blade: BTreeMap::new(),
        entries: vec![0; PAGES as usize],
        frames: vec![vec![0; 4_096]; FRAME_COUNT as usize],
    };
    // Frames without an owner, and those that become so when all evictions are complete.
    let mut unused: Vec<u64> = (0..FRAME_COUNT).map(|frame| FRAMES + frame * 4_096).collect();
    let mut in_transit: Vec<u64> = Vec::new();
    let all = V | R | W | X | A | D;
    let local_entry =
        [all, all, all, all, all, all, all, all, all, V | R | A, V | X | A, R | W | A | D, V | R | W];
    // Touches, faults, evictions, refused register accesses.
    let mut seen = [0; 4];
    for step in 0..steps {
        let now = machine.cycles();
        model.pass(now);
        if model.leaving.is_empty() {
            unused.append(&mut in_transit);
        }
        let context = format!("seed {seed}, depth {depth}, latency {latency}, step {step}");
        match random.below(16) {
            // A register, as it should be used or not.
            0..3 => {
                let bytes = random.of(&[8, 8, 8, 8, 8, 8, 4, 2, 1]);
                let any = random.below(80);
                let offset = random.of(&[0x20, 0x20, 0x28, 0x28, 8, 0x18, 0x30, any]) & !(bytes - 1);
                let expected = if offset < 64 { model.load(offset, bytes) } else { None };
                let answer = machine.load(BLOCK + offset, bytes);
                let fault = Trap::new(Exception::LoadAccessFault, BLOCK + offset);
                assert_eq!(answer, expected.ok_or(fault), "{context}: load {offset:#x}");
                seen[3] += u64::from(expected.is_none());
            }
            3..6 => {
                let bytes = random.of(&[8, 8, 8, 4]);
                let others = [0x10, 0x38, 8, 0x18, 0x20, 0x28, 0x30, 0x40, 4];
                let offset = if random.below(4) < 3 { 0 } else { random.of(&others) & !(bytes - 1) };
                let frame = unused.last().copied();
                let value = match (offset, frame) {
                    (0, Some(frame)) => frame + random.of(&[0, 0, 0, 8]),
                    // Neither a frame with an owner, nor a page that does not exist.
                    _ => random.of(&[0, 0x1000, RAM_BASE + MEMORY]),
                };
                let value = if offset == 0x10 { value >> 12 } else { value };
                let expected = model.store(offset, bytes, value, now);
                let answer = machine.store(BLOCK + offset, bytes, value);
                let fault = Trap::new(Exception::StoreAccessFault, BLOCK + offset);
                assert_eq!(answer, expected.ok_or(fault), "{context}: store {value:#x} to {offset:#x}");
                if offset == 0 && expected.is_some() {
                    unused.pop();
                }
                seen[3] += u64::from(expected.is_none());
            }
            // A page leaves, by either order of the two steps; or one that never was gets an entry.
            6..10 => {
                let page = random.below(PAGES);
                let raw = model.entries[page as usize];
                let id = random.below(IDS) * (0xfff_ffff / (IDS - 1));
                let entry = RemotePte {
                    id: pagewalk_vm::fault::PageId::new(id as u32).expect("28 bits"),
                    protection: random.of(&local_entry) as u16,
                    reserved: random.below(1 << 24) as u32,
                };
                let set = |machine: &mut Machine| {
                    machine.put(LEAVES + 8 * page, entry.encode());
                    machine.mmu.fence(Some(page * 4_096), None);
                };
                if raw & 3 == 2 {
                    continue;
                }
                if raw == 0 {
                    model.entries[page as usize] = entry.encode();
                    set(&mut machine);
                    continue;
                }
                let frame = (raw >> 10) * 4_096;
                let word = id << 36 | frame >> 12;
                let entry_first = random.below(2) == 0;
                if entry_first {
                    set(&mut machine);
                }
                let expected = model.store(0x10, 8, word, now);
                let answer = machine.store(EVICT, 8, word);
                assert_eq!(answer.is_ok(), expected.is_some(), "{context}: eviction");
                if expected.is_none() {
                    machine.put(LEAVES + 8 * page, raw);
                    machine.mmu.fence(Some(page * 4_096), None);
                    continue;
                }
                if !entry_first {
                    set(&mut machine);
                }
                model.entries[page as usize] = entry.encode();
                in_transit.push(frame);
                seen[2] += 1;
            }
            10 => machine.idle += random.below(2 * latency + 2),
            // An instruction's fetch.
            11 => {
                let addr = random.below(PAGES) * 4_096 + random.below(2_048) * 2;
                let mut at = now;
                let expected = model.walk(addr, Access::Fetch, &mut at);
                machine.in_mode(Mode::Supervisor);
                let answer = machine.fetch_offset(addr);
                machine.in_mode(Mode::Machine);
                let fault = Trap::new(Exception::InstructionPageFault, addr);
                assert_eq!(answer, expected.map(|paddr| paddr - RAM_BASE).ok_or(fault), "{context}: fetch");
                assert_eq!(machine.cycles(), at, "{context}: it waits for as long as it must");
            }
            _ => {
                let bytes = random.of(&[1, 2, 4, 8]);
                // Some reach into the next page.
                let within = random.below(4_088);
                let offset = random.of(&[within, 4_096 - bytes / 2 - bytes % 2]);
                let addr = random.below(PAGES - 1) * 4_096 + offset;
                let store =
                    (random.below(2) == 0).then(|| random.below(u64::MAX) & u64::MAX >> (64 - 8 * bytes));
                let mut at = now;
                let expected = model.touch(addr, bytes, store, &mut at);
                machine.in_mode(Mode::Supervisor);
                let answer = match store {
                    Some(value) => machine.store(addr, bytes, value).map(|()| None),
                    None => machine.load(addr, bytes).map(Some),
                };
                machine.in_mode(Mode::Machine);
                match (answer, expected) {
                    (Ok(value), Ok(expected)) => {
                        assert!(value.is_none_or(|value| value == expected), "{context}: {addr:#x}");
                    }
                    (Err(trap), Err(faulting)) => {
                        let cause = if store.is_some() {
                            Exception::StorePageFault
                        } else {
                            Exception::LoadPageFault
                        };
                        assert_eq!(trap, Trap::new(cause, faulting), "{context}");
                        seen[1] += 1;
                    }
                    (answer, expected) => panic!("{context}: {addr:#x}: {answer:?}, expected {expected:?}"),
                }
                assert_eq!(machine.cycles(), at, "{context}: it waits for as long as it must");
                seen[0] += 1;
            }
        }
        for (page, &entry) in (0..).zip(&model.entries) {
            assert_eq!(machine.peek(LEAVES + 8 * page), entry, "{context}: entry of page {page}");
        }
    }
    for (frame, data) in (0..).zip(&model.frames) {
        assert!(
            machine.memory(FRAMES + frame * 4_096, 4_096).as_ref() == Some(data),
            "seed {seed}: frame {frame}"
        );
    }
    // Nothing that was reported is lost.
    for offset in [0x20, 0x28] {
        while let Some(expected) = model.load(offset, 8) {
            assert_eq!(machine.load(BLOCK + offset, 8), Ok(expected));
        }
    }
    seen
}

#[test]
fn random_lives_agree_with_the_rules() {
    let mut seen = [0; 4];
    for seed in 0..240 {
        let depth = [1, 2, 3, 8][seed as usize % 4];
        let latency = [0, 1, 40, 5_000][seed as usize / 4 % 4];
        for (sum, more) in seen.iter_mut().zip(live(seed, depth, latency, 2_000)) {
            *sum += more;
        }
    }
    let succeeded = seen[0] - seen[1];
    assert!(
        seen.iter().chain([&succeeded]).all(|&count| count > 10_000),
        "all kinds of things happened: {seen:?}"
    );
}
