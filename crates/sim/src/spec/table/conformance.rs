//! The contract of page tables, for every registered kind.

use super::TABLES;
use crate::spec::settings::TableKind;

/// A kind with the defaults of its keys, beside frames that it can name.
fn kind(name: &str) -> TableKind {
    let machine = |frames: &str| {
        let text = format!("name = \"x\"\n[table.{name}]\n[frames.{frames}]\n");
        crate::spec::parse(&text, "example.toml")
    };
    let spec = machine("buddy").or_else(|_| machine("iceberg")).unwrap_or_else(|error| panic!("{error}"));
    spec.translation.table
}

#[test]
fn each_kind_equals_a_map() {
    for variant in TABLES.0 {
        let kind = kind(variant.key.name);
        (kind.assembly().checks.contract)(&kind);
    }
}
