//! Cuckoo hash tables.

use pagewalk_vm::table::cuckoo::{FirstWay, Policy, Scope};
use pagewalk_vm::table::hashed::{HashedDesign, HashedTable, WalkCaches};

use crate::machine::assemble::Built;
use crate::spec::core::{WalkCacheShape, WalkCacheSpec};
use crate::spec::section::{MILLISECOND_PS, Words, section};
use crate::spec::settings::{Assembly, TableDesign, TableKind};
use crate::spec::value;

/// A hashed page table: a cuckoo table for each page size.
#[derive(Clone, Debug, PartialEq)]
pub struct HashedSpec {
    /// The parameters of the table.
    pub design: HashedDesign,
    /// From a page's number to the addresses of its slots: hash and chunk table.
    pub latency_ps: u64,
}

/// What grows together, given how many ways may at once.
static RESIZES: Words<fn(usize) -> Scope> = Words(&[
    ("table", |_| Scope::Table, "all ways together"),
    ("way", |at_once| Scope::Way { at_once }, "a way by itself"),
]);
/// Whether a table of the new size is where the old one is.
static NEW_SIZES: Words<bool> =
    Words(&[("elsewhere", false, "another array"), ("in-place", true, "the same array")]);
static FIRST_WAYS: Words<FirstWay> = Words(&[
    ("any", FirstWay::Uniform, "each as likely"),
    ("by-free-slots", FirstWay::ByFreeSlots, "in proportion to free slots"),
]);
/// Whether lines are hashed by CRC.
static HASHES: Words<bool> =
    Words(&[("mixed", false, "by multiplication"), ("crc", true, "by a CRC, as hardware does")]);

section! {
    fn resolve(table, resolver) -> HashedSpec;
    const KEYS {
        ways = "ways" integer(2, 4) or "3", "ways, each with a hash of its own";
        first_slots = "first-slots" integer(1, 1 << 20) or "128", "lines of a way at first, and the fewest: a power of two";
        resizes = "resizes" word(&RESIZES) or "\"way\"", "what grows and shrinks: the table, or a way that is no larger than any other";
        at_once = "at-once" integer(1, 4) or "1", "ways that may resize at the same time, with `resizes = \"way\"`";
        in_place = "new-size" word(&NEW_SIZES) or "\"in-place\"", "where a resize puts lines: another array hashed anew, or the same with one bit of the hash more or less";
        first_way = "first-way" word(&FIRST_WAYS) or "\"by-free-slots\"", "the way that a new line tries first: any, or in proportion to free slots";
        chunk_bytes = "chunks" sizes(4_096, 1 << 30, 8) or "[\"8KiB\", \"1MiB\", \"8MiB\", \"64MiB\"]", "sizes of the pieces that a way is made of, powers of two; \"whole\" if it is one piece of any size";
        upsize_above = "upsize-above" integer(1, 95) or "60", "percent of slots in use above which to grow";
        downsize_below = "downsize-below" integer(0, 47) or "20", "percent of slots in use below which to shrink; 0 for never";
        growth = "growth" integer(2, 16) or "2", "how many times larger a table gets";
        steps = "steps" integer(1, 64) or "2", "slots of a resize that every insertion and removal visits; with 1 and doubling, tables fill up";
        crc = "hash" word(&HASHES) or "\"crc\"", "how lines are hashed";
        latency_ps = "latency" time(MILLISECOND_PS) or "\"4 cycles\"", "from a page's number to its slots: hash and chunk table, beside the walk caches' look-up (timed runs)";
    }
    {
        let in_place = in_place?;
        let policy = Policy {
            ways: ways? as usize,
            first_slots: first_slots? as usize,
            upsize_above: upsize_above? * 10,
            downsize_below: downsize_below? * 10,
            growth: growth? as usize,
            steps: steps?,
            scope: resizes?(at_once? as usize),
            in_place,
            rekey: !in_place,
            first_way: first_way?,
            ..Policy::ELASTIC
        };
        let chunk_bytes = chunk_bytes?;
        if let Err(wrong) = policy.check() {
            let field = wrong.field.replace('_', "-");
            let value = value::write(&table.leaf(&field)?.value);
            let message = format!("hashed table: `{field} = {value}` is impossible here");
            let help = format!("allowed: {}", wrong.allowed.replace('_', "-"));
            return resolver.refuse(message, help, table, &[&field]);
        }
        Some(HashedSpec { design: HashedDesign { policy, chunk_bytes, crc: crc? }, latency_ps: latency_ps? })
    }
    const VARIANT: TableKind =
        "hashed", "cuckoo hash tables, one for each page size, of 64-byte lines of eight entries (ECPT, ME-HPT)";
}

impl TableDesign for HashedSpec {
    fn walk_caches(&self) -> WalkCacheShape {
        WalkCacheShape::WalkTables
    }

    fn lookup_ps(&self) -> u64 {
        self.latency_ps
    }

    fn is_hashed(&self) -> bool {
        true
    }

    fn assembly(&self) -> Assembly {
        Assembly::of::<HashedTable>()
    }
}

impl Built for HashedTable {
    fn design(table: &TableKind) -> HashedDesign {
        table.settings::<HashedSpec>().expect("its own settings").design.clone()
    }

    fn caches(spec: &WalkCacheSpec) -> WalkCaches {
        WalkCaches::new(spec.entries[1], spec.entries[0], spec.by_section)
            .expect("the machine file was checked")
    }
}
