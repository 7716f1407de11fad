//! ChampSim's instruction records: `input_instr` (64 bytes) and the wider `cloudsuite_instr` (96 bytes).
//!
//! ```text
//!            ip  branch, taken  registers        stores             loads              address-space id
//! champsim    0   8   9         10 to 16         16: 2 addresses    32: 4 addresses    -
//! cloudsuite  0   8   9         10 to 18 (+ 6)   24: 4 addresses    56: 4 addresses    88: 2 bytes (+ 6)
//! ```
//!
//! Numbers are little-endian; address 0 means none; (+ 6) are bytes of padding. One record is one instruction:
//! its loads come first, then its stores. Of the registers, two are written in the narrower records and four in the wider ones, and the
//! four behind them are read; 0 means none. Layouts: ChampSim, `inc/trace_instruction.h`.
//!
//! Records that follow one another in memory are executed blocks ([`run`]), whose instructions are described by their outlines
//! ([`instruction`]).

mod instruction;
mod run;

use std::collections::BTreeMap;

use self::instruction::Record;
use self::run::Run;
use super::input::Content;
use super::output::Output;
use super::records::{BUFFER_BYTES, Records};
use crate::error::TraceError;
use crate::event::{Event, ProcessId, ThreadId};

pub(super) const CHAMPSIM_BYTES: usize = 64;
pub(super) const CLOUDSUITE_BYTES: usize = 96;

/// Where the fields of a record of `N` bytes lie.
struct Layout {
    written: std::ops::Range<usize>,
    read: std::ops::Range<usize>,
    stores: std::ops::Range<usize>,
    loads: std::ops::Range<usize>,
    address_space: Option<usize>,
}

const fn layout<const N: usize>() -> Layout {
    match N {
        CHAMPSIM_BYTES => {
            Layout { written: 10..12, read: 12..16, stores: 16..32, loads: 32..64, address_space: None }
        }
        CLOUDSUITE_BYTES => {
            Layout { written: 10..14, read: 14..18, stores: 24..56, loads: 56..88, address_space: Some(88) }
        }
        _ => panic!("records have 64 or 96 bytes"),
    }
}

/// Reads records of `N` bytes.
pub(super) fn parse<const N: usize>(content: Content, output: &mut Output<'_>) -> Result<(), TraceError> {
    let layout = const { layout::<N>() };
    let stream = content.into_stream()?;
    let mut records = Records::<N>::new(stream.reader, stream.origin, BUFFER_BYTES);
    let mut processes = AddressSpaces::default();
    let mut run = Run::default();
    let result = loop {
        let (record, offset) = match records.next() {
            Ok(Some(next)) => next,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(start) = layout.address_space {
            processes.follow(u16::from_le_bytes([record[start], record[start + 1]]), &mut run, output);
        }
        if let Err(what) = instruction(&record, &layout, &mut run, output) {
            break Err(records.malformed(offset, what));
        }
        if output.flow().is_break() {
            return Ok(());
        }
    };
    // What comes before an error is handed on.
    run.end(None, output);
    result?;
    if records.offset == 0 { Err(records.malformed(0, "the trace is empty")) } else { Ok(()) }
}

fn instruction(record: &[u8], layout: &Layout, run: &mut Run, output: &mut Output<'_>) -> Result<(), String> {
    let (branch, taken) = (record[8], record[9]);
    if branch > 1 || taken > 1 {
        return Err(format!(
            "branch flags {branch} and {taken}; only 0 and 1 are allowed, the file is damaged or of another format"
        ));
    }
    let accesses = [(&layout.loads, false), (&layout.stores, true)];
    if !output.gives_blocks {
        output.instructions(1);
        for (addresses, write) in accesses {
            addresses_in(&record[addresses.clone()])
                .try_for_each(|address| output.access_unsized(address, write))?;
        }
        return Ok(());
    }
    let registers = |range: &std::ops::Range<usize>| record[range.clone()].iter().copied();
    let ip = u64::from_le_bytes(*record.first_chunk().unwrap_or(&[0; 8]));
    run.begin(
        Record::new(ip, branch == 1, taken == 1, registers(&layout.read), registers(&layout.written)),
        output,
    );
    for (addresses, write) in accesses {
        for address in addresses_in(&record[addresses.clone()]) {
            if let Some(access) = output.unsized_access(address, write)? {
                run.access(access);
            }
        }
    }
    Ok(())
}

fn addresses_in(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|&address| u64::from_le_bytes(address)).filter(|&address| address != 0)
}

/// Numbers address-space ids in order of appearance. Each is a process with a thread of its own.
#[derive(Default)]
struct AddressSpaces {
    known: BTreeMap<u16, u32>,
    current: Option<u16>,
}

impl AddressSpaces {
    fn follow(&mut self, id: u16, run: &mut Run, output: &mut Output<'_>) {
        if self.current == Some(id) {
            return;
        }
        run.end(None, output);
        let next = self.known.len() as u32;
        let number = *self.known.entry(id).or_insert(next);
        if self.current.is_some() {
            output.switch(Event::Process(ProcessId(number)));
            output.switch(Event::Thread(ThreadId(number + 1)));
        }
        run.enter(number);
        self.current = Some(id);
    }
}

/// Whether the start of a file can be a sequence of records of `N` bytes.
pub(super) fn plausible<const N: usize>(start: &[u8]) -> bool {
    let layout = const { layout::<N>() };
    let records = start.as_chunks::<N>().0;
    let user = |address: u64| address < 1 << 48;
    let canonical = |address: u64| user(address) || address >= 0xffff_0000_0000_0000;
    let sound = |record: &[u8; N]| {
        let ip = u64::from_le_bytes(*record.first_chunk().expect("a record is longer"));
        let branch = record[8] <= 1 && record[9] <= record[8];
        let addresses = &record[layout.stores.start..layout.loads.end];
        branch
            && ip != 0
            && canonical(ip)
            && addresses_in(addresses).all(|address| canonical(address) && address >= 4096)
    };
    !records.is_empty() && records.iter().all(sound)
}
