//! Data TLBs, as CPUID describes them.
//!
//! Sources: AMD64 Architecture Programmer's Manual, volume 3, appendix E (functions 8000_0005h, 8000_0006h, 8000_0019h); Intel 64 and IA-32
//! Architectures Software Developer's Manual, volume 2A, CPUID (leaves 02h and 18h).

use crate::cpuid::{Cpuid, MOST_SUBLEAVES, Registers};

/// A size of pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pages {
    /// Base pages of 4 KiB.
    Small,
    /// Large pages of 2 MiB.
    Large,
    /// Large pages of 1 GiB.
    Giant,
}

impl Pages {
    /// Returns the size as machine files write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Small => "4KiB",
            Self::Large => "2MiB",
            Self::Giant => "1GiB",
        }
    }
}

/// An array of a TLB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// The sizes of pages that it holds, in ascending order.
    pub pages: Vec<Pages>,
    /// The number of entries.
    pub entries: u32,
    /// The number of ways; none if it is fully associative.
    pub ways: Option<u32>,
}

/// The data TLBs of a core: the arrays of each level, the nearest level first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tlbs {
    /// The levels, each with one array or more.
    pub levels: Vec<Vec<Array>>,
}

impl Tlbs {
    /// Reads CPUID's description; none if it has none that is understood.
    pub fn of(cpuid: &Cpuid) -> Option<Self> {
        let [first, second] = match vendor(cpuid).as_slice() {
            b"AuthenticAMD" | b"HygonGenuine" => amd(cpuid),
            b"GenuineIntel" if cpuid.get(0x18, 0) != [0; 4] => by_parameters(cpuid),
            b"GenuineIntel" => by_descriptors(cpuid.get(2, 0)),
            _ => return None,
        };
        let covers = |level: &[Array]| level.iter().any(|array| array.pages.contains(&Pages::Small));
        if !covers(&first) {
            return None;
        }
        let second = Some(second).filter(|level| covers(level));
        let levels = [Some(first), second].into_iter().flatten();
        Some(Self { levels: levels.map(one_array_a_size).collect() })
    }
}

/// Keeps the first array of a level for each size of pages: a machine file has one.
fn one_array_a_size(level: Vec<Array>) -> Vec<Array> {
    let mut kept: Vec<Array> = Vec::new();
    for mut array in level {
        array.pages.retain(|size| !kept.iter().any(|before| before.pages.contains(size)));
        if !array.pages.is_empty() {
            kept.push(array);
        }
    }
    kept
}

fn vendor(cpuid: &Cpuid) -> Vec<u8> {
    let [_, first, last, middle] = cpuid.get(0, 0);
    [first, middle, last].iter().flat_map(|part| part.to_le_bytes()).collect()
}

/// Takes arrays of equally many entries in one level for one array, which holds pages of all their sizes: as AMD's optimization guides
/// describe the arrays of Zen cores, for which CPUID has a number for each size. The ways are those of the smallest pages.
fn join(sizes: [Option<Array>; 3]) -> Vec<Array> {
    let mut level: Vec<Array> = Vec::new();
    for array in sizes.into_iter().flatten() {
        match level.iter_mut().find(|before| before.entries == array.entries) {
            Some(before) => before.pages.extend(array.pages),
            None => level.push(array),
        }
    }
    level
}

fn amd(cpuid: &Cpuid) -> [Vec<Array>; 2] {
    let [large, small, ..] = cpuid.get(0x8000_0005, 0);
    let nearest = |register: u32, pages| {
        let (entries, ways) = (register >> 16 & 0xff, register >> 24);
        array(pages, entries, if ways == 0xff { None } else { Some(ways) })
    };
    let [far_large, far_small, ..] = cpuid.get(0x8000_0006, 0);
    let [giant, far_giant, ..] = cpuid.get(0x8000_0019, 0);
    let coded = |register: u32, pages| {
        let ways = match register >> 28 {
            code @ 1..=4 => Some(code),
            5 => Some(6),
            6 => Some(8),
            8 => Some(16),
            code @ 0xa..=0xe => Some([32, 48, 64, 96, 128][code as usize - 0xa]),
            0xf => None,
            _ => return None,
        };
        array(pages, register >> 16 & 0xfff, ways)
    };
    [
        join([nearest(small, Pages::Small), nearest(large, Pages::Large), coded(giant, Pages::Giant)]),
        join([
            coded(far_small, Pages::Small),
            coded(far_large, Pages::Large),
            coded(far_giant, Pages::Giant),
        ]),
    ]
}

/// An array as it can be: a level that is switched off has no entries.
fn array(pages: Pages, entries: u32, ways: Option<u32>) -> Option<Array> {
    let is_possible = entries > 0 && ways.is_none_or(|ways| ways > 0 && entries.is_multiple_of(ways));
    // As many ways as entries: one set.
    let ways = ways.filter(|&ways| ways < entries);
    is_possible.then(|| Array { pages: vec![pages], entries, ways })
}

/// Leaf 18h, deterministic address translation parameters: a subleaf for each array.
fn by_parameters(cpuid: &Cpuid) -> [Vec<Array>; 2] {
    const DATA: u32 = 1;
    const UNIFIED: u32 = 3;
    const LOADS: u32 = 4;
    let mut levels = [Vec::new(), Vec::new()];
    for subleaf in 0..=cpuid.get(0x18, 0)[0].min(MOST_SUBLEAVES) {
        let [_, ebx, sets, edx] = cpuid.get(0x18, subleaf);
        let level = (edx >> 5 & 7).wrapping_sub(1) as usize;
        // Arrays for stores alone are left out: loads are the most.
        if ![DATA, UNIFIED, LOADS].contains(&(edx & 0x1f)) || level >= levels.len() {
            continue;
        }
        let mut pages = Vec::new();
        for (bit, size) in [(1, Pages::Small), (2, Pages::Large), (8, Pages::Giant)] {
            if ebx & bit != 0 {
                pages.push(size);
            }
        }
        let (ways, is_full) = (ebx >> 16, edx >> 8 & 1 != 0 || sets == 1);
        let Some(entries) = ways.checked_mul(sets).filter(|&entries| entries > 0) else { continue };
        if !pages.is_empty() {
            levels[level].push(Array { pages, entries, ways: (!is_full).then_some(ways) });
        }
    }
    levels
}

/// Descriptors of leaf 02h: level, sizes of pages, entries, ways (0: fully associative).
const DESCRIPTORS: &[(u8, usize, &[Pages], u32, u32)] = {
    use Pages::{Giant, Large, Small};
    &[
        (0x03, 0, &[Small], 64, 4),
        (0x57, 0, &[Small], 16, 4),
        (0x59, 0, &[Small], 16, 0),
        (0x5a, 0, &[Large], 32, 4),
        (0x63, 0, &[Large], 32, 4),
        (0x63, 0, &[Giant], 4, 4),
        (0x64, 0, &[Small], 512, 4),
        (0xa0, 0, &[Small], 32, 0),
        (0xb3, 0, &[Small], 128, 4),
        (0xc4, 0, &[Large], 32, 4),
        (0xb4, 1, &[Small], 256, 4),
        (0xc1, 1, &[Small, Large], 1024, 8),
        (0xc3, 1, &[Small, Large], 1536, 6),
        (0xc3, 1, &[Giant], 16, 4),
        (0xca, 1, &[Small], 512, 4),
    ]
};

/// Leaf 02h: bytes that stand for arrays, in registers whose top bit is clear.
fn by_descriptors(registers: Registers) -> [Vec<Array>; 2] {
    let mut levels = [Vec::new(), Vec::new()];
    let valid = registers.into_iter().filter(|register| register >> 31 == 0);
    // The lowest byte of the first register says how often to ask.
    for byte in valid.flat_map(u32::to_le_bytes).skip(1) {
        for &(code, level, pages, entries, ways) in DESCRIPTORS {
            if code == byte {
                let ways = Some(ways).filter(|&ways| ways > 0 && ways < entries);
                levels[level].push(Array { pages: pages.to_vec(), entries, ways });
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMD: ((u32, u32), Registers) = ((0, 0), [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]);
    const INTEL: ((u32, u32), Registers) = ((0, 0), [0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]);

    fn levels(answers: &[((u32, u32), Registers)]) -> Vec<Vec<Array>> {
        Tlbs::of(&answers.iter().copied().collect()).expect("it is understood").levels
    }

    fn array(pages: &[Pages], entries: u32, ways: Option<u32>) -> Array {
        Array { pages: pages.to_vec(), entries, ways }
    }

    use Pages::{Giant, Large, Small};

    #[test]
    fn a_zen_3_has_one_array_of_64_for_all_sizes_and_2048_behind_it() {
        let zen3 = [
            AMD,
            ((0x8000_0005, 0), [0xff40_ff40, 0xff40_ff40, 0x2008_0140, 0x2008_0140]),
            ((0x8000_0006, 0), [0x4800_2200, 0x6800_4200, 0x0200_6140, 0x0800_9140]),
            ((0x8000_0019, 0), [0xf040_f040, 0xf040_0000, 0, 0]),
        ];
        let first = array(&[Small, Large, Giant], 64, None);
        let second = vec![array(&[Small, Large], 2048, Some(8)), array(&[Giant], 64, None)];
        assert_eq!(levels(&zen3), [vec![first], second]);
    }

    #[test]
    fn a_skylake_has_its_descriptors() {
        let skylake = [INTEL, ((2, 0), [0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000])];
        let first =
            vec![array(&[Large], 32, Some(4)), array(&[Giant], 4, None), array(&[Small], 64, Some(4))];
        let second = vec![array(&[Small, Large], 1536, Some(6)), array(&[Giant], 16, Some(4))];
        assert_eq!(levels(&skylake), [first, second]);
    }

    #[test]
    fn registers_without_descriptors_are_left_out() {
        let mut answers = [INTEL, ((2, 0), [0x0000_0301, 0x8000_00c3, 0, 0])];
        assert_eq!(levels(&answers), [vec![array(&[Small], 64, Some(4))]]);
        answers[1].1[0] = 0x0000_0003;
        assert_eq!(Tlbs::of(&answers.into_iter().collect()), None);
    }

    #[test]
    fn parameters_come_array_by_array() {
        let alder_lake = [
            INTEL,
            ((0x18, 0), [4, 0, 0, 0]),
            // Instructions, loads, stores, and a shared second level.
            ((0x18, 1), [0, 0x0008_0001, 0x20, 0x22]),
            ((0x18, 2), [0, 0x0006_0001, 0x10, 0x24]),
            ((0x18, 3), [0, 0x0010_000f, 1, 0x125]),
            ((0x18, 4), [0, 0x0010_0003, 0x80, 0x43]),
        ];
        let (first, second) = (array(&[Small], 96, Some(6)), array(&[Small, Large], 2048, Some(16)));
        assert_eq!(levels(&alder_lake), [[first], [second]]);
    }

    #[test]
    fn other_vendors_and_empty_answers_say_nothing() {
        assert_eq!(Tlbs::of(&Cpuid::default()), None);
        assert_eq!(Tlbs::of(&[AMD].into_iter().collect()), None);
        assert_eq!(Tlbs::of(&[((0, 0), [1, 2, 3, 4])].into_iter().collect()), None);
    }

    #[test]
    fn no_answer_is_too_odd() {
        for seed in 0..20_000_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u32
            };
            let vendor = if seed % 2 == 0 { AMD } else { INTEL };
            let leaves = [
                (2, 0),
                (0x18, 0),
                (0x18, 1),
                (0x18, 2),
                (0x8000_0005, 0),
                (0x8000_0006, 0),
                (0x8000_0019, 0),
            ];
            let answers = leaves.map(|leaf| (leaf, [next(), next(), next(), next()]));
            let Some(tlbs) = Tlbs::of(&answers.into_iter().chain([vendor]).collect()) else { continue };
            for array in tlbs.levels.iter().flatten() {
                assert!(array.entries > 0 && !array.pages.is_empty(), "{array:?}");
                assert!(array.ways.is_none_or(|ways| array.entries.is_multiple_of(ways)), "{array:?}");
            }
        }
    }
}
