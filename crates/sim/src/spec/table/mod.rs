//! The page tables that machine files can ask for.

mod classic;
#[cfg(test)]
mod conformance;
mod hashed;
mod radix;
mod toc;

pub use classic::ClassicSpec;
pub use hashed::HashedSpec;
pub use radix::RadixSpec;
pub use toc::TocSpec;

use super::settings::TableKind;
use super::variant::Registry;

/// All page tables: a new one is a file with its keys and its design, and a row here.
pub(super) static TABLES: Registry<TableKind> = Registry(&[
    // In the order of the reference.
    radix::VARIANT,
    toc::VARIANT,
    hashed::VARIANT,
    classic::OPEN_ADDRESSING,
    classic::CHAINED,
]);
