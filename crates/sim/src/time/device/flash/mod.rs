//! A NAND flash device: planes that read, program and erase, channels between them, one bus.
//!
//! ```text
//! read    plane: read [held for plane_read]      channel: transfer      bus: transfer
//! write   bus: transfer      channel: transfer      plane: program [collection]      held from the first to the last
//! ```
//!
//! The device of Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023, section V.A, whose
//! reads may wait for collections (VI.D): those block their plane, or with copies through the controller their
//! channel (Yan et al., "Tiny-Tail Flash: Near-Perfect Elimination of Garbage Collection Tail Latencies in NAND
//! SSDs", FAST 2017).

mod latency;
mod layout;
#[cfg(test)]
mod tests;
mod translation;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use self::latency::{Latency, scale};
use self::layout::Layout;
use self::translation::{Translation, Wear};
use crate::metrics::Rows;
use crate::metrics::names::flash as names;
use crate::spec::settings::{CollectionHolds, Distribution, FlashSpec, FlashTimes};
use crate::time::calendar::Calendar;
use crate::time::queue::EventQueue;

/// A flash device with its planes, channels and bus.
///
/// Pages are striped over planes, each stripe rotated by chance: were it not, all pages of a plane would have the same lowest
/// bits, and what indexes by these (the miss-status row of a cache) would fill up with pages of one busy plane. A plane does one
/// thing at a time; reads go first: a write waits until its plane is idle with no read for it, and then is not interrupted. A
/// plane with too many writes waiting starts the oldest as soon as it has done the reads that it has. Writes may start a
/// collection of blocks, which holds the plane behind them.
///
/// DEVIATION from devices: a page that waits to be written is read from its plane like any other; there is no cache,
/// no suspension of programs, and no levelling of the wear of pages that are never written.
///
/// # Contract
///
/// A read is answered at once. A write is done some time, because reads may still come before it;
/// [`next_written_ps`](Self::next_written_ps) tells when to ask [`pop_written_by`](Self::pop_written_by), and may tell
/// an earlier time than there is an answer: ask again then. All calls come in nearly non-decreasing order of time; in
/// order, every plane's schedule is that of an event-driven device. One from before the last call finds what had
/// started by then.
#[derive(Clone, Debug)]
pub struct Flash {
    spec: FlashSpec,
    planes: Vec<Plane>,
    wires: Wires,
    layout: Option<Layout>,
    wear: Wear,
    latency: Latency,
    /// The time of the last call: nothing is going to be reserved before.
    now_ps: u64,
    /// Planes with waiting writes, each once, and the earliest times at which the first of these may start.
    starts: BinaryHeap<Reverse<(u64, u32)>>,
    /// Pages of writes that have started, and when they are done.
    written: EventQueue<u64>,
    counts: FlashCounts,
}

/// The channels and the bus that transfer pages.
#[derive(Clone, Debug)]
struct Wires {
    channels: Vec<Channel>,
    bus: Calendar,
}

#[derive(Clone, Debug, Default)]
struct Plane {
    free_ps: u64,
    /// The end of its last collection.
    collected_ps: u64,
    waiting: VecDeque<Write>,
    /// From its first write on.
    translation: Option<Box<Translation>>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    at_ps: u64,
    page: u64,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    calendar: Calendar,
    /// The end of the last collection that held it.
    collected_ps: u64,
}

/// The counts of a flash device's operations since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashCounts {
    /// Pages that were read.
    pub reads: u64,
    /// Reads that waited for a collection.
    pub blocked_reads: u64,
    /// Pages that were written, those that wait included.
    pub writes: u64,
    /// Writes that went before reads because too many waited.
    pub urgent_writes: u64,
    /// Pages programmed for writes: each once.
    pub programmed: u64,
    /// Valid pages copied by collections.
    pub moved: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Erases of the block that has most.
    pub most_erases: u32,
    /// Erases of the block that has fewest.
    pub fewest_erases: u32,
}

impl FlashCounts {
    /// Adds the counts to a machine's rows.
    pub(in crate::time) fn rows(&self, rows: &mut Rows) {
        rows.sum(names::READS, self.reads);
        rows.sum(names::BLOCKED_READS, self.blocked_reads);
        rows.sum(names::WRITES, self.writes);
        rows.sum(names::URGENT_WRITES, self.urgent_writes);
        rows.sum(names::PROGRAMMED, self.programmed);
        rows.sum(names::MOVED, self.moved);
        rows.sum(names::ERASES, self.erases);
        rows.level(names::MOST_ERASES, self.most_erases.into());
        rows.level(names::FEWEST_ERASES, self.fewest_erases.into());
    }
}

impl Flash {
    /// Returns an idle device.
    ///
    /// # Panics
    ///
    /// If the settings are not what [`FlashSpec`] says.
    pub fn new(spec: &FlashSpec) -> Self {
        assert!(spec.planes > 0 && spec.channels > 0, "flash without planes or channels: {spec:?}");
        assert!(spec.pages.is_multiple_of(spec.planes.into()), "planes of different sizes: {spec:?}");
        assert!(
            spec.times.plane_read_ps <= spec.times.read_ps,
            "a plane held for longer than it reads: {spec:?}"
        );
        assert!(
            spec.times.plane_write_ps <= spec.times.write_ps,
            "a plane held for longer than it writes: {spec:?}"
        );
        assert!(
            spec.times.write_ps > 0 && spec.writes_waiting > 0,
            "writes that take no time or no place: {spec:?}"
        );
        let pages = u32::try_from(spec.pages / u64::from(spec.planes)).expect("less than 2^32 pages a plane");
        let layout = spec.garbage.as_ref().map(|garbage| Layout::new(pages, garbage));
        let blocks = layout.as_ref().map_or(0, |layout| u64::from(layout.blocks()) * u64::from(spec.planes));
        Self {
            planes: (0..spec.planes).map(|_| Plane::default()).collect(),
            wires: Wires {
                channels: (0..spec.channels).map(|_| Channel::default()).collect(),
                bus: Calendar::default(),
            },
            layout,
            wear: Wear::new(blocks),
            latency: Latency::new(spec.latency, spec.seed),
            now_ps: 0,
            starts: BinaryHeap::new(),
            written: EventQueue::new(),
            counts: FlashCounts::default(),
            spec: spec.clone(),
        }
    }

    /// Reads a page; returns when it has left the device.
    pub fn read(&mut self, now_ps: u64, page: u64) -> u64 {
        debug_assert!(page < self.spec.pages, "page {page} of {}", self.spec.pages);
        self.start_writes(now_ps);
        let (plane, channel) = self.place(page);
        let factor = self.latency.factor();
        let Plane { free_ps, collected_ps, .. } = &mut self.planes[plane];
        let start_ps = now_ps.max(*free_ps);
        let waits_for_plane = now_ps < *collected_ps;
        *free_ps = start_ps + scale(self.spec.times.plane_read_ps, factor);
        let ready_ps = start_ps + scale(self.spec.times.read_ps, factor);
        let Channel { calendar, collected_ps } = &mut self.wires.channels[channel];
        calendar.forget(self.now_ps);
        let sent_ps = calendar.reserve(ready_ps, self.spec.times.channel_page_ps);
        let waits_for_channel = ready_ps < *collected_ps && sent_ps >= *collected_ps;
        self.counts.reads += 1;
        self.counts.blocked_reads += u64::from(waits_for_plane || waits_for_channel);
        self.wires.bus.forget(self.now_ps);
        self.wires.bus.reserve(sent_ps + self.spec.times.channel_page_ps, self.spec.times.bus_page_ps)
            + self.spec.times.bus_page_ps
    }

    /// Takes a page to be written.
    pub fn write(&mut self, now_ps: u64, page: u64) {
        debug_assert!(page < self.spec.pages, "page {page} of {}", self.spec.pages);
        self.start_writes(now_ps);
        self.counts.writes += 1;
        let plane = self.place(page).0;
        if self.planes[plane].waiting.len() >= self.spec.writes_waiting as usize {
            self.counts.urgent_writes += 1;
            let start_ps = self.planes[plane].start_ps();
            self.start_write(plane, start_ps.max(now_ps));
            // The next one waits under the time of this one, which is earlier.
            self.planes[plane].waiting.push_back(Write { at_ps: now_ps, page });
        } else {
            self.planes[plane].waiting.push_back(Write { at_ps: now_ps, page });
            if self.planes[plane].waiting.len() == 1 {
                self.starts.push(Reverse((self.planes[plane].start_ps(), plane as u32)));
            }
        }
    }

    /// Returns a time before which no write ends that was not popped yet; the end of time if there is no such write.
    #[inline]
    pub fn next_written_ps(&self) -> u64 {
        let shortest_ps = match self.spec.latency {
            Distribution::Fixed => self.spec.times.write_ps,
            _ => 1,
        };
        let transfers_ps = self.spec.times.bus_page_ps + self.spec.times.channel_page_ps;
        let waiting = self.starts.peek().map(|Reverse((start_ps, _))| start_ps + transfers_ps + shortest_ps);
        self.written.next_ps().min(waiting.unwrap_or(u64::MAX))
    }

    /// Takes the next write that is done by `now_ps`, in order of time; returns when it was done, and its page.
    pub fn pop_written_by(&mut self, now_ps: u64) -> Option<(u64, u64)> {
        self.start_writes(now_ps);
        self.written.pop_by(now_ps)
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> FlashCounts {
        FlashCounts { most_erases: self.wear.most(), fewest_erases: self.wear.least(), ..self.counts }
    }

    /// Returns a page's plane and channel.
    #[inline]
    fn place(&self, page: u64) -> (usize, usize) {
        let planes = u64::from(self.spec.planes);
        let rotation = (page / planes).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let plane = ((page % planes + rotation) % planes) as usize;
        (plane, plane % self.spec.channels as usize)
    }

    /// Starts the writes that do so before `now_ps`, in order of time: reads that come now are before the others.
    #[inline]
    fn start_writes(&mut self, now_ps: u64) {
        while let Some(&Reverse((start_ps, plane))) = self.starts.peek()
            && start_ps < now_ps
        {
            self.starts.pop();
            let actual_ps = self.planes[plane as usize].start_ps();
            // Reads came in between.
            if actual_ps > start_ps {
                self.starts.push(Reverse((actual_ps, plane)));
                continue;
            }
            self.start_write(plane as usize, start_ps);
            if !self.planes[plane as usize].waiting.is_empty() {
                self.starts.push(Reverse((self.planes[plane as usize].start_ps(), plane)));
            }
        }
        self.now_ps = now_ps.max(self.now_ps);
    }

    /// Starts a plane's oldest write.
    fn start_write(&mut self, plane: usize, start_ps: u64) {
        let Write { page, .. } = self.planes[plane].waiting.pop_front().expect("a write that waits");
        let FlashTimes { channel_page_ps, bus_page_ps, .. } = self.spec.times;
        let channel = &mut self.wires.channels[plane % self.spec.channels as usize].calendar;
        self.wires.bus.forget(self.now_ps);
        channel.forget(self.now_ps);
        let sent_ps = self.wires.bus.reserve(start_ps, bus_page_ps) + bus_page_ps;
        let ready_ps = channel.reserve(sent_ps, channel_page_ps) + channel_page_ps;
        // A program takes time, so that a write that was told to wait is done later than it started.
        let done_ps = ready_ps + scale(self.spec.times.write_ps, self.latency.factor()).max(1);
        self.planes[plane].free_ps = match self.spec.times.plane_write_ps {
            0 => start_ps,
            held_ps => ready_ps + held_ps.min(done_ps - ready_ps),
        };
        self.written.push(done_ps, page);
        self.counts.programmed += 1;
        self.translate(plane, page, done_ps);
    }

    /// Finds a page another place, and collects behind it if need be.
    fn translate(&mut self, plane: usize, page: u64, done_ps: u64) {
        let (Some(layout), Some(garbage)) = (&self.layout, &self.spec.garbage) else { return };
        let channel = &mut self.wires.channels[plane % self.spec.channels as usize];
        let (number, plane) = (plane as u64, &mut self.planes[plane]);
        let wear = &mut self.wear;
        let translation =
            plane.translation.get_or_insert_with(|| Box::new(Translation::new(number, layout, wear)));
        let page = (page / u64::from(self.spec.planes)) as u32;
        let collected = translation.write(page, layout, &mut self.wear);
        if collected.erased == 0 {
            return;
        }
        self.counts.moved += collected.moved;
        self.counts.erases += collected.erased;
        let copy_ps = self.spec.times.read_ps + self.spec.times.write_ps;
        let erases_ps = collected.erased * garbage.erase_ps;
        plane.free_ps = match garbage.holds {
            CollectionHolds::Plane => done_ps + collected.moved * copy_ps + erases_ps,
            CollectionHolds::Channel => {
                // Each page crosses the channel twice.
                let took_ps = collected.moved * (copy_ps + 2 * self.spec.times.channel_page_ps) + erases_ps;
                let end_ps = channel.calendar.reserve(done_ps, took_ps) + took_ps;
                channel.collected_ps = channel.collected_ps.max(end_ps);
                end_ps
            }
        };
        plane.collected_ps = plane.free_ps;
    }
}

impl Plane {
    /// Returns the time at which the first write that waits may start, unless reads come.
    fn start_ps(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |write| write.at_ps.max(self.free_ps))
    }
}

impl FlashCounts {
    /// Returns the pages programmed per page written; 1 before the first one.
    pub fn write_amplification(&self) -> f64 {
        match self.programmed {
            0 => 1.0,
            programmed => (programmed + self.moved) as f64 / programmed as f64,
        }
    }

    /// Returns the share of reads that waited for a collection.
    pub fn blocked_share(&self) -> f64 {
        match self.reads {
            0 => 0.0,
            reads => self.blocked_reads as f64 / reads as f64,
        }
    }
}
