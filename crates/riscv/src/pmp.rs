//! Physical memory protection: which physical addresses a mode may use.
//!
//! ```text
//!  a byte of pmpcfg    7   6 5   4 3   2 1 0
//!                    +---+-----+-----+-------+
//!                    | L |  0  |  A  | X W R |     A: 0 off, 1 TOR, 2 NA4, 3 NAPOT
//!                    +---+-----+-----+-------+     L: the entry stays until reset, and binds the machine mode, too
//!  pmpaddr             bits 55 to 2 of an address; NAPOT has its size in the lowest ones
//! ```
//!
//! Sixteen entries of four bytes and more; the lowest-numbered one that has any byte of an access decides, and must have all of
//! them. Source: The RISC-V Instruction Set Manual, volume II, version 1.11 (20190608), section 3.6.

use crate::csr::Mode;
use crate::trap::Access;

/// The number of entries.
const ENTRIES: usize = 16;
const READ: u8 = 1;
const WRITE: u8 = 1 << 1;
const EXECUTE: u8 = 1 << 2;
const MATCHING: u8 = 3 << 3;
const TOR: u8 = 1 << 3;
const NA4: u8 = 2 << 3;
const NAPOT: u8 = 3 << 3;
const LOCKED: u8 = 1 << 7;
/// Bits of `pmpaddr`.
const ADDR_MASK: u64 = (1 << 54) - 1;

/// The entries of physical memory protection.
#[derive(Clone, Debug)]
pub(crate) struct Pmp {
    config: [u8; ENTRIES],
    addr: [u64; ENTRIES],
    /// Whether the first entry lets all modes use all memory, which is how it is at reset.
    is_open: bool,
}

/// What the entries say about a run of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// All of it may be used so.
    Allowed,
    /// The access may not go on.
    Denied,
    /// Parts of it have different rules.
    Mixed,
}

impl Default for Pmp {
    /// Programs that do not know of protection may use all memory in all modes: the first entry says so. Real cores differ in
    /// this; the authors' reference model does the same.
    fn default() -> Self {
        let (mut config, mut addr) = ([0; ENTRIES], [0; ENTRIES]);
        (config[0], addr[0]) = (NAPOT | EXECUTE | WRITE | READ, ADDR_MASK);
        Self { config, addr, is_open: true }
    }
}

impl Pmp {
    /// `pmpcfg0` or `pmpcfg2`, by the number of its first entry.
    pub(crate) fn read_config(&self, first: usize) -> u64 {
        (0..8).fold(0, |word, at| word | u64::from(self.config[first + at]) << (8 * at))
    }

    /// Writes the entries that are not locked. To be writable and not readable is reserved, and becomes neither.
    pub(crate) fn write_config(&mut self, first: usize, word: u64) {
        for (at, byte) in word.to_le_bytes().into_iter().enumerate() {
            let config = &mut self.config[first + at];
            if *config & LOCKED == 0 {
                *config = byte & (LOCKED | MATCHING | EXECUTE | WRITE | READ);
                if *config & READ == 0 {
                    *config &= !WRITE;
                }
            }
        }
        self.update();
    }

    pub(crate) fn read_addr(&self, entry: usize) -> u64 {
        self.addr[entry]
    }

    /// Writes an address whose entry is not locked, nor the entry above it that begins there.
    pub(crate) fn write_addr(&mut self, entry: usize, word: u64) {
        let locked = |entry: usize| self.config.get(entry).is_some_and(|config| config & LOCKED != 0);
        let is_base = self.config.get(entry + 1).is_some_and(|config| config & MATCHING == TOR);
        let is_held = locked(entry) || is_base && locked(entry + 1);
        if !is_held {
            self.addr[entry] = word & ADDR_MASK;
        }
        self.update();
    }

    fn update(&mut self) {
        let all = Self::default();
        self.is_open = self.config[0] & !LOCKED == all.config[0] && self.addr[0] == all.addr[0];
    }

    /// The addresses of an entry: the first and the last.
    fn range(&self, entry: usize) -> Option<(u64, u64)> {
        let (addr, below) = (self.addr[entry], entry.checked_sub(1).map_or(0, |below| self.addr[below]));
        match self.config[entry] & MATCHING {
            TOR if below < addr => Some((below << 2, (addr << 2) - 1)),
            NA4 => Some((addr << 2, (addr << 2) + 3)),
            NAPOT => {
                // The lowest zero and the ones below it are the size.
                let size = addr ^ (addr + 1);
                Some(((addr & !size) << 2, (addr | size) << 2 | 3))
            }
            _ => None,
        }
    }

    /// Whether a mode may use these bytes so. They do not reach past the end of all addresses.
    #[inline]
    pub(crate) fn check(&self, addr: u64, bytes: u64, access: Access, mode: Mode) -> Verdict {
        if self.is_open { Verdict::Allowed } else { self.look(addr, addr + (bytes - 1), access, mode) }
    }

    #[cold]
    fn look(&self, first: u64, last: u64, access: Access, mode: Mode) -> Verdict {
        let needed = match access {
            Access::Fetch => EXECUTE,
            Access::Load => READ,
            Access::Store => WRITE,
        };
        for entry in 0..ENTRIES {
            let Some((low, high)) = self.range(entry) else { continue };
            if last < low || high < first {
                continue;
            }
            if first < low || high < last {
                return Verdict::Mixed;
            }
            let config = self.config[entry];
            let binds = mode != Mode::Machine || config & LOCKED != 0;
            return if !binds || config & needed != 0 { Verdict::Allowed } else { Verdict::Denied };
        }
        if mode == Mode::Machine { Verdict::Allowed } else { Verdict::Denied }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pmp: &Pmp, addr: u64, mode: Mode) -> String {
        [(Access::Load, 'r'), (Access::Store, 'w'), (Access::Fetch, 'x')]
            .into_iter()
            .map(
                |(access, name)| {
                    if pmp.check(addr, 4, access, mode) == Verdict::Allowed { name } else { '-' }
                },
            )
            .collect()
    }

    #[test]
    fn the_first_entry_that_matches_decides() {
        let mut pmp = Pmp::default();
        assert_eq!(allows(&pmp, 0x8000_0000, Mode::User), "rwx");
        // NA4 at 0x8000_0000, none; NAPOT of 16 bytes there, r; TOR up to 0x8000_1000, rx; from there to 0x8000_2000, rw.
        pmp.write_addr(0, 0x8000_0000 >> 2);
        pmp.write_addr(1, 0x8000_0000 >> 2 | 1);
        pmp.write_addr(2, 0x8000_1000 >> 2);
        pmp.write_addr(3, 0x8000_2000 >> 2);
        pmp.write_config(0, 0x0b0d_1910);
        for (addr, user) in [
            (0x8000_0000, "---"),
            (0x8000_0004, "r--"),
            (0x8000_000c, "r--"),
            (0x8000_0010, "r-x"),
            (0x8000_0ffc, "r-x"),
            (0x8000_1000, "rw-"),
            (0x8000_1ffc, "rw-"),
            (0x8000_2000, "---"),
        ] {
            assert_eq!(allows(&pmp, addr, Mode::Supervisor), user, "{addr:#x}");
            assert_eq!(allows(&pmp, addr, Mode::Machine), "rwx");
        }
        // TOR of entry 2 begins where entry 1's address says: past 16 bytes of it, with the size's bits.
        assert_eq!(pmp.range(2), Some((0x8000_0004, 0x8000_0fff)));
    }

    #[test]
    fn an_access_in_two_entries_is_none() {
        let mut pmp = Pmp::default();
        pmp.write_addr(0, 0x1000 >> 2);
        pmp.write_addr(1, u64::MAX);
        pmp.write_config(0, 0x1f0f);
        assert_eq!(pmp.read_addr(1), ADDR_MASK);
        let check = |addr, mode| pmp.check(addr, 8, Access::Load, mode);
        assert_eq!(check(0xff8, Mode::User), Verdict::Allowed);
        assert_eq!(check(0xffc, Mode::User), Verdict::Mixed);
        assert_eq!(check(0xffc, Mode::Machine), Verdict::Mixed);
        assert_eq!(check(0x1000, Mode::User), Verdict::Allowed);
    }

    #[test]
    fn a_locked_entry_stays_and_binds_the_machine_mode() {
        let mut pmp = Pmp::default();
        pmp.write_addr(0, 0x1000 >> 2);
        pmp.write_addr(1, 0x2000 >> 2);
        pmp.write_config(0, u64::from(LOCKED | TOR | READ) << 8);
        pmp.write_addr(0, 0);
        pmp.write_addr(1, 0);
        pmp.write_config(0, 0x0f0f);
        assert_eq!((pmp.read_addr(0), pmp.read_addr(1)), (0x1000 >> 2, 0x2000 >> 2));
        assert_eq!(pmp.read_config(0), u64::from(LOCKED | TOR | READ) << 8 | 0x0f);
        assert_eq!(allows(&pmp, 0x1000, Mode::Machine), "r--");
        assert_eq!(allows(&pmp, 0x2000, Mode::Machine), "rwx");
        // Writable and not readable is reserved; bits 5 and 6 are zero.
        pmp.write_config(8, 0x7a);
        assert_eq!(pmp.read_config(8), 0x18);
    }
}
