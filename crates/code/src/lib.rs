//! What the instructions of a program do to registers and memory.
//!
//! A capture has the bytes of each executed block of instructions once, and its address at each execution. [`Block`] is the static
//! description of such bytes: for each instruction the registers that it reads and writes, its operands in memory, the class of its
//! operation, and where control goes behind it. A core model replays the executed blocks with it, so that an instruction waits for
//! those that it depends on. Bytes are decoded once for each block, not once for each execution.
//!
//! The types know no instruction set. [`x86`] makes them of x86-64's bytes, and says which register has which number, [`riscv`]
//! does so for RV64, and [`aarch64`] for A64; another instruction set is another such module. [`model`] is one for programs that have no machine code,
//! and [`outline`] one for traces without bytes.
//!
//! ```
//! use pagewalk_code::{Block, Class, x86};
//!
//! // add (%rdi), %eax; ret
//! let block = Block::of_x86_64(0x1000, &[0x03, 0x07, 0xc3]);
//! let add = &block.instructions[0];
//! assert_eq!(add.class, Class::Integer);
//! assert!(add.reads.contains(x86::general(0)));
//! assert!(add.operands[0].address.contains(x86::general(7)));
//! ```

pub mod aarch64;
mod bits;
mod block;
mod class;
pub mod model;
pub mod outline;
mod register;
pub mod riscv;
pub mod x86;

pub use block::{Block, Direction, Flow, Instruction, OPERANDS, Operand, Records};
pub use class::Class;
pub use register::{Register, Registers};
