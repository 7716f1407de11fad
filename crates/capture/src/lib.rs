//! A live program becomes a stream of events.
//!
//! [`Program`] is a [`Source`](pagewalk_trace::Source): it runs a program under one of three front-ends and hands over
//! every data access, instruction count and change of the address space while the program runs.
//!
//! ```text
//!   program under the Valgrind tool  --+
//!   program under QEMU and the plugin -+
//!   program with the call-out runtime -+-- one SOCK_SEQPACKET socket --> protocol --> Assembler --> batches
//!     ... and all their children     --+   (whole messages, in order)    (decode)    (processes, threads)
//! ```
//!
//! The tool (`valgrind/`, GPLv2, a separate executable), the runtime (`callout/`, a shared library) and the plugin
//! (`qemu/`, GPLv2, a shared library) are C and are built by the Makefile of this folder; `protocol/channel.h` is their
//! side of [`protocol`], and `protocol/runtime.c` is what runtime and plugin share.

pub mod assemble;
mod channel;
mod elf;
mod error;
mod family;
mod frontend;
mod guard;
mod install;
mod program;
pub mod protocol;
mod unobserved;

pub use assemble::Assembler;
pub use error::CaptureError;
pub use family::kill_observed;
pub use frontend::Frontend;
pub use guard::{guard, is_guard};
pub use install::Install;
pub use program::{Outcome, Program, SIGNAL_GRACE};
pub use protocol::ProtocolError;
pub use unobserved::{Reason, Unobserved};
