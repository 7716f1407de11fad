//! A radix page table, what a walk of it reads, and what a walk cache saves: `cargo run --example walks`.
//!
//! The table lies in memory that it is handed, and every walk names the physical addresses that it reads.

use std::error::Error;

use pagewalk_vm::addr::{Asid, Pfn, VirtAddr, Vpn};
use pagewalk_vm::table::{Leaf, Levels, PageTable, Radix, TableArena, TableWords, WalkOutcome, X86_64};

fn main() -> Result<(), Box<dyn Error>> {
    let mut memory = TableArena::starting_at(Pfn(0x100));
    let mut table = Radix::<X86_64>::new(&Levels(4), 1, &mut memory)?;
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
