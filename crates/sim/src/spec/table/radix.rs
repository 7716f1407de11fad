//! Radix trees.

use pagewalk_vm::addr::PAGE_SHIFT;
use pagewalk_vm::table::{Geometry, Radix, Sv39, WalkCache, X86_64, X86_64La57};

use crate::error::MachineError;
use crate::machine::assemble::{Built, assemble};
use crate::machine::simulate::Simulate;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::section;
use crate::spec::settings::{BuildRequest, ProgramSpace, TableDesign, TableKind};

section! {
    /// The radix tree of x86-64 and of RISC-V.
    pub struct RadixSpec {
        levels: u32 = "levels" integer(3, 5) or "4",
            "levels of the tree: 3 of Sv39, 4 of x86-64 and Sv48, 5 of LA57 and Sv57; with 3, a program has 256 GiB of \
             addresses, to which its own are relocated";
    }
    const VARIANT: TableKind =
        "radix", "the radix tree of x86-64 and of RISC-V";
}

impl TableDesign for RadixSpec {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::Levels(self.levels as usize - 1)
    }

    fn maps_files(&self) -> bool {
        self.levels == 4
    }

    fn can_be_guests(&self) -> bool {
        true
    }

    /// The upper half of Sv39's addresses belongs to the kernel.
    fn program_space(&self) -> Option<ProgramSpace> {
        let half = 1 << (Sv39::end().0.ilog2() + PAGE_SHIFT - 1);
        (self.levels == 3).then_some(ProgramSpace { levels: 3, bytes: half })
    }

    fn build(&self, request: &BuildRequest<'_>) -> Result<Box<dyn Simulate>, MachineError> {
        match self.levels {
            3 => assemble::<Radix<Sv39>>(request),
            5 => assemble::<Radix<X86_64La57>>(request),
            _ => assemble::<Radix<X86_64>>(request),
        }
    }
}

impl<G: Geometry + Send + 'static> Built for Radix<G> {
    fn design(_: &TableKind) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        WalkCache::new::<G>(&spec.entries, spec.ways).expect("the machine file was checked")
    }
}
