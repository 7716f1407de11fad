//! The machine: a hart, memory, devices, remote memory.

use pagewalk_vm::fault::{AcceleratorDesign, Depths, DesignError};

use crate::accelerator::{Device, DeviceCounts, DeviceTimes};
use crate::code::Code;
use crate::csr::{Csrs, Mode};
use crate::end::End;
use crate::host::Host;
use crate::image::{Image, ImageError};
use crate::map::{CYCLES_PER_TICK, RAM_BASE};
use crate::memory::{Ram, Touched};
use crate::mmu::{Marking, Misaligned, Mmu, TlbCounts, WalkCounts};
use crate::record::Recording;
use crate::registers::{ClientBlock, Clint};
use crate::remote::{RemoteError, RemoteMemory};
use crate::trace::Note;
use crate::trap::Exception;
use crate::tree;

/// Instructions that a program may spend on one exception without progress.
pub const MOST_STUCK: u64 = 1_000_000;
/// Memory at most: what the accelerator's frame numbers reach is more.
const MOST_RAM: u64 = 64 << 30;

/// The parameters of a machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Bytes of memory, a multiple of 4 KiB. What is not touched takes no memory of the host.
    pub memory: u64,
    /// The part of the system that sets the accessed and dirty bits.
    pub marking: Marking,
    /// The effect of misaligned loads and stores.
    pub misaligned: Misaligned,
    /// Whether the TLB keeps entries that are not valid until they are fenced, as some cores do. Handlers that forget the fence
    /// get their page fault again.
    pub keeps_invalid: bool,
    /// Whether there is an accelerator, and how much its queues hold.
    pub accelerator: Option<Depths>,
    /// The time that remote memory takes beside its own.
    pub times: DeviceTimes,
    /// Different pages that remote memory takes.
    pub remote_pages: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 2 << 30,
            marking: Marking::default(),
            misaligned: Misaligned::default(),
            keeps_invalid: false,
            accelerator: Some(Depths::default()),
            times: DeviceTimes::default(),
            remote_pages: None,
        }
    }
}

/// A machine that cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The machine cannot have this memory.
    #[error("memory of {0} bytes; allowed: a multiple of 4096, from 64 KiB to 64 GiB")]
    Memory(u64),
    /// The machine cannot have this accelerator.
    #[error(transparent)]
    Accelerator(#[from] DesignError),
    /// The program cannot be loaded.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A word that it shares with the host.
    #[error("the word for the host at {0:#x} does not lie in memory, or its address is not a multiple of 8")]
    HostWord(u64),
    /// The device tree cannot be used.
    #[error("the device tree cannot be made: {0}")]
    Tree(String),
}

/// The counts of what a machine did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The number of instructions retired.
    pub instructions: u64,
    /// Cycles: instructions, and what was waited.
    pub cycles: u64,
    /// The number of exceptions taken.
    pub traps: u64,
    /// The counts of the instruction TLB.
    pub fetches: TlbCounts,
    /// The counts of the data TLB.
    pub data: TlbCounts,
    /// The counts of the walks.
    pub walks: WalkCounts,
    /// The accelerator, if there is one.
    pub accelerator: DeviceCounts,
}

/// What is known of an exception that may come again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stuck {
    /// Where the last exception was, and why.
    last: Option<(u64, Exception)>,
    /// Instructions before the first of those that have been the same since.
    since: u64,
    /// The last return from a handler since: instructions before what it returned to, and where that is.
    returned: Option<(u64, u64)>,
}

impl Stuck {
    /// Something has happened beside exceptions.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// A handler returns by the instruction behind so many others.
    pub(crate) fn returns(&mut self, retired: u64, to: u64) {
        self.returned = Some((retired + 1, to));
    }

    /// An exception: whether the same one has come for too long. One that a handler returns to is the same, and so is one
    /// that comes again before any handler has returned, unless the program asks for it by ECALL or EBREAK.
    pub(crate) fn traps(&mut self, retired: u64, pc: u64, cause: Exception) -> bool {
        let asked = matches!(
            cause,
            Exception::UserCall | Exception::SupervisorCall | Exception::MachineCall | Exception::Breakpoint
        );
        let is_same = self.last == Some((pc, cause))
            && match self.returned.take() {
                Some(returned) => returned == (retired, pc),
                None => !asked,
            };
        if !is_same {
            self.since = retired;
        }
        self.last = Some((pc, cause));
        retired - self.since >= MOST_STUCK
    }
}

/// The function that is told what the machine does.
pub type Listener = Box<dyn FnMut(&Note)>;

/// A RISC-V machine with one hart.
pub struct Machine {
    pub(crate) x: [u64; 32],
    pub(crate) pc: u64,
    pub(crate) mode: Mode,
    pub(crate) csrs: Csrs,
    /// The offset in memory and bytes of a load-reserved.
    pub(crate) reservation: Option<(u64, u64)>,
    pub(crate) retired: u64,
    /// Cycles in which no instruction ran.
    pub(crate) idle: u64,
    pub(crate) cycle_offset: u64,
    pub(crate) retired_offset: u64,
    pub(crate) ram: Ram,
    pub(crate) code: Code,
    pub(crate) mmu: Mmu,
    pub(crate) clint: Clint,
    pub(crate) accelerator: Option<Device>,
    pub(crate) client: ClientBlock,
    pub(crate) remote: Box<dyn RemoteMemory>,
    pub(crate) host: Host,
    /// The read-only memory, which holds the device tree.
    pub(crate) rom: Vec<u8>,
    /// The network card's address.
    pub(crate) mac: u64,
    pub(crate) counts: Counts,
    /// Something happened that the next instructions depend on.
    pub(crate) attention: bool,
    /// The block must be left behind this instruction.
    pub(crate) leave_block: bool,
    /// The cycle of the next event.
    pub(crate) deadline: u64,
    pub(crate) failure: Option<RemoteError>,
    /// What remote memory refused first.
    first_refusal: Option<RemoteError>,
    /// Why the access to a device that is under way is a fault, if more is known than that nothing is there.
    pub(crate) denied: Option<String>,
    pub(crate) end: Option<End>,
    /// Where the last exception led: instructions before it, mode, program counter.
    pub(crate) last_trap: Option<(u64, Mode, u64)>,
    pub(crate) stuck: Stuck,
    listener: Option<Listener>,
    pub(crate) recording: Option<Box<Recording>>,
}

impl Machine {
    /// Creates a machine with a program in its memory, at its first instruction.
    ///
    /// # Errors
    ///
    /// [`MachineError`].
    pub fn new(
        config: &Config,
        image: &Image,
        remote: Box<dyn RemoteMemory>,
        host: Host,
    ) -> Result<Self, MachineError> {
        let bytes = config.memory;
        if !bytes.is_multiple_of(4_096) || !(64 << 10..=MOST_RAM).contains(&bytes) {
            return Err(MachineError::Memory(bytes));
        }
        let mut ram = Ram::new(RAM_BASE, bytes);
        image.load(&mut ram)?;
        for addr in image.host_words() {
            let offset = ram.offset(addr, 8).filter(|offset| offset.is_multiple_of(8));
            ram.watch(offset.ok_or(MachineError::HostWord(addr))?, 8);
        }
        let accelerator = match config.accelerator {
            Some(depths) => {
                let design = AcceleratorDesign {
                    depths,
                    remote_pages: config.remote_pages,
                    ..AcceleratorDesign::of_ram(ram.frames())
                };
                Some(Device::new(design, config.times)?)
            }
            None => None,
        };
        let rom = tree::device_tree(bytes).map_err(MachineError::Tree)?;
        let mut machine = Self {
            x: [0; 32],
            pc: image.entry(),
            mode: Mode::Machine,
            csrs: Csrs::default(),
            reservation: None,
            retired: 0,
            idle: 0,
            cycle_offset: 0,
            retired_offset: 0,
            ram,
            code: Code::new(),
            mmu: Mmu::new(config.marking, config.misaligned, config.keeps_invalid),
            clint: Clint::default(),
            accelerator,
            client: ClientBlock::default(),
            remote,
            host: host.of_image(image),
            rom,
            mac: u64::from_le_bytes([2, 0, 0, 0, 0, 1, 0, 0]),
            counts: Counts::default(),
            attention: true,
            leave_block: false,
            deadline: 0,
            failure: None,
            first_refusal: None,
            denied: None,
            end: None,
            last_trap: None,
            stuck: Stuck::default(),
            listener: None,
            recording: None,
        };
        // a0: the hart's number; a1: the device tree.
        machine.x[11] = tree::ROM_BASE;
        machine.update_context();
        Ok(machine)
    }

    /// Tells everything that happens from now on.
    pub fn listen(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// Runs at least so many more instructions, or to the end.
    pub fn run(&mut self, instructions: u64) -> Option<End> {
        self.run_until(self.retired.saturating_add(instructions))
    }

    /// Returns the counts of the machine's work so far.
    pub fn counts(&self) -> Counts {
        let (fetches, data) = self.mmu.tlb_counts();
        Counts {
            instructions: self.retired,
            cycles: self.cycles(),
            fetches,
            data,
            walks: self.mmu.counts,
            accelerator: self.accelerator.as_ref().map(|device| device.counts).unwrap_or_default(),
            ..self.counts
        }
    }

    /// Returns the program counter, and the registers.
    pub fn registers(&self) -> (u64, [u64; 32]) {
        (self.pc, self.x)
    }

    /// Returns a copy of so many bytes of memory.
    pub fn memory(&self, addr: u64, bytes: u64) -> Option<Vec<u8>> {
        self.ram.bytes_at(addr, bytes)
    }

    /// The timer, in ticks.
    pub(crate) fn time(&self) -> u64 {
        (self.cycles() / CYCLES_PER_TICK).wrapping_add(self.clint.offset)
    }

    #[inline(always)]
    pub(crate) fn note(&mut self, note: impl FnOnce() -> Note) {
        if let Some(listener) = &mut self.listener {
            listener(&note());
        }
    }

    /// Returns the first error of remote memory, if it refused anything.
    pub fn first_refusal(&self) -> Option<&RemoteError> {
        self.first_refusal.as_ref()
    }

    /// Waits until remote memory has all pages whose eviction has begun. To be called at the end of a run.
    ///
    /// # Errors
    ///
    /// [`RemoteError`], of any of the writes.
    pub fn finish_evictions(&mut self) -> Result<(), RemoteError> {
        while self.remote.finished_write(true)?.is_some() {}
        Ok(())
    }

    /// Remote memory refused something: the program's fault.
    pub(crate) fn refuse(&mut self, refused: RemoteError) {
        self.denied = Some(refused.to_string());
        self.first_refusal.get_or_insert(refused);
    }

    /// Remote memory failed: the run ends.
    pub(crate) fn fail(&mut self, error: RemoteError) {
        self.note(|| Note::RemoteFailed { why: error.to_string() });
        self.failure = Some(error);
        self.attention = true;
        self.leave_block = true;
    }

    /// Takes note that another part than the hart writes memory: what it reserved is lost, and code may have changed. That a word for the
    /// host was written is no news to the host.
    pub(crate) fn write_from_outside(&mut self, offset: u64, bytes: u64, value: u64) {
        let touched = self.ram.write_at(offset, bytes, value);
        self.outside_touched(touched);
    }

    /// The same for what was written otherwise.
    pub(crate) fn outside_touched(&mut self, touched: Touched) {
        self.reservation = None;
        if touched.code() {
            self.touched(touched);
        }
    }

    /// A store met something that is kept beside memory.
    #[cold]
    pub(crate) fn touched(&mut self, touched: Touched) {
        if touched.code() {
            self.code.forget();
            self.ram.forget_code();
            self.leave_block = true;
        }
        if touched.watched() {
            self.attention = true;
            self.leave_block = true;
        }
    }
}
