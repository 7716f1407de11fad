//! A machine printed back as one complete file.

use std::fmt::Write;

use super::error::Origin;
use super::key::{self, Key, Shape, join};
use super::load::Loaded;
use super::resolve::FILE;
use super::tree::{Node, Table, Value};
use super::value;

/// The column in which the comments begin.
const COMMENT_COLUMN: usize = 44;

/// The whole file: what was resolved, as TOML that resolves to the same machine.
pub(super) fn file(loaded: &Loaded) -> String {
    let mut out =
        format!("# {}, complete; each value's place or \"default\" stands beside it.\n", loaded.file.label);
    if let Some(base) = &loaded.base {
        line(&mut out, &format!("# It extends {}.", base.label), "");
    }
    header(&mut out, "", &loaded.tree);
    table(&mut out, "", &loaded.tree, &key::rows(FILE));
    out
}

fn table(out: &mut String, path: &str, table: &Table, rows: &[&'static Key]) {
    for key in rows.iter().filter(|key| key.name != "extends") {
        if let (Some(leaf), Shape::Value(_)) = (table.leaf(key.name), &key.shape) {
            let assignment = format!("{} = {}", key.name, value::write(&leaf.value));
            line(out, &assignment, &leaf.origin.place());
        }
    }
    for key in rows {
        if let Some(Node::Table(inner)) = table.get(key.name) {
            shape(out, &join(path, key.name), inner, &key.shape);
        }
    }
}

fn shape(out: &mut String, path: &str, inner: &Table, shape_of: &'static Shape) {
    match shape_of {
        Shape::Value(_) | Shape::Part(_) => {}
        Shape::Table(keys) => {
            header(out, path, inner);
            table(out, path, inner, &key::rows(keys));
        }
        Shape::Variants { common, variants, .. } => {
            header_if_needed(out, path, inner);
            table(out, path, inner, &key::variant_rows(common, *variants));
        }
        Shape::Named { each, .. } => {
            header_if_needed(out, path, inner);
            for (name, named) in inner.tables() {
                shape(out, &quoted_join(path, name), named, each);
            }
        }
    }
}

/// The header of a table that mostly holds tables, which name it already.
fn header_if_needed(out: &mut String, path: &str, table: &Table) {
    if !table.sources.is_empty() || table.nodes.iter().any(|(_, node)| matches!(node, Node::Leaf(_))) {
        header(out, path, table);
    }
}

/// The table's name and the sources that its files cite.
fn header(out: &mut String, path: &str, table: &Table) {
    out.push('\n');
    for leaf in &table.sources {
        let Value::Text(text) = &leaf.value else { continue };
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(first) = lines.next() {
            line(out, &format!("# source: {first}"), "");
        }
        lines.for_each(|text| line(out, &format!("#   {text}"), ""));
        line(out, &format!("#   ({})", leaf.origin.place()), "");
    }
    if !path.is_empty() {
        let comment = if matches!(table.origin, Origin::Default) { "default" } else { "" };
        line(out, &format!("[{path}]"), comment);
    }
}

fn line(out: &mut String, text: &str, comment: &str) {
    let written = if comment.is_empty() {
        writeln!(out, "{text}")
    } else {
        writeln!(out, "{text:<COMMENT_COLUMN$}  # {comment}")
    };
    written.expect("writing to a string");
}

/// Joins a free name, which may hold a dot.
fn quoted_join(path: &str, name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { join(path, name) } else { join(path, &format!("\"{name}\"")) }
}
