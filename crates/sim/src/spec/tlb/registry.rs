//! The kinds of TLB array: one row each.
//!
//! A new kind is a file here with its keys, its [`TlbDesign`] and its [`Variant`], and a row in [`ARRAYS`].

use std::fmt;
use std::sync::Arc;

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::sets::{Replacement, ShapeError};
use pagewalk_vm::tlb::TlbStorage;

use super::{mosaic, set_associative};
use crate::spec::variant::{Registry, Variant};

/// All kinds, in the order of the reference.
pub(in crate::spec) static ARRAYS: Registry<TlbKind> = Registry(&[set_associative::VARIANT, mosaic::VARIANT]);

/// One kind of array, as a machine file asks for it.
pub(super) type ArrayVariant = Variant<TlbKind>;

/// What a kind of TLB array needs beside entries, ways and replacement.
///
/// # Contract
///
/// `Debug` says everything that a machine file can set (it is derived): two designs are equal if it prints them alike.
pub trait TlbDesign: fmt::Debug + Send + Sync {
    /// Whether pages of `size` stand in it as such.
    fn holds(&self, size: PageSize) -> bool;

    /// Whether pages of `size` profit from it, although perhaps in pieces.
    fn serves(&self, size: PageSize) -> bool {
        self.holds(size)
    }

    /// An empty array.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if entries and ways do not go together.
    fn build(&self, entries: u32, ways: u32, replacement: Replacement) -> Result<TlbStorage, ShapeError>;
}

/// What a TLB entry holds: a [`TlbDesign`].
#[derive(Clone, Debug)]
pub struct TlbKind(Arc<dyn TlbDesign>);

impl TlbKind {
    /// Of this design.
    pub fn new(design: impl TlbDesign + 'static) -> Self {
        Self(Arc::new(design))
    }
}

impl std::ops::Deref for TlbKind {
    type Target = dyn TlbDesign;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for TlbKind {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}
