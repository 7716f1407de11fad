//! CRC-64: the hash that hashed page tables are said to compute in hardware.

/// The polynomial of ECMA-182.
pub const ECMA: u64 = 0x42f0_e1eb_a9ea_3693;

/// Bytes of a page-table key: a line's number is at most 48 - 12 - 3 = 33 bits.
const KEY_BYTES: usize = 5;

/// A table-driven CRC over a 40-bit key: most significant bit first, least significant key byte first, initial value 0,
/// nothing done to the result; as in the public Linux port of elastic cuckoo page tables.
///
/// It is linear: consecutive keys are far from random, and a different seed only turns the same bits around. A caller that
/// wants an index mixes the code further (see [`LineHash`](crate::table::cuckoo::LineHash)). That port's second polynomial,
/// `0xc96c5795d7870f42`, is even: the lowest bit of its result is always 0, and half of a way is never used.
#[derive(Clone, Debug)]
pub struct Crc64 {
    table: Box<[u64; 256]>,
}

impl Crc64 {
    /// Creates the code of a polynomial, which is given without its highest bit.
    pub fn new(polynomial: u64) -> Self {
        let entry = |byte: usize| {
            (0..8).fold((byte as u64) << 56, |crc, _| crc << 1 ^ if crc >> 63 == 1 { polynomial } else { 0 })
        };
        Self { table: Box::new(std::array::from_fn(entry)) }
    }

    /// Returns the code of a key's low 40 bits.
    #[inline]
    pub fn hash(&self, key: u64) -> u64 {
        let bytes = key.to_le_bytes();
        bytes[..KEY_BYTES]
            .iter()
            .fold(0, |crc, &byte| crc << 8 ^ self.table[(crc >> 56) as usize ^ byte as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_four_polynomials_give_the_values_that_were_worked_out_by_hand() {
        for (polynomial, value) in [
            (ECMA, 0xe581_1115_317c_5847),
            (0xc96c_5795_d787_0f42, 0x0bd9_8695_0cec_5046),
            (0x92d8_af2b_af0e_1e85, 0x7b38_2821_114a_81d5),
            (0xa178_70f5_d4f5_1b49, 0x9333_87a4_e6f9_a235),
        ] {
            assert_eq!(Crc64::new(polynomial).hash(0x1_2345_6789), value, "{polynomial:#x}");
        }
    }

    #[test]
    fn an_even_polynomial_leaves_half_of_a_way_unused() {
        let crc = Crc64::new(0xc96c_5795_d787_0f42);
        assert!((0..1000).all(|key| crc.hash(key) & 1 == 0));
        let crc = Crc64::new(ECMA);
        assert!((0..1000).any(|key| crc.hash(key) & 1 == 1));
    }
}
