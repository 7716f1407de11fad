//! Cuckoo hashing in ways that grow while they are used, the core of hashed page tables: [`pagewalk_cuckoo`], and the hash
//! functions that page tables take.

mod hashes;

pub use hashes::LineHash;
pub use pagewalk_cuckoo::*;
