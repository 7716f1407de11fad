//! The requests of the program to the host.

use crate::end::End;
use crate::files::error;
use crate::host::{MOST_BYTES, MOST_PATH};
use crate::machine::Machine;

/// System calls of RISC-V Linux. `openat` is told the length of the path, too, as is usual on this interface.
mod call {
    pub(super) const OPENAT: u64 = 56;
    pub(super) const CLOSE: u64 = 57;
    pub(super) const LSEEK: u64 = 62;
    pub(super) const READ: u64 = 63;
    pub(super) const WRITE: u64 = 64;
    pub(super) const EXIT: u64 = 93;
}

impl Machine {
    /// Does what the program asks for, and answers.
    pub(crate) fn serve_host(&mut self) {
        let Some(tohost) = self.host.tohost.and_then(|addr| self.ram.offset(addr, 8)) else { return };
        let command = self.ram.read_at(tohost, 8);
        if command != 0 {
            self.write_from_outside(tohost, 8, 0);
            self.stuck.forget();
            self.host_command(command);
        }
        let waiting = self.host.reads.front().copied();
        if let Some(waiting) = waiting
            && let Some(byte) = self.host.input.byte(false)
        {
            self.host.reads.pop_front();
            self.answer(waiting, 0x100 | u64::from(byte));
        }
        let Some(fromhost) = self.host.fromhost.and_then(|addr| self.ram.offset(addr, 8)) else { return };
        if self.ram.read_at(fromhost, 8) == 0
            && let Some(answer) = self.host.answers.pop_front()
        {
            self.write_from_outside(fromhost, 8, answer);
        }
    }

    /// Whether the console may get a byte, which is waited for.
    pub(crate) fn host_may_answer(&mut self) -> bool {
        let Some(&waiting) = self.host.reads.front() else { return !self.host.answers.is_empty() };
        let _ = self.host.output.flush();
        let Some(byte) = self.host.input.byte(true) else { return false };
        self.host.reads.pop_front();
        self.answer(waiting, 0x100 | u64::from(byte));
        true
    }

    fn answer(&mut self, command: u64, value: u64) {
        let payload = (1 << 48) - 1;
        self.host.answers.push_back(command & !payload | value & payload);
    }

    fn host_command(&mut self, word: u64) {
        let (device, command, payload) = (word >> 56, word >> 48 & 0xff, word & ((1 << 48) - 1));
        match (device, command) {
            (0, 0) if payload & 1 != 0 => self.end = Some(End::Exit(payload >> 1)),
            (0, 0) => {
                self.system_call(payload);
                self.answer(word, 1);
            }
            (1, 0) => self.host.reads.push_back(word),
            (1, 1) => {
                let _ = self.host.output.write_all(&[payload as u8]);
                if payload as u8 == b'\n' {
                    let _ = self.host.output.flush();
                }
            }
            // There is no such device; a program that asks whether gets no answer.
            _ => {}
        }
    }

    /// A system call whose number and arguments lie at an address; the result goes there.
    fn system_call(&mut self, addr: u64) {
        let Some(offset) = self.ram.offset(addr, 64) else { return };
        let word = |at: u64| self.ram.read_at(offset + 8 * at, 8);
        let (number, arguments) = (word(0), [word(1), word(2), word(3), word(4)]);
        let [first, second, third, fourth] = arguments;
        let result = match number {
            call::EXIT => {
                self.end = Some(End::Exit(first));
                Ok(0)
            }
            call::WRITE => self.write_call(first, second, third),
            call::READ => self.read_call(first, second, third),
            _ => match (number, &mut self.host.files) {
                (call::OPENAT, Some(files)) => match self.ram.bytes_at(second, third.min(MOST_PATH)) {
                    Some(path) => files.open(&path, fourth),
                    None => Err(error::FAULT),
                },
                (call::CLOSE, Some(files)) => files.close(first),
                (call::LSEEK, Some(files)) => files.seek(first, second, third),
                _ => Err(error::NO_SUCH_CALL),
            },
        };
        self.write_from_outside(offset, 8, result.unwrap_or_else(|error| error));
    }

    fn write_call(&mut self, descriptor: u64, addr: u64, bytes: u64) -> Result<u64, u64> {
        let data = self.ram.bytes_at(addr, bytes.min(MOST_BYTES)).ok_or(error::FAULT)?;
        let stream = match (descriptor, &mut self.host.files) {
            (1, _) => &mut self.host.output,
            (2, _) => &mut self.host.errors,
            (_, Some(files)) => return files.write(descriptor, &data),
            _ => return Err(error::BAD_DESCRIPTOR),
        };
        stream.write_all(&data).and_then(|()| stream.flush()).map_err(|_| error::IO)?;
        Ok(data.len() as u64)
    }

    fn read_call(&mut self, descriptor: u64, addr: u64, bytes: u64) -> Result<u64, u64> {
        let bytes = bytes.min(MOST_BYTES);
        let offset = self.ram.offset(addr, bytes).ok_or(error::FAULT)?;
        let data = match (descriptor, &mut self.host.files) {
            (0, _) => self.host.line(bytes),
            (_, Some(files)) => files.read(descriptor, bytes)?,
            _ => return Err(error::BAD_DESCRIPTOR),
        };
        for (at, &byte) in (offset..).zip(&data) {
            self.write_from_outside(at, 1, byte.into());
        }
        Ok(data.len() as u64)
    }

    /// Passes on what was written and not yet passed on.
    pub fn flush(&mut self) {
        let _ = self.host.output.flush();
        let _ = self.host.errors.flush();
    }
}
