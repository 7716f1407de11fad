//! What a level keeps its arrays in.

use std::ops::{Deref, DerefMut};

use super::{Fill, Lookup, Mosaic, SetAssociative, TlbArray};
use crate::addr::{Asid, Vpn};

/// An array of any kind.
///
/// Every access of a program looks up here. The two kinds that most machines have stand inline, so that their look-up is not a
/// call; an array of any other kind is `Boxed`, and needs no variant here. All else goes through [`TlbArray`].
#[derive(Debug)]
pub enum TlbStorage {
    /// A set-associative array, which stands inline.
    SetAssociative(SetAssociative),
    /// A mosaic array, which stands inline.
    Mosaic(Mosaic),
    /// An array of any other kind.
    Boxed(Box<dyn TlbArray>),
}

impl TlbStorage {
    /// Stores an array of a kind without a variant of its own.
    pub fn boxed(array: impl TlbArray + 'static) -> Self {
        Self::Boxed(Box::new(array))
    }

    /// Looks a page up, as [`TlbArray::lookup`] says.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        match self {
            Self::SetAssociative(array) => array.lookup(asid, vpn),
            Self::Mosaic(array) => array.lookup(asid, vpn),
            Self::Boxed(array) => array.lookup(asid, vpn),
        }
    }

    /// Takes what a walk found, as [`TlbArray::fill`] says.
    #[inline(always)]
    pub fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        match self {
            Self::SetAssociative(array) => array.fill(asid, fill),
            Self::Mosaic(array) => array.fill(asid, fill),
            Self::Boxed(array) => array.fill(asid, fill),
        }
    }
}

impl Deref for TlbStorage {
    type Target = dyn TlbArray;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::SetAssociative(array) => array,
            Self::Mosaic(array) => array,
            Self::Boxed(array) => &**array,
        }
    }
}

impl DerefMut for TlbStorage {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::SetAssociative(array) => array,
            Self::Mosaic(array) => array,
            Self::Boxed(array) => &mut **array,
        }
    }
}

impl From<SetAssociative> for TlbStorage {
    fn from(array: SetAssociative) -> Self {
        Self::SetAssociative(array)
    }
}

impl From<Mosaic> for TlbStorage {
    fn from(array: Mosaic) -> Self {
        Self::Mosaic(array)
    }
}

impl From<Box<dyn TlbArray>> for TlbStorage {
    fn from(array: Box<dyn TlbArray>) -> Self {
        Self::Boxed(array)
    }
}
