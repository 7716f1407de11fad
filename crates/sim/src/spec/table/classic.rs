//! Hash tables of the old kinds.

use std::fmt;
use std::marker::PhantomData;

use pagewalk_vm::table::classic::{Chained, Classic, ClassicDesign, ClusterTable, NoCaches, OpenAddressing};

use crate::machine::assemble::Built;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::{Key, MILLISECOND_PS, Variant, section};
use crate::spec::settings::{Assembly, TableDesign, TableKind};

/// A hashed page table without cuckoo hashing: a table `C` for each page size.
#[derive(Debug)]
pub struct ClassicSpec<C> {
    /// The parameters of the table.
    pub design: ClassicDesign,
    /// From a page's number to the first address.
    pub latency_ps: u64,
    /// Where a cluster goes whose slot is taken.
    kind: PhantomData<fn() -> C>,
}

pub(super) const OPEN_ADDRESSING: Variant<TableKind> = Variant {
    key: Key::variant(
        "open-addressing",
        KEYS,
        "a hash table with linear probing for each page size, tried one after the other; 8 entries a slot",
    ),
    resolve: |table, resolver| Some(resolve(table, resolver)?.of::<OpenAddressing>()),
};

pub(super) const CHAINED: Variant<TableKind> = Variant {
    key: Key::variant(
        "chained",
        KEYS,
        "a hash table with chains for each page size, tried one after the other; 4 entries a node",
    ),
    resolve: |table, resolver| Some(resolve(table, resolver)?.of::<Chained>()),
};

section! {
    fn resolve(table, resolver) -> Values;
    const KEYS {
        first_slots = "first-slots" integer(1, 1 << 30) or "512", "slots or buckets at first: a power of two";
        upsize_above = "upsize-above" integer(1, 95) or "60", "percent of slots or buckets with something in them above which the table is rebuilt at twice its size";
        latency_ps = "latency" time(MILLISECOND_PS) or "\"2 cycles\"", "from a page's number to the first address: the hash (timed runs)";
    }
    {
        let first_slots = first_slots?;
        if !first_slots.is_power_of_two() {
            let message = format!("first-slots: {first_slots} is not a power of two");
            let help = format!("write for example {}", first_slots.next_power_of_two());
            return resolver.refuse(message, help, table, &["first-slots"]);
        }
        let design = ClassicDesign { first_slots: first_slots as usize, upsize_above: upsize_above? * 10 };
        Some(Values { design, latency_ps: latency_ps? })
    }
}

/// The values of the keys, which both kinds have.
struct Values {
    design: ClassicDesign,
    latency_ps: u64,
}

impl Values {
    fn of<C: ClusterTable + fmt::Debug + 'static>(self) -> TableKind {
        ClassicSpec::<C> { design: self.design, latency_ps: self.latency_ps, kind: PhantomData }.into()
    }
}

impl<C: ClusterTable + fmt::Debug + 'static> TableDesign for ClassicSpec<C> {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::None
    }

    fn lookup_ps(&self) -> u64 {
        self.latency_ps
    }

    fn is_hashed(&self) -> bool {
        true
    }

    fn assembly(&self) -> Assembly {
        Assembly::of::<Classic<C>>()
    }
}

impl<C: ClusterTable + fmt::Debug + 'static> Built for Classic<C> {
    fn design(table: &TableKind) -> ClassicDesign {
        table.settings::<ClassicSpec<C>>().expect("its own settings").design.clone()
    }

    fn caches(_: &WalkCacheSpec) -> NoCaches {
        unreachable!("the machine file was checked")
    }
}
