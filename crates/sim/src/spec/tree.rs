//! A machine file as a tree of checked values, each with its place.

use super::error::Origin;
use super::quantity::Time;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl Leaf {
    /// A whole number; none for `"full"`.
    pub(super) fn count(&self) -> Option<u32> {
        match self.value {
            Value::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }

    /// The numbers of a list, whose kind allows no larger ones; a number alone stands for so many.
    pub(super) fn integers(&self, times: usize) -> Option<Vec<u32>> {
        match &self.value {
            Value::Integer(same) => Some(vec![*same as u32; times]),
            Value::Integers(list) => Some(list.iter().map(|number| *number as u32).collect()),
            _ => None,
        }
    }
}

/// A value of one of the kinds of keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(u64),
    /// `"full"`.
    Full,
    Integers(Vec<u64>),
    /// The quantities and how each was written.
    Sizes(Vec<(u64, String)>),
    /// The quantity and how it was written.
    Bytes(u64, String),
    Time(Time, String),
    Frequency(u64, String),
    Word(&'static str),
    Words(Vec<&'static str>),
    Text(String),
}

/// A place in the tree.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Table(Table),
    /// `"none"` in place of a table: the stage is absent even if the base has it.
    Absent,
    /// A mistake that has been reported already.
    Broken,
}

/// A table: its keys in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) origin: Origin,
    pub(super) nodes: Vec<(String, Node)>,
    /// Its `source` keys: the citation for the values written beside it.
    pub(super) sources: Vec<Leaf>,
    /// Something in it was wrong and has been reported: what seems to be missing may only be misspelt.
    pub(super) is_broken: bool,
}

impl Table {
    pub(super) fn empty(origin: Origin) -> Self {
        Self { origin, nodes: Vec::new(), sources: Vec::new(), is_broken: false }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        match self.get(name) {
            Some(Node::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// A table that may be absent. The outer option: whether it could be read.
    pub(super) fn section(&self, name: &str) -> Option<Option<&Table>> {
        match self.get(name) {
            None => Some(None),
            Some(Node::Table(table)) => Some(Some(table)),
            Some(_) => None,
        }
    }

    pub(super) fn leaf(&self, name: &str) -> Option<&Leaf> {
        match self.get(name) {
            Some(Node::Leaf(leaf)) => Some(leaf),
            _ => None,
        }
    }

    /// A whole number; none for `"full"`.
    pub(super) fn integer(&self, name: &str) -> Option<u32> {
        self.leaf(name)?.count()
    }

    /// A whole number of any size.
    pub(super) fn long(&self, name: &str) -> Option<u64> {
        match self.leaf(name)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Option<u64> {
        match self.leaf(name)?.value {
            Value::Bytes(bytes, _) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn sizes(&self, name: &str) -> Option<Vec<u64>> {
        match &self.leaf(name)?.value {
            Value::Sizes(sizes) => Some(sizes.iter().map(|(bytes, _)| *bytes).collect()),
            _ => None,
        }
    }

    /// A frequency in Hertz.
    pub(super) fn frequency(&self, name: &str) -> Option<u64> {
        match self.leaf(name)?.value {
            Value::Frequency(hertz, _) => Some(hertz),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match &self.leaf(name)?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The tables in it, in order.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.nodes.iter().filter_map(|(name, node)| match node {
            Node::Table(table) => Some((name.as_str(), table)),
            _ => None,
        })
    }
}
