//! Byte strings of every shape that an instruction may have.

/// Calls the function with each opcode of each map, with each prefix and each kind of operands, and bytes for what may follow.
pub(crate) fn each(mut f: impl FnMut(&[u8])) {
    for prefix in LEGACY {
        for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
            for opcode in 0..=0xff {
                operands(&[prefix, map, &[opcode]].concat(), true, &mut f);
            }
        }
    }
    // 3DNow!: the opcode comes last.
    for opcode in 0..=0xff {
        f(&[0x0f, 0x0f, 0xc1, opcode]);
        f(&[0x0f, 0x0f, 0x01, opcode]);
    }
    for opcode in 0..=0xff {
        for bits in 0..1 << 7 {
            vex(opcode, bits, &mut f);
        }
        for bits in 0..1 << 11 {
            evex(opcode, bits, &mut f);
        }
    }
}

/// No prefix, those that choose an opcode, and 64-bit operands.
const LEGACY: [&[u8]; 8] =
    [&[], &[0x66], &[0xf3], &[0xf2], &[0x48], &[0x66, 0x48], &[0xf3, 0x48], &[0xf2, 0x48]];

/// VEX in three bytes, and XOP. The register beside the operands is the first with its bits inverted, which also means none.
fn vex(opcode: u8, bits: u8, f: &mut impl FnMut(&[u8])) {
    let (map, prefix, length, w) = (bits & 3, bits >> 2 & 3, bits >> 4 & 1, bits >> 5 & 1);
    let (escape, map) = if bits >> 6 & 1 != 0 { (0x8f, map + 8) } else { (0xc4, map) };
    for register in [NONE, THIRD] {
        let head = [escape, 0xe0 | map, w << 7 | register << 3 | length << 2 | prefix, opcode];
        operands(&head, is_group(opcode), f);
    }
}

/// EVEX: the mask is `%k1` or none.
fn evex(opcode: u8, bits: u16, f: &mut impl FnMut(&[u8])) {
    let part = |from: u16, width: u16| (bits >> from & ((1 << width) - 1)) as u8;
    let (map, prefix, w) = (part(0, 3), part(3, 2), part(5, 1));
    let (length, broadcast, mask) = (part(6, 2), part(8, 1), part(9, 1));
    let register = if part(10, 1) == 0 { NONE } else { THIRD };
    let second = w << 7 | register << 3 | 1 << 2 | prefix;
    operands(
        &[0x62, 0xf0 | map, second, length << 5 | broadcast << 4 | 1 << 3 | mask, opcode],
        is_group(opcode),
        f,
    );
}

const NONE: u8 = 0b1111;
const THIRD: u8 = 0b1100;

/// The opcodes that the byte behind them completes.
fn is_group(opcode: u8) -> bool {
    matches!(opcode, 0x01 | 0x12 | 0x49 | 0x71..=0x73 | 0xae | 0xc6 | 0xc7 | 0xf3)
}

/// The byte of the operands: memory with a base, with a base and an index, and registers.
fn operands(head: &[u8], is_group: bool, f: &mut impl FnMut(&[u8])) {
    const TAIL: [u8; 12] = [0x11; 12];
    for register in if is_group { 0..8 } else { 2..3 } {
        f(&[head, &[register << 3 | 1], &TAIL].concat());
        f(&[head, &[register << 3 | 4, 0x21], &TAIL].concat());
        for other in if is_group { 0..8 } else { 1..2 } {
            f(&[head, &[0xc0 | register << 3 | other], &TAIL].concat());
        }
    }
}
