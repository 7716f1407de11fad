//! A live program becomes a stream of events.
//!
//! [`Program`] is a [`Source`](pagewalk_trace::Source): it runs a program under one of two front-ends and hands over
//! every data access, instruction count and change of the address space while the program runs.
//!
//! ```text
//!   program under the Valgrind tool  --+
//!   program with the call-out runtime -+-- one SOCK_SEQPACKET socket --> protocol --> Assembler --> batches
//!     ... and all their children     --+   (whole messages, in order)    (decode)    (processes, threads)
//! ```
//!
//! The tool (`valgrind/`, GPLv2, a separate executable) and the runtime (`callout/`, a shared library) are C and are
//! built by the Makefile of this folder; `protocol/channel.h` is their side of [`protocol`].

pub mod assemble;
mod channel;
mod elf;
mod error;
mod install;
mod interrupt;
mod program;
pub mod protocol;

pub use assemble::Assembler;
pub use error::CaptureError;
pub use install::Install;
pub use program::{Frontend, Outcome, Program};
pub use protocol::ProtocolError;
