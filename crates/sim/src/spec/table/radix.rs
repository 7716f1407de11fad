//! Radix trees.

use pagewalk_vm::table::{Geometry, Radix, WalkCache, X86_64, X86_64La57};

use crate::machine::assemble::{Assembly, Built};
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::section;
use crate::spec::settings::{TableDesign, TableKind};

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

    fn assembly(&self) -> Assembly {
        match self.levels {
            5 => Assembly::of::<Radix<X86_64La57>>(),
            _ => Assembly::of::<Radix<X86_64>>(),
        }
    }
}

impl<G: Geometry + Send + 'static> Built for Radix<G> {
    fn design(_: &TableKind) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        WalkCache::new::<G>(&spec.entries, spec.ways).expect("the machine file was checked")
    }
}
