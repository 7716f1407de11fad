//! The devices outside of memory, by physical address.

use pagewalk_vm::fault::Register;

use crate::accelerator::Denied;
use crate::client;
use crate::machine::Machine;
use crate::map::{CLINT_BASE, CLINT_BYTES, CYCLES_PER_TICK};
use crate::trace::Note;
use crate::tree::ROM_BASE;

const MSIP: u64 = 0;
const MTIMECMP: u64 = 0x4000;
const MTIME: u64 = 0xbff8;
/// The network card's address, its first byte the lowest: the only register of the card that programs use.
const MAC: u64 = 0x1001_6018;

/// The part of an eight-byte register that an access of four or eight bytes names.
fn part(register: u64, addr: u64, bytes: u64) -> Option<u32> {
    let at = addr - register;
    (at.is_multiple_of(bytes) && matches!(bytes, 4 | 8)).then_some(8 * at as u32)
}

fn lowest(bytes: u64) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

impl Machine {
    /// Loads from where no memory is; `None` if nothing is there, or not so.
    #[cold]
    pub(crate) fn device_load(&mut self, addr: u64, bytes: u64) -> Option<u64> {
        self.denied = None;
        let value = self.device_value(addr, bytes);
        let result = value.ok_or_else(|| self.why());
        if self.failure.is_none() {
            self.note(|| Note::DeviceLoad { addr, value: result });
        }
        value
    }

    fn device_value(&mut self, addr: u64, bytes: u64) -> Option<u64> {
        if let Some(at) = addr.checked_sub(ROM_BASE)
            && let Some(rom) = self.rom.get(at as usize..)
            && rom.len() as u64 >= bytes
        {
            let mut word = [0; 8];
            word[..bytes as usize].copy_from_slice(&rom[..bytes as usize]);
            return Some(u64::from_le_bytes(word));
        }
        if let Some(at) = addr.checked_sub(CLINT_BASE).filter(|&at| at < CLINT_BYTES) {
            return self.clint_load(at, bytes);
        }
        if addr == MAC {
            return (bytes == 8).then_some(self.mac);
        }
        let block = Register::BLOCK.0;
        if (block..block + Register::BLOCK_BYTES).contains(&addr) {
            let now = self.cycles();
            let device = self.accelerator.as_mut()?;
            let answer = device.load(addr - block, bytes, now, &self.ram, &mut *self.remote);
            let answer = self.or_fail(answer)?;
            return self.or_deny(answer);
        }
        let at = addr.checked_sub(client::BLOCK).filter(|&at| at < client::BLOCK_BYTES)?;
        self.client_load(at, bytes)
    }

    /// Stores where no memory is; `None` if nothing is there, or not so.
    #[cold]
    pub(crate) fn device_store(&mut self, addr: u64, bytes: u64, value: u64) -> Option<()> {
        let value = value & lowest(bytes);
        self.denied = None;
        let stored = self.device_take(addr, bytes, value);
        let result = stored.ok_or_else(|| self.why());
        if self.failure.is_none() {
            self.note(|| Note::DeviceStore { addr, value, result });
        }
        stored
    }

    fn device_take(&mut self, addr: u64, bytes: u64, value: u64) -> Option<()> {
        if let Some(at) = addr.checked_sub(CLINT_BASE).filter(|&at| at < CLINT_BYTES) {
            return self.clint_store(at, bytes, value);
        }
        let block = Register::BLOCK.0;
        if (block..block + Register::BLOCK_BYTES).contains(&addr) {
            let now = self.cycles();
            let device = self.accelerator.as_mut()?;
            let answer = device.store(addr - block, bytes, value, now, &self.ram, &mut *self.remote);
            let answer = self.or_fail(answer)?;
            return self.or_deny(answer);
        }
        let at = addr.checked_sub(client::BLOCK).filter(|&at| at < client::BLOCK_BYTES)?;
        self.client_store(at, bytes, value)
    }

    /// What a register gave; why not is kept for the trace.
    fn or_deny<T>(&mut self, answer: Result<T, Denied>) -> Option<T> {
        match answer {
            Ok(value) => return Some(value),
            Err(Denied::Remote(refused)) => self.refuse(refused),
            Err(denied) => self.denied = Some(denied.to_string()),
        }
        None
    }

    /// Why the last access to a device is a fault.
    fn why(&mut self) -> String {
        self.denied.take().unwrap_or_else(|| "no such register".to_owned())
    }

    /// What remote memory answered, if it did.
    pub(crate) fn or_fail<T>(&mut self, answer: Result<T, crate::remote::RemoteError>) -> Option<T> {
        answer.map_err(|error| self.fail(error)).ok()
    }

    fn clint_load(&mut self, at: u64, bytes: u64) -> Option<u64> {
        let (register, value) = match at {
            MSIP..0x8 => (MSIP, u64::from(self.clint.software)),
            MTIMECMP..0x4008 => (MTIMECMP, self.clint.compare),
            MTIME..0xc000 => (MTIME, self.time()),
            // Those of harts that there are not.
            _ => return matches!(bytes, 4 | 8).then_some(0),
        };
        Some(value >> part(register, at, bytes)? & lowest(bytes))
    }

    fn clint_store(&mut self, at: u64, bytes: u64, value: u64) -> Option<()> {
        let merged = |old: u64, register: u64| -> Option<u64> {
            let shift = part(register, at, bytes)?;
            Some(old & !(lowest(bytes) << shift) | value << shift)
        };
        match at {
            MSIP..0x4 => self.clint.software = merged(0, MSIP)? & 1 != 0,
            MTIMECMP..0x4008 => self.clint.compare = merged(self.clint.compare, MTIMECMP)?,
            MTIME..0xc000 => {
                let time = merged(self.time(), MTIME)?;
                self.clint.offset = time.wrapping_sub(self.cycles() / CYCLES_PER_TICK);
            }
            _ => return matches!(bytes, 4 | 8).then_some(()),
        }
        self.attention = true;
        self.leave_block = true;
        Some(())
    }
}
