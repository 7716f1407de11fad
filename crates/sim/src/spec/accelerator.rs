//! The page-fault accelerator of a machine file.

use super::section::{MILLISECOND_PS, STEP_PS, Table, Words, section};

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::fault::PageId;

/// The settings of a page-fault accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceleratorSpec {
    /// Slots of the free, the new and the evict queue.
    pub queues: [u32; 3],
    /// Pages on their way in at once.
    pub fetches: u32,
    /// Whether the system waits for a page to be away.
    pub waits_for_evictions: bool,
    /// Finding a remote entry, and going on afterwards.
    pub detect_ps: u64,
    /// The network card's part of a fetch.
    pub request_ps: u64,
    /// The system's books of a page, many pages at a time.
    pub book_ps: u64,
    /// A page that leaves, many pages at a time.
    pub evict_ps: u64,
    /// The daemon that refills and empties the queues; absent means that faults do.
    pub daemon: Option<AcceleratorDaemonSpec>,
}

/// Whether evictions are waited for.
static EVICTS: Words<bool> =
    Words(&[("waiting", true, "until the page is away"), ("going-on", false, "its frame follows")]);

section! {
    /// The accelerator, if pages leave memory at all.
    pub(super) fn accelerator(table, resolver, tree: &Table) -> AcceleratorSpec;
    pub(super) const ACCELERATOR {
        free = "free-queue" integer(1, 65_536) or "64", "frames that wait for pages, at most";
        new = "new-queue" integer(1, 65_536) or "64", "pages that came and are not booked, at most";
        evicted = "evict-queue" integer(1, 65_536) or "64", "pages on their way out, at most";
        fetches = "fetches" integer(1, 256) or "1", "pages on their way in at once, of several cores";
        waits_for_evictions = "evicts" word(&EVICTS) or "\"waiting\"", "whether the system waits for a page to be away, or goes on and lets its frame follow";
        detect_ps = "detect" time(STEP_PS) or "\"113 ns\"", "finding out that an entry is remote, and going on afterwards";
        request_ps = "request" time(STEP_PS) or "\"244 ns\"", "having the network card send a request, and taking its answer";
        book_ps = "book" time(STEP_PS) or "\"2090 ns\"", "the system's books of a page, many pages at a time";
        evict_ps = "evict" time(STEP_PS) or "\"1 us\"", "choosing a page that leaves and its entry, many pages at a time";
        daemon = "daemon" part(AcceleratorDaemonSpec), "the daemon that refills and empties the queues in time";
    }
    {
        if tree.get("reclaim").is_none() {
            let message = "an accelerator brings back what has left memory, and nothing leaves here";
            return resolver.refuse_section(table, message, "write a [reclaim] section, or leave this one out");
        }
        let swap = tree.table("swap")?;
        if swap.bytes("size")? > u64::from(PageId::MAX.number()) * PAGE_BYTES {
            let message = "an accelerator has 28 bits for a page's number, and this device has more pages";
            return resolver.refuse(message, "write less than 1TiB", swap, &["size"]);
        }
        let daemon = daemon?;
        if let Some(sleeps) = &daemon
            && !(sleeps.least_ps..=sleeps.most_ps).contains(&sleeps.first_ps)
        {
            let message = "the daemon's first sleep is not between the shortest and the longest";
            let help = "write `first` between `least` and `most`";
            return resolver.refuse(message, help, table.table("daemon")?, &["least", "most", "first"]);
        }
        Some(AcceleratorSpec {
            queues: [free?, new?, evicted?],
            fetches: fetches?,
            waits_for_evictions: waits_for_evictions?,
            detect_ps: detect_ps?,
            request_ps: request_ps?,
            book_ps: book_ps?,
            evict_ps: evict_ps?,
            daemon,
        })
    }
}

section! {
    /// The adaptive timer of the accelerator's daemon.
    pub struct AcceleratorDaemonSpec {
        first_ps: u64 = "first" time(STEP_PS) or "\"10 ms\"", "how long it sleeps at first";
        longer_ps: u64 = "longer" time(STEP_PS) or "\"100 us\"", "how much longer after a run";
        shorter_ps: u64 = "shorter" time(STEP_PS) or "\"1 ms\"", "how much shorter after a fault that found a queue full or empty";
        least_ps: u64 = "least" time(STEP_PS) or "\"5 ms\"", "how long it sleeps at least";
        most_ps: u64 = "most" time(1_000_000 * MILLISECOND_PS) or "\"100000 ms\"", "how long it sleeps at most";
        slack_ps: u64 = "slack" time(STEP_PS) or "\"10 ms\"", "how much later it may wake: half of it is taken";
    }
}
