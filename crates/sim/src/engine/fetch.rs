//! The fetch of instructions: the lines of each executed block go through a core's translation hardware and caches.

use pagewalk_code::outline;
use pagewalk_trace::{BlockId, Code, Isa};
use pagewalk_vm::addr::{PhysAddr, VirtAddr};
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tlb::Translation;

use super::{Engine, Stopped, failure_of};
use crate::error::MachineError;
use crate::metrics::Rows;
use crate::metrics::names::fetch;
use crate::mmu::PageUse;
use crate::spec::settings::ProgramSpace;
use crate::time::Clock;

/// log2 of the bytes that a core fetches at once.
const LINE_SHIFT: u32 = 6;
/// No line of a program.
const NONE: u64 = u64::MAX;

/// The code of the program, and how far the cores are in it.
#[derive(Clone, Debug)]
pub(crate) struct Fetching {
    /// By number of the block, its first and its last line; none of a block that lies where programs of this machine have nothing.
    blocks: Vec<Option<(u64, u64)>>,
    /// By core, the line that it fetched last.
    last: Vec<u64>,
    /// The end of the addresses that programs have.
    end: VirtAddr,
    lines: u64,
}

impl Fetching {
    /// Returns the fetch of so many cores, where programs have this space.
    pub(crate) fn new(cores: usize, space: Option<ProgramSpace>) -> Self {
        let end = VirtAddr(space.map_or(1 << 47, |space| space.bytes));
        Self { blocks: Vec::new(), last: vec![NONE; cores], end, lines: 0 }
    }

    /// Takes the place of a block. Blocks are numbered in order; a number out of order no front-end gives.
    pub(super) fn code(&mut self, code: &Code) {
        let start = code.addr.0;
        let bytes = match code.isa {
            Isa::Outline => outline::length(&code.bytes),
            _ => code.bytes.len() as u64,
        };
        let last = start.checked_add(bytes.max(1) - 1).filter(|last| *last < self.end.0);
        let lines = last.map(|last| (start >> LINE_SHIFT, last >> LINE_SHIFT));
        let number = code.block.0 as usize;
        if number == self.blocks.len() {
            self.blocks.push(lines);
        } else if let Some(known) = self.blocks.get_mut(number) {
            *known = lines;
        }
    }

    /// Lets every core fetch its next line, whatever it fetched last.
    pub(super) fn forget(&mut self) {
        self.last.fill(NONE);
    }

    /// Adds the counts to the rows.
    pub(super) fn rows(&self, rows: &mut Rows) {
        rows.sum(fetch::LINES, self.lines);
    }
}

/// Lets the running core fetch the instructions of a block that it begins to execute: a line that it has just fetched it still has.
#[inline]
pub(super) fn fetch<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    block: BlockId,
) -> Result<(), MachineError> {
    let Some(fetching) = &engine.fetching else { return Ok(()) };
    let Some(&Some((first, last))) = fetching.blocks.get(block.0 as usize) else { return Ok(()) };
    if first == last && fetching.last[engine.core] == first {
        return Ok(());
    }
    (first..=last).try_for_each(|line| fetch_line(engine, line))
}

fn fetch_line<T: PageTable, C: Clock>(engine: &mut Engine<T, C>, line: u64) -> Result<(), MachineError> {
    let Engine { mmu, clock, core, fetching, .. } = engine;
    let Some(fetching) = fetching else { return Ok(()) };
    if std::mem::replace(&mut fetching.last[*core], line) == line {
        return Ok(());
    }
    fetching.lines += 1;
    clock.begin_fetch(*core);
    mmu.count_fetch(*core);
    let addr = VirtAddr(line << LINE_SHIFT);
    let frame = match mmu.front_of_instructions(*core).lookup(PageUse::new(addr, false)) {
        Some(frame) => frame,
        None => match translate(engine, addr) {
            Ok(translation) => translation.frame_of(addr.page()),
            Err(Stopped::Missed(missed)) => unreachable!("{missed:?} in a machine without a tier"),
            // The program executed the block, so it may: a mapping that says otherwise has been changed since.
            Err(stopped @ Stopped::Fault(_)) => return failure_of(engine.stop(stopped)),
        },
    };
    engine.clock.fetched(engine.core, PhysAddr(frame.addr().0 | addr.0 & 0xfff));
    Ok(())
}

#[inline(never)]
fn translate<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    addr: VirtAddr,
) -> Result<Translation, Stopped> {
    engine.mmu.begin_fetch(engine.core);
    let translated = engine.translate(addr, false);
    engine.mmu.end_fetch(engine.core);
    translated
}
