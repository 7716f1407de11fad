//! Iterators over all items: of the table's chunks, then of the list.

use std::collections::{VecDeque, vec_deque};
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::{slice, vec};

use pagewalk_cuckoo::Cuckoo;

use crate::item::{Item, Words};
use crate::map::ElasticMap;

/// Slots of the table.
type Slots<K, V> = [Option<Item<K, V>>];

/// All items, from [`ElasticMap::iter`].
pub struct Iter<'a, K, V> {
    chunks: vec::IntoIter<&'a Slots<K, V>>,
    slots: slice::Iter<'a, Option<Item<K, V>>>,
    rest: vec_deque::Iter<'a, Item<K, V>>,
    left: usize,
}

impl<'a, K, V> Iter<'a, K, V> {
    pub(crate) fn new(
        table: Option<&'a Cuckoo<Item<K, V>, Words>>,
        rest: &'a VecDeque<Item<K, V>>,
        left: usize,
    ) -> Self {
        let chunks: Vec<_> = table.into_iter().flat_map(Cuckoo::slices).collect();
        Self { chunks: chunks.into_iter(), slots: [].iter(), rest: rest.iter(), left }
    }

    pub(crate) fn items(&mut self) -> Option<&'a Item<K, V>> {
        loop {
            if let Some(item) = self.slots.find_map(Option::as_ref) {
                return Some(item);
            }
            match self.chunks.next() {
                Some(chunk) => self.slots = chunk.iter(),
                None => return self.rest.next(),
            }
        }
    }
}

/// All items, whose values can be changed, from [`ElasticMap::iter_mut`].
pub struct IterMut<'a, K, V> {
    chunks: vec::IntoIter<&'a mut Slots<K, V>>,
    slots: slice::IterMut<'a, Option<Item<K, V>>>,
    rest: vec_deque::IterMut<'a, Item<K, V>>,
    left: usize,
}

impl<'a, K, V> IterMut<'a, K, V> {
    pub(crate) fn new(
        table: Option<&'a mut Cuckoo<Item<K, V>, Words>>,
        rest: &'a mut VecDeque<Item<K, V>>,
        left: usize,
    ) -> Self {
        let chunks: Vec<_> = table.into_iter().flat_map(Cuckoo::slices_mut).collect();
        Self { chunks: chunks.into_iter(), slots: [].iter_mut(), rest: rest.iter_mut(), left }
    }

    fn items(&mut self) -> Option<&'a mut Item<K, V>> {
        loop {
            if let Some(item) = self.slots.find_map(Option::as_mut) {
                return Some(item);
            }
            match self.chunks.next() {
                Some(chunk) => self.slots = chunk.iter_mut(),
                None => return self.rest.next(),
            }
        }
    }
}

/// The items of a map that is no longer used, from its [`into_iter`](ElasticMap::into_iter).
pub struct IntoIter<K, V> {
    chunks: vec::IntoIter<Box<Slots<K, V>>>,
    slots: vec::IntoIter<Option<Item<K, V>>>,
    rest: vec_deque::IntoIter<Item<K, V>>,
    left: usize,
}

impl<K, V> IntoIter<K, V> {
    pub(crate) fn new(chunks: Vec<Box<Slots<K, V>>>, rest: VecDeque<Item<K, V>>, left: usize) -> Self {
        Self { chunks: chunks.into_iter(), slots: Vec::new().into_iter(), rest: rest.into_iter(), left }
    }

    pub(crate) fn into_items(mut self) -> impl Iterator<Item = Item<K, V>> {
        std::iter::from_fn(move || self.items())
    }

    fn items(&mut self) -> Option<Item<K, V>> {
        loop {
            if let Some(item) = self.slots.find_map(|slot| slot) {
                return Some(item);
            }
            match self.chunks.next() {
                Some(chunk) => self.slots = chunk.into_vec().into_iter(),
                None => return self.rest.next(),
            }
        }
    }
}

/// The items that a map had, from [`ElasticMap::drain`].
pub struct Drain<'a, K, V> {
    items: IntoIter<K, V>,
    map: PhantomData<&'a mut (K, V)>,
}

impl<K, V> Drain<'_, K, V> {
    pub(crate) fn new(items: IntoIter<K, V>) -> Self {
        Self { items, map: PhantomData }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items()?;
        self.left -= 1;
        Some((&item.key, &item.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}
impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter of {} items", self.left)
    }
}

impl<'a, K, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items()?;
        self.left -= 1;
        Some((&item.key, &mut item.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for IterMut<'_, K, V> {}
impl<K, V> FusedIterator for IterMut<'_, K, V> {}

impl<K, V> fmt::Debug for IterMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IterMut of {} items", self.left)
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items()?;
        self.left -= 1;
        Some((item.key, item.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for IntoIter<K, V> {}
impl<K, V> FusedIterator for IntoIter<K, V> {}

impl<K, V> fmt::Debug for IntoIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IntoIter of {} items", self.left)
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        let Self { chunks, slots, rest, left } = self;
        Self { chunks: chunks.clone(), slots: slots.clone(), rest: rest.clone(), left: *left }
    }
}

impl<K, V> Iterator for Drain<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.items.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<K, V> ExactSizeIterator for Drain<'_, K, V> {}
impl<K, V> FusedIterator for Drain<'_, K, V> {}

impl<K, V> fmt::Debug for Drain<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Drain of {} items", self.items.left)
    }
}

impl<K, V, S> IntoIterator for ElasticMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(mut self) -> IntoIter<K, V> {
        self.take_all()
    }
}

impl<'a, K, V, S> IntoIterator for &'a ElasticMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V, S> IntoIterator for &'a mut ElasticMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}
