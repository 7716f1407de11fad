//! The registers that hold the results of instructions in flight.
//!
//! Each result gets a register of its own when its instruction is dispatched, and the one that held the value before is free again when it
//! retires. So results are in flight as many as a core has registers beyond those of the program.

use pagewalk_code::{Class, Instruction, Registers, aarch64, model, riscv, x86};
use pagewalk_trace::Isa;

use super::order::Ring;
use crate::spec::settings::DataflowSpec;

/// Results that get their registers together, and give them back together: most instructions need not look.
const GROUP: u32 = 8;
/// Bits of the results of a kind.
const LANE_BITS: u32 = 16;
/// A bit above the results of each kind that is clear where more are taken than are left.
const GUARDS: u32 = 0x8000_8000;

/// The results of an instruction: those in general registers, and above them those in vector registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Results(u32);

/// Which registers of an instruction set take a place in a file of registers that can be full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files {
    general: Registers,
    vectors: Registers,
    /// All vector registers, whether a core could run out of them or not.
    every_vector: Registers,
}

impl Files {
    /// No register that a core could run out of.
    #[cfg(test)]
    pub(super) const NONE: Self =
        Self { general: Registers::EMPTY, vectors: Registers::EMPTY, every_vector: Registers::EMPTY };

    /// Returns the registers of an instruction set of which a core can run out: none of a kind that the machine file does not limit, of an
    /// in-order core, which renames none, and of traces without code, whose kinds of registers are not known.
    pub(super) fn new(isa: Isa, spec: &DataflowSpec) -> Self {
        let (general, vectors) = match isa {
            Isa::X86_64 => (Registers::range(0, x86::GENERAL), Registers::range(x86::GENERAL, x86::VECTORS)),
            Isa::Aarch64 => (
                Registers::range(0, aarch64::GENERAL),
                Registers::range(aarch64::GENERAL + 1, aarch64::VECTORS),
            ),
            Isa::Riscv64 => {
                (Registers::range(0, riscv::GENERAL), Registers::range(riscv::GENERAL, riscv::FLOATS))
            }
            Isa::Model => (Registers::range(0, model::GENERAL), Registers::EMPTY),
            Isa::Outline | Isa::LoongArch64 => (Registers::EMPTY, Registers::EMPTY),
        };
        let limited = |own: Registers, most: u32| {
            if most > 0 && !spec.is_in_order { own } else { Registers::EMPTY }
        };
        Self {
            general: limited(general, spec.registers),
            vectors: limited(vectors, spec.vector_registers),
            every_vector: vectors,
        }
    }

    /// Returns whether some of these registers are vectors.
    pub(super) fn have_vectors(&self, registers: Registers) -> bool {
        !registers.intersection(self.every_vector).is_empty()
    }
}

impl Results {
    /// None in a register that a core could run out of.
    pub(super) const NONE: Self = Self(0);

    /// Returns the results of an instruction. Renaming makes a copy of a register, and a zero, without another one.
    pub(super) fn of(instruction: &Instruction, writes: Registers, files: &Files) -> Self {
        if matches!(instruction.class, Class::Move | Class::Zero) {
            return Self::NONE;
        }
        let of = |file: Registers| (writes.intersection(file).len() as u32).min(GROUP);
        Self(of(files.general) | (of(files.vectors) << LANE_BITS))
    }
}

/// The registers of a core.
#[derive(Clone, Debug)]
pub(super) struct Renaming {
    /// By kind, what is left of the group of results that is under way, below the bit that guards it.
    left: u32,
    /// By kind, when the last groups retired.
    groups: [Ring; 2],
}

impl Renaming {
    pub(super) fn new(spec: &DataflowSpec) -> Self {
        let groups = |registers: u32| Ring::new((registers / GROUP).max(1) as usize);
        Self {
            left: GUARDS | GROUP | (GROUP << LANE_BITS),
            groups: [groups(spec.registers), groups(spec.vector_registers)],
        }
    }

    /// Takes registers for the results of an instruction, where the one before it retires at a time; returns when they are free.
    #[inline(always)]
    pub(super) fn take(&mut self, results: Results, retired: u64) -> u64 {
        let left = self.left - results.0;
        if left & GUARDS == GUARDS {
            self.left = left;
            return 0;
        }
        self.begin(results, retired)
    }

    /// The same where a group ends: the next one has the registers of the oldest.
    #[inline(never)]
    fn begin(&mut self, results: Results, retired: u64) -> u64 {
        let mut free = 0;
        for (kind, groups) in self.groups.iter_mut().enumerate() {
            let lane = kind as u32 * LANE_BITS;
            let of = |lanes: u32| (lanes >> lane) & ((GUARDS & 0xffff) - 1);
            if of(self.left) < of(results.0) {
                groups.push(retired);
                free = free.max(groups.free());
                self.left += GROUP << lane;
            }
        }
        self.left -= results.0;
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    /// When so many instructions with results get their registers, of which each retires at a time that is its number and a thousand.
    fn taken(general: u32, vectors: u32, count: u64) -> Vec<u64> {
        let machine = spec::load("zen4").expect("a built-in machine");
        let own =
            DataflowSpec { registers: 40, vector_registers: 24, ..machine.core.dataflow.expect("a model") };
        let mut renaming = Renaming::new(&own);
        let results = Results(general | (vectors << LANE_BITS));
        (0..count).map(|number| renaming.take(results, 1_000 + number)).collect()
    }

    #[test]
    fn so_many_results_are_in_flight() {
        // The first forty wait for none, and each eight behind them for eight that have retired.
        let of_one: Vec<u64> =
            [0; 40].into_iter().chain((0..24).map(|at| if at % 8 == 0 { 1_008 + at } else { 0 })).collect();
        assert_eq!(taken(1, 0, 64), of_one);
        assert_eq!(taken(0, 0, 10_000), [0; 10_000]);
        let first = |taken: Vec<u64>| taken.iter().position(|free| *free > 0);
        assert_eq!(
            [taken(2, 0, 64), taken(0, 1, 64), taken(2, 1, 64), taken(8, 0, 64)].map(first),
            [20, 24, 20, 5].map(Some)
        );
    }

    #[test]
    fn copies_zeros_and_flags_take_no_register() {
        let machine = spec::load("zen4").expect("a built-in machine");
        let own = machine.core.dataflow.expect("a model");
        let results = |spec: &DataflowSpec, bytes: &[u8]| {
            let block = pagewalk_code::Block::of_x86_64(0, bytes);
            let instruction = &block.instructions[0];
            Results::of(instruction, instruction.writes, &Files::new(Isa::X86_64, spec)).0
        };
        // add %rcx, %rax; mov (%rcx), %rax; div %rcx; paddd %xmm1, %xmm0; push %rax
        let some: [&[u8]; 5] = [
            &[0x48, 0x01, 0xc8],
            &[0x48, 0x8b, 0x01],
            &[0x48, 0xf7, 0xf1],
            &[0x66, 0x0f, 0xfe, 0xc1],
            &[0x50],
        ];
        assert_eq!(some.map(|bytes| results(&own, bytes)), [1, 1, 2, 1 << LANE_BITS, 0]);
        // mov %rcx, %rax; xor %eax, %eax; cmp %rcx, %rax; movaps %xmm1, %xmm0
        let none: [&[u8]; 4] = [&[0x48, 0x89, 0xc8], &[0x31, 0xc0], &[0x48, 0x39, 0xc8], &[0x0f, 0x28, 0xc1]];
        assert_eq!(none.map(|bytes| results(&own, bytes)), [0; 4]);
        for other in [DataflowSpec { registers: 0, ..own.clone() }, DataflowSpec { is_in_order: true, ..own }]
        {
            assert_eq!(results(&other, some[0]), 0);
        }
    }
}
