//! What the CPUID instruction answers.

use std::collections::BTreeMap;

/// The four registers of an answer: `eax`, `ebx`, `ecx`, `edx`.
pub type Registers = [u32; 4];

/// The most subleaves that are read of a leaf.
pub(crate) const MOST_SUBLEAVES: u32 = 32;

/// Answers of CPUID, by leaf and subleaf; what was not asked or is not known is zero, as the instruction answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpuid(BTreeMap<(u32, u32), Registers>);

impl Cpuid {
    /// Reads what this processor answers about itself; nothing on processors without the instruction.
    pub fn read() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            Self::ask(|leaf, subleaf| {
                let answer = std::arch::x86_64::__cpuid_count(leaf, subleaf);
                [answer.eax, answer.ebx, answer.ecx, answer.edx]
            })
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }

    /// Asks for the leaves that describe TLBs, of those that there are.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there is nothing to ask"))]
    fn ask(mut instruction: impl FnMut(u32, u32) -> Registers) -> Self {
        let mut answers = BTreeMap::new();
        for base in [0, 0x8000_0000] {
            let answer @ [last, ..] = instruction(base, 0);
            answers.insert((base, 0), answer);
            for leaf in [2, 0x18, 0x8000_0005, 0x8000_0006, 0x8000_0019] {
                if leaf > base && leaf <= last && leaf >> 31 == base >> 31 {
                    answers.insert((leaf, 0), instruction(leaf, 0));
                }
            }
        }
        if let Some(&[last, ..]) = answers.get(&(0x18, 0)) {
            for subleaf in 1..=last.min(MOST_SUBLEAVES) {
                answers.insert((0x18, subleaf), instruction(0x18, subleaf));
            }
        }
        Self(answers)
    }

    /// Returns the answer to a leaf and a subleaf.
    pub fn get(&self, leaf: u32, subleaf: u32) -> Registers {
        self.0.get(&(leaf, subleaf)).copied().unwrap_or_default()
    }
}

impl FromIterator<((u32, u32), Registers)> for Cpuid {
    fn from_iter<I: IntoIterator<Item = ((u32, u32), Registers)>>(answers: I) -> Self {
        Self(answers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leaves_that_there_are_are_asked_for() {
        let mut asked = Vec::new();
        let cpuid = Cpuid::ask(|leaf, subleaf| {
            asked.push((leaf, subleaf));
            match leaf {
                0 => [0x18, 1, 2, 3],
                0x18 => [2, subleaf, 0, 0],
                0x8000_0000 => [0x8000_0006, 0, 0, 0],
                _ => [7; 4],
            }
        });
        assert!(!asked.contains(&(0x8000_0019, 0)), "{asked:?}");
        assert_eq!(cpuid.get(0x18, 2), [2, 2, 0, 0]);
        assert_eq!(cpuid.get(0x8000_0006, 0), [7; 4]);
        assert_eq!(cpuid.get(0x8000_0019, 0), [0; 4]);
        assert_eq!(cpuid.get(0x18, 3), [0; 4]);
    }
}
