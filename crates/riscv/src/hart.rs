//! The hart's modes: traps, interrupts, returns, waiting, and the registers that depend on more than themselves.

use crate::accelerator::Device;
use crate::csr::{Changed, Mode, status};
use crate::end::End;
use crate::execute::NotExecuted;
use crate::machine::Machine;
use crate::map::CYCLES_PER_TICK;
use crate::trace::Note;
use crate::trap::{Trap, interrupt};

/// Set in a cause that is an interrupt's.
const INTERRUPT: u64 = 1 << 63;

/// A cycle that no run reaches by its instructions.
const NEVER: u64 = 1 << 62;

impl Machine {
    /// Cycles since the start: one for each instruction, and those that it waited.
    pub(crate) fn cycles(&self) -> u64 {
        self.retired + self.idle
    }

    /// Runs until something ends it; `None` when so many instructions have run.
    pub(crate) fn run_until(&mut self, retired: u64) -> Option<End> {
        self.attention = true;
        while self.retired < retired {
            if (self.attention || self.cycles() >= self.deadline)
                && let Some(end) = self.attend()
            {
                return Some(end);
            }
            if let Err(trap) = self.run_block()
                && self.failure.is_none()
            {
                self.take_trap(trap);
            }
        }
        self.attend()
    }

    /// Looks at what does not happen with every instruction: the end, the clock, devices, interrupts.
    #[cold]
    fn attend(&mut self) -> Option<End> {
        self.attention = false;
        if let Some(error) = self.failure.take() {
            return Some(End::Failed(error));
        }
        self.serve_host();
        if self.host.is_interrupted() {
            return Some(End::Interrupted);
        }
        if let Some(end) = self.end.take() {
            return Some(end);
        }
        self.update_timer();
        if let Some(number) = self.deliverable() {
            self.take_interrupt(number);
        }
        None
    }

    /// The timer's interrupt as the time has it, and when it changes.
    pub(crate) fn update_timer(&mut self) {
        let (time, compare) = (self.time(), self.clint.compare);
        self.set_pending(interrupt::MACHINE_TIMER, time >= compare);
        self.set_pending(interrupt::MACHINE_SOFTWARE, self.clint.software);
        let ticks = compare.saturating_sub(time);
        self.deadline = match time >= compare {
            true => u64::MAX,
            // Rounded up: at the deadline the tick has come. What is further away than counters reach never comes.
            false => {
                match (self.cycles() / CYCLES_PER_TICK).saturating_add(ticks).checked_mul(CYCLES_PER_TICK) {
                    Some(deadline) if deadline < NEVER => deadline,
                    _ => u64::MAX,
                }
            }
        };
    }

    fn set_pending(&mut self, bit: u64, pending: bool) {
        self.csrs.mip = if pending { self.csrs.mip | bit } else { self.csrs.mip & !bit };
    }

    /// The most urgent interrupt that is to be taken now.
    fn deliverable(&self) -> Option<u64> {
        let csrs = &self.csrs;
        let pending = csrs.mip & csrs.mie;
        let enabled = |mode: Mode, bit: u64| self.mode < mode || self.mode == mode && csrs.mstatus & bit != 0;
        let machine = if enabled(Mode::Machine, status::MIE) { pending & !csrs.mideleg } else { 0 };
        let supervisor = if enabled(Mode::Supervisor, status::SIE) { pending & csrs.mideleg } else { 0 };
        let taken = if machine != 0 { machine } else { supervisor };
        interrupt::ORDER.into_iter().find(|number| taken >> number & 1 != 0)
    }

    fn take_interrupt(&mut self, number: u64) {
        let to = if self.csrs.mideleg >> number & 1 != 0 { Mode::Supervisor } else { Mode::Machine };
        let pc = self.pc;
        self.note(|| Note::Interrupt { number, pc, to });
        self.stuck.forget();
        self.enter(to, INTERRUPT | number, 0);
    }

    fn take_trap(&mut self, Trap { cause, value }: Trap) {
        let delegated = self.mode != Mode::Machine && self.csrs.medeleg >> cause.number() & 1 != 0;
        let to = if delegated { Mode::Supervisor } else { Mode::Machine };
        let (pc, from) = (self.pc, self.mode);
        self.note(|| Note::Trap { cause, pc, value, from, to });
        self.counts.traps += 1;
        // Time passes even for a handler that traps, so that the timer can end it.
        self.idle += 1;
        self.enter(to, cause.number(), value);
        // The second time, registers are as they were the first time.
        let place = (self.retired, self.mode, self.pc);
        let is_stuck = place == (self.retired, from, pc) && self.last_trap == Some(place);
        self.last_trap = Some(place);
        if is_stuck && self.mode != Mode::Machine && self.timer_may_interrupt() {
            self.pass_time();
        } else if is_stuck {
            self.end = Some(End::HandlerTraps { pc, cause });
        }
        if self.accelerator.as_ref().is_some_and(Device::is_evicting) {
            // A handler may wait for the end of an eviction.
            self.stuck.forget();
        } else if self.stuck.traps(self.retired, pc, cause) {
            self.end = Some(End::TrapLoop { pc, cause, value });
        }
    }

    /// Goes on in a handler.
    fn enter(&mut self, to: Mode, cause: u64, value: u64) {
        let (from, csrs) = (self.mode, &mut self.csrs);
        let old = csrs.mstatus;
        let was = |bit: u64| old & bit != 0;
        let set = |status: u64, bit: u64, on: bool| if on { status | bit } else { status & !bit };
        let vector = match to {
            Mode::Machine => {
                (csrs.mepc, csrs.mcause, csrs.mtval) = (self.pc, cause, value);
                csrs.mstatus = set(old, status::MPIE, was(status::MIE)) & !status::MIE & !status::MPP;
                csrs.mstatus |= (from as u64) << status::MPP_SHIFT;
                csrs.mtvec
            }
            _ => {
                (csrs.sepc, csrs.scause, csrs.stval) = (self.pc, cause, value);
                csrs.mstatus = set(old, status::SPIE, was(status::SIE)) & !status::SIE;
                csrs.mstatus = set(csrs.mstatus, status::SPP, from == Mode::Supervisor);
                csrs.stvec
            }
        };
        let is_vectored = vector & 1 != 0 && cause & INTERRUPT != 0;
        self.pc = (vector & !3).wrapping_add(if is_vectored { 4 * (cause & !INTERRUPT) } else { 0 });
        self.change_mode(to);
    }

    fn change_mode(&mut self, to: Mode) {
        self.mode = to;
        self.attention = true;
        self.update_context();
    }

    pub(crate) fn return_from_machine(&mut self) -> Result<u64, NotExecuted> {
        if self.mode != Mode::Machine {
            return Err(NotExecuted::Illegal);
        }
        let to = self.csrs.previous_mode();
        let old = self.csrs.mstatus;
        let interrupts = if old & status::MPIE != 0 { status::MIE } else { 0 };
        self.csrs.mstatus = old & !status::MIE & !status::MPP | interrupts | status::MPIE;
        self.change_mode(to);
        self.stuck.returns(self.retired, self.csrs.mepc);
        Ok(self.csrs.mepc)
    }

    pub(crate) fn return_from_supervisor(&mut self) -> Result<u64, NotExecuted> {
        let trapped = self.mode == Mode::Supervisor && self.csrs.mstatus & status::TSR != 0;
        if self.mode == Mode::User || trapped {
            return Err(NotExecuted::Illegal);
        }
        let old = self.csrs.mstatus;
        let to = if old & status::SPP != 0 { Mode::Supervisor } else { Mode::User };
        let interrupts = if old & status::SPIE != 0 { status::SIE } else { 0 };
        self.csrs.mstatus = old & !status::SIE & !status::SPP | interrupts | status::SPIE;
        self.change_mode(to);
        self.stuck.returns(self.retired, self.csrs.sepc);
        Ok(self.csrs.sepc)
    }

    pub(crate) fn fence_translation(
        &mut self,
        addr: Option<u64>,
        asid: Option<u64>,
    ) -> Result<(), NotExecuted> {
        let trapped = self.mode == Mode::Supervisor && self.csrs.mstatus & status::TVM != 0;
        if self.mode == Mode::User || trapped {
            return Err(NotExecuted::Illegal);
        }
        self.mmu.fence(addr, asid);
        Ok(())
    }

    /// Whether the timer's interrupt is enabled and will come.
    fn timer_may_interrupt(&self) -> bool {
        self.csrs.mie & interrupt::MACHINE_TIMER != 0 && self.deadline < u64::MAX
    }

    /// Goes on when the timer's interrupt comes.
    fn pass_time(&mut self) {
        self.idle += self.deadline - self.cycles();
        self.update_timer();
        self.attention = true;
    }

    /// Passes the time until an interrupt is pending; one that never comes ends the run.
    pub(crate) fn wait_for_interrupt(&mut self) -> Result<(), NotExecuted> {
        let trapped = self.mode != Mode::Machine && self.csrs.mstatus & status::TW != 0;
        if self.mode == Mode::User || trapped {
            return Err(NotExecuted::Illegal);
        }
        self.attention = true;
        self.update_timer();
        if self.csrs.mip & self.csrs.mie != 0 {
            return Ok(());
        }
        if self.timer_may_interrupt() {
            self.pass_time();
        } else if self.csrs.mip == 0 && !self.host_may_answer() {
            // Something that is pending and not enabled lets it go on at once, as the architecture allows.
            self.end = Some(End::WaitsForever { pc: self.pc });
        }
        Ok(())
    }

    /// Whether a counter can be read in this mode.
    fn may_count(&self, number: u16) -> bool {
        let bit = 1u64 << (number & 31);
        match self.mode {
            Mode::Machine => true,
            Mode::Supervisor => self.csrs.mcounteren & bit != 0,
            Mode::User => self.csrs.mcounteren & self.csrs.scounteren & bit != 0,
        }
    }

    /// A register's value, if there is one that may be read, and written if it is going to be.
    pub(crate) fn read_csr(&mut self, number: u16, writes: bool) -> Result<u64, NotExecuted> {
        let (lowest_mode, is_read_only) = (number >> 8 & 3, number >> 10 == 3);
        if lowest_mode > self.mode as u16 || is_read_only && writes {
            return Err(NotExecuted::Illegal);
        }
        let value = match number {
            0x180 if self.mode == Mode::Supervisor && self.csrs.mstatus & status::TVM != 0 => None,
            0xc00..=0xc1f if !self.may_count(number) => None,
            0xc00 | 0xb00 => Some(self.cycles().wrapping_add(self.cycle_offset)),
            0xc01 => Some(self.time()),
            0xc02 | 0xb02 => Some(self.retired.wrapping_add(self.retired_offset)),
            0x144 | 0x344 => {
                self.update_timer();
                self.csrs.read(number)
            }
            _ => self.csrs.read(number),
        };
        value.ok_or(NotExecuted::Illegal)
    }

    /// Writes a register that was read before.
    pub(crate) fn write_csr(&mut self, number: u16, value: u64) {
        match number {
            // What is read behind this instruction is what was written.
            0xb00 => self.cycle_offset = value.wrapping_sub(self.cycles() + 1),
            0xb02 => self.retired_offset = value.wrapping_sub(self.retired + 1),
            _ => {
                if self.csrs.write(number, value) == Changed::Context {
                    self.attention = true;
                    self.update_context();
                }
            }
        }
    }
}
