//! The counts of what a reader leaves out of a trace, or has to assume, by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A kind of record that does not become an event as it stands in the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Data accesses to the kernel's half of the address space, outside the kernel parts of a trace.
    KernelAddresses,
    /// System calls and context switches whose kernel instructions are in the trace.
    KernelParts,
    /// Instructions of kernel parts.
    KernelInstructions,
    /// Data accesses of kernel parts.
    KernelAccesses,
    /// Loads of one byte at address 0, which is the record that stands for no access.
    NullLoads,
    /// Software and hardware prefetches, which may touch a TLB but cannot fault.
    Prefetches,
    /// Cache flushes, and the ends of flushed ranges.
    Flushes,
    /// Markers that announce nothing that a machine models.
    Markers,
    /// The bytes of instructions.
    Encodings,
    /// Instructions that were not fetched again, such as the later iterations of a repeated string instruction. Their accesses
    /// count.
    UnfetchedInstructions,
    /// Lines of a text that hold no access: remarks, empty lines.
    Remarks,
    /// Packets of a memory system that are neither a read nor a write request: responses, write-backs, evictions.
    OtherPackets,
    /// Files of a folder, or members of an archive, that are no part of the trace.
    OtherFiles,
    /// Accesses whose size the trace gives as 0: the size is not known.
    UnknownSizes,
    /// Accesses before the first instruction.
    EarlyAccesses,
    /// Translations that no machine can use: frame 0, another offset in the frame than in the page, or no address that the
    /// reader takes in.
    UnusableFrames,
}

/// What happens to a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    LeftOut,
    Taken,
    /// Left out unless kernel parts are asked for.
    Kernel,
}

struct Row {
    kind: Kind,
    /// The key in documents.
    name: &'static str,
    /// What is counted, in the plural.
    what: &'static str,
    fate: Fate,
}

impl Kind {
    const COUNT: usize = ROWS.len();
}

/// In the order of [`Kind`].
const ROWS: [Row; 16] = [
    Row {
        kind: Kind::KernelAddresses,
        name: "kernel_addresses",
        what: "accesses to kernel addresses",
        fate: Fate::Kernel,
    },
    Row {
        kind: Kind::KernelParts,
        name: "kernel_parts",
        what: "system calls and context switches in the kernel",
        fate: Fate::Kernel,
    },
    Row {
        kind: Kind::KernelInstructions,
        name: "kernel_instructions",
        what: "kernel instructions",
        fate: Fate::Kernel,
    },
    Row {
        kind: Kind::KernelAccesses,
        name: "kernel_accesses",
        what: "accesses by the kernel",
        fate: Fate::Kernel,
    },
    Row { kind: Kind::NullLoads, name: "null_loads", what: "1-byte loads at address 0", fate: Fate::LeftOut },
    Row { kind: Kind::Prefetches, name: "prefetches", what: "prefetches", fate: Fate::LeftOut },
    Row { kind: Kind::Flushes, name: "flushes", what: "cache flushes", fate: Fate::LeftOut },
    Row { kind: Kind::Markers, name: "markers", what: "markers", fate: Fate::LeftOut },
    Row { kind: Kind::Encodings, name: "encodings", what: "instruction encodings", fate: Fate::LeftOut },
    Row {
        kind: Kind::UnfetchedInstructions,
        name: "unfetched_instructions",
        what: "instructions that were not fetched again",
        fate: Fate::LeftOut,
    },
    Row { kind: Kind::Remarks, name: "remarks", what: "lines without an access", fate: Fate::LeftOut },
    Row {
        kind: Kind::OtherPackets,
        name: "other_packets",
        what: "packets that are neither read nor write requests",
        fate: Fate::LeftOut,
    },
    Row {
        kind: Kind::OtherFiles,
        name: "other_files",
        what: "files that are no part of the trace",
        fate: Fate::LeftOut,
    },
    Row {
        kind: Kind::UnknownSizes,
        name: "unknown_sizes",
        what: "accesses of unknown size (0 in the trace), taken as 1 to 8 bytes by their alignment",
        fate: Fate::Taken,
    },
    Row {
        kind: Kind::EarlyAccesses,
        name: "early_accesses",
        what: "accesses before the first instruction",
        fate: Fate::Taken,
    },
    Row {
        kind: Kind::UnusableFrames,
        name: "unusable_frames",
        what: "translations that cannot be used (frame 0, other offsets in page and frame, addresses left out)",
        fate: Fate::LeftOut,
    },
];

/// Counts by kind, as a reader makes them.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    counts: [u64; Kind::COUNT],
    notes: Vec<String>,
    facts: BTreeMap<String, String>,
}

impl Tally {
    /// Counts one record of a kind.
    #[inline]
    pub(super) fn count(&mut self, kind: Kind) {
        self.add(kind, 1);
    }

    /// Counts some records of a kind.
    #[inline]
    pub(super) fn add(&mut self, kind: Kind, count: u64) {
        self.counts[kind as usize] += count;
    }

    /// Keeps a sentence for the user, once.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Keeps a property of the trace, such as the page size of the system that it comes from.
    pub(super) fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// The result, for a reader that leaves kernel parts out or not.
    pub(super) fn finish(self, kernel: bool) -> Remarks {
        let mut remarks = Remarks { notes: self.notes, facts: self.facts, ..Remarks::default() };
        for row in &ROWS {
            let count = self.counts[row.kind as usize];
            let taken = row.fate == Fate::Taken || row.fate == Fate::Kernel && kernel;
            if count > 0 {
                let counts = if taken { &mut remarks.assumed } else { &mut remarks.left_out };
                counts.insert(row.name.to_owned(), count);
            }
        }
        remarks
    }
}

/// The remarks of a reader: what it left out of a trace, what it had to assume, and what else its user should know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Remarks {
    /// Records that did not become events, by the names of their kinds.
    #[serde(default)]
    pub left_out: BTreeMap<String, u64>,
    /// Records that became events in a way that is worth knowing, by the names of their kinds.
    #[serde(default)]
    pub assumed: BTreeMap<String, u64>,
    /// Sentences about the trace as a whole.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Properties of the trace, by name.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl Remarks {
    /// Returns whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of records of a kind that were left out.
    pub fn left_out(&self, kind: Kind) -> u64 {
        self.left_out.get(ROWS[kind as usize].name).copied().unwrap_or(0)
    }

    /// Returns the number of records of a kind that became events in a way that is worth knowing.
    pub fn assumed(&self, kind: Kind) -> u64 {
        self.assumed.get(ROWS[kind as usize].name).copied().unwrap_or(0)
    }

    /// Returns all of it as lines of two columns: a heading, and a text.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let listed = |heading, counts: &BTreeMap<String, u64>| {
            ROWS.iter()
                .filter_map(move |row| Some((heading, format!("{} {}", counts.get(row.name)?, row.what))))
                .collect::<Vec<_>>()
        };
        let mut lines = listed("left out", &self.left_out);
        lines.extend(listed("taken in", &self.assumed));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_in_the_order_of_the_kinds() {
        for (number, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, number, "{}", row.name);
        }
    }
}
