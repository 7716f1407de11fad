//! Control and status registers.
//!
//! Source: The RISC-V Instruction Set Manual, volume II: Privileged Architecture, version 1.11 (20190608), chapters 2 to 4;
//! where 1.10 differs, it allows the same.

use crate::pmp::Pmp;
use crate::trap::interrupt;

/// Privilege modes, by their number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Mode {
    /// The mode of programs.
    User = 0,
    /// The mode of kernels.
    Supervisor = 1,
    /// The mode of firmware.
    Machine = 3,
}

impl Mode {
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::User),
            1 => Some(Self::Supervisor),
            3 => Some(Self::Machine),
            _ => None,
        }
    }
}

/// Fields of `mstatus`.
pub(crate) mod status {
    pub(crate) const SIE: u64 = 1 << 1;
    pub(crate) const MIE: u64 = 1 << 3;
    pub(crate) const SPIE: u64 = 1 << 5;
    pub(crate) const MPIE: u64 = 1 << 7;
    pub(crate) const SPP: u64 = 1 << 8;
    pub(crate) const MPP: u64 = 3 << 11;
    pub(crate) const MPP_SHIFT: u32 = 11;
    pub(crate) const MPRV: u64 = 1 << 17;
    pub(crate) const SUM: u64 = 1 << 18;
    pub(crate) const MXR: u64 = 1 << 19;
    pub(crate) const TVM: u64 = 1 << 20;
    pub(crate) const TW: u64 = 1 << 21;
    pub(crate) const TSR: u64 = 1 << 22;
    /// UXL and SXL: 64 bits.
    pub(crate) const WIDTHS: u64 = 2 << 32 | 2 << 34;
    pub(crate) const WRITABLE: u64 = SIE | MIE | SPIE | MPIE | SPP | MPRV | SUM | MXR | TVM | TW | TSR;
    /// What `sstatus` shows, and what can be written there.
    pub(crate) const SUPERVISOR: u64 = SIE | SPIE | SPP | SUM | MXR | 2 << 32;
    pub(crate) const SUPERVISOR_WRITABLE: u64 = SIE | SPIE | SPP | SUM | MXR;
}

/// RV64 with A, C, I, M, S and U.
const MISA: u64 = 2 << 62 | 1 << 0 | 1 << 2 | 1 << 8 | 1 << 12 | 1 << 18 | 1 << 20;
/// Exceptions that can be delegated: all but calls of the machine mode.
const DELEGABLE: u64 = 0xb3ff;
/// Bits of an address-space identifier: what the TLBs keep.
const ASID_BITS: u32 = 12;

/// Translation of addresses, as `satp` selects it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Scheme {
    #[default]
    Bare,
    Sv39,
    Sv48,
}

/// The registers that only hold something. Counters and what depends on the machine's state are not here.
#[derive(Clone, Debug)]
pub(crate) struct Csrs {
    pub(crate) mstatus: u64,
    pub(crate) medeleg: u64,
    pub(crate) mideleg: u64,
    pub(crate) mie: u64,
    /// Pending interrupts, those of the CLINT included.
    pub(crate) mip: u64,
    pub(crate) mtvec: u64,
    pub(crate) mscratch: u64,
    pub(crate) mepc: u64,
    pub(crate) mcause: u64,
    pub(crate) mtval: u64,
    pub(crate) mcounteren: u64,
    pub(crate) stvec: u64,
    pub(crate) sscratch: u64,
    pub(crate) sepc: u64,
    pub(crate) scause: u64,
    pub(crate) stval: u64,
    pub(crate) scounteren: u64,
    pub(crate) satp: u64,
    pub(crate) pmp: Pmp,
}

/// What a write may have changed that is kept elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Changed {
    Nothing,
    /// Which interrupts are taken, or how addresses are translated.
    Context,
}

impl Default for Csrs {
    fn default() -> Self {
        Self {
            mstatus: status::WIDTHS,
            medeleg: 0,
            mideleg: 0,
            mie: 0,
            mip: 0,
            mtvec: 0,
            mscratch: 0,
            mepc: 0,
            mcause: 0,
            mtval: 0,
            mcounteren: 0,
            stvec: 0,
            sscratch: 0,
            sepc: 0,
            scause: 0,
            stval: 0,
            scounteren: 0,
            satp: 0,
            pmp: Pmp::default(),
        }
    }
}

impl Csrs {
    pub(crate) fn scheme(&self) -> Scheme {
        match self.satp >> 60 {
            8 => Scheme::Sv39,
            9 => Scheme::Sv48,
            _ => Scheme::Bare,
        }
    }

    pub(crate) fn asid(&self) -> u16 {
        (self.satp >> 44 & ((1 << ASID_BITS) - 1)) as u16
    }

    pub(crate) fn root(&self) -> u64 {
        self.satp & ((1 << 44) - 1)
    }

    /// The mode that loads and stores are checked for: in every mode by MPRV; of version 1.12 on, MRET ends it for modes below
    /// the machine's.
    pub(crate) fn data_mode(&self, mode: Mode) -> Mode {
        if self.mstatus & status::MPRV != 0 { self.previous_mode() } else { mode }
    }

    pub(crate) fn previous_mode(&self) -> Mode {
        Mode::of_number(self.mstatus >> status::MPP_SHIFT & 3)
            .expect("only modes that there are can be written")
    }

    /// Reads a register that only holds something; `None` if there is no such.
    pub(crate) fn read(&self, number: u16) -> Option<u64> {
        Some(match number {
            0x100 => self.mstatus & status::SUPERVISOR,
            0x104 => self.mie & self.mideleg,
            0x105 => self.stvec,
            0x106 => self.scounteren,
            0x140 => self.sscratch,
            0x141 => self.sepc,
            0x142 => self.scause,
            0x143 => self.stval,
            0x144 => self.mip & self.mideleg,
            0x180 => self.satp,
            0x300 => self.mstatus,
            0x301 => MISA,
            0x302 => self.medeleg,
            0x303 => self.mideleg,
            0x304 => self.mie,
            0x305 => self.mtvec,
            0x306 => self.mcounteren,
            // Events and their counters: there are none, and they read as 0. No counter can be stopped.
            0x320 | 0x323..=0x33f | 0xb03..=0xb1f | 0xc03..=0xc1f => 0,
            0x340 => self.mscratch,
            0x341 => self.mepc,
            0x342 => self.mcause,
            0x343 => self.mtval,
            0x344 => self.mip,
            0x3a0 | 0x3a2 => self.pmp.read_config(4 * usize::from(number - 0x3a0)),
            0x3b0..=0x3bf => self.pmp.read_addr(usize::from(number - 0x3b0)),
            // No trigger at any place: its type is 0.
            0x7a0..=0x7a3 => 0,
            // Vendor, architecture, implementation, hart.
            0xf11..=0xf14 => 0,
            _ => return None,
        })
    }

    /// Writes a register that only holds something, as far as it can be written.
    pub(crate) fn write(&mut self, number: u16, value: u64) -> Changed {
        match number {
            0x100 => {
                let writable = status::SUPERVISOR_WRITABLE;
                self.mstatus = self.mstatus & !writable | value & writable;
                return Changed::Context;
            }
            0x104 => {
                self.mie = self.mie & !self.mideleg | value & self.mideleg;
                return Changed::Context;
            }
            0x105 => self.stvec = vector(value, self.stvec),
            0x106 => self.scounteren = value & 7,
            0x140 => self.sscratch = value,
            0x141 => self.sepc = value & !1,
            0x142 => self.scause = value,
            0x143 => self.stval = value,
            0x144 => {
                let writable = self.mideleg & interrupt::SUPERVISOR_SOFTWARE;
                self.mip = self.mip & !writable | value & writable;
                return Changed::Context;
            }
            // A mode that there is not leaves all as it was.
            0x180 if matches!(value >> 60, 0 | 8 | 9) => {
                let asid = value >> 44 & ((1 << ASID_BITS) - 1);
                self.satp = value & !(0xffff << 44) | asid << 44;
                return Changed::Context;
            }
            0x300 => {
                self.mstatus = self.mstatus & !status::WRITABLE | value & status::WRITABLE;
                if Mode::of_number(value >> status::MPP_SHIFT & 3).is_some() {
                    self.mstatus = self.mstatus & !status::MPP | value & status::MPP;
                }
                return Changed::Context;
            }
            0x302 => self.medeleg = value & DELEGABLE,
            0x303 => {
                self.mideleg = value & interrupt::SUPERVISOR;
                return Changed::Context;
            }
            0x304 => {
                self.mie = value & (interrupt::SUPERVISOR | interrupt::MACHINE);
                return Changed::Context;
            }
            0x305 => self.mtvec = vector(value, self.mtvec),
            0x306 => self.mcounteren = value & 7,
            0x340 => self.mscratch = value,
            0x341 => self.mepc = value & !1,
            0x342 => self.mcause = value,
            0x343 => self.mtval = value,
            0x344 => {
                self.mip = self.mip & !interrupt::SUPERVISOR | value & interrupt::SUPERVISOR;
                return Changed::Context;
            }
            0x3a0 | 0x3a2 => {
                self.pmp.write_config(4 * usize::from(number - 0x3a0), value);
                return Changed::Context;
            }
            0x3b0..=0x3bf => {
                self.pmp.write_addr(usize::from(number - 0x3b0), value);
                return Changed::Context;
            }
            _ => {}
        }
        Changed::Nothing
    }
}

/// A vector register's new value: modes 2 and 3 are reserved.
fn vector(value: u64, old: u64) -> u64 {
    if value & 2 == 0 { value } else { value & !3 | old & 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_see_and_change_their_part() {
        let mut csrs = Csrs::default();
        csrs.write(0x300, u64::MAX);
        assert_eq!(csrs.mstatus & status::MPP, status::MPP);
        assert_eq!(csrs.read(0x100).unwrap() & (status::MIE | status::MPRV | status::TVM), 0);
        csrs.write(0x100, 0);
        assert_eq!(csrs.mstatus & (status::SIE | status::SUM | status::MIE), status::MIE);
        csrs.write(0x304, u64::MAX);
        assert_eq!((csrs.read(0x304), csrs.read(0x104)), (Some(0xaaa), Some(0)));
        csrs.write(0x303, u64::MAX);
        assert_eq!((csrs.read(0x303), csrs.read(0x104)), (Some(0x222), Some(0x222)));
        csrs.write(0x144, u64::MAX);
        assert_eq!(csrs.mip, 2, "only its software interrupt");
    }

    #[test]
    fn what_cannot_be_is_not_written() {
        let mut csrs = Csrs::default();
        csrs.write(0x300, 1 << status::MPP_SHIFT);
        csrs.write(0x300, 2 << status::MPP_SHIFT);
        assert_eq!(csrs.previous_mode(), Mode::Supervisor, "there is no mode 2");
        csrs.write(0x180, 8 << 60 | 0xffff << 44 | 0x1234);
        assert_eq!((csrs.scheme(), csrs.asid(), csrs.root()), (Scheme::Sv39, 0xfff, 0x1234));
        let before = csrs.satp;
        csrs.write(0x180, 10 << 60);
        assert_eq!(csrs.satp, before, "there is no Sv57");
        csrs.write(0x305, 0x8000_0003);
        assert_eq!(csrs.mtvec, 0x8000_0000);
        csrs.write(0x302, u64::MAX);
        assert_eq!(csrs.medeleg, 0xb3ff);
        assert_eq!((csrs.read(0x7a1), csrs.read(0x001), csrs.read(0xf15)), (Some(0), None, None));
        assert_eq!(csrs.read(0x301).unwrap() >> 62, 2);
    }
}
