//! The core model of a machine file, its page walkers and walk caches.

use super::error::{Diagnostic, Origin};
use super::geometry::{Misfit, Sets, check_ways};
use super::key::MAX_WAYS;
use super::quantity;
use super::section::{MILLISECOND_PS, Resolver, Table, Words, section};

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

static WRONG_WAYS: Words<bool> = Words(&[
    ("ignored", false, "nothing happens there"),
    ("followed", true, "what both ways have in common asks for its lines while the branch waits for memory"),
]);

static SCHEDULERS: Words<bool> = Words(&[
    ("shared", false, "an instruction waits for the first unit that is free"),
    (
        "own",
        true,
        "each unit of general registers has a scheduler, and vectors have two, of which each has a unit that adds and one that multiplies; \
         instructions enter those in turn that have a unit for them, and wait for this scheduler's units; loads and stores have places beside general registers",
    ),
]);

/// Units that may have schedulers of their own, and the most places that each of them has.
const MOST_SCHEDULERS: u32 = 4;
const MOST_PLACES: u32 = 120;

static UNITS_LIMITED: Words<bool> =
    Words(&[("limited", true, "as the numbers below"), ("unlimited", false, "one is always free")]);

section! {
    /// The dataflow model of a core.
    pub struct DataflowSpec {
        is_in_order: bool = "order" word(&ORDER) or "\"out-of-order\"", "when an instruction begins; it ends when it is done, so that others go on behind a load until one needs it";
        are_dependences_followed: bool = "dependences" word(&DEPENDENCES) or "\"followed\"", "dependences through registers";
        are_branches_predicted: bool = "branches" word(&BRANCHES) or "\"predicted\"", "conditional and indirect branches, and returns";
        are_wrong_ways_followed: bool = "wrong-ways" word(&WRONG_WAYS) or "\"ignored\"", "the way behind a branch that was predicted wrongly, until the branch is done; of out-of-order cores";
        are_units_limited: bool = "units" word(&UNITS_LIMITED) or "\"limited\"", "execution units";
        fetch_width: u32 = "fetch-width" integer(1, 64) or "8", "instructions that the front end takes per cycle, up to a taken branch; `width` at least";
        retire_width: u32 = "retire-width" integer(1, 64) or "8", "instructions retired per cycle";
        store_buffer: u32 = "store-buffer" integer(1, 1_000) or "64", "stores that have not reached the first cache yet";
        misprediction: u32 = "misprediction" integer(0, 1_000) or "16",
            "cycles from the end of a branch that was predicted wrongly to the dispatch of the right way";
        complex_address: u32 = "complex-address" integer(0, 100) or "1",
            "cycles that a load or a store takes longer whose address has a scaled index, or a base, an index and a displacement";
        scheduler: u32 = "scheduler" integer(0, 65_536) or "0", "instructions that wait for registers or a unit; 0: as many as the window";
        vector_scheduler: u32 = "vector-scheduler" integer(0, 65_536) or "0", "operations on vectors that wait so; 0: they have places of `scheduler`";
        have_schedulers_own_units: bool = "schedulers" word(&SCHEDULERS) or "\"shared\"", "whether they have units of their own";
        vector_queue: u32 = "vector-queue" integer(0, 65_536) or "0", "operations on vectors in front of `vector-scheduler`; where schedulers have their own units, these do not begin there";
        load_scheduler: u32 = "load-scheduler" integer(0, 65_536) or "0", "loads that wait so; 0: they have places of `scheduler`";
        registers: u32 = "registers" integer(0, 65_536) or "0", "results in general registers of instructions in flight, by eights; 0: as many as they have";
        vector_registers: u32 = "vector-registers" integer(0, 65_536) or "0", "results in vector and floating-point registers, by eights; 0: as many as they have";
        dispatched_operations: u32 = "dispatched-operations" integer(0, 64) or "0", "operations on general registers that are dispatched in a cycle; 0: as many as `width`";
        dispatched_accesses: u32 = "dispatched-accesses" integer(0, 64) or "0", "instructions that load or store, dispatched in a cycle; 0: as many as `width`";
        renamed_stores: u32 = "renamed-stores" integer(0, 64) or "10",
            "of so many last stores, the core foresees that a load gets its data from one whose address names the same registers, if they have not been written in between";
        foreseen_loads: u32 = "foreseen-loads" integer(0, 1_024) or "12",
            "other loads of which it remembers from which store they get their data, by the number of stores in between";
        memory_units: u32 = "memory-units" integer(1, 8) or "8", "loads and stores per cycle, together";
        load_units: u32 = "load-units" integer(1, 8) or "3", "loads per cycle";
        vector_load_units: u32 = "vector-load-units" integer(1, 8) or "2", "of these, loads to vector and floating-point registers";
        store_units: u32 = "store-units" integer(1, 8) or "2", "stores per cycle";
        vector_store_units: u32 = "vector-store-units" integer(1, 8) or "1", "of these, stores of vector and floating-point registers";
        prefetches: u32 = "prefetches" integer(1, 1_024) or "64", "lines that the prefetchers of a core wait for at once";
        line_fill: u32 = "line-fill" integer(0, 64) or "0", "cycles in which the first cache takes a line; 0 for any number of lines at once";
        set_fill: u32 = "set-fill" integer(0, 64) or "0",
            "cycles from one line that a set of the first cache takes to the next, which has as many under way as it has ways; 0 for any number of lines at once";
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
        slots: SlotsSpec = "slots" within(SlotsSpec), "slots of dispatch";
        latencies: LatenciesSpec = "latencies" within(LatenciesSpec), "cycles of operations";
        targets: Option<TargetsSpec> = "targets" part(TargetsSpec), "the branch target buffer; without it, the core knows where all branches are";
    }
}

section! {
    /// The slots of dispatch that instructions take, of which there are `core.width` in a cycle. Instructions that are not here take one.
    pub struct SlotsSpec {
        stored_result: u32 = "stored-result" integer(1, 8) or "1", "an operation whose result goes to memory, a copy from memory to memory, and a call";
        indexed: u32 = "indexed" integer(1, 8) or "1", "a store, or an operation with a load, of general registers, whose address has an index";
        three_part_address: u32 = "three-part-address" integer(1, 8) or "1", "an address of a base, an index and a displacement that is computed (`lea`)";
        cross: u32 = "cross" integer(1, 8) or "1", "a transfer from a general register to a vector, a conversion between them, a comparison of vectors that sets flags";
        stack_pointer: u32 = "stack-pointer" integer(1, 8) or "1", "an addition to the stack pointer or another operation on it; not of pushes and pops";
        compared_load: u32 = "compared-load" integer(1, 8) or "1", "a comparison with memory, together with the branch behind it";
        two_results: u32 = "two-results" integer(1, 8) or "1", "an operation with results in two general registers: a long product, a division, an exchange";
    }
}

impl SlotsSpec {
    /// Each instruction takes one slot.
    pub const ONE: Self = Self {
        stored_result: 1,
        indexed: 1,
        three_part_address: 1,
        cross: 1,
        stack_pointer: 1,
        compared_load: 1,
        two_results: 1,
    };
}

section! {
    /// The cycles of operations, from the operands to the result; an interval is how long one keeps its unit from the next. Operations that
    /// are not here take one cycle.
    pub struct LatenciesSpec {
        three_part_address: u32 = "three-part-address" integer(1, 200) or "2", "an address of a base, an index and a displacement that is computed (`lea`)";
        multiply: u32 = "multiply" integer(1, 200) or "3", "multiplication of general registers";
        divide: u32 = "divide" integer(1, 200) or "9", "division of general registers of 32 bits or fewer";
        divide_interval: u32 = "divide-interval" integer(1, 200) or "6", "interval of such divisions";
        long_divide: u32 = "long-divide" integer(1, 200) or "9", "division of general registers of 64 bits";
        long_divide_interval: u32 = "long-divide-interval" integer(1, 200) or "7", "interval of such divisions";
        float_add: u32 = "float-add" integer(1, 200) or "3", "addition of floating-point numbers";
        float_compare: u32 = "float-compare" integer(1, 200) or "1", "comparison of floating-point numbers";
        float_multiply: u32 = "float-multiply" integer(1, 200) or "3", "multiplication of floating-point numbers";
        fused_multiply_add: u32 = "fused-multiply-add" integer(1, 200) or "4", "multiplication and addition of floating-point numbers in one operation";
        float_divide: u32 = "float-divide" integer(1, 200) or "13", "division of floating-point numbers";
        float_divide_interval: u32 = "float-divide-interval" integer(1, 200) or "4", "interval of such divisions";
        square_root: u32 = "square-root" integer(1, 200) or "20", "square root of floating-point numbers";
        square_root_interval: u32 = "square-root-interval" integer(1, 200) or "9", "interval of square roots";
        convert: u32 = "convert" integer(1, 200) or "3", "conversion of a vector between number formats";
        vector_multiply: u32 = "vector-multiply" integer(1, 200) or "3", "multiplication of integers in vectors";
        cross: u32 = "cross" integer(1, 200) or "3", "transfer from general registers to vectors";
        cross_back: u32 = "cross-back" integer(1, 200) or "3", "transfer from vectors to general registers";
        cross_convert: u32 = "cross-convert" integer(1, 200) or "6", "conversion of a number in a general register to one in a vector";
        cross_convert_back: u32 = "cross-convert-back" integer(1, 200) or "6", "conversion of a number in a vector to one in a general register";
        crypto: u32 = "crypto" integer(1, 200) or "4", "step of a cipher or of a hash";
        atomic_interval: u32 = "atomic-interval" integer(1, 200) or "8", "interval of atomic operations";
        foreseen_forward: u32 = "foreseen-forward" integer(0, 200) or "0", "a store's data to a load of which the core foresees that it gets it";
        counter_forward: u32 = "counter-forward" integer(0, 200) or "1", "the same to an operation that loads, and stores to the same place";
        forward: u32 = "forward" integer(0, 200) or "6", "a store's data to any other load of all or some of its bytes";
        vector_forward: u32 = "vector-forward" integer(0, 200) or "8", "a store's data to a load of a vector";
        vector_load: u32 = "vector-load" integer(0, 200) or "0", "what a load of a vector takes beyond one of a general register, but from a store";
        barrier: u32 = "barrier" integer(1, 1_000) or "20", "barrier, pause, or flush of a cache line";
    }
}

/// The branches of a line that share an entry of the branch target buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// Two branches of any kind.
    Any,
    /// A conditional one and any that comes to be known behind it.
    BehindConditional,
    /// None: each has its own.
    None,
}

static PAIRS: Words<Pairs> = Words(&[
    ("any", Pairs::Any, "any two"),
    ("behind-conditional", Pairs::BehindConditional, "a conditional one and another that is known later"),
    ("none", Pairs::None, "each has an entry"),
]);

section! {
    /// The branch target buffer of a core, which knows the branches that were taken.
    pub struct TargetsSpec {
        entries: u32 = "entries" integer(1, 1_048_576) or "1024", "entries, of lines of 64 bytes; entries / ways is a power of two";
        ways: u32 = "ways" integer(1, MAX_WAYS) or "4", "ways of a set";
        pairs: Pairs = "pairs" word(&PAIRS) or "\"any\"", "the branches of a line that share an entry, at both levels";
        unknown: u32 = "unknown" integer(0, 1_000) or "14",
            "cycles in which nothing is fetched behind a jump, a call or a return that it does not know; other branches that are taken are mispredicted then";
        elsewhere: u32 = "elsewhere" integer(0, 1_000) or "1",
            "cycles in which nothing is fetched behind an indirect branch that does not go where it went last, or goes out of reach";
        reach: u32 = "reach" integer(12, 64) or "64",
            "bits: a target is in reach of an indirect branch if only so many low bits of their addresses differ; a program below 64 MiB and what lies above are out of reach of each other";
        far: Option<FarTargetsSpec> = "far" part(FarTargetsSpec), "a second level";
    }
}

section! {
    /// The second level of a branch target buffer.
    pub struct FarTargetsSpec {
        entries: u32 = "entries" integer(1, 1_048_576) or "6656", "entries; entries / ways is a power of two";
        ways: u32 = "ways" integer(1, MAX_WAYS) or "13", "ways of a set";
        latency: u32 = "latency" integer(0, 1_000) or "2", "cycles in which nothing is fetched behind a branch that the first level does not know";
    }
}

/// The window holds a cycle's instructions, and tables of branches are whole.
pub(super) fn check_core(table: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    check_targets(table, resolver);
    check_schedulers(table, resolver);
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

/// Schedulers that have units of their own are as large as each other.
fn check_schedulers(core: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    let table = core.section("dataflow")??;
    let of = |name| table.integer(name);
    let (places, units) = (of("scheduler")?, of("integer-units")?);
    let (vector_places, vector_units) = (of("vector-scheduler")?, of("vector-units")?);
    if !SCHEDULERS.value(table, "schedulers")? {
        return Some(());
    }
    let fits = |places: u32, schedulers: u32| {
        places > 0 && places.is_multiple_of(schedulers) && places / schedulers <= MOST_PLACES
    };
    if units > MOST_SCHEDULERS || !fits(places, units) {
        let message = format!("core.dataflow: {places} places for schedulers of {units} units");
        let help = format!(
            "{MOST_SCHEDULERS} units at most have schedulers, as large as each other and of {MOST_PLACES} places at most; or write `schedulers = \"shared\"`"
        );
        resolver.refuse::<()>(message, help, table, &["scheduler", "integer-units", "schedulers"]);
    }
    if vector_units != 4 || !fits(vector_places, 2) {
        let message = format!(
            "core.dataflow: {vector_places} places for two schedulers of {vector_units} units of vectors"
        );
        let help = format!(
            "they have four units, and are as large as each other, of {MOST_PLACES} places at most; or write `schedulers = \"shared\"`"
        );
        resolver.refuse::<()>(message, help, table, &["vector-scheduler", "vector-units", "schedulers"]);
    }
    Some(())
}

fn check_targets(core: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    let targets = core.section("dataflow")??.section("targets")??;
    for (name, table) in [("targets", Some(targets)), ("targets.far", targets.section("far")?)] {
        let Some(table) = table else { continue };
        let (entries, ways) = (table.integer("entries")?.into(), table.integer("ways")?.into());
        if let Err(Misfit { message, help }) = check_ways(entries, ways, Sets::PowerOfTwo) {
            let message = format!("core.dataflow.{name}: {message}");
            resolver.refuse::<()>(message, help, table, &["entries", "ways"]);
        }
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
        start_ps: u64 = "start" time(MILLISECOND_PS) or "\"0 cycles\"", "from the miss in the last TLB to the look into the walk caches";
        retry_ps: u64 = "retry" time(MILLISECOND_PS) or "\"0 cycles\"",
            "what each load that waits for a walker, from the fourth to the ninth, adds to a walk: it asks again and again; of a core that executes instructions";
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
        let entries = entries_leaf.integers(wanted)?;
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
