//! Observes a program and says what came: `cargo run --release -p pagewalk-capture --example observe -- sort FILE`.
//! Begin with `--callout` for a program built with the call-out runtime.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;

use pagewalk_capture::{Frontend, Program};
use pagewalk_trace::{Batch, Event, Source};

fn main() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let frontend = if args.first().is_some_and(|arg| arg == "--callout") {
        args.remove(0);
        Frontend::Callout
    } else {
        Frontend::Valgrind
    };
    if args.is_empty() {
        eprintln!("usage: observe [--callout] PROGRAM ARGS...");
        return ExitCode::from(2);
    }
    let mut program = Program::new(args.remove(0), args).frontend(frontend);
    let mut sizes: BTreeMap<(bool, u64), u64> = BTreeMap::new();
    let mut marks: BTreeMap<String, u64> = BTreeMap::new();
    let result = program.run(&mut |batch: &mut Batch| {
        for access in &batch.accesses {
            *sizes.entry((access.is_write(), access.bytes())).or_default() += 1;
        }
        for mark in &batch.marks {
            *marks.entry(name(&mark.event)).or_default() += 1;
        }
        ControlFlow::Continue(())
    });
    if let Err(error) = result {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    for ((is_write, bytes), count) in &sizes {
        eprintln!("{} of {bytes:2} bytes: {count:12}", if *is_write { "stores" } else { "loads " });
    }
    eprintln!("{marks:?}");
    eprintln!("{:?}", program.outcome());
    ExitCode::SUCCESS
}

/// The event's name without what is in it.
fn name(event: &Event) -> String {
    let text = format!("{event:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_owned()
}
