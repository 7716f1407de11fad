//! A blade inside the process: the same server, without a network.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Transport;
use crate::address::Address;
use crate::server::{Replies, Server};

/// A client's way to a server in this process. The server works when something is sent to it.
#[derive(Debug)]
pub struct InProcess {
    server: Arc<Mutex<Server>>,
    own: Address,
    replies: Replies,
    arrived: VecDeque<Vec<u8>>,
}

impl InProcess {
    /// The address of the blade.
    pub const BLADE: Address = Address::Local(u64::MAX);

    /// Creates the transport of the client of this number; the server tells clients apart by it.
    pub fn new(server: Arc<Mutex<Server>>, client: u64) -> Self {
        let own = Address::Local(client);
        Self { server, own, replies: Replies::default(), arrived: VecDeque::new() }
    }
}

impl Transport for InProcess {
    fn send(&mut self, _to: Address, message: &[u8]) -> io::Result<()> {
        // The server has no state that a panic elsewhere could have left half done.
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.handle(self.own, message, &mut self.replies);
        self.arrived.extend(self.replies.iter().map(<[u8]>::to_vec));
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _patience: Duration) -> io::Result<Option<(usize, Address)>> {
        Ok(self.arrived.pop_front().map(|message| {
            let bytes = message.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&message[..bytes]);
            (bytes, Self::BLADE)
        }))
    }
}
