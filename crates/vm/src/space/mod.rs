//! The kernel's view of an address space: which addresses a program may use, how, and with which pages.
//!
//! A *VMA* (virtual memory area, [`Vma`]) is a range of pages with equal attributes. The operations are those of
//! the system calls (`mmap`, `munmap`, `mprotect`, `madvise`, `brk`, `mremap`); they split and merge VMAs as Linux
//! does and answer what must happen to the page table. Pages get their frames later, when they are first touched:
//! [`AddressSpace::fault`] says whether an access is allowed and which page sizes may serve it. Neither the page
//! table nor the frames are known here.
//!
//! Ranges are rounded outwards to whole base pages (the program break alone is rounded up at both ends, as Linux
//! rounds it).

mod address_space;
mod change;
mod fault;
mod huge;
mod mapping;
mod vma;

pub use address_space::{ADDRESS_LIMIT, AddressSpace, MAX_MAPPINGS, SpaceError};
pub use change::Remapped;
pub use fault::{FaultError, FaultPlan, STACK_GUARD_BYTES, STACK_LIMIT_BYTES};
pub use huge::HugePagePolicy;
pub use mapping::{Advice, Backing, Mapping, ObjectId, ObjectPages, Protection};
pub use vma::{HugePageAdvice, Vma};

#[cfg(test)]
mod tests;
