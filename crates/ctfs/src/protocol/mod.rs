//! The messages between clients and the owner of a mount, as both sides know them.
//!
//! ```text
//!   messages    `ioctl` on a file of the mount, and the sockets: any program
//!   requests    names and attributes, through a mailbox in shared memory: clients
//! ```

pub(crate) mod messages;
pub(crate) mod requests;

pub use requests::{BY_HANDLE, Base, Caller, Refused, SetTime};
