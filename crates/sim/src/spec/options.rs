//! A machine file as written: a tree of checked values, each with its place, and nothing filled in.
//!
//! The tree is read from the TOML document by walking it along the [schema](super::schema), not by serde: a
//! deserialiser stops at the first mistake, and a file's mistakes shall come all at once.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Diagnostic, Diagnostics, Origin, SourceFile, did_you_mean, either};
use super::quantity::{Time, excerpt};
use super::schema::{self, Key, Names, Presence, Shape, join};
use super::value;
use super::variant::Choices;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A value of one of the schema's kinds.
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

    pub(super) fn leaf(&self, name: &str) -> Option<&Leaf> {
        match self.get(name) {
            Some(Node::Leaf(leaf)) => Some(leaf),
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

/// Reads a file's text; none if it is not even TOML.
pub(super) fn read(file: &Arc<SourceFile>, errors: &mut Diagnostics) -> Option<Table> {
    let (document, syntax_errors) = DeTable::parse_recoverable(&file.text);
    let mut last = None;
    for error in &syntax_errors {
        let span = error.span().unwrap_or(0..0);
        // A thousand unclosed brackets end at the same place.
        if last.replace(span.clone()) == Some(span.clone()) {
            continue;
        }
        let at = Origin::File { file: file.clone(), span };
        errors.push(Diagnostic::new(&at, format!("not valid TOML: {}", error.message())));
    }
    if !syntax_errors.is_empty() {
        return None;
    }
    let mut reader = Reader { file, errors };
    let root = Origin::File { file: file.clone(), span: 0..0 };
    Some(reader.table("", root, document.get_ref(), &schema::rows(schema::FILE)))
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    errors: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn origin<T>(&self, spanned: &Spanned<T>) -> Origin {
        Origin::File { file: self.file.clone(), span: spanned.span() }
    }

    /// A table whose keys are those of `rows`.
    fn table(&mut self, path: &str, origin: Origin, table: &DeTable<'_>, rows: &[&'static Key]) -> Table {
        let mut result = Table::empty(origin);
        for (name, value) in in_file_order(table) {
            let key = rows.iter().copied().find(|key| key.name == name.get_ref().as_ref());
            match key {
                Some(key) => {
                    let node = self.node(&join(path, key.name), name, value, key);
                    result.is_broken |= matches!(node, Node::Broken);
                    result.nodes.push((key.name.to_owned(), node));
                }
                None if name.get_ref() == "source" => result.sources.extend(self.source(value)),
                None => {
                    self.unknown_key(path, name, rows);
                    result.is_broken = true;
                }
            }
        }
        result
    }

    fn node(
        &mut self,
        path: &str,
        name: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        key: &'static Key,
    ) -> Node {
        if let Shape::Value(kind) = &key.shape {
            let origin = self.origin(value);
            return match value::read(kind, value.get_ref()) {
                Ok(value) => Node::Leaf(Leaf { value, origin }),
                Err(wrong) => {
                    let message = format!("`{path}`: {}", wrong.message);
                    self.errors.push(Diagnostic::new(&origin, message).help(wrong.help));
                    Node::Broken
                }
            };
        }
        let may_be_absent = matches!(key.presence, Presence::Optional);
        self.inner_table(path, name, value, &key.shape, may_be_absent)
    }

    fn inner_table(
        &mut self,
        path: &str,
        name: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        shape: &'static Shape,
        may_be_absent: bool,
    ) -> Node {
        let table = match value.get_ref() {
            DeValue::Table(table) => table,
            DeValue::String(word) if word == "none" && may_be_absent => return Node::Absent,
            _ => {
                let none = if may_be_absent { ", or \"none\" to leave it out" } else { "" };
                let found = value::describe(value.get_ref());
                let wrong =
                    Diagnostic::new(&self.origin(value), format!("`{path}` is a table, found {found}"));
                self.errors.push(wrong.help(format!("write [{path}] and its keys below{none}")));
                return Node::Broken;
            }
        };
        let origin = self.origin(name);
        match shape {
            Shape::Value(_) => unreachable!("values are read by `node`"),
            Shape::Table(keys) => Node::Table(self.table(path, origin, table, &schema::rows(keys))),
            Shape::Variants { common, variants, .. } => self.variants(path, origin, table, common, *variants),
            Shape::Named { names, noun, each } => self.named(path, origin, table, (*names, noun), each),
        }
    }

    fn variants(
        &mut self,
        path: &str,
        origin: Origin,
        table: &DeTable<'_>,
        common: &'static [Key],
        variants: &dyn Choices,
    ) -> Node {
        let keys = variants.keys();
        let result = self.table(path, origin, table, &schema::variant_rows(common, variants));
        let given: Vec<&Spanned<_>> = in_file_order(table)
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| keys.iter().any(|key| key.name == name.get_ref().as_ref()))
            .collect();
        if let [first, second, ..] = given.as_slice() {
            let (first, at) = (first.get_ref(), self.origin(second));
            let message = format!("`{path}` is `{first}` already and cannot be `{}` too", second.get_ref());
            self.errors.push(Diagnostic::new(&at, message).help("keep one of the two tables"));
            return Node::Broken;
        }
        Node::Table(result)
    }

    fn named(
        &mut self,
        path: &str,
        origin: Origin,
        table: &DeTable<'_>,
        (names, noun): (Names, &str),
        each: &'static Shape,
    ) -> Node {
        let mut result = Table::empty(origin);
        for (name, value) in in_file_order(table) {
            let word = name.get_ref().as_ref();
            let wrong = match names {
                Names::Levels(count) if !schema::LEVELS[..count].contains(&word) => {
                    Some(format!("{noun}s are named {}, in order", either(&schema::LEVELS[..count])))
                }
                Names::Free(count) if result.nodes.len() == count => {
                    Some(format!("at most {count} {noun}s stand beside each other"))
                }
                Names::Free(_) if !is_name(word) => {
                    Some("a name has at most 64 letters, digits, `.`, `_`, `+` and `-`".to_owned())
                }
                _ => None,
            };
            if let Some(help) = wrong {
                let message = format!("`{path}`: `{}` cannot be a {noun}", excerpt(word));
                self.errors.push(Diagnostic::new(&self.origin(name), message).help(help));
                result.is_broken = true;
                if matches!(names, Names::Free(count) if result.nodes.len() == count) {
                    break;
                }
                continue;
            }
            let node = self.inner_table(&join(path, word), name, value, each, true);
            result.is_broken |= matches!(node, Node::Broken);
            result.nodes.push((word.to_owned(), node));
        }
        Node::Table(result)
    }

    fn source(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Leaf> {
        let origin = self.origin(value);
        match value::read(&schema::Kind::Text { max_chars: 2_000 }, value.get_ref()) {
            Ok(value) => Some(Leaf { value, origin }),
            Err(wrong) => self
                .errors
                .report(Diagnostic::new(&origin, format!("`source`: {}", wrong.message)).help(wrong.help)),
        }
    }

    fn unknown_key(&mut self, path: &str, name: &Spanned<toml::de::DeString<'_>>, rows: &[&'static Key]) {
        let word = name.get_ref().as_ref();
        let known: Vec<&str> = rows.iter().map(|key| key.name).collect();
        let place =
            if path.is_empty() { "at the top of a machine file".to_owned() } else { format!("in [{path}]") };
        let message = format!("unknown key `{}` {place}", excerpt(word));
        let elsewhere = schema::tables_with_key(word);
        let help = if let Some(near) = did_you_mean(word, known.iter().copied()) {
            format!("did you mean `{near}`?")
        } else if !elsewhere.is_empty() {
            let tables: Vec<String> = elsewhere.iter().map(|path| format!("[{path}]")).collect();
            format!("`{word}` belongs into {}", either(&tables))
        } else {
            String::new()
        };
        let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        let keys = format!("the keys here are {} and `source`", known.join(", "));
        self.errors.push(Diagnostic::new(&self.origin(name), message).help(help).help(keys));
    }
}

/// Whether a word can name a machine or an array.
pub(super) fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
    (1..=64).contains(&word.len()) && word.chars().all(plain)
}

/// The entries of a table as they stand in the file; the parser sorts them by name.
fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}
