//! Running blocks of instructions.

use crate::code::Block;
use crate::csr::Mode;
use crate::decode::{Amo, Kind, Op, decode, decode_compressed, is_compressed};
use crate::machine::Machine;
use crate::trap::{Access, Exception, Trap};

impl Machine {
    /// The block at the program counter.
    #[inline(always)]
    fn block(&mut self) -> Result<Block, Trap> {
        let offset = self.fetch_offset(self.pc)?;
        if self.is_code_mixed(self.pc) {
            return self.decode_alone(offset);
        }
        match self.code.find(offset) {
            Some(block) => Ok(block),
            None => self.decode_block(offset),
        }
    }

    #[cold]
    fn decode_block(&mut self, offset: u64) -> Result<Block, Trap> {
        if let Some(block) = self.code.decode(offset, &mut self.ram) {
            return Ok(block);
        }
        // It crosses into the next page, which may lie anywhere.
        self.decode_alone(offset)
    }

    /// A block of the one instruction at the program counter, each half of which may be refused.
    #[cold]
    fn decode_alone(&mut self, offset: u64) -> Result<Block, Trap> {
        let low = self.ram.read_at(offset, 2);
        if is_compressed(low as u16) {
            return Ok(self.code.single(decode_compressed(low as u16)));
        }
        let next = self.fetch_offset(self.pc.wrapping_add(2))?;
        let op = decode((self.ram.read_at(next, 2) << 16 | low) as u32);
        Ok(self.code.single(op))
    }

    /// Runs the block at the program counter, or until an instruction traps.
    pub(crate) fn run_block(&mut self) -> Result<(), Trap> {
        let block = self.block()?;
        if self.recording.is_some() {
            self.record_block(block);
        }
        let mut pc = self.pc;
        let mut at = block.first;
        let ran = loop {
            let op = self.code.op(at);
            at += 1;
            // Where it goes on, unless it is told otherwise below.
            let next = pc.wrapping_add(u64::from(op.bytes));
            match self.step(&op, pc, next, u64::from(at - block.first - 1)) {
                Ok(Flow::On) => pc = next,
                Ok(Flow::To(target)) => {
                    pc = target;
                    break Ok(());
                }
                Err(trap) => {
                    at -= 1;
                    break Err(trap);
                }
            }
            if at == block.last || self.leave_block {
                break Ok(());
            }
        };
        self.pc = pc;
        self.leave_block = false;
        self.retired += u64::from(at - block.first);
        ran
    }

    #[inline(always)]
    fn get(&self, register: u8) -> u64 {
        self.x[usize::from(register & 31)]
    }

    #[inline(always)]
    fn set(&mut self, register: u8, value: u64) {
        self.x[usize::from(register & 31)] = value;
        self.x[0] = 0;
    }

    /// Runs an instruction; `before` of its block have run.
    #[inline(always)]
    fn step(&mut self, op: &Op, pc: u64, next: u64, before: u64) -> Result<Flow, Trap> {
        let (a, b) = (self.get(op.rs1), self.get(op.rs2));
        let imm = i64::from(op.imm) as u64;
        let word = |value: u64| i64::from(value as i32) as u64;
        let value = match op.kind {
            Kind::Lui => imm,
            Kind::Auipc => pc.wrapping_add(imm),
            Kind::Jal => {
                self.set(op.rd, next);
                return Ok(Flow::To(pc.wrapping_add(imm)));
            }
            Kind::Jalr => {
                self.set(op.rd, next);
                return Ok(Flow::To(a.wrapping_add(imm) & !1));
            }
            Kind::Beq => return Ok(branch(a == b, pc, imm, next)),
            Kind::Bne => return Ok(branch(a != b, pc, imm, next)),
            Kind::Blt => return Ok(branch((a as i64) < b as i64, pc, imm, next)),
            Kind::Bge => return Ok(branch(a as i64 >= b as i64, pc, imm, next)),
            Kind::Bltu => return Ok(branch(a < b, pc, imm, next)),
            Kind::Bgeu => return Ok(branch(a >= b, pc, imm, next)),
            Kind::Lb => self.load(a.wrapping_add(imm), 1)? as i8 as u64,
            Kind::Lh => self.load(a.wrapping_add(imm), 2)? as i16 as u64,
            Kind::Lw => word(self.load(a.wrapping_add(imm), 4)?),
            Kind::Ld => self.load(a.wrapping_add(imm), 8)?,
            Kind::Lbu => self.load(a.wrapping_add(imm), 1)?,
            Kind::Lhu => self.load(a.wrapping_add(imm), 2)?,
            Kind::Lwu => self.load(a.wrapping_add(imm), 4)?,
            Kind::Sb => return self.store(a.wrapping_add(imm), 1, b).map(|()| Flow::On),
            Kind::Sh => return self.store(a.wrapping_add(imm), 2, b).map(|()| Flow::On),
            Kind::Sw => return self.store(a.wrapping_add(imm), 4, b).map(|()| Flow::On),
            Kind::Sd => return self.store(a.wrapping_add(imm), 8, b).map(|()| Flow::On),
            Kind::Addi => a.wrapping_add(imm),
            Kind::Slti => u64::from((a as i64) < imm as i64),
            Kind::Sltiu => u64::from(a < imm),
            Kind::Xori => a ^ imm,
            Kind::Ori => a | imm,
            Kind::Andi => a & imm,
            Kind::Slli => a << (imm & 63),
            Kind::Srli => a >> (imm & 63),
            Kind::Srai => (a as i64 >> (imm & 63)) as u64,
            Kind::Addiw => word(a.wrapping_add(imm)),
            Kind::Slliw => word(a << (imm & 31)),
            Kind::Srliw => word(u64::from(a as u32 >> (imm & 31))),
            Kind::Sraiw => (a as i32 >> (imm & 31)) as u64,
            Kind::Add => a.wrapping_add(b),
            Kind::Sub => a.wrapping_sub(b),
            Kind::Sll => a << (b & 63),
            Kind::Slt => u64::from((a as i64) < b as i64),
            Kind::Sltu => u64::from(a < b),
            Kind::Xor => a ^ b,
            Kind::Srl => a >> (b & 63),
            Kind::Sra => (a as i64 >> (b & 63)) as u64,
            Kind::Or => a | b,
            Kind::And => a & b,
            Kind::Addw => word(a.wrapping_add(b)),
            Kind::Subw => word(a.wrapping_sub(b)),
            Kind::Sllw => word(a << (b & 31)),
            Kind::Srlw => word(u64::from(a as u32 >> (b & 31))),
            Kind::Sraw => (a as i32 >> (b & 31)) as u64,
            Kind::Mul => a.wrapping_mul(b),
            Kind::Mulh => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
            Kind::Mulhsu => ((i128::from(a as i64) * i128::from(b)) >> 64) as u64,
            Kind::Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
            Kind::Div => match b {
                0 => u64::MAX,
                _ => (a as i64).wrapping_div(b as i64) as u64,
            },
            Kind::Divu => a.checked_div(b).unwrap_or(u64::MAX),
            Kind::Rem => match b {
                0 => a,
                _ => (a as i64).wrapping_rem(b as i64) as u64,
            },
            Kind::Remu => a.checked_rem(b).unwrap_or(a),
            Kind::Mulw => word(a.wrapping_mul(b)),
            Kind::Divw => match b as i32 {
                0 => u64::MAX,
                divisor => (a as i32).wrapping_div(divisor) as u64,
            },
            Kind::Divuw => (a as u32).checked_div(b as u32).map_or(u64::MAX, |q| word(u64::from(q))),
            Kind::Remw => match b as i32 {
                0 => word(a),
                divisor => (a as i32).wrapping_rem(divisor) as u64,
            },
            Kind::Remuw => word(u64::from((a as u32).checked_rem(b as u32).unwrap_or(a as u32))),
            Kind::LrW | Kind::LrD | Kind::ScW | Kind::ScD | Kind::AmoW | Kind::AmoD => {
                self.atomic(op, a, b)?
            }
            Kind::Fence => return Ok(Flow::On),
            // Blocks are never older than what they were decoded from.
            Kind::FenceI => return Ok(Flow::On),
            _ => return self.system(op, pc, next, before),
        };
        self.set(op.rd, value);
        Ok(Flow::On)
    }

    /// Does an atomic operation, and returns its result.
    fn atomic(&mut self, op: &Op, addr: u64, operand: u64) -> Result<u64, Trap> {
        let wide = matches!(op.kind, Kind::LrD | Kind::ScD | Kind::AmoD);
        let reserves = matches!(op.kind, Kind::LrW | Kind::LrD);
        let bytes = if wide { 8 } else { 4 };
        if !addr.is_multiple_of(bytes) {
            let cause =
                if reserves { Exception::LoadAddressMisaligned } else { Exception::StoreAddressMisaligned };
            return Err(Trap::new(cause, addr));
        }
        let extend = |value: u64| if wide { value } else { i64::from(value as i32) as u64 };
        let offset = self.atomic_offset(addr, bytes, if reserves { Access::Load } else { Access::Store })?;
        let old = extend(self.ram.read_at(offset, bytes));
        let new = match op.kind {
            Kind::LrW | Kind::LrD => {
                self.reservation = Some((offset, bytes));
                self.record_access(addr, bytes, false);
                return Ok(old);
            }
            Kind::ScW | Kind::ScD => {
                if self.reservation.take() != Some((offset, bytes)) {
                    return Ok(1);
                }
                operand
            }
            _ => {
                self.record_access(addr, bytes, false);
                updated(Amo::of(op), old, extend(operand), wide)
            }
        };
        self.record_access(addr, bytes, true);
        let touched = self.ram.write_at(offset, bytes, new);
        if !touched.is_plain() {
            self.touched(touched);
        }
        Ok(if matches!(op.kind, Kind::ScW | Kind::ScD) { 0 } else { old })
    }

    /// An instruction that is not a program's everyday business. The counters are exact while it runs.
    #[cold]
    fn system(&mut self, op: &Op, pc: u64, next: u64, before: u64) -> Result<Flow, Trap> {
        let illegal = Trap::new(Exception::IllegalInstruction, op.raw.into());
        self.retired += before;
        let result = self.privileged(op, pc, next).map_err(|refused| match refused {
            NotExecuted::Illegal => illegal,
            NotExecuted::Trap(trap) => trap,
        });
        self.retired -= before;
        result
    }

    fn privileged(&mut self, op: &Op, pc: u64, next: u64) -> Result<Flow, NotExecuted> {
        match op.kind {
            Kind::Ecall => {
                let cause = match self.mode {
                    Mode::User => Exception::UserCall,
                    Mode::Supervisor => Exception::SupervisorCall,
                    Mode::Machine => Exception::MachineCall,
                };
                Err(NotExecuted::Trap(Trap::new(cause, 0)))
            }
            Kind::Ebreak => Err(NotExecuted::Trap(Trap::new(Exception::Breakpoint, pc))),
            Kind::Mret => Ok(Flow::To(self.return_from_machine()?)),
            Kind::Sret => Ok(Flow::To(self.return_from_supervisor()?)),
            Kind::Wfi => {
                self.wait_for_interrupt()?;
                Ok(Flow::To(next))
            }
            Kind::SfenceVma => {
                let addr = (op.rs1 != 0).then(|| self.get(op.rs1));
                let asid = (op.rs2 != 0).then(|| self.get(op.rs2));
                self.fence_translation(addr, asid)?;
                Ok(Flow::To(next))
            }
            Kind::Csrrw | Kind::Csrrs | Kind::Csrrc | Kind::Csrrwi | Kind::Csrrsi | Kind::Csrrci => {
                self.access_csr(op)?;
                Ok(Flow::To(next))
            }
            _ => Err(NotExecuted::Illegal),
        }
    }

    fn access_csr(&mut self, op: &Op) -> Result<(), NotExecuted> {
        let number = op.imm as u16;
        let operand = match op.kind {
            Kind::Csrrw | Kind::Csrrs | Kind::Csrrc => self.get(op.rs1),
            _ => u64::from(op.rs1),
        };
        let replaces = matches!(op.kind, Kind::Csrrw | Kind::Csrrwi);
        // Setting or clearing by x0 or 0 writes nothing.
        let writes = replaces || op.rs1 != 0;
        let old = self.read_csr(number, writes)?;
        if writes {
            let new = match op.kind {
                Kind::Csrrw | Kind::Csrrwi => operand,
                Kind::Csrrs | Kind::Csrrsi => old | operand,
                _ => old & !operand,
            };
            self.write_csr(number, new);
        }
        self.set(op.rd, old);
        Ok(())
    }
}

/// Where a hart goes on.
enum Flow {
    /// The hart goes on behind the instruction.
    On,
    /// The hart goes on at this address.
    To(u64),
}

/// The reason why a privileged instruction is not executed.
pub(crate) enum NotExecuted {
    /// The instruction or register does not exist, or not in this mode.
    Illegal,
    Trap(Trap),
}

#[inline(always)]
fn branch(taken: bool, pc: u64, offset: u64, next: u64) -> Flow {
    Flow::To(if taken { pc.wrapping_add(offset) } else { next })
}

/// What an atomic operation leaves; both operands are sign-extended.
fn updated(amo: Amo, old: u64, operand: u64, wide: bool) -> u64 {
    let unsigned = |value: u64| if wide { value } else { u64::from(value as u32) };
    match amo {
        Amo::Swap => operand,
        Amo::Add => old.wrapping_add(operand),
        Amo::Xor => old ^ operand,
        Amo::And => old & operand,
        Amo::Or => old | operand,
        Amo::Min => (old as i64).min(operand as i64) as u64,
        Amo::Max => (old as i64).max(operand as i64) as u64,
        Amo::Minu => unsigned(old).min(unsigned(operand)),
        Amo::Maxu => unsigned(old).max(unsigned(operand)),
    }
}
