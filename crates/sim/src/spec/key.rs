//! The keys of machine files: what a row of a section says about a key.
//!
//! The reader, the merge of `extends`, the defaults, `show` and the reference in `machines/README.md` all walk these
//! rows. The rows themselves stand beside what is made of them.

/// What stands behind a key.
pub(super) enum Shape {
    /// A single value.
    Value(Kind),
    /// A table with these keys.
    Table(&'static [Key]),
    /// Keys that stand in the same table, under no name of their own: the settings of a part.
    Part(&'static [Key]),
    /// A table with common keys and exactly one of the variants, each an own table; in a file
    /// `[common.variant]`. The default applies when the whole table is left out.
    Variants { common: &'static [Key], variants: &'static dyn Choices, default: Option<&'static str> },
    /// Tables of one shape under names.
    Named { names: Names, noun: &'static str, each: &'static Shape },
}

/// The names that a [`Shape::Named`] takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// `l1` to `lN`, without gaps.
    Levels(usize),
    /// Free names, at most so many.
    Free(usize),
}

/// What a value is, and its limits.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A whole number of ways, or `"full"` for as many as there are entries.
    Ways { max: u64 },
    /// One whole number for all, or a list of them.
    Integers { max: u64, max_count: usize },
    /// A list of sizes, ascending, or `"whole"` for none.
    Sizes { min: u64, max: u64, max_count: usize },
    /// A size with a unit.
    Bytes { min: u64, max: u64 },
    /// A time with a unit.
    Time { max_ps: u64 },
    /// A frequency with a unit.
    Frequency { min_hz: u64, max_hz: u64 },
    /// One of these words.
    Word(&'static dyn WordList),
    /// A list of different words out of these, at least one.
    Words(&'static dyn WordList),
    /// A machine's name.
    Name,
    /// One line of text.
    Line { max_chars: usize },
    /// Text of any number of lines.
    Text { max_chars: usize },
}

/// Whether a key must be there.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// The file or its base gives it.
    Required,
    /// Without it, this value, written as in a file.
    Default(&'static str),
    /// Without it, nothing. A table of this presence is a stage that a machine may lack: `"none"` says so.
    Optional,
    /// A table that is always there; its own keys have defaults.
    Always,
    /// One of the variants of its table.
    Variant,
}

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) presence: Presence,
    /// What it means, for the reference.
    pub(super) meaning: &'static str,
}

impl Key {
    pub(super) const fn variant(name: &'static str, keys: &'static [Key], meaning: &'static str) -> Self {
        Self { name, shape: Shape::Table(keys), presence: Presence::Variant, meaning }
    }
}

/// Words with values of any type, as a key refers to them.
pub(super) trait WordList: Sync {
    /// Each word with its meaning.
    fn rows(&self) -> Vec<(&'static str, &'static str)>;

    /// The words alone.
    fn words(&self) -> Vec<&'static str> {
        self.rows().into_iter().map(|(word, _)| word).collect()
    }
}

/// The tables that a file may choose from: a registry of any type, or plain keys.
pub(super) trait Choices: Sync {
    /// A row for each, in the order of the reference.
    fn keys(&self) -> Vec<&'static Key>;
}

/// A file's size in bytes at most.
pub(super) const MAX_FILE_BYTES: usize = 1 << 20;
/// Ways at most, unless fully associative.
pub(super) const MAX_WAYS: u64 = 64;
pub(super) const MILLISECOND_PS: u64 = 1_000_000_000;
/// The longest step of a kernel or a device.
pub(super) const STEP_PS: u64 = 1_000 * MILLISECOND_PS;
/// The names of levels.
pub(super) const LEVELS: &[&str] = &["l1", "l2", "l3", "l4"];

/// The patterns of all tables that hold `name` as a key, in the order of the file: `tlb.lN.mosaic`.
pub(super) fn tables_with_key(keys: &'static [Key], name: &str) -> Vec<String> {
    let mut found = Vec::new();
    visit(keys, &mut |path, key| {
        if key.name == name && !path.is_empty() && !found.iter().any(|other| other == path) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Rows as the passes over a tree take them.
pub(super) fn rows(keys: &'static [Key]) -> Vec<&'static Key> {
    let each = |key: &'static Key| match key.shape {
        Shape::Part(keys) => rows(keys),
        _ => vec![key],
    };
    keys.iter().flat_map(each).collect()
}

/// The rows of a table with variants: what all have, and the variants.
pub(super) fn variant_rows(common: &'static [Key], variants: &dyn Choices) -> Vec<&'static Key> {
    rows(common).into_iter().chain(variants.keys()).collect()
}

/// Calls `row` with every key, parents before children, and the pattern of the table that holds it.
pub(super) fn visit(keys: &'static [Key], row: &mut dyn FnMut(&str, &'static Key)) {
    visit_rows(rows(keys), "", row);
}

fn visit_rows(keys: Vec<&'static Key>, path: &str, row: &mut dyn FnMut(&str, &'static Key)) {
    for key in keys {
        row(path, key);
        visit_shape(&key.shape, &join(path, key.name), row);
    }
}

fn visit_shape(shape: &'static Shape, path: &str, row: &mut dyn FnMut(&str, &'static Key)) {
    match shape {
        Shape::Value(_) | Shape::Part(_) => {}
        Shape::Table(keys) => visit_rows(rows(keys), path, row),
        Shape::Variants { common, variants, .. } => visit_rows(variant_rows(common, *variants), path, row),
        Shape::Named { names, each, .. } => {
            let pattern = if matches!(names, Names::Levels(_)) { "lN" } else { "NAME" };
            visit_shape(each, &join(path, pattern), row);
        }
    }
}

/// `path.name`, or `name` at the top.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
