//! Instructions that were executed one behind the other: a block, up to a branch or to what does not follow in memory.
//!
//! A record says neither how long its instruction is nor where a branch goes: the address of the next record does. Of an instruction in
//! front of the next one, the length is the distance to that. Of a branch, the target is the next record's address when it is taken, and
//! the length is the distance when it is not; that of a call is also told by its return. Until it is known, the usual length is
//! assumed. A branch whose length or target becomes known makes its block another one at the same address.

use pagewalk_code::Flow;
use pagewalk_code::outline::BYTES;
use rustc_hash::FxHashMap;

use super::super::blocks::Execution;
use super::super::output::Output;
use super::instruction::{Branch, Names, Record};
use crate::event::{Access, Isa};

/// The most instructions of a block.
const MOST: usize = 64;
/// The longest instruction of x86-64 in bytes.
const LONGEST: u64 = 15;
/// The most calls whose returns are awaited.
const MOST_CALLS: usize = 64;

/// What is known of a branch.
#[derive(Clone, Copy, Default)]
struct Known {
    length: Option<u8>,
    target: Option<u64>,
}

/// The instructions since the beginning of the block.
#[derive(Default)]
pub(super) struct Run {
    records: Vec<Record>,
    /// The distance of each instruction from the one before it.
    lengths: Vec<u8>,
    accesses: Vec<Access>,
    /// By process and address.
    branches: FxHashMap<(u32, u64), Known>,
    /// The addresses of calls that have not returned.
    calls: Vec<u64>,
    process: u32,
    names: Names,
    /// The description of a block under construction.
    bytes: Vec<u8>,
}

impl Run {
    /// Goes on in another process, between two blocks.
    pub(super) fn enter(&mut self, process: u32) {
        self.process = process;
        self.calls.clear();
    }

    /// Begins an instruction; its accesses follow.
    pub(super) fn begin(&mut self, record: Record, output: &mut Output<'_>) {
        // The accesses of the first instruction come behind an instruction.
        output.instructions(0);
        if let Some(last) = self.records.last() {
            let distance = record.ip.wrapping_sub(last.ip);
            let follows = (1..=LONGEST).contains(&distance);
            let is_full = self.records.len() == MOST || output.is_full_with(self.accesses.len());
            if last.branch.is_some() || !follows || is_full {
                self.end(Some(record.ip), output);
            } else {
                self.lengths.push(distance as u8);
            }
        }
        self.records.push(record);
    }

    /// Adds an access of the last instruction.
    pub(super) fn access(&mut self, access: Access) {
        let Some(last) = self.records.last_mut() else { return };
        if access.is_some() {
            *if access.is_write() { &mut last.stores } else { &mut last.loads } += 1;
        }
        self.accesses.push(access);
    }

    /// Ends the block, behind which the instruction at `next` is executed, and hands it on.
    pub(super) fn end(&mut self, next: Option<u64>, output: &mut Output<'_>) {
        let Some(last) = self.records.last().copied() else { return };
        let (length, flow) = self.last(&last, next);
        self.lengths.push(length);
        self.bytes.clear();
        let mut sets_flags = false;
        for (place, (record, &length)) in self.records.iter().zip(&self.lengths).enumerate() {
            let flow = if place + 1 == self.records.len() { flow } else { Flow::Next };
            let mut outline = record.outline(length, flow, &mut self.names);
            outline.fuses = sets_flags && record.branch == Some(Branch::Conditional);
            sets_flags = record.sets_flags();
            self.bytes.extend(outline.to_bytes(record.ip));
        }
        debug_assert_eq!(self.bytes.len(), self.records.len() * BYTES);
        output.execute(&Execution {
            addr: self.records.first().map_or(0, |first| first.ip),
            isa: Isa::Outline,
            bytes: &self.bytes,
            instructions: self.records.len() as u64,
            accesses: &self.accesses,
        });
        self.records.clear();
        self.lengths.clear();
        self.accesses.clear();
    }

    /// The length and the flow of the last instruction of the block.
    fn last(&mut self, last: &Record, next: Option<u64>) -> (u8, Flow) {
        let distance = next.map(|next| next.wrapping_sub(last.ip));
        let near = distance.filter(|distance| (1..=LONGEST).contains(distance)).map(|near| near as u8);
        let Some(branch) = last.branch else {
            let repeats = distance == Some(0);
            return (near.unwrap_or(1), if repeats { Flow::Repeat } else { Flow::Next });
        };
        if branch == Branch::Return
            && let (Some(call), Some(next)) = (self.calls.pop(), next)
            && let behind @ 1..=LONGEST = next.wrapping_sub(call)
        {
            self.branches.entry((self.process, call)).or_default().length = Some(behind as u8);
        }
        let known = self.branches.entry((self.process, last.ip)).or_default();
        if last.taken {
            known.target = next.or(known.target);
        } else {
            known.length = near.or(known.length);
        }
        let Known { length, target } = *known;
        let target = target.unwrap_or(last.ip);
        let (usual, flow) = match branch {
            Branch::Conditional => (2, Flow::Conditional { target }),
            Branch::Jump => (5, Flow::Jump { target }),
            Branch::IndirectJump => (2, Flow::IndirectJump),
            Branch::Call => (5, Flow::Call { target }),
            Branch::IndirectCall => (2, Flow::IndirectCall),
            Branch::Return => (1, Flow::Return),
        };
        if matches!(branch, Branch::Call | Branch::IndirectCall) {
            if self.calls.len() == MOST_CALLS {
                self.calls.remove(0);
            }
            self.calls.push(last.ip);
        }
        (length.unwrap_or(usual), flow)
    }
}
