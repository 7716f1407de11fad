//! Tests of the descriptions of instructions. One program, so that the libraries are linked once.

mod aarch64;
mod blocks;
mod codes;
mod instructions;
mod model;
mod outline;
mod properties;
mod riscv;
mod shapes;
mod table;
mod whole;
