//! An array whose every element access is also an event.

use pagewalk_trace::Access;
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;

/// An array of `T` that the modelled program holds in `STRIDE` bytes an element.
///
/// `T` is how the host holds an element, which may be narrower than `STRIDE`: a vertex number that Graph500
/// stores in 8 bytes fits in 4 here. What is emitted is the program's layout.
pub(crate) struct Traced<T, const STRIDE: u64> {
    base: VirtAddr,
    data: Vec<T>,
}

impl<T: Copy, const STRIDE: u64> Traced<T, STRIDE> {
    /// `malloc` of `len` elements, all `value` on the host. No store is emitted: memory of the kernel is zero.
    pub(crate) fn new(
        len: usize,
        value: T,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        let base = space.malloc(len as u64 * STRIDE, out)?;
        Ok(Self { base, data: vec![value; len] })
    }

    /// `len` elements in an anonymous mapping of their own (`mmap`), all `value` on the host, without an event.
    pub(crate) fn mapped(len: usize, value: T, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        let bytes = (len as u64 * STRIDE).next_multiple_of(PAGE_BYTES);
        Self { base: space.map(bytes, out).start, data: vec![value; len] }
    }

    /// A local array on the stack.
    pub(crate) fn local(data: Vec<T>, space: &mut AddressSpace) -> Self {
        Self { base: space.local(data.len() as u64 * STRIDE), data }
    }

    /// Gives the memory back, as `free` does.
    pub(crate) fn free(self, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<(), Stop> {
        space.free(self.base, self.data.len() as u64 * STRIDE, out)
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// The address of an element.
    pub(crate) fn addr(&self, index: usize) -> VirtAddr {
        self.base.add(index as u64 * STRIDE)
    }

    /// The data, without events: for verification, and for loops that emit by themselves.
    pub(crate) fn untraced(&self) -> &[T] {
        &self.data
    }

    /// The data to change, without events: for verification, and for loops that emit by themselves.
    pub(crate) fn untraced_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Loads a whole element with one access.
    #[inline(always)]
    pub(crate) fn load(&self, index: usize, out: &mut Emitter<'_>) -> Result<T, Stop> {
        out.push(self.access::<false>(index, 0, STRIDE as u32))?;
        Ok(self.data[index])
    }

    /// Stores a whole element with one access.
    #[inline(always)]
    pub(crate) fn store(&mut self, index: usize, value: T, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.push(self.access::<true>(index, 0, STRIDE as u32))?;
        self.data[index] = value;
        Ok(())
    }

    /// Emits the load of a whole element whose value the host has from elsewhere.
    #[inline(always)]
    pub(crate) fn touch(&self, index: usize, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.push(self.access::<false>(index, 0, STRIDE as u32))
    }

    /// Emits the load of `bytes` of an element from `offset` on; its value the host has from elsewhere.
    #[inline(always)]
    pub(crate) fn touch_part(
        &self,
        index: usize,
        offset: u64,
        bytes: u32,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.push(self.access::<false>(index, offset, bytes))
    }

    /// The element, by an access to `bytes` of it from `offset` on: what the program reads of a structure.
    #[inline(always)]
    pub(crate) fn load_part(
        &self,
        index: usize,
        offset: u64,
        bytes: u32,
        out: &mut Emitter<'_>,
    ) -> Result<T, Stop> {
        out.push(self.access::<false>(index, offset, bytes))?;
        Ok(self.data[index])
    }

    /// The element to change, by an access to `bytes` of it from `offset` on.
    #[inline(always)]
    pub(crate) fn store_part(
        &mut self,
        index: usize,
        offset: u64,
        bytes: u32,
        out: &mut Emitter<'_>,
    ) -> Result<&mut T, Stop> {
        out.push(self.access::<true>(index, offset, bytes))?;
        Ok(&mut self.data[index])
    }

    /// Element `index`'s record. Adding to the packed base is sound: no array reaches bit 48.
    #[inline(always)]
    fn access<const WRITE: bool>(&self, index: usize, offset: u64, bytes: u32) -> Access {
        let first = Access::new(self.base, bytes, WRITE);
        Access(first.0 + index as u64 * STRIDE + offset)
    }
}
