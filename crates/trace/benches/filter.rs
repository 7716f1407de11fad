//! Speed of the exact filter, and how much it keeps.

#[allow(dead_code, unreachable_pub, reason = "each benchmark uses some of the streams")]
mod streams;

use std::hint::black_box;

use pagewalk_trace::filter::Classes;
use pagewalk_trace::{Batch, ExactFilter, TlbDescription};

const ACCESSES: usize = 16 << 20;
const ROUNDS: usize = 5;

fn main() {
    let tlbs = [TlbDescription::lru("l1", 128, 8, 12)];
    println!("{:<12} {:>8} {:>8} {:>10} {:>10}", "stream", "classes", "kept", "M/s", "per CPU-s");
    let all: [(&str, streams::Make); 4] = [
        ("gups", streams::gups),
        ("gups+init", streams::gups_with_initialisation),
        ("bfs", streams::bfs),
        ("sequential", streams::sequential),
    ];
    for (name, make) in all {
        let accesses = make(ACCESSES);
        for classes in [Classes::Sixteen, Classes::One] {
            let new = || {
                ExactFilter::with_classes(&tlbs, Default::default(), classes).expect("exact for such a TLB")
            };
            let mut total = 0;
            let mut kept = Vec::new();
            let (speed, cpu) = streams::millions_per_second(ACCESSES, ROUNDS, || {
                let mut filter = new();
                total = 0;
                for part in accesses.chunks(Batch::FULL) {
                    kept.clear();
                    filter.filter(part, &mut kept);
                    total += black_box(&kept).len();
                }
            });
            let fraction = total as f64 / ACCESSES as f64;
            println!("{name:<12} {:>8} {fraction:>8.3} {speed:>10.0} {cpu:>10.0}", classes.count());
        }
    }
}
