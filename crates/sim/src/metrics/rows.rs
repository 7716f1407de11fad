//! Counts at a moment, before they become metrics.

use super::names::Name;

/// The counts of a machine at a moment: always the same rows in the same order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(Vec<Row>);

/// One count and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the metric.
    pub name: Name,
    /// The count at this moment.
    pub value: u64,
    kind: Kind,
}

/// Whether a row grows by events or is a level at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Counts events: a phase's share is the difference of two snapshots.
    Sum,
    /// A state: a phase reports its value at the end.
    Level,
}

impl Rows {
    /// Adds a count of events.
    pub fn sum(&mut self, name: Name, value: u64) {
        self.push(name, value, Kind::Sum);
    }

    /// Adds a state, of which a phase reports the value at its end.
    pub fn level(&mut self, name: Name, value: u64) {
        self.push(name, value, Kind::Level);
    }

    fn push(&mut self, name: Name, value: u64, kind: Kind) {
        debug_assert!(self.value(&name).is_none(), "{} {} is counted twice", name.stage, name.metric);
        self.0.push(Row { name, value, kind });
    }

    /// Returns the rows in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Row> {
        self.0.iter()
    }

    /// Returns the count under a name; none if no mechanism counts it.
    pub fn value(&self, name: &Name) -> Option<u64> {
        self.0.iter().find(|row| row.name == *name).map(|row| row.value)
    }
}

/// Returns the counts between two snapshots of the same machine.
pub(crate) fn share(start: &Rows, end: &Rows) -> Rows {
    debug_assert_eq!(start.0.len(), end.0.len(), "a machine always has the same rows");
    let between = |(start, end): (&Row, &Row)| {
        let before = if end.kind == Kind::Sum { start.value } else { 0 };
        Row { value: end.value - before, ..end.clone() }
    };
    Rows(start.0.iter().zip(&end.0).map(between).collect())
}
