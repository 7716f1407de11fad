//! The device once more, from the rules and as naively as they read: one list of all frames that were ever given, with what
//! became of each, and one of all evictions that are not complete. Every answer is counted anew.

use super::*;

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    Unused,
    /// The number of the fetch, and what the walker brought.
    Arriving(u64, RemotePte, u64),
    Arrived(RemotePte, u64),
}

pub(super) struct Model {
    design: AcceleratorDesign,
    /// In the order of their use.
    given: Vec<(u64, Use)>,
    ids_taken: usize,
    addrs_taken: usize,
    /// Id, frame, and whether it was sent; in the order of the stores.
    leaving: Vec<(u32, u64, bool)>,
    ever_stored: Vec<u32>,
    fetches: u64,
}

/// What a touch comes to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Touch {
    Fault,
    Wait,
    /// Number of the fetch, and frame.
    Read(u64, u64),
}

impl Model {
    pub(super) fn new(design: AcceleratorDesign) -> Self {
        Self {
            design,
            given: Vec::new(),
            ids_taken: 0,
            addrs_taken: 0,
            leaving: Vec::new(),
            ever_stored: Vec::new(),
            fetches: 0,
        }
    }

    fn count(&self, wanted: impl Fn(Use) -> bool) -> usize {
        self.given.iter().filter(|(_, what)| wanted(*what)).count()
    }

    /// Frames that hold a slot of the free queue: it is theirs until their page is there.
    fn in_free_queue(&self) -> usize {
        self.given.len() - self.count(|what| matches!(what, Use::Arrived(..)))
    }

    /// Pages that were reported, ever: those before the first that is not there.
    fn reported(&self) -> usize {
        self.given.iter().take_while(|(_, what)| matches!(what, Use::Arrived(..))).count()
    }

    /// `None` is an access fault.
    pub(super) fn load(&mut self, offset: u64, bytes: u64) -> Option<u64> {
        if bytes != 8 {
            return None;
        }
        let Depths { free, evict, .. } = self.design.depths;
        let reported = self.reported();
        let answer = match offset {
            8 => (free - self.in_free_queue()) as u64,
            24 => (evict - self.leaving.len()) as u64,
            48 => (reported - self.ids_taken.min(self.addrs_taken)) as u64,
            32 | 40 => {
                let taken = if offset == 32 { &mut self.ids_taken } else { &mut self.addrs_taken };
                if *taken == reported {
                    return None;
                }
                *taken += 1;
                let Use::Arrived(remote, addr) = self.given[*taken - 1].1 else { unreachable!() };
                let both = self.ids_taken.min(self.addrs_taken);
                let answer = if offset == 32 { remote.encode() >> 12 } else { addr / 4096 * 4096 };
                // What both sides have forgotten.
                self.given.drain(..both);
                (self.ids_taken, self.addrs_taken) = (self.ids_taken - both, self.addrs_taken - both);
                answer
            }
            _ => return None,
        };
        Some(answer)
    }

    pub(super) fn store(&mut self, offset: u64, bytes: u64, value: u64) -> Option<()> {
        let Depths { free, evict, .. } = self.design.depths;
        let in_ram = |frame| self.design.ram.contains(&Pfn(frame));
        match (bytes, offset) {
            (8, 0) if self.in_free_queue() < free && value.is_multiple_of(4096) && in_ram(value / 4096) => {
                self.given.push((value / 4096, Use::Unused));
            }
            (8, 16) if self.leaving.len() < evict && in_ram(value % (1 << 36)) => {
                let number = (value / (1 << 36)) as u32;
                if !self.ever_stored.contains(&number) {
                    if self.design.remote_pages == Some(self.ever_stored.len() as u32) {
                        return None;
                    }
                    self.ever_stored.push(number);
                }
                self.leaving.push((number, value % (1 << 36), false));
            }
            (8, 56) => {}
            _ => return None,
        }
        Some(())
    }

    pub(super) fn touch(&mut self, remote: RemotePte, addr: u64) -> Touch {
        let Depths { free, new, .. } = self.design.depths;
        let arriving = |what| matches!(what, Use::Arriving(..));
        let waiting = self.count(arriving);
        let Some(next) = self.given.iter().position(|(_, what)| *what == Use::Unused) else {
            return if waiting == free { Touch::Wait } else { Touch::Fault };
        };
        let reported = self.reported();
        if reported - self.ids_taken == new || reported - self.addrs_taken == new {
            return Touch::Fault;
        }
        // Everything before the next frame that is not reported is under way.
        let under_way = next - reported;
        let longest = next - self.ids_taken.min(self.addrs_taken);
        let same = self
            .given
            .iter()
            .any(|(_, what)| matches!(what, Use::Arriving(_, other, _) if other.id == remote.id));
        let leaves = self.leaving.iter().any(|(number, ..)| *number == remote.id.number());
        if leaves || same || longest == new || under_way == self.design.fetches {
            return Touch::Wait;
        }
        self.given[next].1 = Use::Arriving(self.fetches, remote, addr);
        self.fetches += 1;
        Touch::Read(self.fetches - 1, self.given[next].0)
    }

    /// The numbers of the fetches that are under way.
    pub(super) fn arriving(&self) -> Vec<u64> {
        let number =
            |(_, what): &(u64, Use)| if let Use::Arriving(number, ..) = *what { Some(number) } else { None };
        self.given.iter().filter_map(number).collect()
    }

    /// Ends a fetch that is under way; gives the local entry.
    pub(super) fn arrive(&mut self, number: u64) -> u64 {
        let at = self.position(number);
        let (frame, Use::Arriving(_, remote, addr)) = self.given[at] else { unreachable!() };
        self.given[at].1 = Use::Arrived(remote, addr);
        frame << 10 | remote.encode() >> 2 & 0x3ff
    }

    /// The frame, and how many places it moved back.
    pub(super) fn refuse(&mut self, number: u64) -> (u64, usize) {
        let at = self.position(number);
        let (frame, _) = self.given.remove(at);
        let unused = self.given.iter().position(|(_, what)| *what == Use::Unused);
        let to = unused.unwrap_or(self.given.len());
        self.given.insert(to, (frame, Use::Unused));
        (frame, to - at)
    }

    fn position(&self, number: u64) -> usize {
        let found =
            self.given.iter().position(|(_, what)| matches!(what, Use::Arriving(n, ..) if *n == number));
        found.unwrap()
    }

    /// The oldest eviction that is not sent, unless the last one of the same page is on its way.
    pub(super) fn send(&mut self) -> Option<(u32, u64)> {
        let at = self.leaving.iter().position(|(_, _, sent)| !sent)?;
        let (number, frame, _) = self.leaving[at];
        if self.leaving.iter().any(|&(other, _, sent)| sent && other == number) {
            return None;
        }
        self.leaving[at].2 = true;
        Some((number, frame))
    }

    pub(super) fn sent(&self) -> Vec<u32> {
        self.leaving.iter().filter(|(_, _, sent)| *sent).map(|(number, ..)| *number).collect()
    }

    pub(super) fn complete(&mut self, number: u32) -> u64 {
        let at = self.leaving.iter().position(|&(other, _, sent)| sent && other == number).unwrap();
        self.leaving.remove(at).1
    }
}
