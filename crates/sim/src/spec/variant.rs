//! Variants of a mechanism: one row holds everything that is particular to one.

use super::options::Table;
use super::resolve::Resolver;
use super::schema::Key;

/// One variant of a mechanism, in its registry: its table in a machine file, and what becomes of it.
///
/// What [`Variant::resolve`] returns is what the machine is built from: a row without a resolver does not compile.
pub(super) struct Variant<T: 'static> {
    /// Its name, keys and meaning.
    pub(super) key: Key,
    /// Keys with values, such that its table is right where others are at their defaults: what the conformance suite builds.
    #[cfg_attr(not(test), expect(dead_code, reason = "conformance suites build it"))]
    pub(super) example: &'static str,
    /// From its table, complete and checked key by key, to its settings. The text names the stage in messages.
    pub(super) resolve: fn(&str, &Table, &mut Resolver<'_>) -> Option<T>,
}

/// All variants of a mechanism.
pub(super) struct Registry<T: 'static>(pub(super) &'static [Variant<T>]);

impl<T> Registry<T> {
    /// The variant that a table names, and the variant's own table.
    pub(super) fn of<'t>(&self, table: &'t Table) -> Option<(&'static Variant<T>, &'t Table)> {
        let (name, own) = table.tables().next()?;
        self.0.iter().find(|variant| variant.key.name == name).map(|variant| (variant, own))
    }
}

/// The tables that a file may choose from: a [`Registry`] of any type, or plain keys.
pub(super) trait Choices: Sync {
    /// A row for each, in the order of the reference.
    fn keys(&self) -> Vec<&'static Key>;
}

impl<T> Choices for Registry<T> {
    fn keys(&self) -> Vec<&'static Key> {
        self.0.iter().map(|variant| &variant.key).collect()
    }
}

impl Choices for &'static [Key] {
    fn keys(&self) -> Vec<&'static Key> {
        self.iter().collect()
    }
}

/// A registry's variants, and others beside.
impl<T> Choices for (&'static Registry<T>, &'static [Key]) {
    fn keys(&self) -> Vec<&'static Key> {
        self.0.keys().into_iter().chain(self.1).collect()
    }
}
