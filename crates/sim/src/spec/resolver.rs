//! What the sections of a machine file need to become settings: the clock, and the list of mistakes.
//!
//! A function that resolves a section answers nothing only when a mistake has been reported, there or by an earlier pass; the
//! others still run, so that a file's mistakes come together.

use std::sync::Arc;

use super::error::{Diagnostic, Diagnostics, Origin, SourceFile};
use super::key::LEVELS;
use super::quantity::format_bytes;
use super::tree::{Leaf, Node, Table, Value};
use super::value;
use pagewalk_vm::addr::PAGE_BYTES;

/// What all sections need.
pub(super) struct Resolver<'a> {
    /// The file that the user named.
    pub(super) file: &'a Arc<SourceFile>,
    pub(super) cycle_ps: u64,
    pub(super) errors: &'a mut Diagnostics,
}

/// The levels of a section that could be read.
pub(super) struct Levels<'t> {
    pub(super) tables: Vec<(&'static str, &'t Table)>,
    /// Whether these are all that the file means.
    pub(super) is_whole: bool,
}

impl Resolver<'_> {
    /// A time in picoseconds.
    pub(super) fn time(&self, table: &Table, name: &str) -> Option<u64> {
        match table.leaf(name)?.value {
            Value::Time(time, _) => Some(time.picoseconds(self.cycle_ps)),
            _ => None,
        }
    }

    /// Reports a mistake that lies in several values together at the last of those that the user's own file
    /// gives, and says where the others come from.
    pub(super) fn blame(
        &mut self,
        message: impl Into<String>,
        help: impl Into<String>,
        values: &[(&str, Option<&Leaf>)],
    ) {
        let values: Vec<_> = values.iter().filter_map(|&(name, leaf)| Some((name, leaf?))).collect();
        let own = values.iter().rev().find(|(_, leaf)| leaf.origin.is_in(self.file));
        let Some(&(blamed, at)) = own.or(values.last()) else { return };
        let mut wrong = Diagnostic::new(&at.origin, message).help(help);
        for (name, leaf) in &values {
            if *name != blamed && !leaf.origin.is_in(self.file) {
                let value = value::write(&leaf.value);
                wrong = wrong.help(match leaf.origin {
                    Origin::Default => format!("`{name} = {value}` is the default"),
                    Origin::File { .. } => format!("`{name} = {value}` comes from {}", leaf.origin.place()),
                });
            }
        }
        self.errors.push(wrong);
    }

    /// [`Resolver::blame`] of the values of these keys of one table, for use as `return resolver.refuse(...)`.
    pub(super) fn refuse<T>(
        &mut self,
        message: impl Into<String>,
        help: impl Into<String>,
        table: &Table,
        keys: &[&str],
    ) -> Option<T> {
        let values: Vec<_> = keys.iter().map(|key| (*key, table.leaf(key))).collect();
        self.blame(message, help, &values);
        None
    }

    /// Reports what is wrong with a section as a whole, for use as `return resolver.refuse_section(...)`.
    pub(super) fn refuse_section<T>(
        &mut self,
        section: &Table,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.errors.report(Diagnostic::new(&section.origin, message).help(help))
    }

    /// The bytes of a memory that consists of whole frames or buckets.
    pub(super) fn whole(&mut self, table: &Table, name: &str, bytes: u64, unit_bytes: u64) -> Option<u64> {
        if !bytes.is_multiple_of(unit_bytes) {
            let unit = match unit_bytes {
                PAGE_BYTES => "4KiB frames".to_owned(),
                other => format!("buckets of {}", format_bytes(other)),
            };
            let message = format!("{name} of {bytes} bytes is not a whole number of {unit}");
            let near = (bytes / unit_bytes).max(1) * unit_bytes;
            let help = format!("write for example \"{}\"", format_bytes(near));
            return self.refuse(message, help, table, &[name]);
        }
        Some(bytes)
    }

    /// Levels `l1`, `l2`, ... of a section, which must not leave one out.
    pub(super) fn levels<'t>(&mut self, tree: &'t Table, section: &str, noun: &str) -> Levels<'t> {
        let table = match tree.get(section) {
            None => return Levels { tables: Vec::new(), is_whole: true },
            Some(Node::Table(table)) => table,
            Some(_) => return Levels { tables: Vec::new(), is_whole: false },
        };
        let mut levels = Levels { tables: Vec::new(), is_whole: !table.is_broken };
        for (index, name) in LEVELS.iter().copied().enumerate() {
            let Some(Node::Table(level)) = table.get(name) else { continue };
            if levels.tables.len() < index && levels.is_whole {
                let below = LEVELS[index - 1];
                let message = format!("{noun} `{name}` stands above no `{below}`");
                let help = format!("levels are l1, l2 and so on: rename it, or add [{section}.{below}]");
                self.refuse_section::<()>(level, message, help);
                levels.is_whole = false;
            }
            levels.tables.push((name, level));
        }
        levels
    }
}
