//! Pages in an order: not a program, but what placement and replacement are studied with.
//!
//! First every page is written once, then pages are touched one after the other, one access each. `cyclic` goes through
//! them in the order of the first phase again and again, `uniform` draws each independently.

use crate::code::{Op, Site, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::SplitMix64;
use crate::space::AddressSpace;
use crate::values::Values;
use pagewalk_code::Register;
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

pub(crate) const ENTRY: Entry = Entry {
    name: "pages",
    summary: "one access a page in a given order, for studies of placement and replacement",
    phases: &["fill", "touches"],
    parameters: &[
        Parameter {
            name: "footprint",
            summary: "bytes of all pages together",
            kind: Kind::Size { min: 64 << 10, max: 1 << 40, power_of_two: false },
            default: "64MiB",
        },
        Parameter {
            name: "regions",
            summary: "mappings, of random sizes and at random distances, that the pages are in",
            // So many, at the largest distances, fit between the mappings and the heap.
            kind: Kind::Count { min: 1, max: 10_000 },
            default: "1",
        },
        Parameter {
            name: "fill",
            summary: "the order in which pages are touched first",
            kind: Kind::Choice(&["sequential", "random"]),
            default: "sequential",
        },
        Parameter {
            name: "pattern",
            summary: "the order afterwards",
            kind: Kind::Choice(&["uniform", "cyclic"]),
            default: "uniform",
        },
        Parameter {
            name: "touches",
            summary: "accesses after the fill",
            kind: Kind::Count { min: 1, max: 1_000_000_000_000 },
            default: "1M",
        },
    ],
    presets: &[
        Preset {
            name: "pages-small",
            summary: "4 MiB, for tests",
            values: &[("footprint", "4MiB"), ("touches", "4k")],
        },
        Preset {
            name: "pages-paper",
            summary: "a tenth more than the Mosaic paper's memory of 4 GiB, in random order",
            values: &[("footprint", "4505MiB"), ("fill", "random"), ("touches", "10M")],
        },
    ],
    make: |values| Ok(Box::new(Pages::new(values))),
};

/// Instructions of a loop around one access.
const INSTRUCTIONS: u64 = 4;

/// The place in the order of pages.
const AT: Register = r(0);

/// Stores to the next page, and to the next that is touched.
static FILL: Site = Site::new(&STORE_OPS).repeats().of(INSTRUCTIONS);
static TOUCH: Site = Site::new(&STORE_OPS).repeats().of(INSTRUCTIONS);
const STORE_OPS: [Op; 2] = [Op::integer(AT, &[AT]), Op::store(8, &[AT], &[])];

/// Pages between two regions at most: many times the memory of any machine, so that where a region begins in a set of
/// frames is random.
const MOST_BETWEEN: u64 = 1 << 20;

struct Pages {
    pages: u64,
    regions: u64,
    is_shuffled: bool,
    is_cyclic: bool,
    touches: u64,
    seed: u64,
}

impl Pages {
    fn new(values: &Values) -> Self {
        Self {
            pages: values.get("footprint").div_ceil(PAGE_BYTES),
            regions: values.get("regions"),
            is_shuffled: values.get("fill") == 1,
            is_cyclic: values.get("pattern") == 1,
            touches: values.get("touches"),
            seed: values.seed,
        }
    }

    /// Maps all regions: the numbers of their first pages, and where these are.
    fn map(&self, out: &mut Emitter<'_>) -> Result<Vec<(u64, VirtAddr)>, Stop> {
        let mut random = SplitMix64::of_item(self.seed, 2);
        let mut first: Vec<u64> = (1..self.regions).map(|_| 1 + random.below(self.pages - 1)).collect();
        first.push(0);
        first.sort_unstable();
        first.dedup();
        let ends = first.iter().skip(1).copied().chain([self.pages]);
        let sizes: Vec<u64> = first.iter().zip(ends).map(|(first, end)| end - first).collect();
        let mut space = AddressSpace::new(out);
        if first.len() == 1 {
            // The header of the block stands at its begin: the last page has room for it.
            let block = space.malloc(self.pages * PAGE_BYTES - 32, out)?;
            return Ok(vec![(0, VirtAddr(block.0 & !(PAGE_BYTES - 1)))]);
        }
        let mut map = |pages: u64| {
            space.leave_free(random.below(MOST_BETWEEN) * PAGE_BYTES);
            space.map(pages * PAGE_BYTES, out).start
        };
        Ok(first.into_iter().zip(sizes).map(|(first, pages)| (first, map(pages))).collect())
    }

    /// The order of the first phase, unless it is that of the addresses.
    fn shuffled(&self) -> Option<Vec<u32>> {
        let mut order: Vec<u32> = self.is_shuffled.then(|| (0..self.pages as u32).collect())?;
        let mut random = SplitMix64::of_item(self.seed, 0);
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        Some(order)
    }
}

impl Program for Pages {
    fn footprint_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }

    fn host_bytes(&self) -> u64 {
        if self.is_shuffled { 4 * self.pages } else { 0 }
    }

    fn expected_accesses(&self) -> u64 {
        self.pages + self.touches
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("fill")?;
        let regions = self.map(out)?;
        let order = self.shuffled();
        let page = |at: u64| {
            let page = order.as_ref().map_or(at, |order| u64::from(order[at as usize]));
            let (first, base) = regions[regions.partition_point(|(first, _)| *first <= page) - 1];
            base.add((page - first) * PAGE_BYTES + 64)
        };
        for at in 0..self.pages {
            out.block(&FILL)?;
            out.store(page(at), 8)?;
        }
        out.phase("touches")?;
        let mut random = SplitMix64::of_item(self.seed, 1);
        let mut next = 0;
        for _ in 0..self.touches {
            let at = if self.is_cyclic { next } else { random.below(self.pages) };
            next = if next + 1 == self.pages { 0 } else { next + 1 };
            out.block(&TOUCH)?;
            out.store(page(at), 8)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_order_has_every_page_once() {
        let pages =
            Pages { pages: 1_000, regions: 1, is_shuffled: true, is_cyclic: true, touches: 1, seed: 3 };
        let mut order = pages.shuffled().unwrap();
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1_000));
    }
}
