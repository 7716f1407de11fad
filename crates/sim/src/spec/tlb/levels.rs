//! The TLB levels of a machine file.

use pagewalk_vm::addr::{Granule, PageSize};
use pagewalk_vm::sets::Indexing;
use pagewalk_vm::tlb::Inclusion;

use super::ARRAYS;
use super::array::{Geometry, INDEXINGS, REPLACEMENTS, Replacement, TlbArraySpec};
use crate::spec::error::Diagnostic;
use crate::spec::geometry::{Misfit, Sets, check_ways};
use crate::spec::key::{Key, MAX_WAYS, Names, Presence, Shape};
use crate::spec::resolver::Levels;
use crate::spec::section::{MILLISECOND_PS, Resolver, Table, Words, section};

static INCLUSIONS: Words<Inclusion> = Words(&[
    ("neither", Inclusion::Neither, "a miss fills this level, too, and each level evicts as it likes"),
    (
        "exclusive",
        Inclusion::Exclusive,
        "this level takes what the level above evicts and nothing else, and an entry that hits moves up",
    ),
]);

/// Whether all cores share a level.
static SHARINGS: Words<bool> =
    Words(&[("private", false, "each core has its own"), ("shared", true, "all cores share one")]);

/// What all levels have beside their arrays.
struct Common {
    latency_ps: u64,
    is_shared: bool,
    inclusion: Inclusion,
    stores: Option<TlbArraySpec>,
}

section! {
    fn common(table, resolver, level: &str) -> Common;
    const COMMON {
        latency_ps = "latency" time(MILLISECOND_PS) or "\"0 cycles\"", "extra time of a hit, beyond what the pipeline hides";
        is_shared = "sharing" word(&SHARINGS) or "\"private\"", "whether all cores share the level; never l1, and a level behind a shared one is shared";
        inclusion = "inclusion" word(&INCLUSIONS) or "\"neither\"", "what the level holds of the entries of the level above it; `exclusive` needs entries of one page, and the page sizes of that level";
        stores = "stores" any_of(&[], &ARRAYS), "in l1, an array of its own for stores, of all page sizes; the others are then for loads";
    }
    {
        let stores = match stores? {
            None => None,
            Some(own) if level != "l1" => {
                let message = format!("TLB `{level}`: only the first level has an array of its own for stores");
                return resolver.refuse_section(own, message, "write it in [tlb.l1], or leave it out");
            }
            Some(own) => Some(whole_array("l1.stores", own, resolver)?),
        };
        Some(Common { latency_ps: latency_ps?, is_shared: is_shared?, inclusion: inclusion?, stores })
    }
}

/// The array of a first level for some accesses, which holds 4 KiB pages at least.
pub(in crate::spec) fn whole_array(
    name: &str,
    table: &Table,
    resolver: &mut Resolver<'_>,
) -> Option<TlbArraySpec> {
    let subject = &*format!("TLB `{name}`");
    let Array { spec, table } = array(subject, "", table, resolver)?;
    if !spec.kind.holds(PageSize::Size4K) {
        let message = format!("{subject}: the array does not hold 4KiB pages");
        return resolver.refuse(message, "add \"4KiB\" to its `pages`", table, &["pages"]);
    }
    Some(spec)
}

/// A level.
pub(in crate::spec) static LEVEL: Shape =
    Shape::Variants { common: COMMON, variants: &(&ARRAYS, SPLIT), default: None };
const SPLIT: &[Key] = &[Key {
    name: "split",
    shape: Shape::Named { names: Names::Free(8), noun: "TLB array", each: &ARRAY },
    presence: Presence::Variant,
    meaning: "several arrays under free names, looked up in parallel, each page size in one of them",
}];
static ARRAY: Shape = Shape::Variants { common: &[], variants: &ARRAYS, default: None };

/// One TLB level: one or more arrays looked up in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct TlbLevelSpec {
    /// Extra time of a hit at this level, beyond what the pipeline hides; zero for the first level as a rule.
    pub latency_ps: u64,
    /// Whether all cores share the level.
    pub is_shared: bool,
    /// The relation of the level's entries to those of the level above it.
    pub inclusion: Inclusion,
    /// In the first level, the array for stores, if that for loads is another.
    pub stores: Option<TlbArraySpec>,
    /// The arrays, which are looked up in parallel. Each page size is held by at most one array of a level.
    pub arrays: Vec<TlbArraySpec>,
}

impl TlbLevelSpec {
    /// Returns all arrays of the level, that for stores included.
    pub fn all_arrays(&self) -> impl Iterator<Item = &TlbArraySpec> {
        self.arrays.iter().chain(&self.stores)
    }

    /// Returns whether the level takes what the level above it evicts, and nothing else.
    pub fn is_exclusive(&self) -> bool {
        self.inclusion == Inclusion::Exclusive
    }
}

/// The levels, nearest the core first.
pub(in crate::spec) fn levels(levels: Levels<'_>, resolver: &mut Resolver<'_>) -> Option<Vec<TlbLevelSpec>> {
    let specs: Vec<_> = levels.tables.iter().map(|(name, table)| level(name, table, resolver)).collect();
    let mut above = None;
    for ((name, table), spec) in levels.tables.iter().zip(&specs) {
        let Some(spec) = spec else { break };
        check_sharing(name, table, above, spec, resolver);
        if spec.inclusion == Inclusion::Exclusive {
            check_exclusive(name, table, above, spec, resolver);
        }
        above = Some(spec);
    }
    specs.into_iter().collect::<Option<_>>().filter(|_| levels.is_whole)
}

fn level(name: &str, table: &Table, resolver: &mut Resolver<'_>) -> Option<TlbLevelSpec> {
    let mut arrays = Vec::new();
    match table.table("split") {
        Some(split) => {
            for (array_name, array_table) in split.tables() {
                let subject = format!("TLB `{name}.{array_name}`");
                arrays.push(array(&subject, array_name, array_table, resolver));
            }
            if split.nodes.is_empty() && !split.is_broken {
                let message = format!("TLB `{name}`: split into no arrays");
                let help = format!("add [tlb.{name}.split.NAME.set-associative]");
                return resolver.refuse_section(split, message, help);
            }
            if split.is_broken {
                return None;
            }
        }
        None => arrays.push(array(&format!("TLB `{name}`"), "", table, resolver)),
    }
    let Common { latency_ps, is_shared, inclusion, stores } = common(table, resolver, name)?;
    let arrays: Vec<Array<'_>> = arrays.into_iter().collect::<Option<_>>()?;
    check_pages(name, table, &arrays, resolver)?;
    let arrays = arrays.into_iter().map(|array| array.spec).collect();
    Some(TlbLevelSpec { latency_ps, is_shared, inclusion, stores, arrays })
}

/// An array with the table that says which pages it holds.
struct Array<'t> {
    spec: TlbArraySpec,
    table: &'t Table,
}

fn array<'t>(subject: &str, name: &str, table: &'t Table, resolver: &mut Resolver<'_>) -> Option<Array<'t>> {
    let draft = ARRAYS.resolve(table, resolver)?;
    let (_, table) = ARRAYS.chosen(table)?;
    let geometry = draft.geometry.and_then(|geometry| check_geometry(subject, table, geometry, resolver));
    let replacement = draft.eviction?.policy;
    if let Some(Geometry { ways: Some(ways), .. }) = geometry {
        check_replacement(subject, table, replacement, ways, resolver);
    }
    let kind = match draft.kind? {
        Ok(kind) => kind,
        Err((key, wrong)) => {
            return resolver.refuse(format!("{subject}: {}", wrong.message), wrong.help, table, &[key]);
        }
    };
    let Geometry { entries, ways, indexing } = geometry?;
    let name = name.to_owned();
    Some(Array { spec: TlbArraySpec { name, entries, ways: ways?, indexing, replacement, kind }, table })
}

/// Entries, ways and a choice of sets that go together; `"full"` becomes as many ways as entries.
fn check_geometry(
    subject: &str,
    table: &Table,
    geometry: Geometry,
    resolver: &mut Resolver<'_>,
) -> Option<Geometry> {
    let Geometry { entries, ways, indexing } = geometry;
    let ways = ways.unwrap_or(entries);
    if let Err(Misfit { message, help }) = check_ways(entries.into(), ways.into(), Sets::Any) {
        return resolver.refuse(format!("{subject}: {message}"), help, table, &["entries", "ways"]);
    }
    let sets = entries / ways;
    if indexing == Indexing::XorFold && (sets == 1 || !sets.is_power_of_two()) {
        let word = INDEXINGS.word(indexing);
        let message = format!("{subject}: {word} over {sets} set{}", if sets == 1 { "" } else { "s" });
        let help =
            format!("{word} needs a power of two of sets, 2 at least; write other ways, or \"modulo\"");
        return resolver.refuse(message, help, table, &["entries", "ways", "index"]);
    }
    Some(Geometry { ways: Some(ways), ..geometry })
}

fn check_replacement(
    subject: &str,
    table: &Table,
    policy: Replacement,
    ways: u32,
    resolver: &mut Resolver<'_>,
) {
    let is_bits = matches!(policy, Replacement::TreePlru | Replacement::Nru);
    if is_bits && u64::from(ways) > MAX_WAYS {
        let word = REPLACEMENTS.word(policy);
        let message = format!("{subject}: {word} over {ways} ways");
        let help = format!("above {MAX_WAYS} ways, replacement is \"lru\", \"fifo\" or \"random\"");
        resolver.refuse::<()>(message, help, table, &["ways", "replacement"]);
    } else if policy == Replacement::TreePlru && !ways.is_power_of_two() {
        let message = format!("{subject}: tree-plru over {ways} ways");
        let help = "its tree needs a power of two of ways; write another number of ways or \"lru\"";
        resolver.refuse::<()>(message, help, table, &["ways", "replacement"]);
    }
}

/// The shared levels are the last ones.
fn check_sharing(
    name: &str,
    table: &Table,
    above: Option<&TlbLevelSpec>,
    level: &TlbLevelSpec,
    resolver: &mut Resolver<'_>,
) -> Option<()> {
    if above.is_some_and(|above| above.is_shared && !level.is_shared) {
        // The value may be the default, which has no line.
        let message = format!("TLB `{name}`: private, behind a level that all cores share");
        let help = "write sharing = \"shared\" here, or \"private\" there";
        return resolver.refuse_section(table, message, help);
    }
    let (message, help) = match above {
        None if level.is_shared => ("the first level cannot be shared", "write sharing = \"private\""),
        Some(_) if level.is_shared && level.inclusion == Inclusion::Exclusive => (
            "shared, and so not exclusive of the levels of each core",
            "write inclusion = \"neither\", or sharing = \"private\"",
        ),
        _ => return Some(()),
    };
    resolver.refuse(format!("TLB `{name}`: {message}"), help, table, &["sharing"])
}

/// Entries can move between an exclusive level and the one above it.
fn check_exclusive(
    name: &str,
    table: &Table,
    above: Option<&TlbLevelSpec>,
    level: &TlbLevelSpec,
    resolver: &mut Resolver<'_>,
) -> Option<()> {
    let mut refuse = |why: String, help: &str| {
        let help = format!("{help}write inclusion = \"neither\"");
        resolver.refuse(format!("TLB `{name}`: {why}"), help, table, &["inclusion"])
    };
    let Some(above) = above else {
        return refuse("the first level cannot be exclusive: there is no level above it".to_owned(), "");
    };
    if above.stores.is_some() {
        let why = "exclusive, but a page may be in two arrays of the level above, for loads and for stores"
            .to_owned();
        return refuse(why, "leave `stores` out, or ");
    }
    let holds = |level: &TlbLevelSpec, size| level.arrays.iter().any(|array| array.kind.holds(size));
    if let Some(size) = PageSize::EVERY.into_iter().find(|&size| holds(above, size) != holds(level, size)) {
        let why = format!("exclusive, but only one of it and the level above holds {size} pages");
        return refuse(why, "give both levels the same `pages`, or ");
    }
    if above.arrays.iter().chain(&level.arrays).any(|array| array.kind.holds_runs()) {
        let why = "exclusive, but an array of it or of the level above holds runs of pages".to_owned();
        return refuse(why, "write set-associative or victim arrays, or ");
    }
    Some(())
}

/// Each page size in one array at most, and base pages in one.
fn check_pages(name: &str, table: &Table, arrays: &[Array<'_>], resolver: &mut Resolver<'_>) -> Option<()> {
    let mut is_right = true;
    for size in PageSize::EVERY {
        let holders: Vec<&Array<'_>> = arrays.iter().filter(|array| array.spec.kind.holds(size)).collect();
        if let [first, second, ..] = holders.as_slice() {
            let (one, two) = (&first.spec.name, &second.spec.name);
            let message = format!("TLB `{name}`: {size} pages are in `{one}` and in `{two}`");
            let at = second.table.leaf("pages").map_or(&second.table.origin, |pages| &pages.origin);
            let help = "each page size is held by one array of a level; a mosaic or coalesced array holds 4KiB pages";
            resolver.errors.push(Diagnostic::new(at, message).help(help));
            is_right = false;
        }
    }
    let holds_base = |array: &Array<'_>| Granule::ALL.iter().any(|of| array.spec.kind.holds(of.base()));
    if !arrays.iter().any(holds_base) {
        let pages = arrays.iter().find_map(|array| array.table.leaf("pages"));
        let at = pages.map_or(&table.origin, |pages| &pages.origin);
        let message = format!("TLB `{name}`: no array holds 4KiB pages");
        let help = "every level holds 4KiB pages: add \"4KiB\" to the `pages` of an array";
        resolver.errors.push(Diagnostic::new(at, message).help(help));
        is_right = false;
    }
    is_right.then_some(())
}
