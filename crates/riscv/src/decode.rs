//! Instructions: RV64IMAC with Zicsr and Zifencei, decoded once.
//!
//! A compressed instruction is decoded as the one that it stands for. Source: The RISC-V Instruction Set Manual, volume I
//! (20191213), chapters 24 (tables of encodings) and 16 (compressed); volume II (20190608) for the privileged ones.

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum Kind {
    Illegal,
    Lui, Auipc, Jal, Jalr,
    Beq, Bne, Blt, Bge, Bltu, Bgeu,
    Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu,
    Sb, Sh, Sw, Sd,
    Addi, Slti, Sltiu, Xori, Ori, Andi, Slli, Srli, Srai,
    Addiw, Slliw, Srliw, Sraiw,
    Add, Sub, Sll, Slt, Sltu, Xor, Srl, Sra, Or, And,
    Addw, Subw, Sllw, Srlw, Sraw,
    Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu,
    Mulw, Divw, Divuw, Remw, Remuw,
    LrW, ScW, AmoW, LrD, ScD, AmoD,
    Fence, FenceI,
    Ecall, Ebreak, Mret, Sret, Wfi, SfenceVma,
    Csrrw, Csrrs, Csrrc, Csrrwi, Csrrsi, Csrrci,
}

/// What an atomic operation does with the old value and its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amo {
    Swap,
    Add,
    Xor,
    And,
    Or,
    Min,
    Max,
    Minu,
    Maxu,
}

impl Amo {
    const ALL: [Self; 9] =
        [Self::Swap, Self::Add, Self::Xor, Self::And, Self::Or, Self::Min, Self::Max, Self::Minu, Self::Maxu];

    fn of_funct5(funct5: u32) -> Option<Self> {
        Some(match funct5 {
            0b00001 => Self::Swap,
            0b00000 => Self::Add,
            0b00100 => Self::Xor,
            0b01100 => Self::And,
            0b01000 => Self::Or,
            0b10000 => Self::Min,
            0b10100 => Self::Max,
            0b11000 => Self::Minu,
            0b11100 => Self::Maxu,
            _ => return None,
        })
    }

    /// Of an instruction of kind [`Kind::AmoW`] or [`Kind::AmoD`].
    pub(crate) fn of(op: &Op) -> Self {
        Self::ALL[op.imm as usize]
    }
}

/// A decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    pub(crate) rd: u8,
    pub(crate) rs1: u8,
    pub(crate) rs2: u8,
    /// Bytes: 2 or 4.
    pub(crate) bytes: u8,
    /// The immediate; a shift's amount; the number of a CSR; which atomic operation.
    pub(crate) imm: i32,
    /// As it stands in memory, for traps.
    pub(crate) raw: u32,
}

impl Op {
    /// Whether the next instruction need not be the one behind it, or what it does may change how that is fetched.
    pub(crate) fn ends_block(&self) -> bool {
        use Kind::*;
        matches!(
            self.kind,
            Illegal
                | Jal
                | Jalr
                | Beq
                | Bne
                | Blt
                | Bge
                | Bltu
                | Bgeu
                | FenceI
                | Ecall
                | Ebreak
                | Mret
                | Sret
                | Wfi
                | SfenceVma
                | Csrrw
                | Csrrs
                | Csrrc
                | Csrrwi
                | Csrrsi
                | Csrrci
        )
    }
}

/// Whether the instruction that begins so has two bytes.
#[inline]
pub(crate) fn is_compressed(low: u16) -> bool {
    low & 3 != 3
}

/// Bits `high` to `low` of a word.
#[inline]
fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// The lowest `width` bits of a word as a signed number.
#[inline]
fn signed(word: u32, width: u32) -> i32 {
    (word << (32 - width)) as i32 >> (32 - width)
}

/// Decodes an instruction of four bytes.
pub(crate) fn decode(word: u32) -> Op {
    use Kind::*;
    let (rd, rs1, rs2) = (bits(word, 11, 7) as u8, bits(word, 19, 15) as u8, bits(word, 24, 20) as u8);
    let (funct3, funct7) = (bits(word, 14, 12), bits(word, 31, 25));
    let illegal = Op { kind: Illegal, rd: 0, rs1: 0, rs2: 0, bytes: 4, imm: 0, raw: word };
    let op = |kind, imm| Op { kind, rd, rs1, rs2, bytes: 4, imm, raw: word };
    let immediate = word as i32 >> 20;
    match bits(word, 6, 0) {
        0x37 => op(Lui, (word & 0xffff_f000) as i32),
        0x17 => op(Auipc, (word & 0xffff_f000) as i32),
        0x6f => {
            let offset = bits(word, 31, 31) << 20
                | bits(word, 19, 12) << 12
                | bits(word, 20, 20) << 11
                | bits(word, 30, 21) << 1;
            op(Jal, signed(offset, 21))
        }
        0x67 if funct3 == 0 => op(Jalr, immediate),
        0x63 => {
            let offset = bits(word, 31, 31) << 12
                | bits(word, 7, 7) << 11
                | bits(word, 30, 25) << 5
                | bits(word, 11, 8) << 1;
            let kind = match funct3 {
                0 => Beq,
                1 => Bne,
                4 => Blt,
                5 => Bge,
                6 => Bltu,
                7 => Bgeu,
                _ => return illegal,
            };
            op(kind, signed(offset, 13))
        }
        0x03 => match [Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu].get(funct3 as usize) {
            Some(&kind) => op(kind, immediate),
            None => illegal,
        },
        0x23 => match [Sb, Sh, Sw, Sd].get(funct3 as usize) {
            Some(&kind) => op(kind, signed(funct7 << 5 | u32::from(rd), 12)),
            None => illegal,
        },
        0x13 => match (funct3, bits(word, 31, 26)) {
            (0, _) => op(Addi, immediate),
            (2, _) => op(Slti, immediate),
            (3, _) => op(Sltiu, immediate),
            (4, _) => op(Xori, immediate),
            (6, _) => op(Ori, immediate),
            (7, _) => op(Andi, immediate),
            (1, 0) => op(Slli, bits(word, 25, 20) as i32),
            (5, 0) => op(Srli, bits(word, 25, 20) as i32),
            (5, 0b01_0000) => op(Srai, bits(word, 25, 20) as i32),
            _ => illegal,
        },
        0x1b => match (funct3, funct7) {
            (0, _) => op(Addiw, immediate),
            (1, 0) => op(Slliw, i32::from(rs2)),
            (5, 0) => op(Srliw, i32::from(rs2)),
            (5, 0b010_0000) => op(Sraiw, i32::from(rs2)),
            _ => illegal,
        },
        0x33 => match (funct7, funct3) {
            (0, _) => op([Add, Sll, Slt, Sltu, Xor, Srl, Or, And][funct3 as usize], 0),
            (0b010_0000, 0) => op(Sub, 0),
            (0b010_0000, 5) => op(Sra, 0),
            (1, _) => op([Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu][funct3 as usize], 0),
            _ => illegal,
        },
        0x3b => match (funct7, funct3) {
            (0, 0) => op(Addw, 0),
            (0, 1) => op(Sllw, 0),
            (0, 5) => op(Srlw, 0),
            (0b010_0000, 0) => op(Subw, 0),
            (0b010_0000, 5) => op(Sraw, 0),
            (1, 0) => op(Mulw, 0),
            (1, 4) => op(Divw, 0),
            (1, 5) => op(Divuw, 0),
            (1, 6) => op(Remw, 0),
            (1, 7) => op(Remuw, 0),
            _ => illegal,
        },
        0x2f => {
            let wide = match funct3 {
                2 => false,
                3 => true,
                _ => return illegal,
            };
            match bits(word, 31, 27) {
                0b00010 if rs2 == 0 => op(if wide { LrD } else { LrW }, 0),
                0b00011 => op(if wide { ScD } else { ScW }, 0),
                funct5 => match Amo::of_funct5(funct5) {
                    Some(amo) => op(if wide { AmoD } else { AmoW }, amo as i32),
                    None => illegal,
                },
            }
        }
        0x0f => match funct3 {
            0 => op(Fence, 0),
            1 => op(FenceI, 0),
            _ => illegal,
        },
        0x73 => match funct3 {
            0 if rd == 0 => match word >> 20 {
                _ if funct7 == 0b000_1001 => op(SfenceVma, 0),
                0x000 if rs1 == 0 => op(Ecall, 0),
                0x001 if rs1 == 0 => op(Ebreak, 0),
                0x102 if rs1 == 0 => op(Sret, 0),
                0x302 if rs1 == 0 => op(Mret, 0),
                0x105 if rs1 == 0 => op(Wfi, 0),
                _ => illegal,
            },
            1 => op(Csrrw, immediate & 0xfff),
            2 => op(Csrrs, immediate & 0xfff),
            3 => op(Csrrc, immediate & 0xfff),
            5 => op(Csrrwi, immediate & 0xfff),
            6 => op(Csrrsi, immediate & 0xfff),
            7 => op(Csrrci, immediate & 0xfff),
            _ => illegal,
        },
        _ => illegal,
    }
}

/// Decodes an instruction of two bytes.
pub(crate) fn decode_compressed(half: u16) -> Op {
    use Kind::*;
    let word = u32::from(half);
    let illegal = Op { kind: Illegal, rd: 0, rs1: 0, rs2: 0, bytes: 2, imm: 0, raw: word };
    let op = |kind, rd: u32, rs1: u32, rs2: u32, imm: i32| Op {
        kind,
        rd: rd as u8,
        rs1: rs1 as u8,
        rs2: rs2 as u8,
        bytes: 2,
        imm,
        raw: word,
    };
    // Three-bit register numbers name x8 to x15.
    let (high, low) = (8 + bits(word, 9, 7), 8 + bits(word, 4, 2));
    let (rd, rs2) = (bits(word, 11, 7), bits(word, 6, 2));
    let immediate = signed(bits(word, 12, 12) << 5 | bits(word, 6, 2), 6);
    let amount = (bits(word, 12, 12) << 5 | bits(word, 6, 2)) as i32;
    let word_offset = (bits(word, 5, 5) << 6 | bits(word, 12, 10) << 3 | bits(word, 6, 6) << 2) as i32;
    let double_offset = (bits(word, 6, 5) << 6 | bits(word, 12, 10) << 3) as i32;
    match (bits(word, 1, 0), bits(word, 15, 13)) {
        (0, 0) => {
            let offset = bits(word, 10, 7) << 6
                | bits(word, 12, 11) << 4
                | bits(word, 5, 5) << 3
                | bits(word, 6, 6) << 2;
            // All bits zero are illegal for certain; the rest of offset zero is reserved.
            if offset == 0 { illegal } else { op(Addi, low, 2, 0, offset as i32) }
        }
        (0, 2) => op(Lw, low, high, 0, word_offset),
        (0, 3) => op(Ld, low, high, 0, double_offset),
        (0, 6) => op(Sw, 0, high, low, word_offset),
        (0, 7) => op(Sd, 0, high, low, double_offset),
        (1, 0) => op(Addi, rd, rd, 0, immediate),
        (1, 1) if rd != 0 => op(Addiw, rd, rd, 0, immediate),
        (1, 2) => op(Addi, rd, 0, 0, immediate),
        (1, 3) if rd == 2 => {
            let offset = bits(word, 12, 12) << 9
                | bits(word, 4, 3) << 7
                | bits(word, 5, 5) << 6
                | bits(word, 2, 2) << 5
                | bits(word, 6, 6) << 4;
            if offset == 0 { illegal } else { op(Addi, 2, 2, 0, signed(offset, 10)) }
        }
        (1, 3) if immediate != 0 => op(Lui, rd, 0, 0, immediate << 12),
        (1, 4) => match (bits(word, 11, 10), bits(word, 12, 12), bits(word, 6, 5)) {
            (0, ..) => op(Srli, high, high, 0, amount),
            (1, ..) => op(Srai, high, high, 0, amount),
            (2, ..) => op(Andi, high, high, 0, immediate),
            (_, 0, 0) => op(Sub, high, high, low, 0),
            (_, 0, 1) => op(Xor, high, high, low, 0),
            (_, 0, 2) => op(Or, high, high, low, 0),
            (_, 0, _) => op(And, high, high, low, 0),
            (_, _, 0) => op(Subw, high, high, low, 0),
            (_, _, 1) => op(Addw, high, high, low, 0),
            _ => illegal,
        },
        (1, 5) => {
            let offset = bits(word, 12, 12) << 11
                | bits(word, 8, 8) << 10
                | bits(word, 10, 9) << 8
                | bits(word, 6, 6) << 7
                | bits(word, 7, 7) << 6
                | bits(word, 2, 2) << 5
                | bits(word, 11, 11) << 4
                | bits(word, 5, 3) << 1;
            op(Jal, 0, 0, 0, signed(offset, 12))
        }
        (1, branch @ (6 | 7)) => {
            let offset = bits(word, 12, 12) << 8
                | bits(word, 6, 5) << 6
                | bits(word, 2, 2) << 5
                | bits(word, 11, 10) << 3
                | bits(word, 4, 3) << 1;
            op(if branch == 6 { Beq } else { Bne }, 0, high, 0, signed(offset, 9))
        }
        (2, 0) => op(Slli, rd, rd, 0, amount),
        (2, 2) if rd != 0 => {
            let offset = bits(word, 3, 2) << 6 | bits(word, 12, 12) << 5 | bits(word, 6, 4) << 2;
            op(Lw, rd, 2, 0, offset as i32)
        }
        (2, 3) if rd != 0 => {
            let offset = bits(word, 4, 2) << 6 | bits(word, 12, 12) << 5 | bits(word, 6, 5) << 3;
            op(Ld, rd, 2, 0, offset as i32)
        }
        (2, 4) => match (bits(word, 12, 12), rd, rs2) {
            (0, 0, 0) => illegal,
            (0, _, 0) => op(Jalr, 0, rd, 0, 0),
            (0, ..) => op(Add, rd, 0, rs2, 0),
            (_, 0, 0) => op(Ebreak, 0, 0, 0, 0),
            (_, _, 0) => op(Jalr, 1, rd, 0, 0),
            _ => op(Add, rd, rd, rs2, 0),
        },
        (2, 6) => op(Sw, 0, 2, rs2, (bits(word, 8, 7) << 6 | bits(word, 12, 9) << 2) as i32),
        (2, 7) => op(Sd, 0, 2, rs2, (bits(word, 9, 7) << 6 | bits(word, 12, 10) << 3) as i32),
        _ => illegal,
    }
}
