//! Tests of the command, as another process. One program, so that the libraries are linked once.

mod administration;
mod beside;
mod blade;
mod common;
mod contract;
mod ends;
mod errors;
mod faults;
mod fs;
mod guard;
mod measured;
mod missing;
mod mounted;
mod observed;
mod partial;
mod readme;
mod riscv;
mod traces;
mod twins;
mod write_back;
