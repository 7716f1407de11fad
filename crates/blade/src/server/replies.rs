//! Messages to send back.

use crate::codec::{Answer, MAX_MESSAGE_BYTES, Response};

/// Room for the answer to one message: at most the three parts of a page.
#[derive(Debug)]
pub struct Replies {
    messages: [[u8; MAX_MESSAGE_BYTES]; 3],
    lengths: [usize; 3],
    count: usize,
}

impl Default for Replies {
    fn default() -> Self {
        Self { messages: [[0; MAX_MESSAGE_BYTES]; 3], lengths: [0; 3], count: 0 }
    }
}

impl Replies {
    /// Returns the messages, in the order to send them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).map(|at| &self.messages[at][..self.lengths[at]])
    }

    /// Returns the number of messages.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Takes back what was answered.
    pub(super) fn refuse(&mut self) {
        if self.count > 0 {
            let txid = u32::from_le_bytes(std::array::from_fn(|byte| self.messages[0][4 + byte]));
            self.clear();
            self.push(&Response { txid, answer: Answer::Refused });
        }
    }

    pub(super) fn push(&mut self, response: &Response<'_>) {
        self.lengths[self.count] = response.emit(&mut self.messages[self.count]).len();
        self.count += 1;
    }
}
