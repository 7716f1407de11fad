//! Tests of the front-ends, on C programs that they observe. One program, so that the libraries are linked once.

mod accesses;
mod code;
mod common;
mod engines;
mod faults;
mod input;
mod instructions;
mod limits;
mod processes;
mod protocol;
mod refusals;
mod space;
mod toolchains;
mod unobserved;
