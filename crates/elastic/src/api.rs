//! What users do with single items.

use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash};

use pagewalk_cuckoo::{Cuckoo, Policy, SlotRef};

use crate::item::{Item, Word, Words};
use crate::map::{EQUAL_HASHES, ElasticMap, POLICY};

/// Where an item is.
enum Found {
    Table(SlotRef),
    Rest(usize),
}

/// Single items. `Hash` and `Eq` of the keys run before anything is changed: if they panic, the map is as it was.
impl<K: Hash + Eq, V, S: BuildHasher> ElasticMap<K, V, S> {
    /// The value.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The key as it stands in the map, and the value.
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let word = self.word(key);
        let table = self.table.as_ref()?;
        let item = match table.find(word.get(), |item| item.key.borrow() == key) {
            Some(at) => table.get(at)?,
            None if self.rest.is_empty() => return None,
            None => &self.rest[self.find_in_rest(word, key)?],
        };
        Some((&item.key, &item.value))
    }

    /// The value, to be changed.
    #[inline]
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.find(self.word(key), key)?;
        self.value_mut(found)
    }

    /// Whether the key is in the map.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_key_value(key).is_some()
    }

    /// Sets the key's value, and returns the one that it had. The key that is there stays.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let word = self.word(&key);
        let Self { hasher, table, memory, .. } = self;
        let table = table.get_or_insert_with(|| {
            let policy =
                Policy { first_slots: memory.chunk_slots(), slot_bytes: memory.slot_bytes, ..POLICY };
            let seed = hasher.hash_one(0u64);
            Cuckoo::new(policy, Words, seed, memory).expect("the source refuses nothing")
        });
        let equal = Cell::new(0);
        let wanted = |item: &Item<K, V>| {
            equal.set(equal.get() + 1);
            item.key == key
        };
        let found = table.find(word.get(), wanted).map(Found::Table);
        let found = found.or_else(|| self.find_in_rest(word, &key).map(Found::Rest));
        if let Some(old) = found.and_then(|found| self.value_mut(found)) {
            return Some(std::mem::replace(old, value));
        }
        let item = Item { word, key, value };
        if self.place(item, equal.get()) && !self.rest.is_empty() {
            self.place_one_of_rest();
        }
        None
    }

    /// Takes the key's item out, and returns its value.
    #[inline]
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Takes the key's item out.
    #[inline]
    pub fn remove_entry<Q>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let item = match self.find(self.word(key), key)? {
            Found::Table(at) => self.table.as_mut()?.remove(at, &mut self.memory)?,
            Found::Rest(index) => self.rest.remove(index)?,
        };
        if !self.rest.is_empty() {
            self.place_one_of_rest();
        }
        Some((item.key, item.value))
    }

    #[inline(always)]
    fn word<Q: Hash + ?Sized>(&self, key: &Q) -> Word {
        Word::new(self.hasher.hash_one(key))
    }

    #[inline(always)]
    fn find<Q>(&self, word: Word, key: &Q) -> Option<Found>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let at = self.table.as_ref()?.find(word.get(), |item| item.key.borrow() == key);
        at.map(Found::Table).or_else(|| self.find_in_rest(word, key).map(Found::Rest))
    }

    #[inline(always)]
    fn find_in_rest<Q>(&self, word: Word, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.rest.iter().position(|item| item.word == word && item.key.borrow() == key)
    }

    #[inline(always)]
    fn value_mut(&mut self, found: Found) -> Option<&mut V> {
        let item = match found {
            Found::Table(at) => self.table.as_mut()?.get_mut(at),
            Found::Rest(index) => self.rest.get_mut(index),
        };
        item.map(|item| &mut item.value)
    }

    /// Puts an item of whose hash there are `equal` in the table into it, or to the rest; whether it is in the table.
    #[inline(always)]
    fn place(&mut self, item: Item<K, V>, equal: usize) -> bool {
        let Some(table) = self.table.as_mut().filter(|_| equal < EQUAL_HASHES) else {
            self.rest.push_back(item);
            return false;
        };
        let placed = table.try_insert(item, &mut self.memory);
        placed.map_err(|item| self.rest.push_back(item)).is_ok()
    }

    /// Tries the item that has waited longest.
    #[cold]
    fn place_one_of_rest(&mut self) {
        let (Some(table), Some(item)) = (&self.table, self.rest.pop_front()) else { return };
        let equal = Cell::new(0);
        let word = item.word.get();
        let none = table.find(word, |_| {
            equal.set(equal.get() + 1);
            false
        });
        debug_assert!(none.is_none(), "the search is for all");
        self.place(item, equal.get());
    }
}
