//! Caches, DRAM and the mesh of a machine file.

use super::core::CoreSpec;
use super::error::Diagnostic;
use super::geometry::{Misfit, check_cache};
use super::key::{MAX_WAYS, Shape};
use super::persistent;
use super::prefetch::PrefetchSpec;
use super::resolver::Levels;
use super::section::{MILLISECOND_PS, Resolver, Table, Words, section};
use super::tlb::Replacement;
use super::tree::Leaf;

/// The largest cache: its lines of 64 bytes are counted in 32 bits.
const MOST_CACHE_BYTES: u64 = 128 << 30;

static REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    (
        "dynamic",
        Replacement::Dynamic,
        "the same, or the one that came last, but for one in 32, by what misses less in a few sets; at most 16 ways",
    ),
]);

/// The way from a line to its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineIndexing {
    /// The line's number modulo the number of sets.
    Modulo,
    /// The same, once the low bits are exclusive-or'ed with the bits above them.
    XorFold,
    /// The same, but for the low bits that are within a page.
    PageFold,
}

static INDEXINGS: Words<LineIndexing> = Words(&[
    ("modulo", LineIndexing::Modulo, "the line's number modulo the number of sets"),
    (
        "xor-fold",
        LineIndexing::XorFold,
        "the same, once its low bits are exclusive-or'ed with as many bits above them",
    ),
    (
        "page-fold",
        LineIndexing::PageFold,
        "the same, but for the lowest six bits: lines of a page of 4 KiB are not mixed",
    ),
]);

section! {
    /// The settings of one cache level.
    pub struct CacheSpec {
        bytes: u64 = "size" bytes(64, MOST_CACHE_BYTES), "capacity; size / (64 B * ways) is a whole number of sets";
        ways: u32 = "ways" integer(1, MAX_WAYS), "ways of a set";
        latency_ps: u64 = "latency" time(MILLISECOND_PS), "load-to-use time of a hit, from the core; grows with the level";
        replacement: Replacement = "replacement" word(&REPLACEMENTS) or "\"lru\"", "the line of a set that is evicted";
        indexing: LineIndexing = "index" word(&INDEXINGS) or "\"modulo\"", "the set of a line, by its physical address";
        prefetch: Option<PrefetchSpec> = "prefetch" part(PrefetchSpec),
            "prefetchers, which bring lines into this level (with `core.dataflow`, where the source says which blocks are executed)";
    }
}

impl CacheSpec {
    /// Returns the number of sets of lines of 64 bytes.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.bytes / 64 / u64::from(self.ways)
    }
}

pub(super) static CACHE_LEVEL: Shape = Shape::Table(CacheSpec::KEYS);

/// The cache levels, nearest the core first.
pub(super) fn caches(levels: Levels<'_>, resolver: &mut Resolver<'_>) -> Option<Vec<CacheSpec>> {
    let mut caches = Vec::new();
    let mut nearer: Option<(&str, &Leaf, u64)> = None;
    for (name, table) in levels.tables {
        let latency = table.leaf("latency").zip(resolver.time(table, "latency"));
        if let (Some((below, below_leaf, below_ps)), Some((leaf, ps))) = (nearer, latency)
            && ps <= below_ps
        {
            let message = format!("cache `{name}`: a hit takes no longer than in `{below}`");
            let help = "latencies are measured from the core and grow with the level";
            let below_name = format!("{below}.latency");
            resolver.blame(message, help, &[(&below_name, Some(below_leaf)), ("latency", Some(leaf))]);
        }
        nearer = latency.map(|(leaf, ps)| (name, leaf, ps));
        caches.push(cache(name, table, resolver));
    }
    caches.into_iter().collect::<Option<_>>().filter(|_| levels.is_whole)
}

fn cache(name: &str, table: &Table, resolver: &mut Resolver<'_>) -> Option<CacheSpec> {
    if let Err(Misfit { message, help }) = check_cache(table.bytes("size")?, table.integer("ways")?.into()) {
        return resolver.refuse(format!("cache `{name}`: {message}"), help, table, &["size", "ways"]);
    }
    if REPLACEMENTS.value(table, "replacement")? == Replacement::Dynamic && table.integer("ways")? > 16 {
        let message = format!("cache `{name}`: dynamic replacement in more than 16 ways");
        return resolver.refuse(message, "write \"lru\", or fewer ways", table, &["replacement", "ways"]);
    }
    CacheSpec::resolve(table, resolver)
}

section! {
    /// The settings of DRAM.
    pub struct MemorySpec {
        latency_ps: u64 = "latency" time(MILLISECOND_PS) or "\"90 ns\"",
            "load-to-use time of an access that misses every cache, above the last cache's; with `dram`, without the time there, and with `refresh`, with the mean wait for it";
        line_ps: Option<u64> = "bandwidth" maybe_bytes(1 << 20, 1 << 50) as |bytes| bytes.map(persistent::line_ps),
            "bytes that memory takes and gives in a second, together; without it, as many as are wanted. Not with `dram`, which has channels";
        write_line_ps: Option<u64> = "write-bandwidth" maybe_bytes(1 << 20, 1 << 50) as |bytes| bytes.map(persistent::line_ps),
            "bytes that memory takes in a second, if they have a way of their own: `bandwidth`, which it needs, is what memory gives then";
        refresh: Option<RefreshSpec> = "refresh" part(RefreshSpec), "moments at which a line cannot be had, because its rank is refreshed; not with `dram`";
        dram: Option<DramSpec> = "dram" part(DramSpec), "controllers, banks and rows; without them, DRAM is a latency";
    }
}

section! {
    /// The refreshing of DRAM: lines of a rank wait for its end.
    pub struct RefreshSpec {
        every_ps: u64 = "every" time(MILLISECOND_PS) or "\"3.9 us\"", "time from one refresh of a rank to the next; above `lasts`";
        lasts_ps: u64 = "lasts" time(MILLISECOND_PS) or "\"160 ns\"", "time that one takes";
        spread_ps: u64 = "spread" time(MILLISECOND_PS) or "\"0 ns\"", "time within which each channel begins it, by chance; with `lasts`, below `every`";
        ranks: u32 = "ranks" integer(1, 64) or "2", "ranks, which are refreshed one after the other, each with all of its lines";
    }
}

impl RefreshSpec {
    /// Returns the mean time that a request waits.
    pub fn mean_ps(&self) -> u64 {
        self.lasts_ps * self.lasts_ps / (2 * self.every_ps)
    }
}

/// Memory answers later than any cache.
pub(super) fn memory(table: &Table, caches: &[CacheSpec], resolver: &mut Resolver<'_>) -> Option<MemorySpec> {
    let latency_ps = resolver.time(table, "latency")?;
    if let Some(last) = caches.last()
        && latency_ps <= last.latency_ps
    {
        let help = format!("write more than {} ps; latencies are measured from the core", last.latency_ps);
        resolver.refuse::<()>("memory answers no later than the last cache", help, table, &["latency"]);
    }
    if let Some(refresh) = table.section("refresh")? {
        check_refresh(table, refresh, latency_ps, resolver)?;
    }
    if table.bytes("write-bandwidth").is_some() && table.bytes("bandwidth").is_none() {
        let message = "memory: a bandwidth of writes, and none of reads";
        return resolver.refuse(message, "write `bandwidth`, too", table, &["write-bandwidth"]);
    }
    if let Some(dram) = table.section("dram")? {
        if table.bytes("bandwidth").is_some() {
            let help = "write `burst` in [memory.dram] for the time of 8 bytes on a channel";
            let message = "memory: the channels of `dram` have a bandwidth of their own";
            return resolver.refuse(message, help, table, &["bandwidth"]);
        }
        check_dram(dram, resolver)?;
    }
    MemorySpec::resolve(table, resolver)
}

fn check_refresh(memory: &Table, table: &Table, latency_ps: u64, resolver: &mut Resolver<'_>) -> Option<()> {
    if memory.section("dram")?.is_some() {
        let message = "memory: the banks of `dram` are not refreshed";
        return resolver.refuse_section(table, message, "leave one of them out");
    }
    let [every_ps, lasts_ps] = [resolver.time(table, "every")?, resolver.time(table, "lasts")?];
    let spread_ps = resolver.time(table, "spread")?;
    if lasts_ps + spread_ps >= every_ps || lasts_ps == 0 {
        let message = "memory: a refresh ends before the next begins, and takes some time";
        return resolver.refuse(
            message,
            "write more for `every` than for `lasts` and `spread` together",
            table,
            &["every", "lasts", "spread"],
        );
    }
    if (RefreshSpec { every_ps, lasts_ps, spread_ps, ranks: 1 }).mean_ps() >= latency_ps {
        let message = "memory: the mean wait for a refresh is a part of the latency, and no shorter";
        return resolver.refuse(message, "write less for `lasts`", table, &["lasts"]);
    }
    Some(())
}

section! {
    /// DRAM banks behind memory controllers.
    pub struct DramSpec {
        channels: u32 = "controllers" integer(1, 64) or "4", "memory controllers, a power of two; the low bits of a page's number choose one";
        banks: u32 = "banks" integer(1, 1_024) or "16", "banks of a controller, a power of two";
        row_bytes: u32 = "row" bytes(4_096, 1 << 20) or "\"16KiB\"" as |bytes| bytes as u32, "bytes of a row, a power of two; with a tier, a set of its cache";
        ras_ps: u64 = "ras" time(MILLISECOND_PS) or "\"55 cycles\"", "opening a row";
        cas_ps: u64 = "cas" time(MILLISECOND_PS) or "\"3 cycles\"", "a column of 8 bytes";
        burst_ps: u64 = "burst" time(MILLISECOND_PS) or "\"1 cycle\"", "each further column of a line or page";
        precharge_ps: u64 = "precharge" time(MILLISECOND_PS) or "\"0 ns\"", "closing a row before another is opened";
        command_ps: u64 = "command" time(MILLISECOND_PS) or "\"1 cycle\"", "issuing a row command, a column command, a response";
        tags: TagSpec = "" fixed(TagSpec::default()), "the tags of a tier's cache, if controllers keep them in the rows";
        overtakes: u32 = "overtakes" integer(0, 1 << 20) or "16", "how many later requests to an open row may go before one (FR-FCFS)";
    }
}

/// The tags of a tier's cache in the rows of DRAM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TagSpec {
    /// Columns of 8 bytes read for tags; 0 for none.
    pub columns: u32,
    /// The time to compare them.
    pub compare_ps: u64,
}

fn check_dram(table: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    if resolver.time(table, "burst")? > resolver.time(table, "cas")? {
        let message = "dram: a further column takes longer than the first";
        return resolver.refuse(message, "write at most `cas` for `burst`", table, &["cas", "burst"]);
    }
    for name in ["controllers", "banks"] {
        let count = table.integer(name)?;
        if !count.is_power_of_two() {
            let wrong = Diagnostic::new(
                &table.leaf(name)?.origin,
                format!("dram: {count} {name} are no power of two"),
            );
            return resolver.errors.report(wrong.help("address bits choose one"));
        }
    }
    Some(())
}

/// A mesh of tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSpec {
    /// Tiles in a row.
    pub columns: u32,
    /// The number of rows of tiles.
    pub rows: u32,
    /// From tile to tile.
    pub hop_ps: u64,
    /// The bytes that a link takes at once.
    pub flit_bytes: u32,
    /// The time that this takes.
    pub flit_ps: u64,
    /// Tiles of the memory controllers; none means the corners.
    pub controllers: Vec<u32>,
}

section! {
    /// The mesh, with a core in each tile.
    pub(super) fn mesh(table, resolver, core_table: Option<&Table>, core: Option<&CoreSpec>) -> MeshSpec;
    pub(super) const MESH {
        columns = "columns" integer(1, 64) or "4", "tiles in a row";
        rows = "rows" integer(1, 64) or "4", "rows of tiles; as many tiles as cores";
        hop_ps = "hop" time(MILLISECOND_PS) or "\"3 cycles\"", "from a tile to the next";
        flit_bytes = "flit" bytes(1, 4_096) or "\"16B\"" as |bytes| bytes as u32, "bytes that a link moves in a cycle";
    }
    {
        let (columns, rows, core) = (columns?, rows?, core?);
        let cores = core.count;
        if columns * rows != cores {
            let message = format!("mesh: {columns} times {rows} tiles do not hold {cores} cores, one in each");
            let values = [("count", core_table?.leaf("count")), ("columns", table.leaf("columns")), ("rows", table.leaf("rows"))];
            resolver.blame(message, format!("write {cores} as a product"), &values);
            return None;
        }
        Some(MeshSpec {
            columns,
            rows,
            hop_ps: hop_ps?,
            flit_bytes: flit_bytes?,
            flit_ps: core.cycle_ps,
            controllers: Vec::new(),
        })
    }
}
