//! Instructions, privileges, translation and the accelerator, each on a machine without a program.

mod accelerator;
mod host;
mod image;
mod loops;
mod model;
mod privileged;
mod protection;
mod recording;
mod translation;

use std::cell::RefCell;
use std::rc::Rc;

use crate::csr::{Mode, status};
use crate::remote::{InProcess, Page, RemoteError, RemoteMemory, WordRequest};
use crate::trap::{Exception, Trap};
use crate::{Config, Host, Image, Machine, RAM_BASE};

/// Memory of all tests.
const MEMORY: u64 = 8 << 20;
const TOHOST: u64 = RAM_BASE + MEMORY - 4_096;

/// Memory that tests look into, and where the program said that it is.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<InProcess>>, Rc<RefCell<Vec<[u8; 6]>>>);

impl RemoteMemory for Shared {
    fn read_page(&mut self, page: u64, into: &mut Page) -> Result<(), RemoteError> {
        self.0.borrow_mut().read_page(page, into)
    }

    fn begin_write(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.0.borrow_mut().begin_write(page, data)
    }

    fn write_page(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.0.borrow_mut().write_page(page, data)
    }

    fn finished_write(&mut self, wait: bool) -> Result<Option<u64>, RemoteError> {
        self.0.borrow_mut().finished_write(wait)
    }

    fn turn_to(&mut self, address: [u8; 6]) -> Result<(), RemoteError> {
        self.1.borrow_mut().push(address);
        Ok(())
    }

    fn word(&mut self, request: WordRequest) -> Result<u64, RemoteError> {
        self.0.borrow_mut().word(request)
    }
}

/// A machine with these instructions at the beginning of memory, and the words for the host in the last page.
fn machine_of(config: &Config, words: &[u32], remote: impl RemoteMemory + 'static) -> Machine {
    let image = Image::of_words(RAM_BASE, words, TOHOST, TOHOST + 64);
    let config = Config { memory: MEMORY, ..config.clone() };
    Machine::new(&config, &image, Box::new(remote), Host::silent()).unwrap()
}

/// The same with what is usual, and nothing to run.
fn machine() -> Machine {
    machine_of(&Config::default(), &[0], InProcess::new())
}

impl Machine {
    fn in_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.update_context();
    }

    fn set_status(&mut self, bits: u64, on: bool) {
        let old = self.csrs.mstatus;
        self.csrs.mstatus = if on { old | bits } else { old & !bits };
        self.update_context();
    }

    fn put(&mut self, addr: u64, word: u64) {
        let offset = self.ram.offset(addr, 8).unwrap();
        self.ram.write_at(offset, 8, word);
    }

    fn peek(&self, addr: u64) -> u64 {
        self.ram.read_at(self.ram.offset(addr, 8).unwrap(), 8)
    }
}

fn cause<T>(result: Result<T, Trap>) -> Option<(Exception, u64)> {
    result.err().map(|trap| (trap.cause, trap.value))
}

/// Instructions, by their fields.
mod asm {
    pub(super) const fn i(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
        opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (imm as u32) << 20
    }

    pub(super) const fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
        i(0x13, 0, rd, rs1, imm)
    }

    pub(super) const fn lui(rd: u32, upper: u32) -> u32 {
        0x37 | rd << 7 | upper << 12
    }

    pub(super) const fn csrrw(rd: u32, csr: u32, rs1: u32) -> u32 {
        i(0x73, 1, rd, rs1, csr as i32)
    }

    pub(super) const fn csrrs(rd: u32, csr: u32, rs1: u32) -> u32 {
        i(0x73, 2, rd, rs1, csr as i32)
    }

    pub(super) const fn ld(rd: u32, rs1: u32, imm: i32) -> u32 {
        i(0x03, 3, rd, rs1, imm)
    }

    pub(super) const fn sd(rs2: u32, rs1: u32, imm: i32) -> u32 {
        0x23 | (imm as u32 & 31) << 7 | 3 << 12 | rs1 << 15 | rs2 << 20 | (imm as u32 >> 5 & 127) << 25
    }

    pub(super) const fn jal(rd: u32, offset: i32) -> u32 {
        let offset = offset as u32;
        0x6f | rd << 7
            | (offset >> 12 & 0xff) << 12
            | (offset >> 11 & 1) << 20
            | (offset >> 1 & 0x3ff) << 21
            | (offset >> 20 & 1) << 31
    }

    pub(super) const ECALL: u32 = 0x73;
    pub(super) const EBREAK: u32 = 0x0010_0073;
    pub(super) const MRET: u32 = 0x3020_0073;
    pub(super) const SRET: u32 = 0x1020_0073;
    pub(super) const WFI: u32 = 0x1050_0073;
    pub(super) const SFENCE_VMA: u32 = 0x1200_0073;
}

/// What an access is allowed by, in `mstatus`.
const SUM: u64 = status::SUM;
const MXR: u64 = status::MXR;
