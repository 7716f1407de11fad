//! The row of an experiment file: what is known of its number, whatever makes it.

use pagewalk_report::PaperRow;

/// Declares the rows of a kind of experiment: the four fields that every row has, and those that say how its number comes
/// about.
macro_rules! gated {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $name {
            /// The row's name; parts are separated by `/`.
            item: String,
            /// The published number, if there is one.
            published: Option<f64>,
            /// Where the number must lie, both ends included; without it, the row is only reported.
            gate: Option<[f64; 2]>,
            #[serde(default)]
            note: String,
            $($(#[$of_field])* $field: $type,)*
        }

        impl $crate::gated::Gated for $name {
            fn known(&self) -> $crate::gated::Known<'_> {
                $crate::gated::Known {
                    item: &self.item,
                    published: self.published,
                    gate: self.gate,
                    note: &self.note,
                }
            }
        }
    };
}

pub(crate) use gated;

/// What is known of a row's number.
pub(crate) struct Known<'a> {
    pub(crate) item: &'a str,
    pub(crate) published: Option<f64>,
    pub(crate) gate: Option<[f64; 2]>,
    pub(crate) note: &'a str,
}

/// A row of an experiment file.
pub(crate) trait Gated {
    /// Returns what is known of the row's number.
    fn known(&self) -> Known<'_>;

    /// Returns whether the row's item begins so.
    fn begins(&self, prefix: &str) -> bool {
        self.known().item.starts_with(prefix)
    }

    /// Judges the number that was measured, in a unit; that of a small input is not judged.
    fn judge_number(&self, ours: Option<f64>, unit: &str, small: bool) -> PaperRow {
        let Known { item, published, gate, note } = self.known();
        let (gate, note) = judged(small, gate, note);
        PaperRow::judged(item, published, ours, unit, gate, note)
    }
}

/// Returns the gate and the note of a row. A small input is not judged.
pub(crate) fn judged(small: bool, gate: Option<[f64; 2]>, note: &str) -> (Option<[f64; 2]>, String) {
    match small {
        true => (None, format!("small input, not judged. {note}").trim_end().to_owned()),
        false => (gate, note.to_owned()),
    }
}
