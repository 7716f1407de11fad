//! The six micro-benchmarks of the article's Table 1, scaled, beside the same by system calls on a file of the file system that the
//! store lies on, and the limit: copying as much to memory that is there. Interleaved; medians; ratios are what counts.
//!
//! `table1 [FOLDER] [MiB]`; by default /dev/shm and 512.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pagewalk_ctfs::{FileSystem, Ino, Mapped, Opened, Owner, Place, Survives, Volume};
use pagewalk_vm::random::SplitMix64;

const ROUNDS: usize = 5;
const SMALL: usize = 4_096;
const FILE: u32 = 0o100_644;

/// What is measured: how much each operation moves, whether it writes, in which order, and to an empty file or a full one.
const ROWS: [(&str, usize, bool, bool, bool); 6] = [
    ("append", SMALL, true, false, true),
    ("sequential write, empty", 64 << 20, true, false, true),
    ("random read", SMALL, false, true, false),
    ("random write", SMALL, true, true, false),
    ("sequential read", 64 << 20, false, false, false),
    ("sequential write", 64 << 20, true, false, false),
];

/// Somewhere bytes can be written to and read from.
trait Target {
    fn empty(&mut self);
    fn write(&mut self, offset: u64, data: &[u8]);
    fn read(&mut self, offset: u64, into: &mut [u8]);
}

struct Store {
    volume: Volume<Mapped>,
    file: Opened,
}

impl Target for Store {
    fn empty(&mut self) {
        let mut system = self.volume.exclusive().expect("nobody is beside");
        system.unlink(Ino::ROOT, b"file").expect("it is there");
        let ino = system.create(Ino::ROOT, b"file", FILE, Owner::default(), 0).expect("room");
        drop(system);
        self.volume.close(self.file).expect("it is open");
        self.file = self.volume.open(ino).expect("it is there");
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.volume.write(self.file, Place::At(offset), data), Ok((offset, data.len())));
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) {
        assert_eq!(self.volume.read(self.file, offset, into), into.len());
    }
}

struct Calls(File);

impl Target for Calls {
    fn empty(&mut self) {
        self.0.set_len(0).expect("set");
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.0.write_all_at(data, offset).expect("written");
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.0.read_exact_at(into, offset).expect("read");
    }
}

struct Limit(Vec<u8>);

impl Target for Limit {
    fn empty(&mut self) {}

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.0[offset as usize..offset as usize + data.len()].copy_from_slice(data);
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0[offset as usize..offset as usize + into.len()]);
    }
}

fn seconds(target: &mut dyn Target, row: usize, bytes: u64, round: usize) -> f64 {
    let (_, size, writes, is_random, is_empty) = ROWS[row];
    if is_empty {
        target.empty();
    }
    let mut data = vec![round as u8; size];
    let mut random = SplitMix64::new(round as u64);
    let count = bytes / size as u64;
    let begun = Instant::now();
    for number in 0..count {
        let offset = if is_random { random.below(count) } else { number } * size as u64;
        match writes {
            true => target.write(offset, &data),
            false => target.read(offset, &mut data),
        }
    }
    let taken = begun.elapsed().as_secs_f64();
    std::hint::black_box(&data);
    taken
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let folder = PathBuf::from(arguments.first().map_or("/dev/shm", String::as_str));
    let bytes = arguments.get(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(512) << 20;
    let path =
        |name: &str| -> PathBuf { Path::new(&folder).join(format!("table1-{}-{name}", std::process::id())) };
    let (store_path, calls_path) = (path("store"), path("file"));
    let memory =
        Mapped::create(&store_path, bytes + bytes / 4 + (64 << 20), Survives::ProcessCrash).expect("room");
    let mut system = FileSystem::format(memory, Owner::default(), Box::new(|| 0)).expect("room");
    let ino = system.create(Ino::ROOT, b"file", FILE, Owner::default(), 0).expect("room");
    let volume = Volume::new(system);
    let file = volume.open(ino).expect("it is there");
    let mut store = Store { volume, file };
    let options = File::options().read(true).write(true).create(true).truncate(true).open(&calls_path);
    let mut calls = Calls(options.expect("made"));
    let mut limit = Limit(vec![1; bytes as usize]);
    // Every page of the store's file is there: first touches of the host's memory are not what is measured.
    for target in [&mut store as &mut dyn Target, &mut calls, &mut limit] {
        seconds(target, 0, bytes, 0);
    }
    println!("{} MiB in {}; GB/s, median of {ROUNDS}", bytes >> 20, folder.display());
    println!(
        "{:<26}{:>8}{:>14}{:>8}{:>14}{:>14}",
        "", "ctfs", "system calls", "copy", "ctfs / calls", "ctfs / copy"
    );
    for (row, (name, ..)) in ROWS.iter().enumerate() {
        let mut taken = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (target, taken) in
                [&mut store as &mut dyn Target, &mut calls, &mut limit].into_iter().zip(&mut taken)
            {
                taken.push(seconds(target, row, bytes, round));
            }
        }
        let ratio =
            |other: &[f64]| median(taken[0].iter().zip(other).map(|(own, other)| other / own).collect());
        let (to_calls, to_copy) = (ratio(&taken[1]), ratio(&taken[2]));
        let [own, calls, copy] = taken.map(|taken| bytes as f64 / median(taken) / 1e9);
        println!("{name:<26}{own:>8.2}{calls:>14.2}{copy:>8.2}{to_calls:>14.2}{to_copy:>14.2}");
    }
    let system = store.volume.shared();
    let (counts, mappings) = (system.counts(), system.store().memory().mappings());
    println!(
        "moves {}, entries at most {}; mapped by the hardware {}",
        counts.moves,
        counts.most_entries_moved,
        mappings
            .map_or("nothing".to_owned(), |(chunks, limit)| format!("{chunks} of at most {limit} x 2 MiB"))
    );
    for path in [store_path, calls_path] {
        std::fs::remove_file(path).expect("it was made here");
    }
}
