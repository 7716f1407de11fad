//! Radix trees.

use pagewalk_trace::SourceInfo;
use pagewalk_vm::table::{Geometry, Radix, WalkCache, X86_64, X86_64La57};

use crate::error::MachineError;
use crate::machine::assemble::{Built, assemble};
use crate::machine::simulate::{Detail, Simulate};
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::key::{Key, Presence};
use crate::spec::section::{Section, section};
use crate::spec::settings::{MachineSpec, TableDesign, TableKind};
use crate::spec::variant::Variant;

section! {
    /// The x86-64 radix tree.
    pub struct RadixSpec {
        levels: u32 = "levels" integer(4, 5) or "4", "levels of the tree";
    }
}

pub(super) const VARIANT: Variant<TableKind> = Variant {
    key: Key::table("radix", RadixSpec::KEYS, Presence::Variant, "the x86-64 radix tree"),
    resolve: |table, resolver| RadixSpec::resolve(table, resolver).map(TableKind::from),
};

impl TableDesign for RadixSpec {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::Levels(self.levels as usize - 1)
    }

    fn maps_files(&self) -> bool {
        self.levels == 4
    }

    fn build(
        &self,
        spec: &MachineSpec,
        detail: Detail,
        seed: u64,
        source: &SourceInfo,
    ) -> Result<Box<dyn Simulate>, MachineError> {
        match self.levels {
            5 => assemble::<Radix<X86_64La57>>(spec, detail, seed, source),
            _ => assemble::<Radix<X86_64>>(spec, detail, seed, source),
        }
    }
}

impl<G: Geometry + Send + 'static> Built for Radix<G> {
    fn design(_: &TableKind) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        WalkCache::new::<G>(&spec.entries, spec.ways).expect("the machine file was checked")
    }
}
