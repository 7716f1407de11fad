//! Sets of page sizes.

use crate::addr::PageSize;

/// A set of page sizes, one bit each.
///
/// A TLB array for several page sizes looks up every size of which it has entries. The set names these without a look at the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PageSizes(u8);

const _: () = assert!(PageSize::EVERY.len() <= u8::BITS as usize, "a bit for each size");

impl PageSizes {
    /// Returns the set of those sizes for which `holds` is true.
    pub(super) fn those(holds: impl Fn(PageSize) -> bool) -> Self {
        let mut sizes = Self::default();
        for size in PageSize::EVERY {
            sizes.set(size, holds(size));
        }
        sizes
    }

    /// Adds a size, or removes it.
    #[inline]
    pub(super) fn set(&mut self, size: PageSize, is_held: bool) {
        self.0 = self.0 & !Self::bit(size) | u8::from(is_held) << size as u8;
    }

    /// Returns whether the set has this size.
    #[inline]
    pub(super) const fn contains(self, size: PageSize) -> bool {
        self.0 & Self::bit(size) != 0
    }

    /// Returns whether the set has no size.
    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set without 4 KiB.
    #[inline]
    pub(super) const fn large(self) -> Self {
        Self(self.0 & !Self::bit(PageSize::Size4K))
    }

    /// Returns the sizes in the order of their numbers.
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = PageSize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let size = *PageSize::EVERY.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(size)
        })
    }

    const fn bit(size: PageSize) -> u8 {
        1 << size as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out() {
        for kept in 0..1_u8 << PageSize::EVERY.len() {
            let is_kept = |size: PageSize| kept >> size as u8 & 1 == 1;
            let mut sizes = PageSizes::those(|size| !is_kept(size));
            for size in PageSize::EVERY {
                assert_eq!(sizes.contains(size), !is_kept(size));
                sizes.set(size, is_kept(size));
            }
            let expected: Vec<_> = PageSize::EVERY.into_iter().filter(|&size| is_kept(size)).collect();
            assert_eq!(sizes.iter().collect::<Vec<_>>(), expected);
            assert_eq!(sizes.is_empty(), expected.is_empty());
            assert!(sizes.large().iter().eq(expected.into_iter().filter(|&size| size != PageSize::Size4K)));
        }
    }
}
