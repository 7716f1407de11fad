//! `extends` and defaults: from a file's own tree to the tree of a whole machine.

use toml::de::DeValue;

use super::error::{Diagnostic, Diagnostics, Origin, either};
use super::key::{self, Key, Presence, Shape, join};
use super::tree::{Leaf, Node, Table};
use super::value;

/// The base's tree with the child's laid over it, key by key. A child that names a variant which the base's table
/// is not replaces that variant whole; `"none"` takes a table away.
pub(super) fn over_base(mut base: Table, child: Table, keys: &'static [Key]) -> Table {
    base.nodes.retain(|(name, _)| !matches!(name.as_str(), "name" | "description" | "extends"));
    merge(base, child, &key::rows(keys))
}

/// Adds what has a default and reports what has none. Afterwards a key is missing only where a stage is absent
/// or a mistake has been reported.
pub(super) fn fill_defaults(tree: &mut Table, keys: &'static [Key], errors: &mut Diagnostics) {
    fill(tree, "", &key::rows(keys), errors);
}

fn merge(mut base: Table, child: Table, rows: &[&'static Key]) -> Table {
    for (name, node) in child.nodes {
        let shape = rows.iter().find(|key| key.name == name).map(|key| &key.shape);
        lay_over(&mut base, name, node, shape);
    }
    base.origin = child.origin;
    base.sources.extend(child.sources);
    base.is_broken |= child.is_broken;
    base
}

fn lay_over(base: &mut Table, name: String, node: Node, shape: Option<&'static Shape>) {
    let Some(below) = base.get_mut(&name) else {
        base.nodes.push((name, node));
        return;
    };
    let both = match (std::mem::replace(below, Node::Broken), node) {
        (Node::Table(base), Node::Table(child)) => Node::Table(merge_shape(base, child, shape)),
        (_, node) => node,
    };
    *below = both;
}

fn merge_shape(mut base: Table, child: Table, shape: Option<&'static Shape>) -> Table {
    match shape {
        Some(Shape::Table(keys)) => merge(base, child, &key::rows(keys)),
        Some(Shape::Variants { common, variants, .. }) => {
            let keys = variants.keys();
            let is_variant = |name: &str| keys.iter().any(|key| key.name == name);
            if child.nodes.iter().any(|(name, _)| is_variant(name)) {
                base.nodes.retain(|(name, _)| !is_variant(name) || child.get(name).is_some());
            }
            merge(base, child, &key::variant_rows(common, *variants))
        }
        Some(Shape::Named { each, .. }) => {
            for (name, node) in child.nodes {
                lay_over(&mut base, name, node, Some(each));
            }
            base.origin = child.origin;
            base.sources.extend(child.sources);
            base.is_broken |= child.is_broken;
            base
        }
        Some(Shape::Value(_) | Shape::Part(_)) | None => child,
    }
}

fn fill(table: &mut Table, path: &str, rows: &[&'static Key], errors: &mut Diagnostics) {
    table.nodes.retain(|(_, node)| !matches!(node, Node::Absent));
    for key in rows {
        let path_of_key = join(path, key.name);
        if table.get(key.name).is_none() {
            match missing(table, path, key, errors) {
                Some(node) => table.nodes.push((key.name.to_owned(), node)),
                None => continue,
            }
        }
        if let Some(Node::Table(inner)) = table.get_mut(key.name) {
            fill_shape(inner, &path_of_key, &key.shape, errors);
        }
    }
}

/// What stands for a key that no file gives.
fn missing(table: &Table, path: &str, key: &'static Key, errors: &mut Diagnostics) -> Option<Node> {
    match (key.presence, &key.shape) {
        (Presence::Default(text), Shape::Value(kind)) => {
            let toml =
                DeValue::parse(text).unwrap_or_else(|error| panic!("default of `{}`: {error}", key.name));
            let value = value::read(kind, toml.get_ref());
            let value = value.unwrap_or_else(|error| panic!("default of `{}`: {error}", key.name));
            Some(Node::Leaf(Leaf { value, origin: Origin::Default }))
        }
        (Presence::Always, _) => Some(Node::Table(Table::empty(Origin::Default))),
        (Presence::Required, _) if !table.is_broken => {
            let place = if path.is_empty() { "the file".to_owned() } else { format!("[{path}]") };
            let lacks = Diagnostic::new(&table.origin, format!("{place} lacks `{}`", key.name));
            errors.report(lacks.help(format!("`{}`: {}", key.name, key.meaning)))
        }
        _ => None,
    }
}

fn fill_shape(table: &mut Table, path: &str, shape: &'static Shape, errors: &mut Diagnostics) {
    match shape {
        Shape::Value(_) | Shape::Part(_) => {}
        Shape::Table(keys) => fill(table, path, &key::rows(keys), errors),
        Shape::Variants { common, variants, default } => {
            table.nodes.retain(|(_, node)| !matches!(node, Node::Absent));
            let keys = variants.keys();
            let is_variant = |name: &str| keys.iter().any(|key| key.name == name);
            if !table.nodes.iter().any(|(name, _)| is_variant(name)) && !table.is_broken {
                match default {
                    Some(name) => {
                        table.nodes.push(((*name).to_owned(), Node::Table(Table::empty(Origin::Default))));
                    }
                    None => {
                        let choices: Vec<String> =
                            keys.iter().map(|key| format!("[{path}.{}]", key.name)).collect();
                        let wrong =
                            Diagnostic::new(&table.origin, format!("`{path}` does not say what it is"));
                        errors.push(wrong.help(format!("add {}", either(&choices))));
                        table.is_broken = true;
                    }
                }
            }
            fill(table, path, &key::variant_rows(common, *variants), errors);
        }
        Shape::Named { each, .. } => {
            table.nodes.retain(|(_, node)| !matches!(node, Node::Absent));
            for (name, node) in &mut table.nodes {
                if let Node::Table(inner) = node {
                    fill_shape(inner, &join(path, name), each, errors);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::resolve::FILE;

    #[test]
    fn every_default_is_a_value_of_its_key() {
        let mut count = 0;
        key::visit(FILE, &mut |path, key| {
            if let Presence::Default(_) = key.presence {
                let table = Table::empty(Origin::Default);
                let node = missing(&table, path, key, &mut Diagnostics::default());
                assert!(matches!(node, Some(Node::Leaf(_))), "{path}.{}", key.name);
                count += 1;
            }
        });
        assert!(count > 15, "{count} defaults");
    }
}
