//! The operations on single items of the map.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use pagewalk_cuckoo::SlotRef;

use crate::item::{Item, Word};
use crate::map::{EQUAL_HASHES, ElasticMap};

/// The place of an item that was found.
#[derive(Clone, Copy)]
enum Found {
    Table(SlotRef),
    Rest(usize),
}

/// The operations on single items. `Hash` and `Eq` of the keys run before anything is changed: if they panic, the map is as it was.
impl<K: Hash + Eq, V, S: BuildHasher> ElasticMap<K, V, S> {
    /// Returns the value of a key.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the key as it stands in the map, and its value.
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let word = self.word(key);
        let table = self.table.as_ref()?;
        let item = match table.find_in_buckets(word.get(), |item| item.key.borrow() == key) {
            Some((_, item)) => item,
            None if self.rest.is_empty() => return None,
            None => self.rest_item(word, key)?,
        };
        Some((&item.key, &item.value))
    }

    /// Returns the value of a key, to be changed.
    #[inline]
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.find(self.word(key), key)?;
        self.value_mut(found)
    }

    /// Returns whether the key is in the map.
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
        let table = self.table_or_new();
        let equal = Cell::new(0);
        let wanted = |item: &Item<K, V>| {
            equal.set(equal.get() + 1);
            item.key == key
        };
        let found = table.find_in_buckets(word.get(), wanted).map(|(at, _)| Found::Table(at));
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
        let found = self.find(self.word(key), key)?;
        let Item { key, value, .. } = self.take(found);
        Some((key, value))
    }

    /// Returns the entry of a key, through which its value can be read, changed and put in.
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        let word = self.word(&key);
        self.table_or_new();
        let equal = Cell::new(0);
        let at = self.table.as_ref().and_then(|table| {
            let wanted = |item: &Item<K, V>| {
                equal.set(equal.get() + 1);
                item.key == key
            };
            table.find_in_buckets(word.get(), wanted).map(|(at, _)| Found::Table(at))
        });
        match at.or_else(|| self.find_in_rest(word, &key).map(Found::Rest)) {
            Some(found) => Entry::Occupied(OccupiedEntry { map: self, found, key }),
            None => Entry::Vacant(VacantEntry { equal: equal.get(), map: self, word, key }),
        }
    }

    /// Changes the value of a key that is there, and returns what `change` does; gives the key one if it is not there.
    pub fn upsert<R>(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => Some(change(entry.get_mut())),
            Entry::Vacant(entry) => {
                entry.insert(make());
                None
            }
        }
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
        let at = self.table.as_ref()?.find_in_buckets(word.get(), |item| item.key.borrow() == key);
        at.map(|(at, _)| Found::Table(at)).or_else(|| self.find_in_rest(word, key).map(Found::Rest))
    }

    /// Looks up an item among the rest, in a function of its own, whose registers look-ups in the table need not
    /// save.
    #[cold]
    #[inline(never)]
    fn rest_item<Q>(&self, word: Word, key: &Q) -> Option<&Item<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.find_in_rest(word, key).map(|index| &self.rest[index])
    }

    #[inline(always)]
    fn find_in_rest<Q>(&self, word: Word, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.rest.iter().position(|item| item.word == word && item.key.borrow() == key)
    }

    fn item(&self, found: Found) -> &Item<K, V> {
        let item = match found {
            Found::Table(at) => self.table.as_ref().and_then(|table| table.get(at)),
            Found::Rest(index) => self.rest.get(index),
        };
        item.expect("it was found there")
    }

    #[inline(always)]
    fn value_mut(&mut self, found: Found) -> Option<&mut V> {
        let item = match found {
            Found::Table(at) => self.table.as_mut()?.get_mut(at),
            Found::Rest(index) => self.rest.get_mut(index),
        };
        item.map(|item| &mut item.value)
    }

    /// Takes out what was found.
    fn take(&mut self, found: Found) -> Item<K, V> {
        let item = match found {
            Found::Table(at) => self.table.as_mut().and_then(|table| table.remove(at, &mut self.memory)),
            Found::Rest(index) => self.rest.remove(index),
        };
        if !self.rest.is_empty() {
            self.place_one_of_rest();
        }
        item.expect("it was found there")
    }

    /// Puts an item of which the map has none into it, and says where it is.
    fn place_and_find(&mut self, item: Item<K, V>, equal: usize) -> Found {
        let word = item.word;
        if equal > 0 {
            // By its hash alone it could not be told from the others.
            self.rest.push_back(item);
            return Found::Rest(self.rest.len() - 1);
        }
        let is_placed = self.place(item, 0);
        let table = self.table.as_ref().filter(|_| is_placed);
        let at = table.and_then(|table| table.find_in_buckets(word.get(), |_| true));
        at.map_or_else(|| Found::Rest(self.rest.len() - 1), |(at, _)| Found::Table(at))
    }
}

impl<K, V, S> ElasticMap<K, V, S> {
    /// Tries the item that has waited longest.
    #[cold]
    fn place_one_of_rest(&mut self) {
        if let Some(item) = self.rest.pop_front() {
            self.place_counted(item);
        }
    }

    /// Puts an item into the table, or to the rest.
    pub(crate) fn place_counted(&mut self, item: Item<K, V>) {
        let equal = Cell::new(0);
        if let Some(table) = &self.table {
            let none = table.find_in_buckets(item.word.get(), |_| {
                equal.set(equal.get() + 1);
                false
            });
            debug_assert!(none.is_none(), "the search is for all");
        }
        self.place(item, equal.get());
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
}

/// The state of a key in the map, from [`ElasticMap::entry`].
#[derive(Debug)]
pub enum Entry<'a, K, V, S> {
    /// The key is in the map.
    Occupied(OccupiedEntry<'a, K, V, S>),
    /// The key is not in the map.
    Vacant(VacantEntry<'a, K, V, S>),
}

/// A key that is in a map.
pub struct OccupiedEntry<'a, K, V, S> {
    map: &'a mut ElasticMap<K, V, S>,
    found: Found,
    /// The key as it was given, which is not the one in the map.
    key: K,
}

/// A key that is not in a map.
pub struct VacantEntry<'a, K, V, S> {
    map: &'a mut ElasticMap<K, V, S>,
    word: Word,
    key: K,
    /// Items of the same hash in the table.
    equal: usize,
}

impl<'a, K: Hash + Eq, V, S: BuildHasher> Entry<'a, K, V, S> {
    /// Returns the key as it was given.
    pub fn key(&self) -> &K {
        match self {
            Self::Occupied(entry) => &entry.key,
            Self::Vacant(entry) => &entry.key,
        }
    }

    /// Changes the value if there is one.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Self::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the value; a key that has none gets this one first.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// Returns the value; a key that has none gets one that is made now.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => entry.insert(make()),
        }
    }

    /// Returns the value; a key that has none gets the type's default first.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<'a, K: Hash + Eq, V, S: BuildHasher> OccupiedEntry<'a, K, V, S> {
    /// Returns the key as it stands in the map.
    pub fn key(&self) -> &K {
        &self.map.item(self.found).key
    }

    /// Returns the value of the key.
    pub fn get(&self) -> &V {
        &self.map.item(self.found).value
    }

    /// Returns the value of the key, to be changed.
    pub fn get_mut(&mut self) -> &mut V {
        self.map.value_mut(self.found).expect("it was found there")
    }

    /// Returns the value of the key, to be changed for as long as the map is borrowed.
    pub fn into_mut(self) -> &'a mut V {
        self.map.value_mut(self.found).expect("it was found there")
    }

    /// Sets the value, and returns the one before.
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Takes the item out, and returns its value.
    pub fn remove(self) -> V {
        self.map.take(self.found).value
    }

    /// Takes the item out.
    pub fn remove_entry(self) -> (K, V) {
        let Item { key, value, .. } = self.map.take(self.found);
        (key, value)
    }
}

impl<'a, K: Hash + Eq, V, S: BuildHasher> VacantEntry<'a, K, V, S> {
    /// Returns the key as it was given.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Gives the key back.
    pub fn into_key(self) -> K {
        self.key
    }

    /// Puts the item in.
    pub fn insert(self, value: V) -> &'a mut V {
        let Self { map, word, key, equal } = self;
        let found = map.place_and_find(Item { word, key, value }, equal);
        map.value_mut(found).expect("it has just been put there")
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for OccupiedEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for VacantEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VacantEntry").field("key", &self.key).finish_non_exhaustive()
    }
}
