//! Tests of the machine, on programs that were built for it. One program, so that the libraries are linked once.

mod common;
mod peer;
mod programs;
