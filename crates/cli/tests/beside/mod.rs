//! Programs that use files of a mount in their own memory, beside others that use them through the kernel.

mod mapped;
mod matrix;
mod names;
mod odd;
mod programs;
mod raced;
mod stress;
mod synced;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::mounted::name;

/// The shared library, where the tests' build puts it.
fn shim() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    let is_there = beside.is_file();
    if !is_there {
        println!("skipped: `cargo build --package pagewalk-ctfs-shim` makes what is preloaded");
    }
    is_there.then_some(beside)
}

/// This program as another process that does what `PAGEWALK_TEST_PART` says, with the shim or without.
fn start(part: &str, shim: Option<&Path>, folder: &Path, number: u64, seconds: u64) -> Child {
    let itself = std::env::current_exe().expect("a program");
    let mut command = match shim {
        Some(_) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
            command.args(["fs", "run", "--", name(&itself)]);
            command
        }
        None => Command::new(itself),
    };
    command
        .env("PAGEWALK_TEST_PART", part)
        .env("PAGEWALK_TEST_FOLDER", folder)
        .env("PAGEWALK_TEST_NUMBER", number.to_string())
        .env("PAGEWALK_TEST_SECONDS", seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Parts run before the tests' own `main`, which has threads: a program with one takes other ways.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if let Ok(part) = std::env::var("PAGEWALK_TEST_PART") {
        part_of_a_test(&part);
        std::process::exit(0);
    }
}

/// With one thread, or with another one.
fn alone_or_not(number: u64, act: impl FnOnce() + Send) {
    if number.is_multiple_of(2) {
        act();
    } else {
        std::thread::scope(|scope| scope.spawn(act).join().expect("it went well"));
    }
}

/// In two threads, of which the process begins one, or in its own alone.
fn with_threads(are_two: bool, act: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let act = &act;
        if are_two {
            scope.spawn(move || act(1));
        }
        act(0);
    });
}

fn part_of_a_test(part: &str) {
    let variable = |name: &str| std::env::var(format!("PAGEWALK_TEST_{name}")).expect("it was given");
    let folder = PathBuf::from(variable("FOLDER"));
    let number: u64 = variable("NUMBER").parse().expect("a number");
    let seconds = || variable("SECONDS").parse().expect("a number");
    match part {
        "stress" => with_threads(number < stress::PROCESSES_OF_TWO, |thread| {
            stress::thread(&folder, number * 2 + thread, seconds());
        }),
        "raced" => with_threads(number == raced::OF_TWO_THREADS, |thread| {
            raced::race(&folder.join("mount"), number * 2 + thread, seconds());
        }),
        "operations" => alone_or_not(number, || programs::operations(&folder.join("mount/tree"), number)),
        "stopped" => alone_or_not(number, || programs::stopped(&folder.join("mount"))),
        "descriptors" => programs::descriptors(&folder.join("mount"), number),
        "large" => programs::large(&folder.join("mount"), number),
        "full" => programs::full(&folder.join("mount")),
        "shifted" => programs::shifted(&folder.join("mount")),
        "store" => programs::no_descriptor_writes_the_store(&folder.join("mount")),
        "cut" => programs::cut(&folder.join("mount/mapped")),
        "mapped" => mapped::mapped(&folder.join("mount")),
        "odd" => odd::odd(&folder),
        "synced" => alone_or_not(number, || synced::synced(&folder)),
        "names" => names::names(&folder, number),
        "leaves mapped" => mapped::leaves_mapped(&folder.join("mount")),
        part => panic!("{part}"),
    }
}
