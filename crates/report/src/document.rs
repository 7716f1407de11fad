//! The JSON document of a run.

use pagewalk_sim::metrics::RunResult;
use pagewalk_trace::{Partial, Remarks, SourceInfo};
use serde::{Deserialize, Serialize};

use crate::text::visible;

/// The version of the document's shape. Added keys do not change it.
pub const SCHEMA: u32 = 2;

/// `{"schema": 2, "manifest": {...}, "runs": [...]}`: everything a run measured, and where it came from.
///
/// Equal documents give equal bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The version of the schema, [`SCHEMA`].
    pub schema: u32,
    /// The manifest, which says how the numbers came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
    /// The results, one a machine, the baseline of comparisons first.
    pub runs: Vec<RunResult>,
}

/// The facts that are needed to get the same numbers again. No wall-clock time, no host name, no path that the user
/// did not give: the same inputs make the same manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of Pagewalk.
    pub pagewalk: String,
    /// The command as given, `pagewalk` first, without arguments that cannot change a number (output folder,
    /// format, worker threads).
    pub command: Vec<String>,
    /// `counts` or `timed`.
    pub detail: String,
    /// The seed of every generator.
    pub seed: u64,
    /// The most accesses that were to be taken, if bounded.
    pub limit: Option<u64>,
    /// Whether that bound ended the run before the source did.
    pub limited: bool,
    /// The phase before which machines saw only the first touch of every page; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// The part that was skipped: machines saw only the first touch of every page, and nothing was counted; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<PartNote>,
    /// The part that machines ran and did not count; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<PartNote>,
    /// The reason why the numbers are of a part of the run only; absent after a whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// Machines that could not go on, and have no result; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailureNote>,
    /// The source that ran.
    pub source: SourceNote,
    /// The machines that the source ran on, in the order of the runs.
    pub machines: Vec<MachineNote>,
}

/// A part of the program before what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartNote {
    /// The length that was asked for: `100000000 accesses`, `5000 instructions`.
    pub length: String,
    /// The accesses in it; for `skip` these include those before the phase of `begin`.
    pub accesses: u64,
}

/// A machine that could not run the source to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureNote {
    /// The name of the machine.
    pub machine: String,
    /// The reason why the machine could not go on.
    pub error: String,
}

/// Returns the line that marks a table or a page.
pub fn partial_heading(partial: &Partial) -> String {
    format!("PARTIAL RESULT: {}", visible(&partial.text))
}

/// The source of the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceNote {
    /// The name of the source: `gups --table 64MiB`, `sort words.txt`.
    pub name: String,
    /// Whether it announced its mappings.
    pub announces_mappings: bool,
    /// Whether it counted instructions.
    pub counts_instructions: bool,
    /// Whether it said which blocks of instructions were executed. Without them, the time of a machine whose core executes
    /// instructions is that of accesses which wait only for the window: an upper bound on what overlaps.
    #[serde(default)]
    pub gives_blocks: bool,
    /// The parts of a trace that were left out or had to be assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Remarks>,
    /// The processes of an observed program that were not observed, or not to their end; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unobserved: Vec<UnobservedNote>,
}

/// A process of an observed program that was not observed, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnobservedNote {
    /// The number of the process, in order of appearance; the first is 0.
    pub process: u32,
    /// The file of the program that it was, or became, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The reason as one word: `set-user-id`, `no-runtime`, `killed`.
    pub reason: String,
    /// All of it for a reader.
    pub text: String,
}

/// A machine of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineNote {
    /// The name of the machine.
    pub name: String,
    /// The description of the machine, one line.
    pub description: String,
    /// The resolved machine file, defaults included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The origin of the frames of the machine's pages, if the source said which they had where the program ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramesNote>,
}

/// The origin of the frames of a machine's pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "used", rename_all = "kebab-case")]
pub enum FramesNote {
    /// The frames that the source gives, and the machine's own where it gives none.
    Given,
    /// The frames are the machine's own.
    Own {
        /// The reason, such as `it places frames by hashing`.
        because: String,
    },
}

impl std::fmt::Display for FramesNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given => f.write_str("as the trace gives them"),
            Self::Own { because } => write!(f, "its own, because {because}"),
        }
    }
}

/// The reason why a text is no document of this schema.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// No JSON, or not of this shape. The text names line and column.
    #[error("not a pagewalk document: {0}")]
    Shape(serde_json::Error),
    /// A shape of another version.
    #[error("the document has schema {0}; this version of pagewalk reads schema {SCHEMA}")]
    Schema(u32),
}

impl From<serde_json::Error> for DocumentError {
    fn from(error: serde_json::Error) -> Self {
        Self::Shape(error)
    }
}

impl Document {
    /// Creates a document of `runs`.
    pub fn new(runs: Vec<RunResult>, manifest: Option<Manifest>) -> Self {
        Self { schema: SCHEMA, manifest, runs }
    }

    /// Returns the document as JSON, indented, with a newline at the end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads a document back.
    ///
    /// # Errors
    ///
    /// When the text is no JSON, has another shape, or another schema.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let Head { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(DocumentError::Schema(schema));
        }
        Ok(serde_json::from_str(text)?)
    }
}

impl From<&SourceInfo> for SourceNote {
    fn from(info: &SourceInfo) -> Self {
        Self {
            name: info.name.clone(),
            announces_mappings: info.announces_mappings,
            counts_instructions: info.counts_instructions,
            gives_blocks: info.gives_blocks,
            trace: None,
            unobserved: Vec::new(),
        }
    }
}

/// Any of our documents as indented JSON with a newline at the end.
pub(crate) fn to_json(document: &impl Serialize) -> String {
    // Our documents have string keys only and no failing serializer.
    let mut text = serde_json::to_string_pretty(document).expect("a document is always representable");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_document_has_the_promised_shape() {
        let mut document = Document::new(samples::pair(), None);
        for run in &mut document.runs {
            run.metrics.truncate(2);
        }
        insta::assert_snapshot!(document.to_json());
    }

    #[test]
    fn the_manifest_comes_between_schema_and_runs() {
        insta::assert_snapshot!(Document::new(vec![], Some(samples::manifest())).to_json());
    }

    #[test]
    fn a_document_read_back_is_the_same_to_the_last_digit() {
        let document = Document::new(samples::many(12), Some(samples::manifest()));
        let text = document.to_json();
        let read = Document::from_json(&text).unwrap();
        assert_eq!(read, document);
        assert_eq!(read.to_json(), text);
    }

    #[test]
    fn foreign_texts_are_refused_with_a_reason() {
        let error = |text| Document::from_json(text).unwrap_err().to_string();
        assert!(error("{").contains("line 1 column 1"));
        assert!(error("{\"schema\": 2}").contains("missing field `runs`"));
        assert_eq!(
            error("{\"schema\": 1, \"rows\": 7}"),
            "the document has schema 1; this version of pagewalk reads schema 2"
        );
    }

    #[test]
    fn an_undefined_ratio_is_null() {
        let text = Document::new(vec![samples::without_instructions("a")], None).to_json();
        assert!(text.contains("\"value\": null"), "{text}");
    }
}
