//! Memory across a network.

use super::design::{SwapDesign, SwapKind};
use crate::spec::section::{STEP_PS, Words, section};
use crate::time::device::remote::{RemoteMemory, RemoteSpec};
use crate::time::device::store::BackingStore;

/// Whether a page is away only when the blade has said so.
static COMPLETIONS: Words<bool> =
    Words(&[("sent", false, "away when sent"), ("acknowledged", true, "away when the blade has said so")]);

section! {
    fn resolve(table, resolver) -> RemoteSpec;
    const KEYS {
        link_latency_ps = "link-latency" time(STEP_PS) or "\"4 us\"", "one way, switches included";
        bytes_a_second = "bandwidth" bytes(1 << 20, 1 << 50) or "\"25000000000B\"", "bytes a second, each way";
        payload_bytes = "payload" bytes(64, 4_096) or "\"1368B\"", "most bytes of a page in a packet";
        header_bytes = "header" bytes(1, 256) or "\"58B\"", "bytes of a packet beside: Ethernet with preamble, checksum and gap, and the request's";
        service_ps = "service" time(STEP_PS) or "\"0 ns\"", "the blade's own time for a request";
        servers = "servers" integer(1, 1_024) or "1", "requests that the blade serves at once";
        acknowledges = "complete" word(&COMPLETIONS) or "\"acknowledged\"", "whether a page that leaves is away when it is sent, or when the blade has said so";
    }
    {
        Some(RemoteSpec {
            link_latency_ps: link_latency_ps?,
            bytes_a_second: bytes_a_second?,
            payload_bytes: payload_bytes?,
            header_bytes: header_bytes?,
            service_ps: service_ps?,
            servers: servers?,
            acknowledges: acknowledges?,
        })
    }
    const VARIANT: SwapKind =
        "blade", "memory across a network, that the faulting core waits for awake";
}

impl SwapDesign for RemoteSpec {
    fn build(&self) -> Box<dyn BackingStore> {
        Box::new(RemoteMemory::new(self))
    }
}
