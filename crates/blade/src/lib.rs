//! Remote memory by the page: the memory-blade protocol.

pub mod codec;
