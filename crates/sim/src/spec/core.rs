//! The core model of a machine file, its page walkers and walk caches.

use super::error::{Diagnostic, Origin};
use super::geometry::{Misfit, Sets, check_ways};
use super::key::MAX_WAYS;
use super::quantity;
use super::section::{MILLISECOND_PS, Resolver, Table, Words, section};
use super::tree::Value;

section! {
    /// The core model (timed runs; the count also shapes counts runs).
    pub struct CoreSpec {
        count: u32 = "count" integer(1, 256) or "1", "cores; threads are placed round-robin";
        cycle_ps: u64 = "frequency" frequency(10_000_000, 20_000_000_000) or "\"3 GHz\"" as quantity::cycle_ps,
            "clock; a cycle is rounded to a whole picosecond";
        width: u32 = "width" integer(1, 64) or "6", "instructions dispatched and retired per cycle";
        window: u32 = "window" integer(1, 65_536) or "512", "reorder-buffer entries, at least `width`; of an in-order core with `core.dataflow`, instructions that wait to begin";
        outstanding: u32 = "outstanding" integer(1, 4_096) or "16", "outstanding cache misses (MSHRs)";
        dataflow: Option<DataflowSpec> = "dataflow" part(DataflowSpec),
            "the core executes the program's instructions, each of which waits for those that it depends on, where the source says which \
             blocks of instructions are executed; without this table, and for other sources, accesses wait only for the window";
    }
}

static DEPENDENCES: Words<bool> = Words(&[
    ("followed", true, "an instruction waits for its source registers"),
    ("ignored", false, "it waits for its own loads only"),
]);

static ORDER: Words<bool> = Words(&[
    ("out-of-order", false, "as soon as it can"),
    ("in-order", true, "not before the instruction in front of it"),
]);

static BRANCHES: Words<bool> = Words(&[
    ("predicted", true, "right or wrong"),
    ("known", false, "every branch is foreseen, and costs nothing"),
]);

static UNITS_LIMITED: Words<bool> =
    Words(&[("limited", true, "as the numbers below"), ("unlimited", false, "one is always free")]);

section! {
    /// The dataflow model of a core.
    pub struct DataflowSpec {
        is_in_order: bool = "order" word(&ORDER) or "\"out-of-order\"", "when an instruction begins; it ends when it is done, so that others go on behind a load until one needs it";
        are_dependences_followed: bool = "dependences" word(&DEPENDENCES) or "\"followed\"", "dependences through registers";
        are_branches_predicted: bool = "branches" word(&BRANCHES) or "\"predicted\"", "conditional and indirect branches, and returns";
        are_units_limited: bool = "units" word(&UNITS_LIMITED) or "\"limited\"", "execution units";
        fetch_width: u32 = "fetch-width" integer(1, 64) or "8", "instructions that the front end takes per cycle, up to a taken branch; `width` at least";
        retire_width: u32 = "retire-width" integer(1, 64) or "8", "instructions retired per cycle";
        store_buffer: u32 = "store-buffer" integer(1, 1_000) or "64", "stores that have not reached the first cache yet";
        misprediction: u32 = "misprediction" integer(0, 1_000) or "16",
            "cycles from the end of a branch that was predicted wrongly to the dispatch of the right way";
        complex_address: u32 = "complex-address" integer(0, 100) or "1",
            "cycles that a load or a store takes longer whose address has a scaled index, or a base, an index and a displacement";
        load_units: u32 = "load-units" integer(1, 8) or "3", "loads per cycle";
        vector_load_units: u32 = "vector-load-units" integer(1, 8) or "2", "of these, loads to vector and floating-point registers";
        store_units: u32 = "store-units" integer(1, 8) or "2", "stores per cycle";
        vector_store_units: u32 = "vector-store-units" integer(1, 8) or "1", "of these, stores of vector and floating-point registers";
        drain: u32 = "drain" integer(1, 8) or "2", "stores to one line that leave the store buffer in a cycle, one behind the other";
        integer_units: u32 = "integer-units" integer(1, 8) or "4", "operations on general registers per cycle";
        shift_units: u32 = "shift-units" integer(1, 8) or "2", "of these, shifts, bit tests, and moves that depend on the flags";
        branch_units: u32 = "branch-units" integer(1, 8) or "2", "branches per cycle; only the last of them may be taken";
        multiply_units: u32 = "multiply-units" integer(1, 8) or "1", "multiplications of general registers per cycle";
        vector_units: u32 = "vector-units" integer(1, 8) or "4", "operations on vectors and floating-point numbers per cycle";
        float_units: u32 = "float-units" integer(1, 8) or "2", "of these, additions and comparisons of floating-point numbers";
        float_multiply_units: u32 = "float-multiply-units" integer(1, 8) or "2", "of these, multiplications of floating-point numbers";
        shuffle_units: u32 = "shuffle-units" integer(1, 8) or "2", "of these, permutations, shifts, conversions, and multiplications of integers";
        cross_units: u32 = "cross-units" integer(1, 8) or "1", "of these, transfers between vectors and general registers or flags";
    }
}

/// The window holds a cycle's instructions.
pub(super) fn check_core(table: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    let (width, window) = (table.integer("width")?, table.integer("window")?);
    if window < width {
        let message = format!("core: a window of {window} is smaller than the width of {width}");
        let is_default = matches!(table.leaf("window")?.origin, Origin::Default);
        let at = table.leaf(if is_default { "width" } else { "window" })?;
        let help = "the window holds at least one cycle's instructions";
        resolver.errors.push(Diagnostic::new(&at.origin, message).help(help));
    }
    Some(())
}

/// By word, the number of the cache level.
static ENTERS: Words<u32> =
    Words(&[("l1", 1, "first"), ("l2", 2, "second"), ("l3", 3, "third"), ("l4", 4, "fourth")]);

section! {
    /// The page walkers of a core.
    pub struct WalkerSpec {
        count: u32 = "count" integer(1, 64) or "1", "walks under way at once, per core";
        enters: u32 = "enters" word(&ENTERS) or "\"l1\"", "the cache level that a walk's references enter";
    }
}

/// Walks enter one of so many cache levels.
pub(super) fn check_walker(table: &Table, caches: usize, resolver: &mut Resolver<'_>) -> Option<()> {
    let enters = ENTERS.value(table, "enters")?;
    // Without caches, walks go to memory; the default must do for such a machine too.
    let levels = caches.max(1) as u32;
    if enters > levels {
        let message = format!("walks enter `l{enters}`, but there are {caches} cache levels");
        let help = match levels {
            1 => "write \"l1\"".to_owned(),
            _ => format!("write \"l1\" to \"l{levels}\""),
        };
        resolver.refuse::<()>(message, help, table, &["enters"]);
    }
    Some(())
}

/// The page-walk caches: one small cache per non-leaf level.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkCacheSpec {
    /// Entries by level, root first: `[4, 4, 32]` is 4 for the root's entries and 32 for those that point to
    /// leaf tables. As many as the table has non-leaf levels; 0 leaves a level out. Of a hashed table: the PUD
    /// walk table's, the PMD walk table's.
    pub entries: Vec<u32>,
    /// Ways; none means fully associative.
    pub ways: Option<u32>,
    /// Time of a look-up, all levels in parallel.
    pub latency_ps: u64,
    /// For hashed tables: whether an entry is one section (16 MiB, 8 GiB) and not a line of 64.
    pub by_section: bool,
}

/// The walk caches that a page table can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkCacheShape {
    /// The walk reads nothing that a cache could hold.
    None,
    /// One cache for each of so many levels above the last.
    Levels(usize),
    /// The PUD's and the PMD's walk table of a hashed table, fully associative.
    WalkTables,
}

/// Whether an entry of a hashed table's walk caches is a section.
static UNITS: Words<bool> =
    Words(&[("line", false, "a line of 64 sections"), ("section", true, "one section")]);

section! {
    /// The walk caches.
    pub(super) fn walk_cache(table, resolver, tree: &Table, shape: Option<WalkCacheShape>) -> WalkCacheSpec;
    pub(super) const WALK_CACHE {
        entries = "entries" integers(4_096, 8), "entries per level of the table but the last, root first, 0 to leave one out; one number for all; for hashed tables, those of the PUD and of the PMD walk table";
        ways = "ways" ways(MAX_WAYS) or "\"full\"", "ways of each level's cache";
        latency_ps = "latency" time(MILLISECOND_PS) or "\"0 cycles\"", "time of a look-up, all levels in parallel";
        by_section = "unit" word(&UNITS) or "\"line\"", "for hashed tables: whether an entry is a line of 64 sections or one (16 MiB, 8 GiB)";
    }
    {
        let shape = shape?;
        let wanted = match shape {
            WalkCacheShape::None => {
                let help = "write walk-cache = \"none\" at the top, or leave the section out";
                return resolver.refuse("walk cache: this table has nothing to cache", help, table, &["entries"]);
            }
            WalkCacheShape::Levels(levels) => levels,
            WalkCacheShape::WalkTables => 2,
        };
        let entries_leaf = entries?;
        let entries: Vec<u32> = match &entries_leaf.value {
            Value::Integer(same) => vec![*same as u32; wanted],
            Value::Integers(list) => list.iter().map(|entries| *entries as u32).collect(),
            _ => return None,
        };
        if entries.len() != wanted {
            let count = entries.len();
            let (message, help) = match shape {
                WalkCacheShape::WalkTables => (
                    format!("walk cache: {count} numbers for the two walk tables of a hashed table"),
                    "list two numbers: the PUD cache's entries, the PMD cache's".to_owned(),
                ),
                _ => (
                    format!("walk cache: {count} levels for a table of {}", wanted + 1),
                    format!("list {wanted} numbers, root first: every level of the table but the last"),
                ),
            };
            let levels = tree.table("table")?.tables().next()?.1.leaf("levels");
            resolver.blame(message, help, &[("levels", levels), ("entries", Some(entries_leaf))]);
            return None;
        }
        let ways = ways?;
        let is_fixed = shape == WalkCacheShape::WalkTables;
        if is_fixed && (entries.contains(&0) || ways.is_some()) {
            let help = "give both caches entries, and leave `ways` out";
            let message = "walk cache: a hashed table has two, fully associative";
            return resolver.refuse(message, help, table, &["entries"]);
        }
        if entries.iter().all(|entries| *entries == 0) {
            let help = "leave the section out, or write walk-cache = \"none\"";
            return resolver.refuse("walk cache: no level has entries", help, table, &["entries"]);
        }
        for entries in entries.iter().filter(|entries| **entries > 0) {
            let ways = ways.unwrap_or(*entries);
            if let Err(Misfit { message, help }) = check_ways((*entries).into(), ways.into(), Sets::PowerOfTwo) {
                return resolver.refuse(format!("walk cache: {message}"), help, table, &["entries", "ways"]);
            }
        }
        Some(WalkCacheSpec { entries, ways, latency_ps: latency_ps?, by_section: by_section? })
    }
}
