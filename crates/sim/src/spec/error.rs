//! What is wrong with a machine file: everything at once, each with its place and a way out.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// A file's text under the name that messages give it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) label: String,
    pub(super) text: String,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// The table of defaults.
    Default,
    /// Bytes of a file.
    File { file: Arc<SourceFile>, span: Range<usize> },
}

impl Origin {
    /// `machines/x86-64.toml:12`, or `default`.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File { file, span } => {
                let before = file.text.as_bytes().get(..span.start).unwrap_or_default();
                let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
                format!("{}:{line}", file.label)
            }
        }
    }

    /// By file, then by place in it.
    fn order(&self) -> (&str, usize) {
        match self {
            Self::Default => ("", 0),
            Self::File { file, span } => (&file.label, span.start),
        }
    }

    /// Whether it lies in the file named by the user rather than in that one's base or the defaults.
    pub(super) fn is_in(&self, main: &Arc<SourceFile>) -> bool {
        matches!(self, Self::File { file, .. } if Arc::ptr_eq(file, main))
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(super) struct Diagnostic {
    message: String,
    at: Origin,
    help: Vec<String>,
}

impl Diagnostic {
    pub(super) fn new(at: &Origin, message: impl Into<String>) -> Self {
        Self { message: message.into(), at: at.clone(), help: Vec::new() }
    }

    /// Adds a line of advice; an empty one is left out.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        let help = help.into();
        if !help.is_empty() {
            self.help.push(help);
        }
        self
    }
}

/// Collects what is wrong; the first [`Diagnostics::MAX`] are kept, the others counted.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    kept: Vec<Diagnostic>,
    dropped: usize,
}

impl Diagnostics {
    const MAX: usize = 50;

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        if self.kept.len() < Self::MAX {
            self.kept.push(diagnostic);
        } else {
            self.dropped += 1;
        }
    }

    /// Reports an error and answers nothing, for use as `return errors.report(...)`.
    pub(super) fn report<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.push(diagnostic);
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// `value` if nothing is wrong.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, SpecError> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => {
                assert!(!self.is_empty(), "a machine file was refused without a reason");
                self.kept.sort_by(|one, other| one.at.order().cmp(&other.at.order()));
                Err(SpecError { diagnostics: self.kept, dropped: self.dropped })
            }
        }
    }
}

/// The reason why a machine file cannot be used: every mistake in it, in the order of the file.
///
/// Its `Display` is the report for the user, several lines without a newline at the end; it already begins with
/// `error:`.
#[derive(Clone, Debug)]
pub struct SpecError {
    diagnostics: Vec<Diagnostic>,
    dropped: usize,
}

impl SpecError {
    /// An error without a place in a file.
    pub(super) fn general(message: impl Into<String>, help: &[String]) -> Self {
        let mut diagnostic = Diagnostic::new(&Origin::Default, message);
        diagnostic.help = help.to_vec();
        Self { diagnostics: vec![diagnostic], dropped: 0 }
    }

    /// Several files' errors as one.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.diagnostics.extend(other.diagnostics);
        self.dropped += other.dropped;
        self
    }

    /// Returns the number of mistakes.
    pub fn count(&self) -> usize {
        self.diagnostics.len() + self.dropped
    }

    /// Returns the first line of every kept message.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str())
    }

    /// Returns the report with terminal colours.
    pub fn render_coloured(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let mut reports: Vec<String> =
            self.diagnostics.iter().map(|each| render_one(each, renderer)).collect();
        if self.dropped > 0 {
            reports.push(format!("error: and {} more", self.dropped));
        }
        reports.join("\n\n")
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for SpecError {}

fn render_one(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let mut group = Group::with_title(Level::ERROR.primary_title(diagnostic.message.as_str()));
    if let Origin::File { file, span } = &diagnostic.at {
        let line = line_around(&file.text, span);
        let mark = AnnotationKind::Primary.span(line.mark.clone());
        group = group.element(
            Snippet::source(line.text).line_start(line.number).path(file.label.as_str()).annotation(mark),
        );
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

/// The line on which a span begins, and the part of the span that lies on it.
struct LineAround<'a> {
    number: usize,
    text: &'a str,
    mark: Range<usize>,
}

/// Only one line goes to the renderer, and a window of it: its work must not grow with the file.
fn line_around<'a>(text: &'a str, span: &Range<usize>) -> LineAround<'a> {
    const MAX_LINE_BYTES: usize = 4_096;
    let start = floor_boundary(text, span.start);
    let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let from = if start - from > MAX_LINE_BYTES / 2 { floor_boundary(text, start - 100) } else { from };
    let to = text[start..].find(['\n', '\r']).map_or(text.len(), |newline| start + newline);
    let to = floor_boundary(text, to.min(from + MAX_LINE_BYTES));
    let end = floor_boundary(text, span.end).clamp(start, to.max(start));
    LineAround {
        number: 1 + text[..start].bytes().filter(|byte| *byte == b'\n').count(),
        text: &text[from..to.max(start)],
        mark: start - from..end - from,
    }
}

fn floor_boundary(text: &str, index: usize) -> usize {
    text.floor_char_boundary(index.min(text.len()))
}

/// `"; did you mean `x`?"` for the nearest of `names`, or nothing.
pub(super) fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 100 {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(word, name);
    names
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= 1 + name.chars().count().max(word.chars().count()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn either<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.to_string(),
        [head @ .., last] => {
            let head: Vec<String> = head.iter().map(T::to_string).collect();
            format!("{} or {last}", head.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        assert_eq!(did_you_mean("entires", ["ways", "entries"]), Some("entries"));
        assert_eq!(did_you_mean("way", ["ways", "entries"]), Some("ways"));
        assert_eq!(did_you_mean("colour", ["ways", "entries"]), None);
        assert_eq!(did_you_mean(&"x".repeat(10_000), ["ways"]), None);
    }

    #[test]
    fn lists_read_like_a_sentence() {
        assert_eq!(either(&[6, 12, 24]), "6, 12 or 24");
        assert_eq!(either(&[6]), "6");
        assert_eq!(either::<u32>(&[]), "");
    }

    #[test]
    fn any_span_of_any_text_has_a_line() {
        let text = "a = 1\r\nß = \"ü\"\n\n[x]";
        for start in 0..=text.len() + 2 {
            for end in 0..=text.len() + 2 {
                let line = line_around(text, &(start..end));
                assert!(line.text.get(line.mark.clone()).is_some(), "{start}..{end}");
                assert!(!line.text.contains('\n'));
            }
        }
        let long = "x".repeat(1 << 20);
        let line = line_around(&long, &(500_000..500_001));
        assert!(line.text.len() <= 4_096 && line.mark == (100..101));
    }
}
