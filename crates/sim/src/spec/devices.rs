//! Settings of devices with an inside: flash, DRAM banks, the mesh between tiles.

/// A flash device: planes behind channels behind one bus.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashSpec {
    /// Logical capacity in 4 KiB pages; a multiple of `planes`, less than 2^32 a plane.
    pub pages: u64,
    /// Planes: what reads, programs and erases, one operation at a time.
    pub planes: u32,
    /// Channels; plane `p` is on channel `p % channels`.
    pub channels: u32,
    /// From the start of a read until its page is in the plane's register.
    pub read_ps: u64,
    /// How long of that the plane is held; at most `read_ps`. 0: reads wait for nothing but programs and erases.
    pub plane_read_ps: u64,
    /// Programming a page; not 0.
    pub write_ps: u64,
    /// How long of that the plane is held; at most `write_ps`. 0: as if it wrote many pages at once.
    pub plane_write_ps: u64,
    /// Transfer of a page on its channel.
    pub channel_page_ps: u64,
    /// Transfer of a page into or out of the device.
    pub bus_page_ps: u64,
    /// Writes that a plane lets wait for reads; not 0. One more, and the oldest goes first.
    pub writes_waiting: u32,
    /// The translation layer; absent means that pages are overwritten in place.
    pub garbage: Option<GarbageSpec>,
    /// How much the times of reads and programs vary.
    pub latency: Distribution,
    /// Where their random numbers start.
    pub seed: u64,
}

/// Writing elsewhere, and collecting what is left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct GarbageSpec {
    /// Capacity beyond the logical one, in percent of it, rounded up to blocks of a plane; more than `free_blocks`.
    pub over_provisioning_percent: u32,
    /// Pages erased together.
    pub pages_per_block: u32,
    /// Erasing a block.
    pub erase_ps: u64,
    /// A plane with fewer erased blocks collects; not 0.
    pub free_blocks: u32,
    /// What else waits meanwhile.
    pub holds: CollectionHolds,
    /// Whether the device starts as long use leaves it, and not with every page in its place and all spare blocks
    /// erased.
    pub is_worn: bool,
}

/// What waits for a collection (Yan et al., "Tiny-Tail Flash", FAST 2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionHolds {
    /// The plane: pages are copied inside of it.
    Plane,
    /// Its channel: pages are copied out of the plane and back.
    Channel,
}

/// How a time varies around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not at all.
    Fixed,
    /// Exponentially.
    Exponential,
    /// Its logarithm is normal.
    LogNormal {
        /// Standard deviation of the logarithm, in percent.
        sigma_percent: u32,
    },
}

/// DRAM banks behind memory controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct DramSpec {
    /// Controllers, each with a data bus of its own.
    pub channels: u32,
    /// Banks of a controller.
    pub banks: u32,
    /// Data of a row.
    pub row_bytes: u32,
    /// Opening a row.
    pub ras_ps: u64,
    /// From a column command until the end of its first 8 bytes; at least `burst_ps`.
    pub cas_ps: u64,
    /// Each further 8 bytes.
    pub burst_ps: u64,
    /// Closing a row.
    pub precharge_ps: u64,
    /// Issuing a row or column command, a response, a miss.
    pub command_ps: u64,
    /// Columns of 8 bytes read for tags; 0 for none.
    pub tag_columns: u32,
    /// Comparing them.
    pub compare_ps: u64,
    /// How many later requests may overtake one.
    pub overtakes: u32,
}

/// A mesh of tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSpec {
    /// Tiles in a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// From tile to tile.
    pub hop_ps: u64,
    /// What a link takes at once.
    pub flit_bytes: u32,
    /// How long that takes.
    pub flit_ps: u64,
    /// Tiles of the memory controllers; none means the corners.
    pub controllers: Vec<u32>,
}

/// Persistent memory.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistentSpec {
    /// How much there is.
    pub bytes: u64,
    /// A line whose neighbour was not read before it.
    pub read_random_ps: u64,
    /// The line behind the one before.
    pub read_sequential_ps: u64,
    /// A line, until it persists.
    pub write_ps: u64,
    /// Modules that it is spread over.
    pub modules: u32,
    /// log2 of the bytes of one module before the next one's.
    pub interleave_shift: u32,
    /// A line by a module's bandwidth.
    pub module_read_ps: u64,
    /// The same for writes.
    pub module_write_ps: u64,
    /// Written lines that a module takes in ahead of its bandwidth.
    pub buffer_lines: u64,
}

/// A file system in persistent memory.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesSpec {
    /// From the program into it and back.
    pub call_ps: u64,
    /// How it finds bytes.
    pub index: FileIndex,
}

/// How a file system finds bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum FileIndex {
    /// An extent tree and a journal, in the kernel.
    ExtentTree {
        /// From a range of a file to an address, without the index itself.
        map_ps: u64,
        /// A step of the journal: a handle, or a block of metadata that joins its transaction.
        journal_ps: u64,
    },
    /// The page table.
    PageTable {
        /// Whether a process maps pages of 2 MiB where the persistent table has them.
        large: bool,
    },
}
