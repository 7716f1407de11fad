//! Words of machine files: what each stands for, and what it means.

use super::key::WordList;
use super::tree::{Table, Value};

/// The words that a key takes, each with its value and its meaning.
///
/// One row is all there is of a word: the reader accepts it, the reference explains it, the resolver takes its value.
pub(super) struct Words<T: 'static>(pub(super) &'static [(&'static str, T, &'static str)]);

impl<T: Copy> Words<T> {
    /// What the word of a key stands for; none if the key's value is missing or broken.
    pub(super) fn value(&self, table: &Table, key: &str) -> Option<T> {
        match table.leaf(key)?.value {
            Value::Word(word) => self.0.iter().find(|row| row.0 == word).map(|row| row.1),
            _ => None,
        }
    }

    /// What the words of a key's list stand for, in the order of the rows.
    pub(super) fn each(&self, table: &Table, key: &str) -> Option<Vec<T>> {
        match &table.leaf(key)?.value {
            Value::Words(words) => {
                Some(self.0.iter().filter(|row| words.contains(&row.0)).map(|row| row.1).collect())
            }
            _ => None,
        }
    }
}

impl<T: PartialEq> Words<T> {
    /// The word for a value.
    ///
    /// # Panics
    ///
    /// If none of the words stands for it.
    pub(super) fn word(&self, value: T) -> &'static str {
        self.0.iter().find(|row| row.1 == value).expect("every value has a word").0
    }
}

impl<T: Sync> WordList for Words<T> {
    fn rows(&self) -> Vec<(&'static str, &'static str)> {
        self.0.iter().map(|row| (row.0, row.2)).collect()
    }
}
