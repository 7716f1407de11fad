//! From a machine file's text to its tree, as written, with nothing filled in.
//!
//! The tree is read from the TOML document by walking it along the [keys](super::key), not by serde: a
//! deserialiser stops at the first mistake, and a file's mistakes shall come all at once.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Diagnostic, Diagnostics, Origin, SourceFile, did_you_mean, either};
use super::key::{self, Choices, Key, Names, Presence, Shape, join};
use super::quantity::excerpt;
use super::tree::{Leaf, Node, Table};
use super::value::{self, is_name};

/// Reads a file's text with these keys at the top; none if it is not even TOML.
pub(super) fn read(file: &Arc<SourceFile>, keys: &'static [Key], errors: &mut Diagnostics) -> Option<Table> {
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
    let mut reader = Reader { file, keys, errors };
    let root = Origin::File { file: file.clone(), span: 0..0 };
    Some(reader.table("", root, document.get_ref(), &key::rows(keys)))
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    /// All keys of a file.
    keys: &'static [Key],
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
            Shape::Value(_) | Shape::Part(_) => unreachable!("values are read by `node`, parts are rows"),
            Shape::Table(keys) => Node::Table(self.table(path, origin, table, &key::rows(keys))),
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
        let result = self.table(path, origin, table, &key::variant_rows(common, variants));
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
                Names::Levels(count) if !key::LEVELS[..count].contains(&word) => {
                    Some(format!("{noun}s are named {}, in order", either(&key::LEVELS[..count])))
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
        match value::read(&key::Kind::Text { max_chars: 4_000 }, value.get_ref()) {
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
        let elsewhere = key::tables_with_key(self.keys, word);
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

/// The entries of a table as they stand in the file; the parser sorts them by name.
fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<toml::de::DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}
