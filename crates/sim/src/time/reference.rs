//! What a reference to memory is made for.

/// The kind of a reference, which decides where it enters and what it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReference {
    /// A load of the program.
    Load,
    /// A store of the program.
    Store,
    /// A page walker reading an entry.
    Walk,
    /// A line of instructions that their first cache does not have.
    Fetch,
    /// A store of the kernel.
    KernelStore,
}

impl MemoryReference {
    /// Returns whether the nearest level's line becomes dirty.
    #[inline(always)]
    pub(super) fn stores(self) -> bool {
        matches!(self, Self::Store | Self::KernelStore)
    }
}
