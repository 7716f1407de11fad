//! Radix trees.

use pagewalk_vm::table::{Geometry, Radix, WalkCache, X86_64, X86_64La57};

use crate::error::MachineError;
use crate::machine::assemble::{Built, assemble};
use crate::machine::simulate::Simulate;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::section;
use crate::spec::settings::{BuildRequest, TableDesign, TableKind};

section! {
    /// The x86-64 radix tree.
    pub struct RadixSpec {
        levels: u32 = "levels" integer(4, 5) or "4", "levels of the tree";
    }
    const VARIANT: TableKind =
        "radix", "the x86-64 radix tree";
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

    fn build(&self, request: &BuildRequest<'_>) -> Result<Box<dyn Simulate>, MachineError> {
        match self.levels {
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
