//! Radix trees with tables of contents as leaves.

use pagewalk_vm::table::{Contents, Radix, WalkCache, X86_64Toc};

use crate::machine::assemble::Built;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::{Key, Variant};
use crate::spec::settings::{Assembly, TableDesign, TableKind};

/// A four-level radix tree whose leaf tables are tables of contents: codes for hash-placed frames (Mosaic).
#[derive(Debug)]
pub struct TocSpec;

pub(super) const VARIANT: Variant<TableKind> = Variant {
    key: Key::variant(
        "toc",
        &[],
        "a four-level radix tree whose leaves are tables of contents: two bytes a page, for hash-placed frames",
    ),
    resolve: |_, _| Some(TocSpec.into()),
};

impl TableDesign for TocSpec {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::Levels(3)
    }

    fn names_placed_frames(&self) -> bool {
        true
    }

    fn assembly(&self) -> Assembly {
        Assembly::of::<Contents>()
    }
}

impl Built for Contents {
    fn design(_: &TableKind) {}

    fn caches(spec: &WalkCacheSpec) -> WalkCache {
        Radix::<X86_64Toc>::caches(spec)
    }
}
