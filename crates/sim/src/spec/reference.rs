//! The reference of all keys, as it stands in `machines/README.md`.

use std::fmt::Write;

use super::key::{self, Key, Kind, Names, Presence, Shape, WordList, join};
use super::quantity::format_bytes;
use super::resolve::FILE;

/// Returns all keys of a machine file as Markdown tables: key, values, default, meaning.
pub fn reference() -> String {
    let mut out = String::new();
    let mut table = None;
    key::visit(FILE, &mut |path, key| {
        if !matches!(key.shape, Shape::Value(_)) {
            return;
        }
        if table.as_deref() != Some(path) {
            let title =
                if path.is_empty() { "The top of the file".to_owned() } else { format!("`[{path}]`") };
            let about = about(path);
            write!(out, "\n### {title}\n{about}\n| key | value | default | meaning |\n|---|---|---|---|\n")
                .expect("writing to a string");
            table = Some(path.to_owned());
        }
        writeln!(out, "| `{}` | {} | {} | {} |", key.name, values(key), default(key), key.meaning)
            .expect("writing to a string");
    });
    out
}

/// What the table at a path is, from the rows of its parents.
fn about(path: &str) -> String {
    let mut about = String::new();
    key::visit(FILE, &mut |parent, key| {
        let own = join(parent, key.name);
        let is_levels = matches!(key.shape, Shape::Named { names: Names::Levels(_), .. });
        if own == path || (is_levels && format!("{own}.lN") == path) {
            let absent = if matches!(key.presence, Presence::Optional) { "; may be absent" } else { "" };
            let levels = match key.shape {
                Shape::Named { names: Names::Levels(count), .. } => format!("; N is 1 to {count}"),
                _ => String::new(),
            };
            about = format!("\n{}{absent}{levels}.\n", capitalised(key.meaning));
        }
    });
    about
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn values(key: &Key) -> String {
    let Shape::Value(kind) = key.shape else { return String::new() };
    let words = |words: &dyn WordList| {
        let explained = |(word, meaning): (&str, &str)| format!("`\"{word}\"` ({meaning})");
        words.rows().into_iter().map(explained).collect::<Vec<_>>().join(", ")
    };
    match kind {
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Ways { max } => format!("1 to {max}, or `\"full\"`"),
        Kind::Integers { max, max_count } => {
            format!("1 to {max}, or a list of 1 to {max_count} numbers up to {max}")
        }
        Kind::Sizes { min, max, max_count } => format!(
            "`\"whole\"`, or a list of 1 to {max_count} sizes, `\"{}\"` to `\"{}\"`, smallest first",
            format_bytes(min),
            format_bytes(max)
        ),
        Kind::Bytes { min, max } => {
            format!("size, `\"{}\"` to `\"{}\"`", format_bytes(min), format_bytes(max))
        }
        Kind::Time { max_ps } => format!("time, at most `\"{} ms\"`", max_ps / 1_000_000_000),
        Kind::Frequency { min_hz, max_hz } => {
            format!("frequency, `\"{} MHz\"` to `\"{} GHz\"`", min_hz / 1_000_000, max_hz / 1_000_000_000)
        }
        Kind::Word(list) => words(list),
        Kind::Words(list) => format!("list of {}", words(list)),
        Kind::Name => "letters, digits, `.`, `_`, `+`, `-`; at most 64".to_owned(),
        Kind::Line { max_chars } => format!("one line, at most {max_chars} characters"),
        Kind::Text { max_chars } => format!("text, at most {max_chars} characters"),
    }
}

fn default(key: &Key) -> String {
    match key.presence {
        Presence::Required => "required".to_owned(),
        Presence::Default(text) => format!("`{text}`"),
        Presence::Optional | Presence::Always | Presence::Variant => "none".to_owned(),
    }
}
