//! A radix page table, what a walk of it reads, and what a walk cache saves: `cargo run --example walks`.
//!
//! The table lies in memory that it is handed, and every walk names the physical addresses that it reads.

use std::error::Error;

use pagewalk_vm::addr::{Asid, Pfn, PhysAddr, VirtAddr, Vpn};
use pagewalk_vm::table::cuckoo::NoChunk;
use pagewalk_vm::table::{
    ContiguousMemory, Leaf, PageTable, Radix, SparseMemory, TableMemory, TableWords, WalkOutcome, X86_64,
};

/// Memory of which only what is written takes any, and the next free frame.
struct Memory {
    words: SparseMemory,
    next: Pfn,
}

impl ContiguousMemory for Memory {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        let base = self.next.addr();
        self.next.0 += bytes.div_ceil(4096);
        Ok(base)
    }

    fn free(&mut self, _: PhysAddr, _: u64) {}
}

impl TableWords for Memory {
    fn read(&self, addr: PhysAddr) -> u64 {
        self.words.read(addr)
    }
}

impl TableMemory for Memory {
    fn write(&mut self, addr: PhysAddr, word: u64) {
        self.words.write(addr, word);
    }

    fn zero_frame(&mut self, frame: Pfn) {
        self.words.zero_frame(frame);
    }

    fn release_frame(&mut self, frame: Pfn) {
        self.words.release_frame(frame);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut memory = Memory { words: SparseMemory::new(), next: Pfn(0x100) };
    let mut table = Radix::<X86_64>::new(&Default::default(), 1, &mut memory)?;
    let page = VirtAddr(0x7fff_1234_5000).page();
    table.map(&mut memory, page, Leaf::data(Pfn(0xabcde)), 0)?;
    let walk = table.walk(&memory, Asid(0), page, None);
    for read in walk.reads() {
        println!("level {} at {}: {:#018x}", read.level, read.addr, memory.read(read.addr));
    }
    println!("the walk of page {page} ends with {:?}", walk.end());
    println!(
        "the walk of the next page ends with {:?}",
        table.walk(&memory, Asid(0), Vpn(page.0 + 1), None).end()
    );
    Ok(())
}
