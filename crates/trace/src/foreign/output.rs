//! From a parser to the sink: batches with instruction counts, checked addresses and sizes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use pagewalk_vm::addr::{PAGE_BYTES, PageSize, PhysAddr, VirtAddr};

use super::blocks::{Execution, Numbers, Pending};
use super::drmemtrace::v2p::Translation;
use super::tally::{Kind, Tally};
use crate::event::{Access, Batch, Event, Mark, PageFrame, ProcessId};
use crate::source::Sink;

/// The largest access that a trace may have, in bytes.
const MAX_ACCESS_BYTES: u64 = 16_384;
/// The largest access of one record; longer ones become several.
const LINE_BYTES: u64 = 64;
/// The first address of the kernel's half.
const KERNEL_START: u64 = 0xffff_0000_0000_0000;
/// The bit of a 48-bit address that tells the kernel's half of x86-64.
const KERNEL_BIT: u64 = 1 << 47;

/// Collects what a parser finds into batches for a sink.
pub(super) struct Output<'a> {
    sink: &'a mut dyn Sink,
    batch: Batch,
    /// Whether the format tells which instructions there are.
    counts_instructions: bool,
    /// Whether the kernel's instructions and accesses are events too.
    kernel: bool,
    /// Whether what follows is the kernel's.
    in_kernel: bool,
    /// Whether an instruction was seen.
    begun: bool,
    /// Which mark of the batch counts the instructions now; none after a switch until something comes.
    count_mark: Option<usize>,
    /// Whether something came since that mark.
    counted: bool,
    stopped: bool,
    /// What the trace says beside its records of where the pages of every process are, and the processes that were told.
    beside: Vec<PageFrame>,
    told: BTreeSet<ProcessId>,
    /// The numbers of the blocks so far.
    numbers: Numbers,
    /// Whether the source said that it gives blocks.
    pub(super) gives_blocks: bool,
    /// The block that is not complete yet.
    pending: Option<Box<Pending>>,
    /// The descriptions of blocks among the marks of the batch.
    codes: usize,
    /// What does not become an event as it stands.
    pub(super) tally: Tally,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        counts_instructions: bool,
        gives_blocks: bool,
        kernel: bool,
    ) -> Self {
        let mut output = Self {
            sink,
            batch: Batch::new(),
            counts_instructions,
            kernel,
            in_kernel: false,
            begun: false,
            count_mark: None,
            counted: false,
            stopped: false,
            beside: Vec::new(),
            told: BTreeSet::new(),
            numbers: Numbers::default(),
            gives_blocks,
            pending: None,
            codes: 0,
            tally: Tally::default(),
        };
        output.begin();
        output
    }

    fn begin(&mut self) {
        self.batch.clear();
        self.count_mark = None;
        self.counted = false;
        self.codes = 0;
        self.count(0);
    }

    /// Whether the batch is to be handed on, with so many more accesses. Blocks and their descriptions do not fill it unless there
    /// are very many, so that it ends where it would without them.
    pub(super) fn is_full_with(&self, accesses: usize) -> bool {
        self.batch.accesses.len() + accesses >= Batch::FULL
            || self.batch.blocks.len() >= Batch::MAX
            || self.has_marks()
    }

    fn has_marks(&self) -> bool {
        let marks = self.batch.marks.len();
        marks - self.codes >= Batch::FULL || self.codes >= Batch::MAX
    }

    /// Adds to the current count; begins one if there is none.
    fn count(&mut self, instructions: u64) {
        if !self.counts_instructions {
            return;
        }
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
        let own_marks = usize::from(self.counts_instructions);
        let nothing = self.batch.accesses.is_empty() && self.batch.marks.len() == own_marks && !self.counted;
        if !self.stopped && !nothing {
            self.stopped = self.sink.batch(&mut self.batch).is_break();
        }
        self.begin();
    }

    /// Hands on the last batch; answers what did not become an event.
    pub(super) fn finish(mut self) -> Tally {
        self.end_block();
        self.flush();
        self.tally
    }

    /// Whether the instructions and accesses that follow are the kernel's.
    #[inline]
    pub(super) fn enter_kernel(&mut self, kernel: bool) {
        self.end_block();
        self.in_kernel = kernel;
    }

    /// Whether the sink wants more.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Another record begins, in a format that does not tell the instructions: the place to hand on a full batch.
    pub(super) fn record(&mut self) {
        if self.batch.is_full() {
            self.flush();
        }
    }

    /// `count` more instructions begin; their accesses follow.
    pub(super) fn instructions(&mut self, count: u64) {
        self.begun = true;
        if self.in_kernel {
            self.tally.add(Kind::KernelInstructions, count);
            if !self.kernel {
                return;
            }
        }
        if self.is_full_with(0) {
            self.flush();
        }
        self.count(count);
        self.counted = true;
    }

    /// Hands on an executed block with its instructions and accesses, and its description if that is new.
    pub(super) fn execute(&mut self, execution: &Execution<'_>) {
        if self.stopped {
            return;
        }
        let (number, code) = self.numbers.number(execution);
        if let Some(code) = code {
            self.mark(Event::Code(code));
            self.codes += 1;
        }
        self.instructions(execution.instructions);
        self.batch.execute(number);
        execution.accesses.iter().for_each(|&access| self.push(access));
    }

    /// An instruction of the block that is not complete begins, or one of a new block; its accesses follow. Without bytes it is a block of
    /// which nothing is known.
    pub(super) fn fetch(&mut self, addr: u64, bytes: Option<&[u8]>, is_branch: bool) {
        if self.in_kernel && !self.kernel {
            return self.instructions(1);
        }
        self.begun = true;
        let goes_on = self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.continues(addr, bytes) && !self.is_full_with(pending.accesses()));
        if !goes_on {
            self.end_block();
        }
        let pending = self.pending.get_or_insert_with(|| Box::new(Pending::new(addr)));
        pending.add(bytes.unwrap_or_default(), is_branch);
    }

    /// Hands on the block that is not complete.
    pub(super) fn end_block(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.execute(&pending.execution());
        }
    }

    /// A change of process or thread, and the like: what follows has its own instruction count.
    pub(super) fn switch(&mut self, event: Event) {
        let process = if let Event::Process(process) = event { Some(process) } else { None };
        self.mark(event);
        if std::mem::take(&mut self.counted) {
            self.count_mark = None;
        }
        if let Some(process) = process {
            self.tell(process);
        }
    }

    fn mark(&mut self, event: Event) {
        self.end_block();
        if self.has_marks() {
            self.flush();
        }
        self.batch.mark(event);
    }

    /// Where pages of every process are, as the trace says it beside its records; before the first of these.
    pub(super) fn frames_beside(&mut self, translations: &[Translation]) -> Result<(), String> {
        for &translation in translations {
            let pages = self.page_frames(translation)?;
            self.beside.extend(pages);
        }
        self.tell(ProcessId(0));
        Ok(())
    }

    /// A process hears where its pages are, once.
    fn tell(&mut self, process: ProcessId) {
        if !self.beside.is_empty() && self.told.insert(process) {
            for at in 0..self.beside.len() {
                self.mark(Event::Frame(self.beside[at]));
            }
        }
    }

    /// Where a page of the current process is from now on.
    pub(super) fn frame(&mut self, translation: Translation) -> Result<(), String> {
        let pages = self.page_frames(translation)?;
        pages.into_iter().for_each(|page| self.mark(Event::Frame(page)));
        Ok(())
    }

    /// A translation in pages of sizes that machines have; none if it cannot be used.
    fn page_frames(&mut self, translation: Translation) -> Result<Vec<PageFrame>, String> {
        let Translation { page_bytes, virtual_address, physical_address } = translation;
        let offset = page_bytes - 1;
        let kernel_address = virtual_address >= KERNEL_START;
        let low = if kernel_address { virtual_address - KERNEL_START } else { virtual_address };
        let in_half = kernel_address == (low >= KERNEL_BIT);
        // As for accesses: with the kernel's, each half has its own addresses, and otherwise there is no kernel's.
        let is_taken = low < 1 << 48 && if self.kernel { in_half } else { !kernel_address };
        let in_step = (virtual_address ^ physical_address) & offset == 0;
        let (page, frame) = (low & !offset, physical_address & !offset);
        if !is_taken || !in_step || frame == 0 {
            self.tally.count(Kind::UnusableFrames);
            return Ok(Vec::new());
        }
        let fits = |size: &PageSize| size.bytes() <= page_bytes;
        let size = PageSize::ALL.into_iter().rev().find(fits).unwrap_or_default();
        let part = |distance| {
            PageFrame::new(VirtAddr(page + distance), PhysAddr(frame.saturating_add(distance)), size)
        };
        let parts = (0..page_bytes).step_by(size.bytes() as usize).map(part);
        parts.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// An access of `bytes` at `address`; 0 bytes are an access of unknown size.
    pub(super) fn access(&mut self, address: u64, bytes: u64, write: bool) -> Result<(), String> {
        if bytes > MAX_ACCESS_BYTES {
            return Err(format!("an access of {bytes} bytes; at most {MAX_ACCESS_BYTES} are allowed"));
        }
        if bytes == 0 {
            self.tally.count(Kind::UnknownSizes);
            return self.access_unsized(address, write);
        }
        let Some(address) = self.place(address, bytes)? else { return Ok(()) };
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
        if let Some(access) = self.unsized_access(address, write)? {
            self.push(access);
        }
        Ok(())
    }

    /// An access of unknown size at `address`, to be handed on by the caller; none if it is one to leave out.
    pub(super) fn unsized_access(&mut self, address: u64, write: bool) -> Result<Option<Access>, String> {
        let place = self.place(address, 1)?;
        Ok(place.map(|address| {
            let aligned = 1 << address.trailing_zeros().min(3);
            Access::new(VirtAddr(address), aligned, write)
        }))
    }

    /// The 48 bits of an access's address; none if it is one to leave out.
    fn place(&mut self, address: u64, bytes: u64) -> Result<Option<u64>, String> {
        if self.counts_instructions && !self.begun {
            self.tally.count(Kind::EarlyAccesses);
        }
        let kernel_address = address >= KERNEL_START;
        if self.in_kernel || kernel_address {
            self.tally.count(if self.in_kernel { Kind::KernelAccesses } else { Kind::KernelAddresses });
            if !self.kernel {
                return Ok(None);
            }
        }
        // An access holds 48 bits of address, in which the kernel's half begins at 2^47.
        let low = if kernel_address { address - KERNEL_START } else { address };
        if low.saturating_add(bytes) > 1 << 48 {
            return Err(format!(
                "address {address:#x} is in neither half of a 48-bit address space; the file is damaged or of \
                 another format"
            ));
        }
        let own_half = kernel_address == (low >= KERNEL_BIT);
        if self.kernel && !own_half {
            return Err(format!(
                "address {address:#x} cannot be told apart from one of the {} half, because both are kept in 48 bits\n  = \
                 help: read the trace without --kernel",
                if kernel_address { "user's" } else { "kernel's" }
            ));
        }
        Ok(Some(low))
    }

    fn push(&mut self, access: Access) {
        if self.batch.accesses.len() == Batch::MAX {
            self.flush();
        }
        // A 1-byte load at address 0 would be the record that means "no access".
        if let (true, Some(pending)) = (access.is_some(), &mut self.pending) {
            if pending.push(access) {
                // What follows is the block's, too.
                self.end_block();
            }
        } else if access.is_some() {
            self.count(0);
            self.counted = true;
            self.batch.push(access);
        } else {
            self.tally.count(Kind::NullLoads);
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
