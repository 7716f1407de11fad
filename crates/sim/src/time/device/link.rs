//! One direction of a network link.

/// Bytes go over a link one after the other, and each is so long under way.
///
/// ```text
/// sent    = max(now, free) + bytes / bandwidth
/// arrived = sent + latency
/// ```
#[derive(Clone, Debug)]
pub(super) struct Link {
    latency_ps: u64,
    bytes_a_second: u64,
    free_ps: u64,
}

/// When the last byte has left, and when it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) left_ps: u64,
    pub(super) arrived_ps: u64,
}

impl Link {
    pub(super) fn new(latency_ps: u64, bytes_a_second: u64) -> Self {
        Self { latency_ps, bytes_a_second, free_ps: 0 }
    }

    pub(super) fn send(&mut self, now_ps: u64, bytes: u64) -> Sent {
        let took_ps = u128::from(bytes) * 1_000_000_000_000 / u128::from(self.bytes_a_second);
        self.free_ps = self.free_ps.max(now_ps) + took_ps as u64;
        Sent { left_ps: self.free_ps, arrived_ps: self.free_ps + self.latency_ps }
    }
}
