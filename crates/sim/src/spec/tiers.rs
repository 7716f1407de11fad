//! DRAM over flash, what connects them, and threads that serve jobs: from a tree to settings.

use super::error::Diagnostic;
use super::options::{Node, Table};
use super::resolve::{Resolver, bytes, integer};
use super::schema::{
    COLLECTIONS, DISTRIBUTIONS, NOTICES, ON_MISS, SCHEDULES, TABLE_PLACES, TIER_REPLACEMENTS, WEAR,
};
use super::settings::{
    CoreSpec, DramSpec, FlashSpec, FrameSpec, GarbageSpec, MeshSpec, ThreadsSpec, TierManager, TierSpec,
};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::sched::{Response, SchedulerDesign};
use pagewalk_vm::tier::{MissStatusShape, Partition, TierDesign};

pub(super) const SECOND_PS: u64 = 1_000_000_000_000;

/// A section that may be absent. The outer option: whether it could be read.
pub(super) fn section<'t>(tree: &'t Table, name: &str) -> Option<Option<&'t Table>> {
    match tree.get(name) {
        None => Some(None),
        Some(Node::Table(table)) => Some(Some(table)),
        Some(_) => None,
    }
}

/// Reports what is wrong with a section as a whole.
pub(super) fn refuse<T>(
    section: &Table,
    resolver: &mut Resolver<'_>,
    message: &str,
    help: &str,
) -> Option<T> {
    resolver.errors.report(Diagnostic::new(&section.origin, message.to_owned()).help(help.to_owned()))
}

/// Controllers, banks and rows; with tags if a tier keeps them there.
pub(super) fn dram(memory: &Table, tree: &Table, resolver: &mut Resolver<'_>) -> Option<Option<DramSpec>> {
    let Some(table) = section(memory, "dram")? else { return Some(None) };
    let hardware =
        section(tree, "tier")?.and_then(|tier| tier.tables().find(|(name, _)| *name == "hardware"));
    let (tag_columns, compare_ps) = match hardware {
        Some((_, tier)) => (integer(tier, "tag-columns")?, resolver.time(tier, "compare")?),
        None => (0, 0),
    };
    let (cas_ps, burst_ps) = (resolver.time(table, "cas")?, resolver.time(table, "burst")?);
    if burst_ps > cas_ps {
        let message = "dram: a further column takes longer than the first".to_owned();
        let values = [("cas", table.leaf("cas")?), ("burst", table.leaf("burst")?)];
        resolver.blame(message, "write at most `cas` for `burst`".to_owned(), &values);
        return None;
    }
    for name in ["controllers", "banks"] {
        let leaf = table.leaf(name)?;
        if !integer(table, name)?.is_power_of_two() {
            let message = format!("dram: {} {name} are no power of two", integer(table, name)?);
            resolver.errors.push(Diagnostic::new(&leaf.origin, message).help("address bits choose one"));
            return None;
        }
    }
    Some(Some(DramSpec {
        channels: integer(table, "controllers")?,
        banks: integer(table, "banks")?,
        row_bytes: u32::try_from(bytes(table.leaf("row")?)?).ok()?,
        ras_ps: resolver.time(table, "ras")?,
        cas_ps,
        burst_ps,
        precharge_ps: resolver.time(table, "precharge")?,
        command_ps: resolver.time(table, "command")?,
        tag_columns,
        compare_ps,
        overtakes: integer(table, "overtakes")?,
    }))
}

pub(super) fn mesh(
    tree: &Table,
    core: Option<&CoreSpec>,
    resolver: &mut Resolver<'_>,
) -> Option<Option<MeshSpec>> {
    let Some(table) = section(tree, "mesh")? else { return Some(None) };
    let (columns, rows) = (integer(table, "columns")?, integer(table, "rows")?);
    let cores = core?.count;
    if columns * rows != cores {
        let message = format!("mesh: {columns} times {rows} tiles do not hold {cores} cores, one in each");
        let count = tree.table("core")?.leaf("count")?;
        let values = [("count", count), ("columns", table.leaf("columns")?), ("rows", table.leaf("rows")?)];
        resolver.blame(message, format!("write {cores} as a product"), &values);
        return None;
    }
    Some(Some(MeshSpec {
        columns,
        rows,
        hop_ps: resolver.time(table, "hop")?,
        flit_bytes: u32::try_from(bytes(table.leaf("flit")?)?).ok()?,
        flit_ps: core?.cycle_ps,
        controllers: Vec::new(),
    }))
}

pub(super) fn threads(tree: &Table, resolver: &Resolver<'_>) -> Option<Option<ThreadsSpec>> {
    let Some(table) = section(tree, "threads")? else { return Some(None) };
    let per_core = integer(table, "per-core")?;
    // Where the average begins: what the device says of itself.
    let start = match section(tree, "flash")? {
        Some(flash) => resolver.time(flash, "read")?.max(1),
        None => 50_000_000,
    };
    Some(Some(ThreadsSpec {
        per_core,
        design: SchedulerDesign {
            new_capacity: integer(table, "queue")?,
            pending_capacity: per_core - 1,
            policy: SCHEDULES.value(table, "schedule")?,
            notification: NOTICES.value(table, "notice")?,
            response: Response::Measured { start },
        },
        switch_ps: resolver.time(table, "switch")?,
        flush_ps: resolver.time(table, "flush")?,
    }))
}

pub(super) fn tier(
    tree: &Table,
    dram: Option<&DramSpec>,
    frames: Option<&FrameSpec>,
    resolver: &mut Resolver<'_>,
) -> Option<Option<TierSpec>> {
    let Some(table) = section(tree, "tier")? else { return Some(None) };
    let (variant, own) = table.tables().next()?;
    let Some(flash_table) = section(tree, "flash")? else {
        return refuse(table, resolver, "a tier of DRAM needs flash behind it", "write a [flash] section");
    };
    let Some(dram) = dram else {
        return refuse(
            table,
            resolver,
            "a tier needs DRAM with controllers",
            "write a [memory.dram] section",
        );
    };
    let Some(FrameSpec::Buddy { memory_bytes, .. }) = frames else {
        return refuse(
            table,
            resolver,
            "pages of flash are placed by the buddy allocator only",
            "write [frames.buddy]",
        );
    };
    for (name, why) in
        [("reclaim", "pages leave for flash by themselves"), ("accelerator", "the tier fetches pages")]
    {
        if tree.get(name).is_some() {
            let message = format!("a tier does not go with [{name}]: {why}");
            return refuse(table, resolver, &message, &format!("write {name} = \"none\""));
        }
    }
    let switches = ON_MISS.value(table, "on-miss")?;
    if switches && section(tree, "threads")?.is_none() {
        let help = "write a [threads] section, or on-miss = \"wait\"";
        return refuse(table, resolver, "there is no other thread to run on a miss", help);
    }
    let flash = flash(flash_table, *memory_bytes, resolver)?;
    let ways = integer(table, "ways")?;
    let capacity = table.leaf("capacity")?;
    let sets = bytes(capacity)? / PAGE_BYTES / u64::from(dram.channels) / u64::from(ways);
    let whole = sets * u64::from(ways) * u64::from(dram.channels) * PAGE_BYTES == bytes(capacity)?;
    if !whole || !sets.is_power_of_two() {
        let message = format!(
            "tier: {sets} sets of {ways} pages for each of {} controllers are no power of two",
            dram.channels
        );
        let help = "capacity / (controllers * ways * 4KiB) is the number of sets".to_owned();
        resolver.blame(message, help, &[("capacity", capacity), ("ways", table.leaf("ways")?)]);
        return None;
    }
    let (miss_status, queue, manager) = match variant {
        "hardware" => {
            let shape = MissStatusShape {
                sets: integer(own, "miss-status-sets")?,
                ways: integer(own, "miss-status-ways")?,
            };
            let command_ps = resolver.time(own, "backside-command")?;
            (shape, integer(own, "queue")?, TierManager::Hardware { command_ps })
        }
        // The kernel's lists have no limits that matter.
        "kernel" => {
            let interrupt_ps = resolver.time(own, "interrupt")?;
            (MissStatusShape { sets: 4_096, ways: 32 }, 1 << 16, TierManager::Kernel { interrupt_ps })
        }
        _ => return None,
    };
    let design = TierDesign {
        sets: u32::try_from(sets).ok()?,
        ways,
        index_shift: dram.channels.trailing_zeros(),
        replacement: TIER_REPLACEMENTS.value(table, "replacement")?,
        miss_status,
        evict_buffer: integer(table, "evict-buffer")?,
        queue,
        partition: Partition::default(),
    };
    if let Err(wrong) = design.check() {
        return refuse(table, resolver, &wrong.to_string(), "choose a value that is allowed");
    }
    let tables_in_dram = TABLE_PLACES.value(table, "page-tables")? || variant == "kernel";
    Some(Some(TierSpec { design, tables_in_dram, switches, manager, flash }))
}

fn flash(table: &Table, memory_bytes: u64, resolver: &mut Resolver<'_>) -> Option<FlashSpec> {
    let (capacity, plane) = (table.leaf("capacity")?, table.leaf("plane")?);
    let (bytes_all, bytes_plane) = (bytes(capacity)?, bytes(plane)?);
    if bytes_all < memory_bytes {
        let message =
            format!("flash of {bytes_all} bytes does not hold the memory of {memory_bytes} bytes over it");
        resolver.blame(message, "write at least [frames]'s memory".to_owned(), &[("capacity", capacity)]);
        return None;
    }
    if !bytes_all.is_multiple_of(bytes_plane) || !bytes_plane.is_multiple_of(PAGE_BYTES) {
        let message = format!("flash of {bytes_all} bytes is no whole number of planes of {bytes_plane}");
        let help = "write a multiple of `plane`".to_owned();
        resolver.blame(message, help, &[("plane", plane), ("capacity", capacity)]);
        return None;
    }
    for (operation, held) in [("read", "read-holds-plane"), ("write", "write-holds-plane")] {
        if resolver.time(table, held)? > resolver.time(table, operation)? {
            let message = format!("flash: a {operation} holds its plane for longer than it takes");
            let values = [(operation, table.leaf(operation)?), (held, table.leaf(held)?)];
            resolver.blame(message, format!("write at most `{operation}`"), &values);
            return None;
        }
    }
    let page_ps = |name| Some(PAGE_BYTES * SECOND_PS / bytes(table.leaf(name)?)?);
    let garbage = match COLLECTIONS.value(table, "collection")? {
        None => None,
        Some(holds) => Some(GarbageSpec {
            over_provisioning_percent: integer(table, "spare")?,
            pages_per_block: integer(table, "block")?,
            erase_ps: resolver.time(table, "erase")?,
            free_blocks: integer(table, "free-blocks")?,
            holds,
            is_worn: WEAR.value(table, "begins")?,
        }),
    };
    let latency = DISTRIBUTIONS.value(table, "latency")?(integer(table, "spread")?);
    Some(FlashSpec {
        pages: bytes_all / PAGE_BYTES,
        planes: u32::try_from(bytes_all / bytes_plane).ok()?,
        channels: integer(table, "channels")?,
        read_ps: resolver.time(table, "read")?,
        plane_read_ps: resolver.time(table, "read-holds-plane")?,
        write_ps: resolver.time(table, "write")?.max(1),
        plane_write_ps: resolver.time(table, "write-holds-plane")?,
        channel_page_ps: page_ps("channel-bandwidth")?,
        bus_page_ps: page_ps("bandwidth")?,
        writes_waiting: integer(table, "writes-waiting")?,
        garbage,
        latency,
        seed: 0,
    })
}
