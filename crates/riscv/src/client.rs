//! The memory blade's client block: requests by registers, for pages and words.
//!
//! A request is made when its number is loaded, and done by then; its end is reported in order. Source: the author's later
//! specification of the client beside the accelerator; DSTMAC and OPCODE share eight bytes there, and here.

use pagewalk_vm::addr::{PAGE_BYTES, PhysAddr};

use crate::machine::Machine;
use crate::registers::ClientBlock;
use crate::remote::{Page, RemoteError, WordOperation, WordRequest, address_of};

/// Where the block begins.
pub(crate) const BLOCK: u64 = 0x1001_8000;
pub(crate) const BLOCK_BYTES: u64 = 0x1000;
/// Ends that have not been asked for, at most.
const DEPTH: usize = 64;

const SRC: u64 = 0x00;
const DST: u64 = 0x08;
const DSTMAC: u64 = 0x10;
const OPCODE: u64 = 0x16;
const PAGENO: u64 = 0x18;
const REQ: u64 = 0x20;
const RESP: u64 = 0x24;
const NREQ: u64 = 0x28;
const NRESP: u64 = 0x2c;

impl Machine {
    pub(crate) fn client_store(&mut self, at: u64, bytes: u64, value: u64) -> Option<()> {
        if (at, bytes) == (DSTMAC, 8)
            && let Some(address) = address_of(value)
        {
            let turned = self.remote.turn_to(address);
            self.or_fail(turned)?;
        }
        let client = &mut self.client;
        match (at, bytes) {
            (SRC, 8) => client.source = value,
            (DST, 8) => client.destination = value,
            (DSTMAC, 8) => client.opcode = (value >> 48) as u8,
            (OPCODE, 1) => client.opcode = value as u8,
            (PAGENO, 8) => client.page = value,
            _ => return None,
        }
        Some(())
    }

    pub(crate) fn client_load(&mut self, at: u64, bytes: u64) -> Option<u64> {
        if bytes != 4 {
            return None;
        }
        match at {
            REQ => {
                if self.client.ended.len() == DEPTH {
                    return None;
                }
                self.request()?;
                let number = self.client.next;
                self.client.next = number.wrapping_add(1);
                self.client.ended.push_back(number);
                Some(number.into())
            }
            RESP => self.client.ended.pop_front().map(u64::from),
            NREQ => Some((DEPTH - self.client.ended.len()) as u64),
            NRESP => Some(self.client.ended.len() as u64),
            _ => None,
        }
    }

    /// Does what the registers say; `None` if that is illegal.
    fn request(&mut self) -> Option<()> {
        let ClientBlock { source, destination, opcode, page: number, .. } = self.client;
        match opcode {
            0 => {
                let frame = self.frame_at(destination)?;
                let mut page: Page = [0; _];
                let read = self.remote.read_page(number, &mut page);
                self.answered(read)?;
                let touched = self.ram.write_page(frame, &page);
                self.outside_touched(touched);
            }
            1 => {
                let frame = self.frame_at(source)?;
                let written = self.remote.write_page(number, &self.ram.read_page(frame));
                self.answered(written)?;
            }
            2..=5 => self.request_word(number, opcode, source, destination)?,
            _ => return None,
        }
        Some(())
    }

    fn request_word(&mut self, page: u64, opcode: u8, source: u64, destination: u64) -> Option<()> {
        let words = match opcode {
            2 => 1,
            5 => 3,
            _ => 2,
        };
        let mut payload = [0; 3];
        for (at, word) in payload[..words].iter_mut().enumerate() {
            let offset = self.ram.offset(source.checked_add(8 * at as u64)?, 8)?;
            *word = self.ram.read_at(offset, 8);
        }
        let (size, offset) = ((payload[0] & 3) as u8, (payload[0] >> 4 & 0xfff) as u16);
        let bytes = 1u64 << size;
        if u64::from(offset) + bytes > PAGE_BYTES {
            return None;
        }
        let operation = match opcode {
            2 => WordOperation::Read,
            3 => WordOperation::Write(payload[1]),
            4 => WordOperation::Add(payload[1]),
            _ => WordOperation::CompareAndSwap { new: payload[1], expected: payload[2] },
        };
        let place = match opcode {
            3 => None,
            _ => Some(self.ram.offset(destination, bytes)?),
        };
        let answer = self.remote.word(WordRequest { page, offset, size, operation });
        let answer = self.answered(answer)?;
        if let Some(place) = place {
            self.write_from_outside(place, bytes, answer);
        }
        Some(())
    }

    /// A refusal is the program's fault, silence is the end.
    fn answered<T>(&mut self, answer: Result<T, RemoteError>) -> Option<T> {
        match answer {
            Err(refused @ RemoteError::Refused { .. }) => {
                self.refuse(refused);
                None
            }
            other => self.or_fail(other),
        }
    }

    fn frame_at(&self, addr: u64) -> Option<pagewalk_vm::addr::Pfn> {
        self.ram.offset(addr, PAGE_BYTES)?;
        addr.is_multiple_of(PAGE_BYTES).then_some(PhysAddr(addr).frame())
    }
}
