//! From a complete tree to a [`MachineSpec`]: units become numbers, and what must go together is checked.
//!
//! A function here answers nothing only when a mistake has been reported, here or by an earlier pass; the others
//! still run, so that a file's mistakes come together.

use std::sync::Arc;

use super::error::{Diagnostic, Diagnostics, Origin, SourceFile};
use super::geometry::{Misfit, check_cache, check_ways};
use super::options::{Leaf, Node, Table, Value};
use super::quantity::cycle_ps;
use super::schema::{
    ENTERS, FIRST_WAYS, HASHES, LEVELS, NEW_SIZES, RANGES, RESIZES, TABLE_HASHES, TRANSPARENT, UNITS,
};
use super::settings::{
    CacheSpec, ClassicKind, ClassicSpec, CoreSpec, FrameSpec, HashKind, HashedSpec, HugePagePolicy,
    MachineSpec, MemorySpec, ReclaimSpec, TableSpec, TlbLevelSpec, WalkCacheSpec, WalkerSpec,
};
use super::{paging, persistent, tiers, tlb, value};
use pagewalk_vm::addr::{PAGE_BYTES, PageSize};
use pagewalk_vm::frame::IcebergShape;
use pagewalk_vm::table::classic::ClassicDesign;
use pagewalk_vm::table::cuckoo::Policy;
use pagewalk_vm::table::hashed::HashedDesign;

/// Builds the machine; `file` is the one that the user named.
pub(super) fn machine(tree: &Table, file: &Arc<SourceFile>, errors: &mut Diagnostics) -> Option<MachineSpec> {
    let core = tree.table("core").and_then(|table| core(table, errors));
    // A broken clock must not hide what is wrong elsewhere.
    let cycle_ps = core.as_ref().map_or(1_000, |core| core.cycle_ps);
    let mut resolver = Resolver { file, cycle_ps, errors };

    let tlb = tlb::levels(tree, &mut resolver);
    let huge_pages = resolver.huge_pages(tree, tlb.as_deref());
    let table = resolver.table_kind(tree);
    let walk_cache = resolver.walk_cache(tree, table.as_ref());
    let frames = resolver.frames(tree);
    let reclaim = paging::reclaim(tree);
    let policy = reclaim.map(|(policy, _)| policy);
    let swap = paging::swap(tree, &mut resolver);
    let accelerator = paging::accelerator(tree, policy, &mut resolver);
    resolver.belong_together(tree, table.as_ref(), frames.as_ref(), policy.flatten(), huge_pages);
    let background = reclaim.map_or(0, |(_, background)| background);
    if background > 0
        && matches!(frames, Some(FrameSpec::Iceberg { .. }))
        && let Some(leaf) = tree.table("reclaim").and_then(|reclaim| reclaim.leaf("background"))
    {
        let message =
            "who leaves hash-placed frames depends on who comes: nothing can be kept free".to_owned();
        resolver.blame(
            message,
            "write background = 0, or [frames.buddy]".to_owned(),
            &[("background", leaf)],
        );
    }
    let kernel = paging::kernel(tree, &resolver);
    let caches = resolver.caches(tree);
    let walker = resolver.walker(tree, caches.as_deref());
    let memory = resolver.memory(tree, caches.as_deref());
    let mesh = tiers::mesh(tree, core.as_ref(), &mut resolver);
    let threads = tiers::threads(tree, &resolver);
    let dram = memory.as_ref().and_then(|memory| memory.dram.as_ref());
    let tier = tiers::tier(tree, dram, frames.as_ref(), &mut resolver);
    let memory_kept = persistent::memory(tree, &mut resolver);
    let files = persistent::files(tree, table.as_ref(), frames.as_ref(), &mut resolver);
    Some(MachineSpec {
        name: text(tree, "name")?,
        description: text(tree, "description")?,
        core: core?,
        tlb: tlb?,
        walk_cache: walk_cache?,
        table: table?,
        frames: frames?,
        reclaim: policy?,
        background_percent: reclaim?.1,
        swap: swap?,
        accelerator: accelerator?,
        huge_pages: huge_pages?,
        kernel: kernel?,
        caches: caches?,
        walker: walker?,
        memory: memory?,
        mesh: mesh?,
        tier: tier?,
        threads: threads?,
        persistent: memory_kept?,
        files: files?,
    })
}

/// What all sections need.
pub(super) struct Resolver<'a> {
    file: &'a Arc<SourceFile>,
    cycle_ps: u64,
    pub(super) errors: &'a mut Diagnostics,
}

/// The levels of a section that could be read.
pub(super) struct Levels<'t> {
    pub(super) tables: Vec<(&'static str, &'t Table)>,
    /// Whether these are all that the file means.
    pub(super) is_whole: bool,
}

fn core(table: &Table, errors: &mut Diagnostics) -> Option<CoreSpec> {
    let frequency = match table.leaf("frequency")?.value {
        Value::Frequency(hertz, _) => hertz,
        _ => return None,
    };
    let (width, window) = (table.leaf("width")?, table.leaf("window")?);
    let (width_count, window_count) = (count(width)?, count(window)?);
    if window_count < width_count {
        let message = format!("core: a window of {window_count} is smaller than the width of {width_count}");
        let at = if matches!(window.origin, Origin::Default) { width } else { window };
        errors.push(
            Diagnostic::new(&at.origin, message).help("the window holds at least one cycle's instructions"),
        );
    }
    Some(CoreSpec {
        count: integer(table, "count")?,
        cycle_ps: cycle_ps(frequency),
        width: width_count,
        window: window_count,
        outstanding: integer(table, "outstanding")?,
    })
}

impl Resolver<'_> {
    /// A time in picoseconds.
    pub(super) fn time(&self, table: &Table, name: &str) -> Option<u64> {
        match table.leaf(name)?.value {
            Value::Time(time, _) => Some(time.picoseconds(self.cycle_ps)),
            _ => None,
        }
    }

    /// Reports a mistake that lies in several values together at the last of those that the user's own file
    /// gives, and says where the others come from.
    pub(super) fn blame(&mut self, message: String, help: String, values: &[(&str, &Leaf)]) {
        let own = values.iter().rev().find(|(_, leaf)| leaf.origin.is_in(self.file));
        let Some((blamed, at)) = own.or(values.last()) else { return };
        let mut wrong = Diagnostic::new(&at.origin, message).help(help);
        for (name, leaf) in values {
            if name != blamed && !leaf.origin.is_in(self.file) {
                let value = value::write(&leaf.value);
                wrong = wrong.help(match leaf.origin {
                    Origin::Default => format!("`{name} = {value}` is the default"),
                    Origin::File { .. } => format!("`{name} = {value}` comes from {}", leaf.origin.place()),
                });
            }
        }
        self.errors.push(wrong);
    }

    /// Entries and ways of a cache of translations; `"full"` and as many ways as entries are the same.
    pub(super) fn entries_and_ways(&mut self, subject: &str, table: &Table) -> Option<(u32, u32)> {
        let (entries_leaf, ways_leaf) = (table.leaf("entries")?, table.leaf("ways")?);
        let entries = count(entries_leaf)?;
        let ways = count(ways_leaf).unwrap_or(entries);
        if let Err(Misfit { message, help }) = check_ways(entries.into(), ways.into()) {
            let values = [("entries", entries_leaf), ("ways", ways_leaf)];
            self.blame(format!("{subject}: {message}"), help, &values);
            return None;
        }
        Some((entries, ways))
    }

    /// Levels `l1`, `l2`, ... of a section, which must not leave one out.
    pub(super) fn levels<'t>(&mut self, tree: &'t Table, section: &str, noun: &str) -> Levels<'t> {
        let table = match tree.get(section) {
            None => return Levels { tables: Vec::new(), is_whole: true },
            Some(Node::Table(table)) => table,
            Some(_) => return Levels { tables: Vec::new(), is_whole: false },
        };
        let mut levels = Levels { tables: Vec::new(), is_whole: !table.is_broken };
        for (index, name) in LEVELS.iter().copied().enumerate() {
            let Some(Node::Table(level)) = table.get(name) else { continue };
            if levels.tables.len() < index && levels.is_whole {
                let below = LEVELS[index - 1];
                let message = format!("{noun} `{name}` stands above no `{below}`");
                let help = format!("levels are l1, l2 and so on: rename it, or add [{section}.{below}]");
                self.errors.push(Diagnostic::new(&level.origin, message).help(help));
                levels.is_whole = false;
            }
            levels.tables.push((name, level));
        }
        levels
    }

    fn huge_pages(&mut self, tree: &Table, tlb: Option<&[TlbLevelSpec]>) -> Option<HugePagePolicy> {
        let leaf = tree.table("huge-pages")?.leaf("transparent")?;
        let policy = TRANSPARENT.of(leaf)?;
        if let Some(levels) = tlb
            && policy != HugePagePolicy::Never
            && !levels.is_empty()
            && !levels.iter().flat_map(|level| &level.arrays).any(|array| array.kind.serves(PageSize::Size2M))
        {
            let message = "transparent huge pages, but no TLB array holds 2MiB pages".to_owned();
            let help = "add \"2MiB\" to the `pages` of an array, or write transparent = \"never\"".to_owned();
            self.blame(message, help, &[("transparent", leaf)]);
        }
        Some(policy)
    }

    fn table_kind(&mut self, tree: &Table) -> Option<TableSpec> {
        let (variant, table) = tree.table("table")?.tables().next()?;
        match variant {
            "radix" => Some(TableSpec::Radix { levels: integer(table, "levels")? }),
            "toc" => Some(TableSpec::Toc),
            "hashed" => self.hashed(table).map(TableSpec::Hashed),
            "open-addressing" => self.classic(ClassicKind::OpenAddressing, table).map(TableSpec::Classic),
            "chained" => self.classic(ClassicKind::Chained, table).map(TableSpec::Classic),
            _ => None,
        }
    }

    fn hashed(&mut self, table: &Table) -> Option<HashedSpec> {
        let thousandths = |name| integer(table, name).map(|percent| percent * 10);
        let policy = Policy {
            ways: integer(table, "ways")? as usize,
            first_slots: integer(table, "first-slots")? as usize,
            upsize_above: thousandths("upsize-above")?,
            downsize_below: thousandths("downsize-below")?,
            growth: integer(table, "growth")? as usize,
            steps: integer(table, "steps")?,
            scope: RESIZES.value(table, "resizes")?(integer(table, "at-once")? as usize),
            in_place: NEW_SIZES.value(table, "new-size")?,
            rekey: !NEW_SIZES.value(table, "new-size")?,
            first_way: FIRST_WAYS.value(table, "first-way")?,
            ..Policy::ELASTIC
        };
        let Value::Sizes(chunks) = &table.leaf("chunks")?.value else { return None };
        let chunk_bytes = chunks.iter().map(|(bytes, _)| *bytes).collect();
        if let Err(wrong) = policy.check() {
            let field = wrong.field.replace('_', "-");
            let leaf = table.leaf(&field)?;
            let message =
                format!("hashed table: `{field} = {}` is impossible here", value::write(&leaf.value));
            let help = format!("allowed: {}", wrong.allowed.replace('_', "-"));
            self.blame(message, help, &[(&field, leaf)]);
            return None;
        }
        let crc = TABLE_HASHES.value(table, "hash")?;
        Some(HashedSpec {
            design: HashedDesign { policy, chunk_bytes, crc },
            latency_ps: self.time(table, "latency")?,
        })
    }

    fn classic(&mut self, kind: ClassicKind, table: &Table) -> Option<ClassicSpec> {
        let slots_leaf = table.leaf("first-slots")?;
        let first_slots = count(slots_leaf)?;
        if !first_slots.is_power_of_two() {
            let message = format!("first-slots: {first_slots} is not a power of two");
            let help = format!("write for example {}", first_slots.next_power_of_two());
            self.blame(message, help, &[("first-slots", slots_leaf)]);
            return None;
        }
        let upsize_above = integer(table, "upsize-above")? * 10;
        let design = ClassicDesign { first_slots: first_slots as usize, upsize_above };
        Some(ClassicSpec { kind, design, latency_ps: self.time(table, "latency")? })
    }

    fn frames(&mut self, tree: &Table) -> Option<FrameSpec> {
        let (variant, table) = tree.table("frames")?.tables().next()?;
        match variant {
            "buddy" => {
                let memory_bytes = self.memory_bytes(table, "memory", PAGE_BYTES)?;
                Some(FrameSpec::Buddy { memory_bytes, fragmentation: integer(table, "fragmentation")? })
            }
            "iceberg" => self.iceberg(table),
            _ => None,
        }
    }

    /// Memory in whole frames or buckets.
    fn memory_bytes(&mut self, table: &Table, name: &str, unit_bytes: u64) -> Option<u64> {
        let leaf = table.leaf(name)?;
        let bytes = bytes(leaf)?;
        if !bytes.is_multiple_of(unit_bytes) {
            let unit = match unit_bytes {
                PAGE_BYTES => "4KiB frames".to_owned(),
                other => format!("buckets of {}", super::quantity::format_bytes(other)),
            };
            let message = format!("{name} of {bytes} bytes is not a whole number of {unit}");
            let near = (bytes / unit_bytes).max(1) * unit_bytes;
            let help = format!("write for example \"{}\"", super::quantity::format_bytes(near));
            return self.errors.report(Diagnostic::new(&leaf.origin, message).help(help));
        }
        Some(bytes)
    }

    fn iceberg(&mut self, table: &Table) -> Option<FrameSpec> {
        let [front, back, choices] = ["front", "back", "choices"].map(|name| integer(table, name));
        let (front, back, choices) = (front?, back?, choices?);
        let memory = self.memory_bytes(table, "memory", u64::from(front + back) * PAGE_BYTES)?;
        let ordinary_bytes = self.memory_bytes(table, "ordinary", PAGE_BYTES)?;
        let ranges = RANGES.value(table, "ranges")?;
        let hash = HASHES.value(table, "hash")?;
        let buckets = u32::try_from(memory / PAGE_BYTES / u64::from(front + back)).unwrap_or(u32::MAX);
        let shape = IcebergShape { front, back, choices, ranges, buckets };
        let leaf = |name| table.leaf(name).map(|leaf| (name, leaf));
        if let Err(wrong) = shape.check() {
            let values = [leaf("memory")?, leaf("front")?, leaf("back")?, leaf("choices")?];
            self.blame(wrong.to_string(), "the published geometry is 56, 8 and 6".to_owned(), &values);
            return None;
        }
        if hash == HashKind::LowBits && choices > 0 {
            let message = "the low bits of the page number are one function, but each choice needs its own";
            let help = "write `back = 0` and `choices = 0`, or another hash".to_owned();
            self.blame(message.to_owned(), help, &[leaf("choices")?, leaf("hash")?]);
            return None;
        }
        Some(FrameSpec::Iceberg { shape, hash, ordinary_bytes })
    }

    /// Tables, frames, reclaim and huge pages that can work together.
    fn belong_together(
        &mut self,
        tree: &Table,
        table: Option<&TableSpec>,
        frames: Option<&FrameSpec>,
        reclaim: Option<ReclaimSpec>,
        huge_pages: Option<HugePagePolicy>,
    ) {
        let mut blame = |section: &str, message: &str, help: &str| {
            let variant = tree.table(section).and_then(|section| section.tables().next());
            if let Some((_, table)) = variant {
                self.errors.push(Diagnostic::new(&table.origin, message.to_owned()).help(help.to_owned()));
            }
        };
        let placed = match frames {
            Some(FrameSpec::Iceberg { shape, .. }) => Some(shape),
            Some(FrameSpec::Buddy { .. }) => None,
            None => return,
        };
        if table == Some(&TableSpec::Toc) {
            match placed {
                None => blame(
                    "table",
                    "tables of contents name hash-placed frames, and this machine has none",
                    "write [frames.iceberg], or [table.radix]",
                ),
                Some(shape) if shape.codec().bits() > 8 => blame(
                    "frames",
                    "a table of contents has 8 bits for a frame's code; these frames need more",
                    "take fewer or smaller buckets: 56, 8 and 6 need 7 bits",
                ),
                Some(_) => {}
            }
            if huge_pages.is_some_and(|policy| policy != HugePagePolicy::Never) {
                let help = "write transparent = \"never\" in [huge-pages], or [table.radix]";
                blame("table", "tables of contents hold 4 KiB pages only, not transparent huge pages", help);
            }
        }
        match (reclaim, placed) {
            (Some(ReclaimSpec::Lru { .. } | ReclaimSpec::Clock { .. }), Some(_)) => blame(
                "reclaim",
                "this policy chooses among all frames, but a page may have only few of [frames.iceberg]",
                "write [reclaim.horizon-lru] or [reclaim.iceberg-lru], or [frames.buddy]",
            ),
            (Some(ReclaimSpec::HorizonLru { .. } | ReclaimSpec::IcebergLru { .. }), None) => blame(
                "reclaim",
                "this policy chooses among the few frames that a page may have, and here it may have any",
                "write [reclaim.lru] or [reclaim.clock], or [frames.iceberg]",
            ),
            _ => {}
        }
        if reclaim.is_some() && huge_pages.is_some_and(|policy| policy != HugePagePolicy::Never) {
            let help = "write transparent = \"never\" in [huge-pages]";
            blame("reclaim", "only 4 KiB pages can leave, but this machine has transparent huge pages", help);
        }
    }

    /// The outer option: whether it could be read. The inner one: whether there are walk caches.
    fn walk_cache(&mut self, tree: &Table, kind: Option<&TableSpec>) -> Option<Option<WalkCacheSpec>> {
        let table = match tree.get("walk-cache") {
            None => return Some(None),
            Some(Node::Table(table)) => table,
            Some(_) => return None,
        };
        let entries_leaf = table.leaf("entries")?;
        let wanted = match kind? {
            TableSpec::Radix { levels } => *levels as usize - 1,
            TableSpec::Toc => 3,
            TableSpec::Hashed(_) => 2,
            TableSpec::Classic(_) => {
                let help = "write walk-cache = \"none\" at the top, or leave the section out".to_owned();
                let message = "walk cache: this table has nothing to cache".to_owned();
                self.blame(message, help, &[("entries", entries_leaf)]);
                return None;
            }
        };
        let entries: Vec<u32> = match &entries_leaf.value {
            Value::Integer(same) => vec![*same as u32; wanted],
            Value::Integers(list) => list.iter().map(|entries| *entries as u32).collect(),
            _ => return None,
        };
        if entries.len() != wanted {
            let (message, help) = match kind {
                Some(TableSpec::Hashed(_)) => (
                    format!(
                        "walk cache: {} numbers for the two walk tables of a hashed table",
                        entries.len()
                    ),
                    "list two numbers: the PUD cache's entries, the PMD cache's".to_owned(),
                ),
                _ => (
                    format!("walk cache: {} levels for a table of {}", entries.len(), wanted + 1),
                    format!("list {wanted} numbers, root first: every level of the table but the last"),
                ),
            };
            let levels_leaf = tree.table("table")?.table("radix").and_then(|radix| radix.leaf("levels"));
            let values = levels_leaf.map(|leaf| ("levels", leaf)).into_iter();
            let values: Vec<_> = values.chain([("entries", entries_leaf)]).collect();
            self.blame(message, help, &values);
            return None;
        }
        let is_hashed = matches!(kind, Some(TableSpec::Hashed(_)));
        let full_only = is_hashed && count(table.leaf("ways")?).is_some();
        if is_hashed && (entries.contains(&0) || full_only) {
            let help = "give both caches entries, and leave `ways` out".to_owned();
            let message = "walk cache: a hashed table has two, fully associative".to_owned();
            self.blame(message, help, &[("entries", entries_leaf)]);
            return None;
        }
        if entries.iter().all(|entries| *entries == 0) {
            let help = "leave the section out, or write walk-cache = \"none\"".to_owned();
            self.blame("walk cache: no level has entries".to_owned(), help, &[("entries", entries_leaf)]);
            return None;
        }
        let ways_leaf = table.leaf("ways")?;
        let ways = count(ways_leaf);
        for entries in entries.iter().filter(|entries| **entries > 0) {
            let ways = ways.unwrap_or(*entries);
            if let Err(Misfit { message, help }) = check_ways((*entries).into(), ways.into()) {
                let values = [("entries", entries_leaf), ("ways", ways_leaf)];
                self.blame(format!("walk cache: {message}"), help, &values);
                return None;
            }
        }
        let by_section = UNITS.value(table, "unit")?;
        Some(Some(WalkCacheSpec { entries, ways, latency_ps: self.time(table, "latency")?, by_section }))
    }

    fn caches(&mut self, tree: &Table) -> Option<Vec<CacheSpec>> {
        let levels = self.levels(tree, "caches", "cache level");
        let mut caches = Vec::new();
        let mut nearer: Option<(&str, &Leaf, u64)> = None;
        for (name, table) in levels.tables {
            let latency = table.leaf("latency").zip(self.time(table, "latency"));
            if let (Some((below, below_leaf, below_ps)), Some((leaf, ps))) = (nearer, latency)
                && ps <= below_ps
            {
                let message = format!("cache `{name}`: a hit takes no longer than in `{below}`");
                let help = "latencies are measured from the core and grow with the level".to_owned();
                let below_name = format!("{below}.latency");
                self.blame(message, help, &[(&below_name, below_leaf), ("latency", leaf)]);
            }
            nearer = latency.map(|(leaf, ps)| (name, leaf, ps));
            caches.push(self.cache(name, table));
        }
        caches.into_iter().collect::<Option<_>>().filter(|_| levels.is_whole)
    }

    fn cache(&mut self, name: &str, table: &Table) -> Option<CacheSpec> {
        let (size_leaf, ways_leaf) = (table.leaf("size")?, table.leaf("ways")?);
        let Value::Bytes(bytes, _) = size_leaf.value else { return None };
        let ways = count(ways_leaf)?;
        if let Err(Misfit { message, help }) = check_cache(bytes, ways.into()) {
            let values = [("size", size_leaf), ("ways", ways_leaf)];
            self.blame(format!("cache `{name}`: {message}"), help, &values);
            return None;
        }
        Some(CacheSpec { bytes, ways, latency_ps: self.time(table, "latency")? })
    }

    fn walker(&mut self, tree: &Table, caches: Option<&[CacheSpec]>) -> Option<WalkerSpec> {
        let table = tree.table("walker")?;
        let leaf = table.leaf("enters")?;
        let enters = ENTERS.of(leaf)?;
        // Without caches, walks go to memory; the default must do for such a machine too.
        let levels = caches?.len().max(1) as u32;
        if enters > levels {
            let message = format!("walks enter `l{enters}`, but there are {} cache levels", caches?.len());
            let help = if levels == 1 {
                "write \"l1\"".to_owned()
            } else {
                format!("write \"l1\" to \"l{levels}\"")
            };
            self.blame(message, help, &[("enters", leaf)]);
        }
        Some(WalkerSpec { count: integer(table, "count")?, enters })
    }

    fn memory(&mut self, tree: &Table, caches: Option<&[CacheSpec]>) -> Option<MemorySpec> {
        let table = tree.table("memory")?;
        let latency_ps = self.time(table, "latency")?;
        if let Some(last) = caches?.last()
            && latency_ps <= last.latency_ps
        {
            let message = "memory answers no later than the last cache".to_owned();
            let help =
                format!("write more than {} ps; latencies are measured from the core", last.latency_ps);
            self.blame(message, help, &[("latency", table.leaf("latency")?)]);
        }
        let dram = super::tiers::dram(table, tree, self)?;
        Some(MemorySpec { latency_ps, dram })
    }
}

pub(super) fn bytes(leaf: &Leaf) -> Option<u64> {
    match leaf.value {
        Value::Bytes(bytes, _) => Some(bytes),
        _ => None,
    }
}

/// A whole number; none for `"full"`.
pub(super) fn count(leaf: &Leaf) -> Option<u32> {
    match leaf.value {
        Value::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    }
}

pub(super) fn integer(table: &Table, name: &str) -> Option<u32> {
    table.leaf(name).and_then(count)
}

fn text(table: &Table, name: &str) -> Option<String> {
    match &table.leaf(name)?.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}
