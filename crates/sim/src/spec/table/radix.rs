//! Radix trees.

use std::ops::RangeInclusive;

use pagewalk_trace::Access;
use pagewalk_vm::addr::Granule;
use pagewalk_vm::table::{Arm16K, Arm64K, Geometry, Levels, Radix, WalkCache, X86_64};

use crate::machine::assemble::Built;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::{Words, section};
use crate::spec::settings::{Assembly, ProgramSpace, TableDesign, TableKind};

static GRANULES: Words<Granule> = Words(&[
    ("4KiB", Granule::Size4K, "x86-64 and RISC-V: 9 index bits a level, 3 to 5 levels"),
    ("16KiB", Granule::Size16K, "Arm: 11 index bits a level, 3 or 4 levels, large pages of 32 MiB"),
    ("64KiB", Granule::Size64K, "Arm: 13 index bits a level, 2 or 3 levels, large pages of 512 MiB"),
]);

/// The radix tree of x86-64, of RISC-V and of Arm.
#[derive(Clone, Debug, PartialEq)]
pub struct RadixSpec {
    /// Levels of the tree.
    pub levels: u32,
    /// The size of base pages and of nodes.
    pub granule: Granule,
}

section! {
    fn resolve(table, resolver) -> RadixSpec;
    const KEYS {
        levels = "levels" integer(2, 5) or "4",
            "levels of the tree: 3 of Sv39, 4 of x86-64 and Sv48, 5 of LA57 and Sv57; a program has 256 GiB of addresses with 3, \
             and 4 TiB with 2 of 64KiB, to which its own are relocated";
        granule = "granule" word(&GRANULES) or "\"4KiB\"", "the size of base pages and of the tree's nodes";
    }
    {
        let (levels, granule) = (levels?, granule?);
        let allowed = levels_of(granule);
        if !allowed.contains(&levels) {
            let message = format!("radix table: no tree of {levels} levels with a granule of {}", granule.base());
            let help = format!("this granule goes with {} to {} levels", allowed.start(), allowed.end());
            return resolver.refuse(message, help, table, &["granule", "levels"]);
        }
        Some(RadixSpec { levels, granule })
    }
    const VARIANT: TableKind =
        "radix", "the radix tree of x86-64, of RISC-V and of Arm";
}

/// Returns the numbers of levels that architectures have with a granule.
fn levels_of(granule: Granule) -> RangeInclusive<u32> {
    match granule {
        Granule::Size4K => 3..=5,
        Granule::Size16K => 3..=4,
        Granule::Size64K => 2..=3,
    }
}

impl TableDesign for RadixSpec {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::Levels(self.levels as usize - 1)
    }

    fn granule(&self) -> Granule {
        self.granule
    }

    fn can_be_guests(&self) -> bool {
        true
    }

    fn maps_files(&self) -> bool {
        self.levels == 4 && self.granule == Granule::Size4K
    }

    /// With a granule of 4 KiB, the upper half of the addresses belongs to the kernel; Arm has another table for it.
    fn program_space(&self) -> Option<ProgramSpace> {
        let page_shift = self.granule.base().shift();
        let bits = page_shift + self.levels * (page_shift - 3);
        let program_bits = if self.granule == Granule::Size4K { bits - 1 } else { bits };
        (bits < Access::ADDR_BITS).then_some(ProgramSpace { levels: self.levels, bytes: 1 << program_bits })
    }

    fn assembly(&self) -> Assembly {
        // RISC-V's entries hold as much as those of x86-64, in other bits: what a machine counts does not show which.
        match self.granule {
            Granule::Size4K => Assembly::of::<Radix<X86_64>>(),
            Granule::Size16K => Assembly::of::<Radix<Arm16K>>(),
            Granule::Size64K => Assembly::of::<Radix<Arm64K>>(),
        }
    }
}

impl<G: Geometry + Send + 'static> Built for Radix<G> {
    fn design(table: &TableKind) -> Levels {
        match table.walk_caches() {
            WalkCacheShape::Levels(above_leaves) => Levels(above_leaves as u32 + 1),
            other => unreachable!("a radix table with walk caches of {other:?}"),
        }
    }

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        WalkCache::new::<G>(&spec.entries, spec.ways).expect("the machine file was checked")
    }
}
