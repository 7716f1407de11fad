//! From a parser to the sink: batches with instruction counts, checked addresses and sizes.

use std::ops::ControlFlow;

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use super::source::Skipped;
use crate::event::{Access, Batch, Event, Mark};
use crate::source::Sink;

/// The largest access that a trace may have, in bytes.
const MAX_ACCESS_BYTES: u64 = 16_384;
/// The largest access of one record; longer ones become several.
const LINE_BYTES: u64 = 64;
/// The first address of the kernel's half.
const KERNEL_START: u64 = 0xffff_0000_0000_0000;

/// Collects what a parser finds into batches for a sink.
pub(super) struct Output<'a> {
    sink: &'a mut dyn Sink,
    batch: Batch,
    /// Which mark of the batch counts the instructions now; none after a switch until something comes.
    count_mark: Option<usize>,
    /// Whether something came since that mark.
    counted: bool,
    stopped: bool,
    pub(super) skipped: Skipped,
}

impl<'a> Output<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Self {
        let skipped = Skipped::default();
        let mut output =
            Self { sink, batch: Batch::new(), count_mark: None, counted: false, stopped: false, skipped };
        output.begin();
        output
    }

    fn begin(&mut self) {
        self.batch.clear();
        self.count_mark = None;
        self.counted = false;
        self.count(0);
    }

    /// Adds to the current count; begins one if there is none.
    fn count(&mut self, instructions: u64) {
        let mark = *self.count_mark.get_or_insert_with(|| {
            self.batch.mark(Event::Instructions(0));
            self.batch.marks.len() - 1
        });
        if let Mark { event: Event::Instructions(sum), .. } = &mut self.batch.marks[mark] {
            *sum += instructions;
        }
    }

    /// Hands on what there is.
    fn flush(&mut self) {
        let nothing = self.batch.accesses.is_empty() && self.batch.marks.len() == 1 && !self.counted;
        if !self.stopped && !nothing {
            self.stopped = self.sink.batch(&mut self.batch).is_break();
        }
        self.begin();
    }

    /// Hands on the last batch.
    pub(super) fn finish(mut self) -> Skipped {
        self.flush();
        self.skipped
    }

    /// Whether the sink wants more.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// `count` more instructions begin; their accesses follow.
    pub(super) fn instructions(&mut self, count: u64) {
        if self.batch.is_full() || self.batch.marks.len() >= Batch::FULL {
            self.flush();
        }
        self.count(count);
        self.counted = true;
    }

    /// A change of process or thread, and the like: what follows has its own instruction count.
    pub(super) fn switch(&mut self, event: Event) {
        if self.batch.marks.len() >= Batch::FULL {
            self.flush();
        }
        self.batch.mark(event);
        if std::mem::take(&mut self.counted) {
            self.count_mark = None;
        }
    }

    /// An access of `bytes` at `address`.
    pub(super) fn access(&mut self, address: u64, bytes: u64, write: bool) -> Result<(), String> {
        if bytes == 0 || bytes > MAX_ACCESS_BYTES {
            return Err(format!("an access of {bytes} bytes; 1 to {MAX_ACCESS_BYTES} are allowed"));
        }
        if !self.takes(address, bytes)? {
            return Ok(());
        }
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(LINE_BYTES);
            self.push(access_of(address + done, part, write));
            done += part;
        }
        Ok(())
    }

    /// An access of unknown size at `address`.
    pub(super) fn access_unsized(&mut self, address: u64, write: bool) -> Result<(), String> {
        if self.takes(address, 1)? {
            let aligned = 1 << address.trailing_zeros().min(3);
            self.push(Access::new(VirtAddr(address), aligned, write));
        }
        Ok(())
    }

    /// Whether the access is one to keep.
    fn takes(&mut self, address: u64, bytes: u64) -> Result<bool, String> {
        if address >= KERNEL_START {
            self.skipped.kernel_accesses += 1;
            return Ok(false);
        }
        if address + bytes > 1 << 48 {
            return Err(format!(
                "address {address:#x} is in neither half of a 48-bit address space; the file is damaged or of \
                 another format"
            ));
        }
        Ok(true)
    }

    fn push(&mut self, access: Access) {
        if self.batch.accesses.len() == Batch::MAX {
            self.flush();
        }
        // A 1-byte load at address 0 would be the record that means "no access"; nothing maps page 0, so it
        // stands for a failed access and is left out.
        if access.is_some() {
            self.count(0);
            self.counted = true;
            self.batch.push(access);
        }
    }
}

/// An access of at most 64 bytes; rounds its size so that it touches the pages that the real one touches.
fn access_of(address: u64, bytes: u64, write: bool) -> Access {
    let mut rounded = bytes.next_power_of_two();
    let offset = address % PAGE_BYTES;
    if offset + bytes <= PAGE_BYTES && offset + rounded > PAGE_BYTES {
        rounded /= 2;
    }
    Access::new(VirtAddr(address), rounded as u32, write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_never_touches_another_page() {
        for bytes in 1..=64_u64 {
            for offset in 4000..4096_u64 {
                let access = access_of(0x7000 + offset, bytes, false);
                let crosses = |bytes: u64| offset + bytes > PAGE_BYTES;
                assert_eq!(crosses(access.bytes()), crosses(bytes), "{bytes} at {offset}");
                assert!(access.bytes() <= 64 && access.bytes() * 2 > bytes);
            }
        }
    }
}
