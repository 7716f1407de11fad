//! The third level: a chained list, nearly always empty.

/// Items in boxes of their own, which stay where they are. Each has a number that no other item of the chain has.
#[derive(Debug)]
pub(crate) struct Chain<T>(Option<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    number: u32,
    item: T,
    rest: Chain<T>,
}

impl<T> Chain<T> {
    pub(crate) const EMPTY: Self = Self(None);
    /// The bytes that an item takes.
    pub(crate) const NODE_BYTES: usize = size_of::<Node<T>>();

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an item in front, and returns its number.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let number = self.0.as_ref().map_or(0, |node| node.number + 1);
        let rest = Self(self.0.take());
        self.0 = Some(Box::new(Node { number, item, rest }));
        number
    }

    /// Items with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.0.as_deref();
        std::iter::from_fn(move || {
            let node = next?;
            next = node.rest.0.as_deref();
            Some((node.number, &node.item))
        })
    }

    /// Items, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let mut next = self.0.as_deref_mut();
        std::iter::from_fn(move || {
            let Node { item, rest, .. } = next.take()?;
            next = rest.0.as_deref_mut();
            Some(item)
        })
    }

    /// The first item that `wanted` is true of, and its number.
    pub(crate) fn find(&self, mut wanted: impl FnMut(&T) -> bool) -> Option<(u32, &T)> {
        self.iter().find(|(_, item)| wanted(item))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.iter().find(|(other, _)| *other == number).map(|(_, item)| item)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let mut next = self.0.as_deref_mut();
        while let Some(node) = next {
            if node.number == number {
                return Some(&mut node.item);
            }
            next = node.rest.0.as_deref_mut();
        }
        None
    }

    /// Takes an item out; the others stay.
    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        let mut chain = self;
        while chain.0.as_ref()?.number != number {
            chain = &mut chain.0.as_mut()?.rest;
        }
        chain.pop()
    }

    /// Takes the item in front.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let Node { item, mut rest, .. } = *self.0.take()?;
        self.0 = rest.0.take();
        Some(item)
    }
}

impl<T> Drop for Chain<T> {
    /// Drops the nodes one after the other: by the compiler's own recursion a long chain would exhaust the stack.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
