//! Speed and size of the `.pwt` container. Targets: encode 50 M records/s, decode 95 M/s, at most 2.5 B per
//! access.
//!
//! "encode" is `Writer::write` to `finish`, on two threads as in use; "decode" is `PwtSource::run` on one.

#[allow(dead_code, unreachable_pub, reason = "each benchmark uses some of the streams")]
mod streams;

use std::hint::black_box;
use std::ops::ControlFlow;

use pagewalk_trace::container::{PwtSource, Writer};
use pagewalk_trace::{Batch, Source, SourceInfo};

const ACCESSES: usize = 16 << 20;
const ROUNDS: usize = 5;

fn main() {
    let folder = std::env::temp_dir().join(format!("pagewalk-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    println!(
        "{:<12} {:>10} {:>14} {:>14} {:>14} {:>14}",
        "stream", "B/access", "encode M/s", "per CPU-s", "decode M/s", "per CPU-s"
    );
    let all: [(&str, streams::Make); 4] = [
        ("gups", streams::gups),
        ("gups+init", streams::gups_with_initialisation),
        ("bfs", streams::bfs),
        ("sequential", streams::sequential),
    ];
    for (name, make) in all {
        let batches = streams::batches(&make(ACCESSES));
        let path = folder.join(name).with_extension("pwt");
        let (encode, encode_cpu) = streams::millions_per_second(ACCESSES, ROUNDS, || write(&batches, &path));
        let bytes = std::fs::metadata(&path).expect("just written").len();
        let (decode, decode_cpu) = streams::millions_per_second(ACCESSES, ROUNDS, || {
            let mut source = PwtSource::open(&path).expect("just written");
            let mut sum = 0;
            let mut sink = |batch: &mut Batch| {
                sum ^= batch.accesses.last().map_or(0, |access| access.0);
                ControlFlow::Continue(())
            };
            source.run(&mut sink).expect("a sound file");
            black_box(sum);
        });
        let size = bytes as f64 / ACCESSES as f64;
        println!(
            "{name:<12} {size:>10.3} {encode:>14.1} {encode_cpu:>14.1} {decode:>14.1} {decode_cpu:>14.1}"
        );
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

fn write(batches: &[Batch], path: &std::path::Path) {
    let mut writer = Writer::create(path, &SourceInfo::default()).expect("a temporary file");
    for batch in batches {
        writer.write(batch).expect("a sound batch");
    }
    writer.finish().expect("room on the disk");
}
