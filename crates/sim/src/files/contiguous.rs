//! Files as ranges of pages: the hardware finds their bytes.
//!
//! A byte's address is the partition's first plus its offset; TLBs and walk caches translate it over the process's page table, which
//! lies in DRAM and is filled by faults from the persistent one, 2 MiB at a time. A fault where the persistent table has nothing
//! takes frames and enters them there, by its log. A file that grows out of its partition swaps its entries into a larger one; what
//! the process had mapped goes, with its TLB entries.
//!
//! Source: Li et al., ";login: 2022". Fresh frames are not zeroed where the file ends: no read reaches behind its end.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use pagewalk_vm::addr::{Asid, PAGE_BYTES, PageSize, Pfn, PhysAddr, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Level, Partition, PersistentMemory, Store, StoreError, Transaction};
use pagewalk_vm::table::{
    Leaf, Levels, PageTable, Radix, SparseMemory, TableArena, TableMemory, TableWords, WalkCache,
    WalkCaching, WalkEnd, X86_64,
};
use pagewalk_vm::tlb::{Fill, Tlbs, Translation};

use super::file::{FileError, IndexCounts, IndexedFile, Part, Parts};
use super::media::{LINE_BYTES, Media};
use crate::machine::tlbs;
use crate::spec::settings::{FileRequest, MachineSpec};

const LARGE_PAGES: u64 = 1 << LARGE_ORDER;
const ASID: Asid = Asid(1);

/// Persistent memory whose words are kept and whose use takes time.
struct Kept {
    media: Rc<RefCell<Media>>,
    words: RefCell<SparseMemory>,
    bytes: u64,
}

impl PersistentMemory for Kept {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn load(&self, at: u64) -> u64 {
        self.media.borrow_mut().load(PhysAddr(at));
        self.words.borrow().read(PhysAddr(at))
    }

    fn store(&self, at: u64, word: u64) {
        self.media.borrow_mut().store(PhysAddr(at));
        self.words.borrow_mut().write(PhysAddr(at), word);
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        for (chunk, at) in into.chunks_mut(8).zip((at..).step_by(8)) {
            chunk.copy_from_slice(&self.load(at).to_le_bytes()[..chunk.len()]);
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        for (chunk, at) in bytes.chunks(8).zip((at..).step_by(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(at, u64::from_le_bytes(word));
        }
    }

    fn zero(&self, at: u64, bytes: u64) {
        for line in (at..at + bytes).step_by(LINE_BYTES as usize) {
            self.media.borrow_mut().store(PhysAddr(line));
        }
        let mut words = self.words.borrow_mut();
        (at..at + bytes).step_by(8).for_each(|at| words.write(PhysAddr(at), 0));
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.media.borrow_mut().flush(at, bytes);
    }

    fn fence(&self) {
        self.media.borrow_mut().fence();
    }
}

/// What the process sees.
struct Process {
    table: Radix<X86_64>,
    memory: TableArena,
    tlbs: Tlbs,
    walk_cache: Option<WalkCache>,
}

impl Process {
    fn new(spec: &MachineSpec, dram: PhysAddr) -> Self {
        // The kernel's allocator keeps the first frame.
        let mut memory = TableArena::starting_at(dram.frame().add(1));
        let table = Radix::new(&Levels(4), 0, &mut memory).expect("there is a frame");
        let walk_cache =
            spec.translation.walk_cache.as_ref().map(|of| {
                WalkCache::new::<X86_64>(&of.entries, of.ways).expect("the machine file was checked")
            });
        Self { table, memory, tlbs: tlbs(spec, 0), walk_cache }
    }
}

/// One file in such a system.
pub(crate) struct ContiguousFile {
    spec: MachineSpec,
    call_ps: u64,
    /// Whether a process maps pages of 2 MiB where the persistent table has them.
    large: bool,
    media: Rc<RefCell<Media>>,
    store: Store<Kept>,
    process: Process,
    /// Where its size and its partition are kept.
    inode: PhysAddr,
    partition: Option<Partition>,
    bytes: u64,
    counts: IndexCounts,
}

impl ContiguousFile {
    /// Creates a file, which a process maps by pages of 2 MiB where it can if they may be `large`.
    pub(crate) fn new(request: &FileRequest<'_>, large: bool) -> Result<Self, StoreError> {
        let FileRequest { spec, persistent, call_ps, most_bytes } = *request;
        let media = Media::new(spec, persistent);
        // While a file moves, both its partitions are there.
        let room = 2 * most_bytes + (64 << 20);
        let dram = media.dram();
        let media = Rc::new(RefCell::new(media));
        media.borrow_mut().set_free(true);
        let words = RefCell::new(SparseMemory::new());
        let memory = Kept { media: media.clone(), words, bytes: room.min(dram.0) };
        let mut store = Store::format(memory).expect("the size was checked");
        let mut transaction = store.begin();
        let inode = transaction.take_frames(0)?.addr();
        transaction.commit()?;
        media.borrow_mut().set_free(false);
        Ok(Self {
            spec: spec.clone(),
            call_ps,
            large,
            process: Process::new(spec, dram),
            media,
            store,
            inode,
            partition: None,
            bytes: 0,
            counts: IndexCounts::default(),
        })
    }

    fn media(&self) -> RefMut<'_, Media> {
        self.media.borrow_mut()
    }

    fn begin(&mut self) {
        let mut media = self.media.borrow_mut();
        media.part(Part::Call);
        media.spend(self.call_ps);
        media.part(Part::Find);
        media.load(self.inode);
    }

    /// A partition of at least so many bytes.
    fn grow(&mut self, bytes: u64) -> Result<Partition, StoreError> {
        let level = Level::of_bytes(bytes).ok_or(StoreError::NoPartition)?;
        if let Some(partition) = self.partition.filter(|partition| partition.level >= level) {
            return Ok(partition);
        }
        self.media().part(Part::Build);
        let mut transaction = self.store.begin();
        let new = transaction.allocate(level)?;
        if let Some(old) = self.partition {
            let moved = transaction.swap(new.first, old.first, old.level.pages())?.total();
            transaction.free_partition(old)?;
            self.counts.moves += 1;
            self.counts.entries += moved;
            self.counts.most_entries = self.counts.most_entries.max(moved);
        }
        transaction.set(self.inode.0 + 8, new.first.0);
        transaction.commit()?;
        if let Some(old) = self.partition.replace(new) {
            self.forget(old);
        }
        Ok(new)
    }

    /// What the process has mapped of a range that is no more the file's.
    fn forget(&mut self, old: Partition) {
        let Process { table, memory, tlbs, walk_cache } = &mut self.process;
        let mut gone = 0u64;
        table.visit(memory, old.first, old.end(), |_, _, _| {
            gone += 1;
            None
        });
        if gone > 0 {
            tlbs.flush(Some(ASID));
            walk_cache.iter_mut().for_each(|cache| cache.flush(Some(ASID)));
            // An entry each, and all caches of it are told.
            self.media().spend(self.spec.kernel.shootdown_ps + gone * self.spec.core.cycle_ps);
        }
    }

    /// Where a page's frame is, as the hardware finds it.
    fn translate(&mut self, partition: Partition, page: Vpn) -> Result<(Pfn, u64), StoreError> {
        self.counts.translations += 1;
        let pages_from = |translation: Translation| {
            let pages = translation.size().base_pages();
            (translation.frame_of(page), pages - page.0 % pages)
        };
        if let Some(hit) = self.process.tlbs.lookup(ASID, page) {
            let latency_ps = self.spec.translation.tlb[hit.level as usize].latency_ps;
            self.media().spend(latency_ps);
            return Ok(pages_from(hit.translation));
        }
        loop {
            self.counts.walks += 1;
            let Process { table, memory, tlbs, walk_cache } = &mut self.process;
            let mut media = self.media.borrow_mut();
            let mut start = table.start();
            if let Some(cache) = walk_cache {
                media.spend(self.spec.translation.walk_cache.as_ref().map_or(0, |of| of.latency_ps));
                start = cache.lookup(ASID, page).unwrap_or(start);
            }
            let walk = table.walk_from(memory, page, start.level, start.node);
            walk.references().for_each(|reference| media.walk(reference.addr));
            if let Some(cache) = walk_cache {
                cache.fill(ASID, page, &walk);
            }
            drop(media);
            if let WalkEnd::Leaf { leaf, level } = walk.end {
                let size = PageSize::ALL[level as usize];
                let translation = Translation::new(leaf.frame, size, true, true);
                tlbs.fill(ASID, &Fill::single(page, translation));
                return Ok(pages_from(translation));
            }
            self.fault(partition, page)?;
        }
    }

    /// The kernel enters what the persistent table has for the 2 MiB around a page, or makes it have something.
    fn fault(&mut self, partition: Partition, page: Vpn) -> Result<(), StoreError> {
        self.counts.faults += 1;
        self.media().spend(self.spec.kernel.minor_fault_ps);
        if self.store.find(page).is_none() {
            self.media().part(Part::Build);
            let mut transaction = self.store.begin();
            map_fresh(&mut transaction, partition, page)?;
            transaction.commit()?;
            self.media().part(Part::Find);
        }
        let granule = Vpn(page.0 / LARGE_PAGES * LARGE_PAGES);
        let mapped = self.store.find(page).expect("it has just been mapped");
        let Process { table, memory, .. } = &mut self.process;
        if mapped.large && self.large {
            let first = Pfn(mapped.frame.0 - page.0 % LARGE_PAGES);
            self.media.borrow_mut().spend(self.spec.core.cycle_ps);
            table.map(memory, granule, Leaf::data(first), 1).expect("nothing was mapped there");
            return Ok(());
        }
        for at in 0..LARGE_PAGES {
            let page = Vpn(granule.0 + at);
            let is_inside = (partition.first..partition.end()).contains(&page);
            if !is_inside || !table.is_vacant(memory, page, 0) {
                continue;
            }
            if let Some(mapped) = self.store.find(page) {
                self.media.borrow_mut().spend(self.spec.core.cycle_ps);
                table.map(memory, page, Leaf::data(mapped.frame), 0).expect("nothing was mapped there");
            }
        }
        Ok(())
    }

    /// Lets `copy` have each piece of a range that lies in one page of the process.
    fn data(
        &mut self,
        partition: Partition,
        offset: u64,
        bytes: u64,
        copy: impl Fn(&mut Media, PhysAddr, u64, u64),
    ) -> Result<(), StoreError> {
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            self.media().part(Part::Find);
            let page = Vpn(partition.first.0 + at / PAGE_BYTES);
            let (frame, pages) = self.translate(partition, page)?;
            let piece = (pages * PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            let mut media = self.media.borrow_mut();
            media.part(Part::Data);
            copy(&mut media, frame.addr().add(at % PAGE_BYTES), piece, at - offset);
            at += piece;
        }
        Ok(())
    }
}

impl IndexedFile for ContiguousFile {
    fn write(&mut self, offset: u64, bytes: u64, from: PhysAddr) -> Result<(), FileError> {
        self.begin();
        let partition = self.grow(offset + bytes)?;
        self.data(partition, offset, bytes, |media, at, bytes, done| {
            media.write_data(at, bytes, Some(from.add(done)));
        })?;
        let mut media = self.media.borrow_mut();
        media.part(Part::Data);
        media.fence();
        // The size, which makes the bytes count, and the time.
        media.part(Part::Upkeep);
        media.store(self.inode);
        media.flush(self.inode.0, LINE_BYTES);
        media.fence();
        self.bytes = self.bytes.max(offset + bytes);
        Ok(())
    }

    fn read(&mut self, offset: u64, bytes: u64, into: PhysAddr) -> Result<(), FileError> {
        self.begin();
        let partition = self.partition.filter(|_| offset + bytes <= self.bytes);
        let partition = partition.expect("the file is so long");
        self.data(partition, offset, bytes, |media, at, bytes, done| {
            media.read_data(at, bytes, into.add(done));
        })?;
        Ok(())
    }

    fn set_free(&mut self, is_free: bool) {
        self.media().set_free(is_free);
        self.counts = IndexCounts::default();
    }

    fn reopen(&mut self) {
        let dram = self.media().dram();
        self.process = Process::new(&self.spec, dram);
    }

    fn parts(&self) -> Parts {
        self.media().parts()
    }

    fn counts(&self) -> IndexCounts {
        self.counts
    }
}

/// Frames for a page: 2 MiB where its partition has as much and nothing of it is mapped.
fn map_fresh(
    transaction: &mut Transaction<'_, Kept>,
    partition: Partition,
    page: Vpn,
) -> Result<(), StoreError> {
    let gap = transaction.find_or_gap(page).expect_err("nothing is mapped there");
    if gap >= LARGE_PAGES && partition.level >= Level::L3 {
        let granule = Vpn(page.0 / LARGE_PAGES * LARGE_PAGES);
        let frame = transaction.take_frames(LARGE_ORDER)?;
        return transaction.map(granule, frame, true);
    }
    let frame = transaction.take_frames(0)?;
    transaction.map(page, frame, false)
}
