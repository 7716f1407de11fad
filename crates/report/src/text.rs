//! Strings from outside, made fit to print.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the text with everything that could act on a terminal or reorder a line spelled out: control characters,
/// zero-width and bidirectional marks.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control()
            || c.width() == Some(0)
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Columns it takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cut to `most` columns, the cut marked by an ellipsis.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > most {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Padded on the left to `columns`.
pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Padded on the right to `columns`.
pub(crate) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Broken at spaces into lines of at most `columns`; a longer word gets a line of its own.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_passes() {
        assert_eq!(visible("a\u{1b}[2Jb\n\u{202e}c\u{200b}"), "a\\u{1b}[2Jb\\n\\u{202e}c\\u{200b}");
        assert_eq!(visible("größe 表 «x»"), "größe 表 «x»");
    }

    #[test]
    fn widths_are_those_of_a_terminal() {
        assert_eq!(right("表", 4), "  表");
        assert_eq!(shorten("mosaic-4-large", 8), "mosaic-…");
        assert_eq!(width(&shorten("表表表表表", 6)), 5);
        assert_eq!(wrap("a bb  ccc dddddd e", 4), ["a bb", "ccc", "dddddd", "e"]);
    }
}
