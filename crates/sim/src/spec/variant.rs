//! Variants of a mechanism: one row holds everything that is particular to one.

use super::key::{Choices, Key};
use super::resolver::Resolver;
use super::tree::Table;

/// One variant of a mechanism, in its registry: its table in a machine file, and what becomes of it.
///
/// What [`Variant::resolve`] returns is what the machine is built from: a row without a resolver does not compile.
pub(super) struct Variant<T: 'static> {
    /// Its name, keys and meaning.
    pub(super) key: Key,
    /// From its table, complete and checked key by key, to its settings.
    pub(super) resolve: fn(&Table, &mut Resolver<'_>) -> Option<T>,
}

/// All variants of a mechanism.
pub(super) struct Registry<T: 'static>(pub(super) &'static [Variant<T>]);

impl<T> Registry<T> {
    /// The settings of the variant that a table names.
    pub(super) fn resolve(&self, table: &Table, resolver: &mut Resolver<'_>) -> Option<T> {
        let (variant, own) = self.chosen(table)?;
        (variant.resolve)(own, resolver)
    }

    /// The variant that a table names, and its own table.
    pub(super) fn chosen<'t>(&self, table: &'t Table) -> Option<(&'static Variant<T>, &'t Table)> {
        table.tables().find_map(|(name, own)| {
            let variant = self.0.iter().find(|variant| variant.key.name == name)?;
            Some((variant, own))
        })
    }
}

impl<T> Choices for Registry<T> {
    fn keys(&self) -> Vec<&'static Key> {
        self.0.iter().map(|variant| &variant.key).collect()
    }
}

/// A registry's variants, and others beside.
impl<T> Choices for (&'static Registry<T>, &'static [Key]) {
    fn keys(&self) -> Vec<&'static Key> {
        self.0.keys().into_iter().chain(self.1).collect()
    }
}
