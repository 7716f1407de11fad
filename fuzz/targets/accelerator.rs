//! Any bytes as accesses to the Page Fault Accelerator's registers, with touches, arrivals and evictions in between.
//!
//! Four bytes are the depths of the queues and how many fetches may be under way. Then each step is three bytes: what,
//! and two operands. Frames must leave in order, pages be reported once and in order, and nothing that is refused may
//! change anything.
#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::fuzz_target;
use pagewalk_vm::addr::{Pfn, VirtAddr};
use pagewalk_vm::fault::{
    Accelerator, AcceleratorDesign, Depths, Fetch, FetchHandle, PageId, Register, RemotePte,
};

const FIRST: u64 = 0x80000;

/// A fetch, from its beginning until both of its reports are taken.
struct Page {
    handle: FetchHandle,
    word: u64,
    addr: u64,
    finished: bool,
}

/// What the queues must hold.
#[derive(Default)]
struct Watch {
    free: VecDeque<u64>,
    pages: Vec<Page>,
    ids: usize,
    addrs: usize,
    evictions: usize,
    sent: Vec<PageId>,
}

impl Watch {
    fn reported(&self) -> usize {
        self.pages.iter().take_while(|page| page.finished).count()
    }

    fn arriving(&self) -> Vec<usize> {
        (0..self.pages.len()).filter(|&at| !self.pages[at].finished).collect()
    }

    fn step(&mut self, device: &mut Accelerator, what: u8, a: u8, b: u8) {
        let before = device.clone();
        let page =
            RemotePte { id: PageId::of_low_bits(u64::from(a % 6)), protection: a.into(), reserved: b.into() };
        match what % 8 {
            0 => {
                let value = (FIRST + u64::from(a) / 2) << 12 | u64::from(b == 255);
                match device.store(Register::Free.offset(), 8, value) {
                    Ok(()) => self.free.push_back(value >> 12),
                    Err(_) => assert_eq!(*device, before),
                }
            }
            1 => {
                let word = Accelerator::evict_word(page.id, Pfn(FIRST + u64::from(b)));
                match device.store(Register::Evict.offset(), 8, word) {
                    Ok(()) => self.evictions += 1,
                    Err(_) => assert_eq!(*device, before),
                }
            }
            2 => self.pop(device, a % 2 == 0),
            3 => {
                // Anything; what is legal is done above.
                let harmless = a >= 64 || b % 16 != 8;
                let loaded = harmless && device.load(a.into(), (b % 16).into()).is_ok();
                let stored = harmless && device.store(a.into(), (b % 16).into(), u64::MAX).is_ok();
                assert!(!loaded && !stored && *device == before);
            }
            4 | 5 => match device.begin_fetch(page, VirtAddr(u64::from(b) << 8)) {
                Fetch::Read { handle, id, frame } => {
                    assert_eq!((id, Some(frame.0)), (page.id, self.free.pop_front()));
                    let (word, addr) = (page.encode() >> 12, u64::from(b) << 8 & !0xfff);
                    self.pages.push(Page { handle, word, addr, finished: false });
                }
                _ => assert_eq!(*device, before),
            },
            6 => {
                let arriving = self.arriving();
                let Some(&at) = arriving.get(usize::from(a) % arriving.len().max(1)) else { return };
                if b % 8 == 0 {
                    let handle = self.pages.remove(at).handle;
                    self.free.push_front(device.refuse_fetch(handle).expect("it is under way").frame.0);
                } else {
                    self.pages[at].finished = true;
                    device.finish_fetch(self.pages[at].handle).expect("it is under way");
                }
            }
            _ if a % 2 == 0 => {
                if let Some(next) = device.next_eviction() {
                    assert!(!self.sent.contains(&next.id), "two of one page under way");
                    self.sent.push(next.id);
                }
            }
            _ if !self.sent.is_empty() => {
                let id = self.sent.swap_remove(usize::from(b) % self.sent.len());
                device.finish_eviction(id).expect("it is under way");
                self.evictions -= 1;
            }
            _ => {}
        }
    }

    fn pop(&mut self, device: &mut Accelerator, id: bool) {
        let register = if id { Register::NewPgid } else { Register::NewVaddr };
        let reported = self.reported();
        let taken = if id { &mut self.ids } else { &mut self.addrs };
        let expected = self.pages[..reported].get(*taken).map(|page| if id { page.word } else { page.addr });
        assert_eq!(device.load(register.offset(), 8).ok(), expected);
        *taken += usize::from(expected.is_some());
    }

    fn check(&self, device: &mut Accelerator, depths: Depths) {
        let free = depths.free - self.free.len() - self.arriving().len();
        let new = self.reported() - self.ids.min(self.addrs);
        let stats = [
            (Register::FreeStat, free),
            (Register::NewStat, new),
            (Register::EvictStat, depths.evict - self.evictions),
        ];
        for (register, expected) in stats {
            assert_eq!(device.load(register.offset(), 8), Ok(expected as u64), "{}", register.name());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[free, new, evict, fetches], steps)) = data.split_first_chunk::<4>() else { return };
    let small = |byte: u8| 1 + usize::from(byte % 8);
    let depths = Depths { free: small(free), new: small(new), evict: small(evict) };
    let ram = Pfn(FIRST)..Pfn(FIRST + 120);
    let design = AcceleratorDesign { depths, fetches: small(fetches), ..AcceleratorDesign::of_ram(ram) };
    let mut device = Accelerator::new(design).expect("a possible design");
    let mut watch = Watch::default();
    for step in steps.chunks_exact(3) {
        watch.step(&mut device, step[0], step[1], step[2]);
        watch.check(&mut device, depths);
    }
});
