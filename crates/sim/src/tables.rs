//! Hashed page tables by themselves: what so many lines of entries make of them, without a program around.
//!
//! The tables are those of machines. Here they are filled in a random order, as programs on a large heap touch it, and
//! asked what they took: memory, pieces of it, moves.

use std::num::NonZeroU64;

use pagewalk_trace::Stop;
use pagewalk_vm::addr::{PageSize, PhysAddr};
use pagewalk_vm::random::{SplitMix64, mix};
use pagewalk_vm::table::cuckoo::{Cuckoo, LineHash, Moves, NoChunk, Policy};
use pagewalk_vm::table::{ContiguousMemory, L2p};

/// A page-table design, as far as its tables go.
#[derive(Clone, Debug)]
pub struct TableDesign {
    /// The policy by which tables grow.
    pub policy: Policy,
    /// The sizes of chunks that ways are made of, smallest first; empty if each is one piece.
    pub chunk_bytes: Vec<u64>,
}

/// The numbers of lines that an application maps: of eight 4 KiB pages, and of eight 2 MiB pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lines {
    /// Lines of 4 KiB pages.
    pub small: u64,
    /// Lines of 2 MiB pages.
    pub large: u64,
}

/// The measured figures of a design's tables for an application's lines.
#[derive(Clone, Debug)]
pub struct TableFigures(Vec<(&'static str, f64)>);

impl TableFigures {
    /// Returns a figure by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    /// Returns the names of all figures.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|&(name, _)| name)
    }
}

/// Cycles to allocate and zero contiguous memory, at 2 GHz and a fragmentation index of 0.7, by size: the ME-HPT paper,
/// section III. Between the sizes, straight lines in logarithms.
const ALLOCATION_CYCLES: [(u64, f64); 5] =
    [(4 << 10, 4e3), (8 << 10, 5e3), (1 << 20, 750e3), (8 << 20, 13e6), (64 << 20, 120e6)];

/// Returns the cost of allocating and zeroing so many contiguous bytes, in cycles.
pub fn allocation_cycles(bytes: u64) -> f64 {
    let table = &ALLOCATION_CYCLES;
    let above = table.iter().position(|&(size, _)| size >= bytes).unwrap_or(table.len() - 1).max(1);
    let [(low, low_cycles), (high, high_cycles)] = [table[above - 1], table[above]];
    let share = (bytes as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
    low_cycles * (high_cycles / low_cycles).powf(share)
}

/// Any memory that is asked for, and what was asked.
#[derive(Default)]
struct Ledger {
    next: u64,
    bytes: u64,
    peak: u64,
    largest: u64,
    cycles: f64,
    pieces: u64,
    most_pieces: u64,
}

impl ContiguousMemory for Ledger {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        let base = PhysAddr(self.next);
        self.next += bytes;
        self.bytes += bytes;
        self.peak = self.peak.max(self.bytes);
        self.largest = self.largest.max(bytes);
        self.cycles += allocation_cycles(bytes);
        self.pieces += 1;
        self.most_pieces = self.most_pieces.max(self.pieces);
        Ok(base)
    }

    fn free(&mut self, _base: PhysAddr, bytes: u64) {
        self.bytes -= bytes;
        self.pieces -= 1;
    }
}

/// A table of one page size, by its keys alone: eight bytes of the host's for 64 of the simulated machine's.
struct Table {
    size: PageSize,
    cuckoo: Cuckoo<NonZeroU64, LineHash>,
}

impl TableDesign {
    /// Fills tables with an application's lines. The figures:
    ///
    /// - bytes: `contiguous`, the largest piece, `contiguous-small`, that of the 4 KiB table; `peak`, the most at once;
    ///   `way` (`way-second`, `way-third`), the ways of the 4 KiB table at the end, largest first;
    /// - `upsizes` (`-second`, `-third`) of the 4 KiB table's ways, most first, those under way included; `upsizes-large`
    ///   and `upsizes-large-least`, the most and the fewest of a way of the 2 MiB table; `upsizes-out-of-place` of all ways;
    /// - `way-ratio`, the largest way over the smallest, at most;
    /// - `rows` of the chunk table at the end, when what was under way is done; `rows-peak`; `pieces-peak`, chunks of both
    ///   arrays;
    /// - `moved`, the share of all lines that resizes visited; `moved-in-place`, without ways that went elsewhere;
    /// - `unmoved-*` and `moves-*`: the share of lines for which none was moved, and the mean moved for one, per
    ///   insertion (`inserts`), per insertion and line that a resize moved (`inserts-moved`), and per insertion and line
    ///   that one visited (`inserts-all`);
    /// - `changing`, the share of insertions while a way changed size; `growth-cycles`, for the allocations after the
    ///   first.
    ///
    /// There are none if `stop` holds a request before the end.
    pub fn fill(&self, lines: Lines, seed: u64, stop: &Stop) -> Option<TableFigures> {
        let mut memory = Ledger::default();
        let mut l2p = L2p::new(&self.chunk_bytes);
        let mut tables = Vec::new();
        for (size, count) in [(PageSize::Size4K, lines.small), (PageSize::Size2M, lines.large)] {
            let hash = LineHash::mixed(seed ^ size as u64);
            let made = Cuckoo::new(self.policy, hash, seed, &mut l2p.source(size, &mut memory));
            let cuckoo = made.expect("a ledger has all memory");
            tables.push((Table { size, cuckoo }, count));
        }
        tables.iter().for_each(|(table, _)| table.note(&mut l2p));
        let first_cycles = memory.cycles;
        let (mut way_ratio, mut rows_peak, mut contiguous_small) = (1.0f64, 0, 0);
        for (table, count) in &mut tables {
            let ahead = Cuckoo::<NonZeroU64, LineHash>::AHEAD as u64;
            (0..ahead).for_each(|number| table.cuckoo.foresee(line(seed, number).get()));
            for number in 0..*count {
                if number.is_multiple_of(LOOK) && stop.requested().is_some() {
                    return None;
                }
                table.cuckoo.foresee(line(seed, number + ahead).get());
                table.insert(line(seed, number), &mut l2p, &mut memory);
                way_ratio = way_ratio.max(table.way_ratio());
                rows_peak = rows_peak.max(l2p.rows());
            }
            if table.size == PageSize::Size4K {
                contiguous_small = memory.largest;
            }
        }
        let mut figures = Vec::new();
        tables[0].0.figures(self.policy.slot_bytes, &mut figures);
        let large = &tables[1].0.cuckoo.counts().upsizes[..self.policy.ways];
        let (large_least, large_most) = (large.iter().min().copied(), large.iter().max().copied());
        tables.iter_mut().for_each(|(table, _)| table.finish(&mut l2p, &mut memory));
        figures.extend([
            ("contiguous", memory.largest as f64),
            ("contiguous-small", contiguous_small as f64),
            ("peak", memory.peak as f64),
            ("way-ratio", way_ratio),
            ("rows", l2p.rows() as f64),
            ("rows-peak", rows_peak as f64),
            ("pieces-peak", memory.most_pieces as f64),
            ("growth-cycles", memory.cycles - first_cycles),
            ("upsizes-large", f64::from(large_most.unwrap_or(0))),
            ("upsizes-large-least", f64::from(large_least.unwrap_or(0))),
        ]);
        Some(TableFigures(figures))
    }
}

/// Insertions between two looks whether the filling is to stop.
const LOOK: u64 = 1 << 12;

/// Returns line `number` in a random order; all differ.
fn line(seed: u64, number: u64) -> NonZeroU64 {
    let start = SplitMix64::new(seed).next() >> 1;
    NonZeroU64::new(mix(1 + start + number)).expect("only 0 is mixed to 0")
}

impl Table {
    /// Tells the chunk table how many rows the ways need.
    fn note(&self, l2p: &mut L2p) {
        for (way, (chunks, _)) in self.cuckoo.way_chunks().enumerate() {
            l2p.set(way, self.size, chunks);
        }
    }

    fn insert(&mut self, line: NonZeroU64, l2p: &mut L2p, memory: &mut Ledger) {
        let inserted = self.cuckoo.insert(line, &mut l2p.source(self.size, memory));
        let inserted = inserted.expect("a ledger has all memory");
        assert!(inserted.stalled.is_none(), "a ledger has all memory");
        self.note(l2p);
    }

    fn finish(&mut self, l2p: &mut L2p, memory: &mut Ledger) {
        self.cuckoo.finish_changes(&mut l2p.source(self.size, memory));
        self.note(l2p);
    }

    fn way_ratio(&self) -> f64 {
        let (least, most) = self
            .cuckoo
            .way_slots()
            .fold((usize::MAX, 0), |(least, most), slots| (least.min(slots), most.max(slots)));
        most as f64 / least as f64
    }

    fn figures(&self, slot_bytes: u64, figures: &mut Vec<(&'static str, f64)>) {
        let counts = self.cuckoo.counts();
        let mut ways: Vec<usize> = self.cuckoo.way_slots().collect();
        ways.sort_unstable_by(|a, b| b.cmp(a));
        let mut upsizes = counts.upsizes;
        upsizes.sort_unstable_by(|a, b| b.cmp(a));
        let slot = slot_bytes as f64;
        for (at, (way, upsize)) in
            [("way", "upsizes"), ("way-second", "upsizes-second"), ("way-third", "upsizes-third")]
                .into_iter()
                .enumerate()
                .take(ways.len())
        {
            figures.push((way, ways[at] as f64 * slot));
            figures.push((upsize, f64::from(upsizes[at])));
        }
        figures.push(("upsizes-out-of-place", f64::from(counts.out_of_place)));
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let moved = counts.rehashed.items();
        figures.push(("moved", share(moved, moved + counts.stayed)));
        let in_place = counts.moved_in_place;
        figures.push(("moved-in-place", share(in_place, in_place + counts.stayed)));
        let inserted_moved = counts.inserted.and(&counts.rehashed);
        let mut moves = |unmoved, mean, moves: Moves| {
            figures.push((unmoved, share(moves.moves[0], moves.items())));
            figures.push((mean, share(moves.sum, moves.items())));
        };
        moves("unmoved-inserts", "moves-inserts", counts.inserted);
        moves("unmoved-inserts-moved", "moves-inserts-moved", inserted_moved);
        moves("unmoved-inserts-all", "moves-inserts-all", inserted_moved.and_none(counts.stayed));
        figures.push(("changing", share(counts.inserted_while_changing, counts.inserted.items())));
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_trace::StopRequest;

    use super::*;

    #[test]
    fn costs_of_contiguous_memory_are_the_published_ones_and_lines_between() {
        for (bytes, cycles) in
            [(4u64 << 10, 4e3), (8 << 10, 5e3), (1 << 20, 750e3), (8 << 20, 13e6), (64 << 20, 120e6)]
        {
            assert!((allocation_cycles(bytes) / cycles - 1.0).abs() < 1e-9, "{bytes}");
        }
        // Worked out by hand.
        for (bytes, cycles) in
            [(16u64 << 10, 10.2e3), (512 << 10, 367e3), (2 << 20, 1.94e6), (32 << 20, 57.2e6)]
        {
            assert!(
                (allocation_cycles(bytes) / cycles - 1.0).abs() < 0.01,
                "{bytes}: {}",
                allocation_cycles(bytes)
            );
        }
    }

    /// An interrupted `pagewalk paper me-hpt` went on for sixteen seconds, until its largest table was full.
    #[test]
    fn a_filling_that_is_to_stop_has_no_figures() {
        let design = TableDesign { policy: Policy::ELASTIC, chunk_bytes: Vec::new() };
        let stop = Stop::default();
        stop.request(StopRequest::Now);
        assert!(design.fill(Lines { small: 1 << 30, large: 0 }, 1, &stop).is_none());
    }

    #[test]
    fn an_elastic_table_takes_four_and_a_half_ways_while_it_doubles() {
        let design = TableDesign { policy: Policy::ELASTIC, chunk_bytes: Vec::new() };
        let figures =
            design.fill(Lines { small: 15_000, large: 0 }, 1, &Stop::default()).expect("to its end");
        let get = |name| figures.get(name).unwrap();
        assert_eq!(get("way"), f64::from(1 << 20));
        assert_eq!(get("contiguous"), f64::from(1 << 20));
        assert_eq!(
            get("peak"),
            4.5 * f64::from(1 << 20) + 3.0 * 8192.0,
            "and the empty table of 2 MiB pages"
        );
        assert_eq!(get("upsizes"), 7.0);
    }

    #[test]
    fn chunks_switch_where_rows_end_and_large_pages_take_theirs() {
        let design = TableDesign { policy: Policy::MEMORY_EFFICIENT, chunk_bytes: vec![8 << 10, 1 << 20] };
        let figures =
            design.fill(Lines { small: 15_500, large: 0 }, 1, &Stop::default()).expect("to its end");
        let get = |name| figures.get(name).unwrap();
        assert_eq!((get("contiguous"), get("upsizes-out-of-place")), (f64::from(1 << 20), 1.0));
        assert_eq!((get("rows"), get("rows-peak")), (132.0, 195.0), "1 + 64 + 64, and 3 for large pages");
        let figures =
            design.fill(Lines { small: 100, large: 4096 }, 1, &Stop::default()).expect("to its end");
        let get = |name| figures.get(name).unwrap();
        assert_eq!((get("contiguous"), get("upsizes"), get("upsizes-large")), (8192.0, 0.0, 5.0));
        assert!(figures.get("nothing").is_none() && figures.names().any(|name| name == "moved"));
    }
}
