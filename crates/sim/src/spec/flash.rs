//! The flash of a machine file.

use pagewalk_vm::addr::PAGE_BYTES;

use super::quantity::SECOND_PS;
use super::section::{STEP_PS, Words, section};

/// A flash device: planes behind channels behind one bus.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashSpec {
    /// Logical capacity in 4 KiB pages; a multiple of `planes`, less than 2^32 a plane.
    pub pages: u64,
    /// Planes: what reads, programs and erases, one operation at a time.
    pub planes: u32,
    /// Channels; plane `p` is on channel `p % channels`.
    pub channels: u32,
    /// The times of its operations.
    pub times: FlashTimes,
    /// Writes that a plane lets wait for reads; not 0. One more, and the oldest goes first.
    pub writes_waiting: u32,
    /// The translation layer; absent means that pages are overwritten in place.
    pub garbage: Option<GarbageSpec>,
    /// The variation of the times of reads and programs.
    pub latency: Distribution,
    /// The seed of the random numbers for these times.
    pub seed: u64,
}

/// The times of the operations of flash.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashTimes {
    /// From the start of a read until its page is in the plane's register.
    pub read_ps: u64,
    /// The part of that for which the plane is held; at most `read_ps`. 0: reads wait for nothing but programs and erases.
    pub plane_read_ps: u64,
    /// Programming a page; not 0.
    pub write_ps: u64,
    /// The part of that for which the plane is held; at most `write_ps`. 0: as if it wrote many pages at once.
    pub plane_write_ps: u64,
    /// Transfer of a page on its channel.
    pub channel_page_ps: u64,
    /// Transfer of a page into or out of the device.
    pub bus_page_ps: u64,
}

/// Writing elsewhere, and collecting what is left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct GarbageSpec {
    /// Capacity beyond the logical one, in percent of it, rounded up to blocks of a plane; more than `free_blocks`.
    pub over_provisioning_percent: u32,
    /// The number of pages that are erased together.
    pub pages_per_block: u32,
    /// The time to erase a block.
    pub erase_ps: u64,
    /// A plane with fewer erased blocks collects; not 0.
    pub free_blocks: u32,
    /// The part of the device that waits meanwhile.
    pub holds: CollectionHolds,
    /// Whether the device starts as long use leaves it, and not with every page in its place and all spare blocks
    /// erased.
    pub is_worn: bool,
}

/// The part of the device that waits for a collection (Yan et al., "Tiny-Tail Flash", FAST 2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionHolds {
    /// The plane: pages are copied inside of it.
    Plane,
    /// The channel waits: pages are copied out of the plane and back.
    Channel,
}

/// The distribution of a time around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// The time is always its mean.
    Fixed,
    /// The time is distributed exponentially.
    Exponential,
    /// The logarithm of the time is distributed normally.
    LogNormal {
        /// Standard deviation of the logarithm, in percent.
        sigma_percent: u32,
    },
}

/// How long flash takes, given the standard deviation of the logarithm in percent.
static DISTRIBUTIONS: Words<fn(u32) -> Distribution> = Words(&[
    ("fixed", |_| Distribution::Fixed, "always the mean"),
    ("exponential", |_| Distribution::Exponential, "exponentially"),
    ("lognormal", |sigma_percent| Distribution::LogNormal { sigma_percent }, "its logarithm normally"),
]);
/// Whether flash begins as long use leaves it.
static WEAR: Words<bool> =
    Words(&[("fresh", false, "all spare blocks erased"), ("worn", true, "as long use leaves it")]);
/// What garbage collection holds, if there is any.
static COLLECTIONS: Words<Option<CollectionHolds>> = Words(&[
    ("none", None, "no collection"),
    ("plane", Some(CollectionHolds::Plane), "the plane"),
    ("channel", Some(CollectionHolds::Channel), "its channel"),
]);

fn page_ps(bytes_a_second: u64) -> u64 {
    PAGE_BYTES * SECOND_PS / bytes_a_second
}

section! {
    /// The flash behind a memory of so many bytes.
    pub(super) fn flash(table, resolver, memory_bytes: u64) -> FlashSpec;
    pub(super) const FLASH {
        capacity = "capacity" bytes(1 << 20, 1 << 50), "bytes of its logical pages";
        plane = "plane" bytes(1 << 20, 1 << 44) or "\"4GiB\"", "bytes of a plane";
        channels = "channels" integer(1, 4_096) or "16", "channels that planes share";
        read_ps = "read" time(STEP_PS) or "\"50 us\"", "reading a page";
        write_ps = "write" time(STEP_PS) or "\"100 us\"", "writing one";
        plane_read_ps = "read-holds-plane" time(STEP_PS) or "\"0 ns\"", "how long of a read its plane does nothing else";
        plane_write_ps = "write-holds-plane" time(STEP_PS) or "\"0 ns\"", "the same of a write";
        channel_page_ps = "channel-bandwidth" bytes(1 << 20, 1 << 50) or "\"4GiB\"" as page_ps, "of each channel, in a second";
        bus_page_ps = "bandwidth" bytes(1 << 20, 1 << 50) or "\"64GiB\"" as page_ps, "of all, in a second";
        distribution = "latency" word(&DISTRIBUTIONS) or "\"fixed\"", "how the time of a read is distributed; its mean is `read`";
        collection = "collection" word(&COLLECTIONS) or "\"none\"", "garbage collection: none, or what it holds while it works";
        is_worn = "begins" word(&WEAR) or "\"worn\"", "with collection: with every page in its place and all spare blocks erased, or as long use leaves it";
        free_blocks = "free-blocks" integer(1, 1_024) or "2", "erased blocks of a plane below which it collects";
        writes_waiting = "writes-waiting" integer(1, 65_536) or "64", "writes that a plane lets wait for reads; one more, and the oldest goes first";
        spread = "spread" integer(1, 300) or "50", "with `latency = \"lognormal\"`: the standard deviation of the logarithm, in percent";
        spare = "spare" integer(1, 100) or "7", "percent of flash beyond the logical pages (over-provisioning)";
        block = "block" integer(8, 65_536) or "256", "pages of a block";
        erase_ps = "erase" time(STEP_PS) or "\"3 ms\"", "erasing a block";
    }
    {
        let (capacity, plane) = (capacity?, plane?);
        if capacity < memory_bytes {
            let message = format!("flash of {capacity} bytes does not hold the memory of {memory_bytes} bytes over it");
            return resolver.refuse(message, "write at least [frames]'s memory", table, &["capacity"]);
        }
        if !capacity.is_multiple_of(plane) || !plane.is_multiple_of(PAGE_BYTES) {
            let message = format!("flash of {capacity} bytes is no whole number of planes of {plane}");
            return resolver.refuse(message, "write a multiple of `plane`", table, &["plane", "capacity"]);
        }
        let (read_ps, plane_read_ps, write_ps, plane_write_ps) =
            (read_ps?, plane_read_ps?, write_ps?, plane_write_ps?);
        for (operation, is_right) in [("read", plane_read_ps <= read_ps), ("write", plane_write_ps <= write_ps)] {
            if !is_right {
                let message = format!("flash: a {operation} holds its plane for longer than it takes");
                let held = format!("{operation}-holds-plane");
                let help = format!("write at most `{operation}`");
                return resolver.refuse(message, help, table, &[operation, &held]);
            }
        }
        let garbage = match collection? {
            None => None,
            Some(holds) => Some(GarbageSpec {
                over_provisioning_percent: spare?,
                pages_per_block: block?,
                erase_ps: erase_ps?,
                free_blocks: free_blocks?,
                holds,
                is_worn: is_worn?,
            }),
        };
        Some(FlashSpec {
            pages: capacity / PAGE_BYTES,
            planes: u32::try_from(capacity / plane).ok()?,
            channels: channels?,
            times: FlashTimes {
                read_ps,
                plane_read_ps,
                write_ps: write_ps.max(1),
                plane_write_ps,
                channel_page_ps: channel_page_ps?,
                bus_page_ps: bus_page_ps?,
            },
            writes_waiting: writes_waiting?,
            garbage,
            latency: distribution?(spread?),
            seed: 0,
        })
    }
}
