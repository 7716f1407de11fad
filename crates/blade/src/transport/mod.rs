//! Ways for messages to travel.

#[allow(unsafe_code)] // A socket's address, and nothing else.
mod ethernet;
mod in_process;
#[allow(unsafe_code)] // A mapped file, and nothing else.
mod ring;
mod udp;

pub use ethernet::Ethernet;
pub use in_process::InProcess;
pub use ring::Ring;
pub use udp::Udp;

use std::io;
use std::time::Duration;

use crate::address::Address;
use crate::codec::MAX_MESSAGE_BYTES;
use crate::secure::OVERHEAD_BYTES;

/// Bytes of the longest datagram that every transport carries: the longest message, sealed.
pub const MAX_DATAGRAM_BYTES: usize = MAX_MESSAGE_BYTES + OVERHEAD_BYTES;

/// Room for one received message: more than the longest, so that one that is too long is seen to be.
pub const RECEIVE_BYTES: usize = 2048;

/// Carries single messages, which may be lost, repeated, and overtaken.
///
/// # Contract
///
/// `send` sends one message or none. `receive` writes one message to the front of `buffer` and answers its length and where
/// it came from; what does not fit is cut off. It answers None when nothing came within `patience`, and may do so earlier (a
/// signal, or noise that is not for the caller); with no patience it does not wait. Errors mean that the transport is of no
/// use any more, except from `send`, where they mean that this message was lost. What was sent may wait for `flush` or
/// `receive` before the other end is told of it.
pub trait Transport {
    /// Sends a message to an address.
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()>;

    /// Tells the other end of what was sent, if that was not done yet.
    fn flush(&mut self) {}

    /// Waits for a message.
    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>>;

    /// What came in and was kept from the caller, so far: forged, repeated, of no known form, not for this end.
    fn dropped(&self) -> u64 {
        0
    }
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        (**self).send(to, message)
    }

    fn flush(&mut self) {
        (**self).flush();
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        (**self).receive(buffer, patience)
    }

    fn dropped(&self) -> u64 {
        (**self).dropped()
    }
}
