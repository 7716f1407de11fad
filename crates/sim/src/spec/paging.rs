//! Who leaves memory, where to, and what it costs: from a tree to settings.

use super::error::Diagnostic;
use super::options::{Node, Table, Value};
use super::resolve::{Resolver, bytes, integer};
use super::schema::{ALLOCATIONS, COMPLETIONS, DAEMONS, EVICTS, TIMES, VERSIONS};
use super::settings::{
    AcceleratorDaemonSpec, AcceleratorSpec, BlockSpec, KernelSpec, PagingSpec, ReclaimSpec, RemoteSpec,
    SwapKind, SwapSpec,
};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::fault::PageId;

/// The outer option: whether it could be read. The inner one: whether pages are reclaimed at all. And the share of memory
/// that a daemon keeps free.
pub(super) fn reclaim(tree: &Table) -> Option<(Option<ReclaimSpec>, u32)> {
    let section = match tree.get("reclaim") {
        None => return Some((None, 0)),
        Some(Node::Table(table)) => table,
        Some(_) => return None,
    };
    let (variant, table) = section.tables().next()?;
    let limit_bytes = table.leaf("limit").and_then(bytes);
    let policy = match variant {
        "lru" => ReclaimSpec::Lru { limit_bytes },
        "clock" => ReclaimSpec::Clock { limit_bytes },
        "horizon-lru" => {
            let daemon = TIMES.value(table, "times")?;
            let Value::Integer(interval) = table.leaf("interval")?.value else { return None };
            ReclaimSpec::HorizonLru { scan_interval: daemon.then_some(interval) }
        }
        "iceberg-lru" => ReclaimSpec::IcebergLru {
            live_percent: integer(table, "live")?,
            is_strict: VERSIONS.value(table, "version")?,
        },
        _ => return None,
    };
    Some((Some(policy), integer(section, "background")?))
}

pub(super) fn swap(tree: &Table, resolver: &mut Resolver<'_>) -> Option<SwapSpec> {
    let section = tree.table("swap")?;
    let (variant, table) = section.tables().next()?;
    let leaf = section.leaf("readahead")?;
    let readahead = integer(section, "readahead")?;
    if !readahead.is_power_of_two() {
        let message = format!("swap: {readahead} pages of read-ahead make no aligned runs");
        resolver.errors.push(Diagnostic::new(&leaf.origin, message).help("write 1, 2, 4, 8, 16, 32 or 64"));
        return None;
    }
    let a_second = || bytes(table.leaf("bandwidth")?);
    let kind = match variant {
        "block" => SwapKind::Block(BlockSpec {
            latency_ps: resolver.time(table, "latency")?,
            page_ps: PAGE_BYTES * 1_000_000_000_000 / a_second()?,
            queue: integer(table, "queue")?,
        }),
        "memory" => {
            SwapKind::Memory { out_ps: resolver.time(table, "out")?, in_ps: resolver.time(table, "in")? }
        }
        "blade" => SwapKind::Remote(RemoteSpec {
            link_latency_ps: resolver.time(table, "link-latency")?,
            bytes_a_second: a_second()?,
            payload_bytes: bytes(table.leaf("payload")?)?,
            header_bytes: bytes(table.leaf("header")?)?,
            service_ps: resolver.time(table, "service")?,
            servers: integer(table, "servers")?,
            acknowledges: COMPLETIONS.value(table, "complete")?,
        }),
        _ => return None,
    };
    Some(SwapSpec { bytes: bytes(section.leaf("size")?)?, readahead, kind })
}

/// The outer option: whether it could be read. The inner one: whether there is an accelerator.
pub(super) fn accelerator(
    tree: &Table,
    policy: Option<Option<ReclaimSpec>>,
    resolver: &mut Resolver<'_>,
) -> Option<Option<AcceleratorSpec>> {
    let table = match tree.get("accelerator") {
        None => return Some(None),
        Some(Node::Table(table)) => table,
        Some(_) => return None,
    };
    if policy == Some(None) {
        let message = "an accelerator brings back what has left memory, and nothing leaves here".to_owned();
        let wrong =
            Diagnostic::new(&table.origin, message).help("write a [reclaim] section, or leave this one out");
        return resolver.errors.report(wrong);
    }
    let size_leaf = tree.table("swap").and_then(|swap| swap.leaf("size"))?;
    if bytes(size_leaf)? > u64::from(PageId::MAX.number()) * PAGE_BYTES {
        let message =
            "an accelerator has 28 bits for a page's number, and this device has more pages".to_owned();
        resolver.blame(message, "write less than 1TiB".to_owned(), &[("size", size_leaf)]);
        return None;
    }
    let daemon = match table.get("daemon") {
        Some(Node::Table(daemon)) => Some(AcceleratorDaemonSpec {
            first_ps: resolver.time(daemon, "first")?,
            longer_ps: resolver.time(daemon, "longer")?,
            shorter_ps: resolver.time(daemon, "shorter")?,
            least_ps: resolver.time(daemon, "least")?,
            most_ps: resolver.time(daemon, "most")?,
            slack_ps: resolver.time(daemon, "slack")?,
        }),
        Some(Node::Broken) => return None,
        _ => None,
    };
    if let (Some(of), Some(Node::Table(daemon))) = (&daemon, table.get("daemon"))
        && !(of.least_ps..=of.most_ps).contains(&of.first_ps)
    {
        let values = ["least", "most", "first"].map(|name| Some((name, daemon.leaf(name)?)));
        let message = "the daemon's first sleep is not between the shortest and the longest".to_owned();
        let help = "write `first` between `least` and `most`".to_owned();
        resolver.blame(message, help, &values.into_iter().flatten().collect::<Vec<_>>());
        return None;
    }
    Some(Some(AcceleratorSpec {
        queues: [integer(table, "free-queue")?, integer(table, "new-queue")?, integer(table, "evict-queue")?],
        fetches: integer(table, "fetches")?,
        waits_for_evictions: EVICTS.value(table, "evicts")?,
        detect_ps: resolver.time(table, "detect")?,
        request_ps: resolver.time(table, "request")?,
        book_ps: resolver.time(table, "book")?,
        evict_ps: resolver.time(table, "evict")?,
        daemon,
    }))
}

pub(super) fn kernel(tree: &Table, resolver: &Resolver<'_>) -> Option<KernelSpec> {
    let table = tree.table("kernel")?;
    let time = |name| resolver.time(table, name);
    Some(KernelSpec {
        minor_fault_ps: time("minor-fault")?,
        zero_page_ps: time("zero-page")?,
        zero_huge_page_ps: time("zero-huge-page")?,
        shootdown_ps: time("shootdown")?,
        paging: PagingSpec {
            trap_ps: time("trap")?,
            find_ps: time("find")?,
            allocate_ps: time("allocate")?,
            request_ps: time("request")?,
            enter_ps: time("enter")?,
            book_ps: time("book")?,
            evict_ps: time("evict")?,
            switch_ps: time("switch")?,
        },
        daemons_share_core: DAEMONS.value(table, "daemons")?,
        allocation: ALLOCATIONS.value(table, "allocation")?,
        visit_line_ps: time("visit-line")?,
        move_line_ps: time("move-line")?,
    })
}
