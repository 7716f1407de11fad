//! Access streams for the benchmarks, made by running the algorithm itself on a small scale.

use pagewalk_trace::{Access, Batch, Event};
use pagewalk_vm::addr::VirtAddr;

/// Makes a stream of so many accesses.
pub type Make = fn(usize) -> Vec<Access>;

/// A small fast generator (xorshift64*), seeded; good enough to spread addresses.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Where the parts of a program's memory lie, as on x86-64 Linux.
const HEAP: u64 = 0x5581_3a2c_4010;
const MAPPED: u64 = 0x7f3a_1c00_0010;
const STACK: u64 = 0x7ffd_4a21_8e30;

fn load(addr: u64, bytes: u32) -> Access {
    Access::load(VirtAddr(addr), bytes)
}

fn store(addr: u64, bytes: u32) -> Access {
    Access::store(VirtAddr(addr), bytes)
}

/// Returns random xor updates of 8 bytes over a table of 256 MiB: a load and a store each.
pub fn gups(count: usize) -> Vec<Access> {
    let mut random = Random(1);
    let mut out = Vec::with_capacity(count + 1);
    while out.len() < count {
        let addr = MAPPED + random.below(256 << 20 >> 3) * 8;
        out.extend([load(addr, 8), store(addr, 8)]);
    }
    out.truncate(count);
    out
}

/// Returns the same after the table's sequential initialisation in 16-byte stores, in the proportion of the reference
/// program (16.8 M stores, 20 M updates).
pub fn gups_with_initialisation(count: usize) -> Vec<Access> {
    let stores = count * 17 / 57;
    let mut out: Vec<Access> = (0..stores as u64).map(|at| store(MAPPED + at * 16, 16)).collect();
    out.extend(gups(count - stores));
    out
}

/// Returns the accesses of a breadth-first search over a random graph in compressed rows: queue, row bounds,
/// neighbours, visited flags, and a spilled counter on the stack.
pub fn bfs(count: usize) -> Vec<Access> {
    const VERTICES: u64 = 1 << 18;
    const DEGREE: u64 = 16;
    let (rows, edges) = (MAPPED, MAPPED + (64 << 20));
    let (parents, queue) = (MAPPED + (256 << 20), HEAP);
    let mut random = Random(2);
    let neighbours: Vec<u32> = (0..VERTICES * DEGREE).map(|_| random.below(VERTICES) as u32).collect();
    let mut out = Vec::with_capacity(count + 64);
    while out.len() < count {
        let root = random.below(VERTICES);
        let mut parent = vec![u32::MAX; VERTICES as usize];
        parent[root as usize] = root as u32;
        let mut order = vec![root as u32];
        let mut head = 0;
        while head < order.len() && out.len() < count {
            let vertex = u64::from(order[head]);
            out.push(load(queue + head as u64 * 4, 4));
            out.extend([load(rows + vertex * 8, 8), load(rows + vertex * 8 + 8, 8)]);
            head += 1;
            for edge in vertex * DEGREE..(vertex + 1) * DEGREE {
                let target = neighbours[edge as usize];
                out.push(load(edges + edge * 4, 4));
                out.push(load(parents + u64::from(target) * 4, 4));
                if parent[target as usize] == u32::MAX {
                    parent[target as usize] = vertex as u32;
                    out.push(store(parents + u64::from(target) * 4, 4));
                    out.push(store(queue + order.len() as u64 * 4, 4));
                    out.extend([load(STACK - 24, 8), store(STACK - 24, 8)]);
                    order.push(target);
                }
            }
        }
    }
    out.truncate(count);
    out
}

/// Returns the accesses of `c[i] = a[i] + b[i]` over arrays of 8-byte numbers.
pub fn sequential(count: usize) -> Vec<Access> {
    let mut out = Vec::with_capacity(count + 3);
    let mut at = 0;
    while out.len() < count {
        let of = |array: u64| MAPPED + array * (512 << 20) + at * 8;
        out.extend([load(of(0), 8), load(of(1), 8), store(of(2), 8)]);
        at += 1;
    }
    out.truncate(count);
    out
}

/// Cuts a stream into full batches, each with its instruction count.
pub fn batches(accesses: &[Access]) -> Vec<Batch> {
    accesses
        .chunks(Batch::FULL)
        .map(|part| {
            let mut batch = Batch::new();
            batch.mark(Event::Instructions(part.len() as u64 * 3));
            batch.accesses.extend_from_slice(part);
            batch
        })
        .collect()
}

/// Returns the median of `rounds` runs, in million items per second of wall time and of the process's processor time
/// (all threads; what a busy machine distorts less).
pub fn millions_per_second(items: usize, rounds: usize, mut run: impl FnMut()) -> (f64, f64) {
    let rate = |seconds: f64| items as f64 / seconds / 1e6;
    let (mut wall, mut processor): (Vec<f64>, Vec<f64>) = (0..rounds)
        .map(|_| {
            let (start, processor_start) = (std::time::Instant::now(), processor_seconds());
            run();
            (rate(start.elapsed().as_secs_f64()), rate(processor_seconds() - processor_start))
        })
        .unzip();
    wall.sort_by(f64::total_cmp);
    processor.sort_by(f64::total_cmp);
    (wall[rounds / 2], processor[rounds / 2])
}

fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
