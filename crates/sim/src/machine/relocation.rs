//! Programs on a machine that has fewer addresses than the program's own.
//!
//! Sources give addresses of 48 bits, and a program's heap, mappings and stack lie far apart in them. A machine of three levels
//! leaves a program the lower half of 39 bits: 256 GiB. A program that was built for such a machine would have the same things
//! nearer to each other, and so its addresses are relocated here, before the machine sees them.
//!
//! The unit is an aligned GiB. A unit goes where the low bits of its address say, if that place is free, and otherwise to the
//! next free one above; units of one mapping stay beside each other. So the heap, the mappings and the stack of an ordinary
//! program keep their order, and a program that needs no relocation has none:
//!
//! ```text
//!  the program        0x0040_0000        0x5555_5555_9000        0x7fff_f7c0_0000   0x7fff_ffff_f000
//!                     program            heap                    mappings           stack
//!  the machine        0x0040_0000        0x0015_5555_9000        0x003f_f7c0_0000   0x003f_ffff_f000
//! ```
//!
//! Each process has its own places. A place that is taken stays taken until `exec` or the end of the process.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pagewalk_trace::{Access, Batch, Code, Event, Mapping, Mark, PageFrame, ProcessId};
use pagewalk_vm::addr::{VirtAddr, VirtRange};

use super::simulate::Simulate;
use crate::error::MachineError;
use crate::metrics::RunResult;
use crate::spec::settings::ProgramSpace;

/// The base-2 logarithm of the bytes that are relocated together.
const UNIT_SHIFT: u32 = 30;

/// A machine that gets events with relocated addresses.
pub(super) struct Relocated {
    machine: Box<dyn Simulate>,
    relocation: Relocation,
}

/// The places that the addresses of programs have in a machine.
pub(super) struct Relocation {
    space: ProgramSpace,
    process: ProcessId,
    places: BTreeMap<ProcessId, Places>,
    /// The events as the machine gets them.
    relocated: Batch,
}

/// A range of the program for which the machine has no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom(VirtRange);

/// The places of one process.
#[derive(Clone, Debug)]
struct Places {
    /// The units of the machine that are taken.
    taken: Vec<bool>,
    /// By unit of the program, the unit of the machine.
    of: BTreeMap<u64, u64>,
    /// The unit that was asked for last, and its place.
    last: Option<(u64, u64)>,
}

impl Relocated {
    /// Puts a machine, whose programs have this space, behind a relocation.
    pub(super) fn new(machine: Box<dyn Simulate>, space: ProgramSpace) -> Self {
        Self { machine, relocation: Relocation::new(space) }
    }
}

impl Relocation {
    /// Creates a relocation to this space; no process has a place yet.
    pub(super) fn new(space: ProgramSpace) -> Self {
        Self { space, process: ProcessId(0), places: BTreeMap::new(), relocated: Batch::new() }
    }

    /// Returns the events of a batch with relocated addresses.
    ///
    /// # Errors
    ///
    /// There is no room for a range.
    pub(super) fn batch(&mut self, batch: &Batch) -> Result<&Batch, NoRoom> {
        self.relocated.clear();
        let (mut done, mut executed) = (0, 0);
        for Mark { at, blocks, event } in &batch.marks {
            self.accesses(&batch.accesses[done..*at as usize])?;
            self.relocated.blocks.extend_from_slice(&batch.blocks[executed..*blocks as usize]);
            (done, executed) = (*at as usize, *blocks as usize);
            self.event(event)?;
        }
        self.accesses(&batch.accesses[done..])?;
        self.relocated.blocks.extend_from_slice(&batch.blocks[executed..]);
        Ok(&self.relocated)
    }

    /// Returns the places of the current process.
    fn places(&mut self) -> &mut Places {
        let units = (self.space.bytes >> UNIT_SHIFT) as usize;
        self.places.entry(self.process).or_insert_with(|| Places::new(units))
    }

    /// Returns where the machine has a range, of which no part lies elsewhere.
    fn whole(&mut self, range: VirtRange) -> Result<VirtRange, NoRoom> {
        self.places().whole(range).ok_or(NoRoom(range))
    }

    fn accesses(&mut self, accesses: &[Access]) -> Result<(), NoRoom> {
        for &access in accesses {
            let addr = access.addr();
            let place = match self.places().address(addr) {
                Some(place) => place,
                None => self.whole(VirtRange::sized(addr, access.bytes()))?.start,
            };
            let relocated = Access::new(place, access.bytes() as u32, access.is_write());
            let relocated = if access.is_continued() { relocated.continued() } else { relocated };
            self.relocated.push(if access.is_some() { relocated } else { access });
        }
        Ok(())
    }

    /// Relocates an event: none for one that is only about addresses where the program has nothing, several for a range whose
    /// parts lie apart.
    fn event(&mut self, event: &Event) -> Result<(), NoRoom> {
        let relocated = match event {
            Event::Process(id) => {
                self.process = *id;
                event.clone()
            }
            Event::Fork { child } => {
                let places = self.places().clone();
                self.places.insert(*child, places);
                event.clone()
            }
            Event::Exec | Event::ProcessEnd => {
                self.places.remove(&self.process);
                event.clone()
            }
            Event::Map(mapping) => Event::Map(Mapping { range: self.whole(mapping.range)?, ..*mapping }),
            Event::Break(range) => Event::Break(self.whole(*range)?),
            Event::ThreadStack(range) => Event::ThreadStack(self.whole(*range)?),
            Event::Remap { from, to } => Event::Remap { from: self.whole(*from)?, to: self.whole(*to)? },
            Event::Frame(given) => {
                let page = self.whole(given.range())?.start;
                let relocated = PageFrame::new(page, given.frame().addr(), given.size());
                Event::Frame(relocated.expect("a distance of whole GiB keeps a page aligned"))
            }
            Event::Code(code) => {
                // Where the program has nothing mapped, code has no place either.
                let addr = self.places().address(code.addr).unwrap_or(code.addr);
                Event::Code(Code { addr, ..code.clone() })
            }
            Event::Unmap(range) => {
                self.parts(*range, Event::Unmap);
                return Ok(());
            }
            Event::Protect(range, protection) => {
                self.parts(*range, |part| Event::Protect(part, *protection));
                return Ok(());
            }
            Event::Advise(range, advice) => {
                self.parts(*range, |part| Event::Advise(part, *advice));
                return Ok(());
            }
            Event::KernelWrite(range) => {
                self.parts(*range, Event::KernelWrite);
                return Ok(());
            }
            Event::Instructions(_)
            | Event::Thread(_)
            | Event::ThreadEnd(_)
            | Event::Unobserved(_)
            | Event::Phase(_)
            | Event::JobBegin { .. }
            | Event::JobEnd => event.clone(),
        };
        self.relocated.mark(relocated);
        Ok(())
    }

    /// Marks an event about each part of a range.
    fn parts(&mut self, range: VirtRange, event: impl Fn(VirtRange) -> Event) {
        for part in self.places().parts(range) {
            self.relocated.mark(event(part));
        }
    }
}

impl Places {
    fn new(units: usize) -> Self {
        Self { taken: vec![false; units], of: BTreeMap::new(), last: None }
    }

    /// Returns the place of an address in a unit that has one.
    #[inline]
    fn address(&mut self, addr: VirtAddr) -> Option<VirtAddr> {
        let unit = addr.0 >> UNIT_SHIFT;
        let place = match self.last {
            Some((last, place)) if last == unit => place,
            _ => *self.of.get(&unit)?,
        };
        self.last = Some((unit, place));
        Some(moved(addr, unit, place))
    }

    /// Returns the place of a range; what has none yet gets one. None if there is no room for the range in one piece.
    fn whole(&mut self, range: VirtRange) -> Option<VirtRange> {
        let units = units_of(range);
        let (first, last) = (*units.start(), *units.end());
        let place = self.room_for(units)?;
        for unit in first..=last {
            self.taken[(place + unit - first) as usize] = true;
            self.of.insert(unit, place + unit - first);
        }
        Some(VirtRange::sized(moved(range.start, first, place), range.bytes()))
    }

    /// Returns a place for units, at which each of them is already or may be.
    fn room_for(&self, units: RangeInclusive<u64>) -> Option<u64> {
        let (first, count) = (*units.start(), units.end() - units.start() + 1);
        let all = self.taken.len() as u64;
        let last_place = all.checked_sub(count)?;
        let fits = |&place: &u64| {
            (0..count).all(|at| match self.of.get(&(first + at)) {
                Some(&has) => has == place + at,
                None => !self.taken[(place + at) as usize],
            })
        };
        let near = first % all;
        (near..all).chain(0..near).filter(|place| *place <= last_place).find(fits)
    }

    /// Returns the places of the parts of a range that have one, from the lowest address of the program on.
    fn parts(&self, range: VirtRange) -> Vec<VirtRange> {
        let mut parts: Vec<VirtRange> = Vec::new();
        if range.is_empty() {
            return parts;
        }
        let mut next = None;
        for (&unit, &place) in self.of.range(units_of(range)) {
            let unit_range = VirtRange::sized(VirtAddr(unit << UNIT_SHIFT), 1 << UNIT_SHIFT);
            let part = range.intersect(unit_range);
            let part = VirtRange::sized(moved(part.start, unit, place), part.bytes());
            match parts.last_mut().filter(|_| next == Some((unit, place))) {
                Some(before) => before.end = part.end,
                None => parts.push(part),
            }
            next = Some((unit + 1, place + 1));
        }
        parts
    }
}

/// Returns an address of a unit at the unit's place.
#[inline]
fn moved(addr: VirtAddr, unit: u64, place: u64) -> VirtAddr {
    VirtAddr(addr.0 - (unit << UNIT_SHIFT) + (place << UNIT_SHIFT))
}

/// Returns the units of a range: that of its address if it is empty.
fn units_of(range: VirtRange) -> RangeInclusive<u64> {
    let last = range.end.0.max(range.start.0 + 1) - 1;
    range.start.0 >> UNIT_SHIFT..=last >> UNIT_SHIFT
}

impl Simulate for Relocated {
    fn name(&self) -> &str {
        self.machine.name()
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError> {
        match self.relocation.batch(batch) {
            Ok(relocated) => self.machine.batch(relocated),
            Err(NoRoom(range)) => Err(MachineError::NoProgramSpace {
                machine: self.machine.name().to_owned(),
                range,
                levels: self.relocation.space.levels,
                program_gib: self.relocation.space.bytes >> 30,
            }),
        }
    }

    fn measure(&mut self) -> Result<(), MachineError> {
        self.machine.measure()
    }

    fn end(&mut self) -> Result<(), MachineError> {
        self.machine.end()
    }

    fn finish(&self, source: &str) -> RunResult {
        self.machine.finish(source)
    }
}
