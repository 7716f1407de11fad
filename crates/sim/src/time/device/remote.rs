//! A memory blade across a network.

use pagewalk_vm::addr::PAGE_BYTES;

use super::link::Link;
use super::store::{BackingStore, Transfer};
use crate::time::pool::Pool;

/// A memory blade and the links to it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSpec {
    /// One way, switches included.
    pub link_latency_ps: u64,
    /// The bandwidth of each direction, in bytes a second.
    pub bytes_a_second: u64,
    /// Most bytes of a page in a packet.
    pub payload_bytes: u64,
    /// Bytes of a packet beside.
    pub header_bytes: u64,
    /// The blade's own time for a request.
    pub service_ps: u64,
    /// Requests that it serves at once.
    pub servers: u32,
    /// Whether a page that leaves is away only when the blade has said so.
    pub acknowledges: bool,
}

/// A blade that keeps pages, a link to it and a link back.
///
/// A page takes `ceil(4096 / payload)` packets, each with a header. A read sends a header and waits for the page; a write
/// sends the page, and is complete when it has left or when the blade has said so.
///
/// ```text
/// read  = request link(header) + service + response link(page and headers)
/// write = request link(page and headers) [+ service + response link(header)]
/// ```
#[derive(Clone, Debug)]
pub(crate) struct RemoteMemory {
    request: Link,
    response: Link,
    blade: Pool,
    service_ps: u64,
    header_bytes: u64,
    page_bytes: u64,
    acknowledges: bool,
}

impl RemoteMemory {
    pub(crate) fn new(spec: &RemoteSpec) -> Self {
        let packets = PAGE_BYTES.div_ceil(spec.payload_bytes);
        let link = Link::new(spec.link_latency_ps, spec.bytes_a_second);
        Self {
            request: link.clone(),
            response: link,
            blade: Pool::new(spec.servers),
            service_ps: spec.service_ps,
            header_bytes: spec.header_bytes,
            page_bytes: PAGE_BYTES + packets * spec.header_bytes,
            acknowledges: spec.acknowledges,
        }
    }

    fn serve(&mut self, arrived_ps: u64) -> u64 {
        let service_ps = self.service_ps;
        self.blade.take(arrived_ps, |start_ps| start_ps + service_ps) + service_ps
    }
}

impl BackingStore for RemoteMemory {
    fn read(&mut self, now_ps: u64) -> Transfer {
        let asked = self.request.send(now_ps, self.header_bytes);
        let served_ps = self.serve(asked.arrived_ps);
        let done_ps = self.response.send(served_ps, self.page_bytes).arrived_ps;
        Transfer { done_ps, holds_core: true }
    }

    fn write(&mut self, now_ps: u64) -> Transfer {
        let sent = self.request.send(now_ps, self.page_bytes);
        let served_ps = self.serve(sent.arrived_ps);
        let done_ps = match self.acknowledges {
            true => self.response.send(served_ps, self.header_bytes).arrived_ps,
            false => sent.left_ps,
        };
        Transfer { done_ps, holds_core: true }
    }
}
