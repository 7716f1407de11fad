//! The `pagewalk` command.

// Both panic where standard output or standard error is broken; see `run::print` and `say`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod args;
mod blade;
mod calibrate;
mod distant;
mod ending;
mod exit;
mod fs;
mod list;
mod outputs;
mod paper;
mod record;
mod riscv;
mod run;
mod say;
mod trace;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next();
    if pagewalk_capture::is_guard(name.as_deref()) {
        return pagewalk_capture::guard();
    }
    if fs::helper::is_helper(name.as_deref()) {
        return fs::helper::run(words);
    }
    let arguments = Arguments::parse();
    say::set(arguments.say);
    let done = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Record(arguments) => record::record(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Machines(arguments) => list::machines(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Workloads => list::workloads(),
        Command::Paper(arguments) => paper::paper(&arguments),
        Command::Riscv(arguments) => riscv::riscv(&arguments),
        Command::Blade(arguments) => blade::blade(&arguments),
        Command::Fs(arguments) => fs::fs(&arguments),
    };
    exit::code(done)
}
