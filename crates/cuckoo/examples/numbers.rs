//! Fills a table with numbers and says how its ways have grown: `cargo run --example numbers`.

use pagewalk_cuckoo::random::mix;
use pagewalk_cuckoo::{ChunkSource, Cuckoo, NoChunk, Policy, WayHashes};

/// Hashes by mixing all bits into all.
struct Mixed;

impl WayHashes for Mixed {
    fn word(&self, key: u64) -> u64 {
        mix(key)
    }
}

/// Memory that does not end, in chunks of 8 KiB.
struct Endless(u64);

impl ChunkSource for Endless {
    fn chunk_bytes(&self, _way: usize, bytes: u64) -> Option<u64> {
        Some(bytes.min(8 << 10))
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
        self.0 += bytes;
        Ok(self.0 - bytes)
    }

    fn free(&mut self, _base: u64, _bytes: u64) {}
}

fn main() {
    let mut memory = Endless(0);
    let mut table = Cuckoo::<u64, _>::new(Policy::MEMORY_EFFICIENT, Mixed, 1, &mut memory).expect("memory");
    for number in 1..=100_000 {
        table.insert(number, &mut memory).expect("memory");
    }
    let found = (1..=100_000).filter(|&number| table.find(number, |_| true).is_some()).count();
    let ways: Vec<usize> = table.way_slots().collect();
    println!("{found} of {} numbers found in ways of {ways:?} slots", table.len());
    println!(
        "{} moves by insertions, {} slots visited by resizes",
        table.counts().inserted.sum,
        table.counts().visited
    );
}
