//! Machine files: TOML in, [`MachineSpec`] out, and every mistake at once with its place and a way out.
//!
//! ```text
//! text --options--> tree of checked values --merge--> with base and defaults --resolve--> MachineSpec
//!         |                                    |                                 |
//!       keys: one row each                  extends                     geometry and the like
//! ```
//!
//! A section is a file with its rows (`section.rs`), of which each says what its key takes, what is made of it, and what it
//! means. A variant of a mechanism is a file in the mechanism's folder, with its rows and its design, and a row in the folder's
//! registry. `docs/extend.md` adds a toy of each mechanism.
//!
//! `machines/README.md` is the reference of all keys.

mod accelerator;
mod builtin;
mod core;
mod design;
mod error;
mod fetch;
mod files;
mod flash;
mod frames;
mod geometry;
mod host;
mod kernel;
mod key;
mod load;
mod memory;
mod merge;
mod options;
mod persistent;
mod prefetch;
pub mod quantity;
mod reclaim;
mod reference;
mod resolve;
mod resolver;
mod section;
pub mod settings;
mod show;
mod swap;
pub mod table;
#[cfg(test)]
mod tests;
mod threads;
mod tier;
mod tlb;
mod tree;
mod value;
mod variant;
mod words;

use std::ffi::OsStr;

pub use error::SpecError;
pub use reference::reference;
pub use settings::MachineSpec;

/// Loads a machine: a built-in one by its name, or a file, if the argument has a `/` in it or ends in `.toml`.
///
/// # Errors
///
/// An unknown name, an unreadable file, and everything that is wrong in it and in the base that it extends.
pub fn load(name_or_path: impl AsRef<OsStr>) -> Result<MachineSpec, SpecError> {
    load::by_name_or_path(name_or_path.as_ref()).map(|loaded| loaded.spec)
}

/// Loads the machines of a run, whose names must differ.
///
/// # Errors
///
/// Those of [`load`] for all of them together, and two machines of one name.
pub fn load_all<S: AsRef<OsStr>>(names_or_paths: &[S]) -> Result<Vec<MachineSpec>, SpecError> {
    let mut machines: Vec<(&OsStr, MachineSpec)> = Vec::new();
    let mut wrong: Option<SpecError> = None;
    for name in names_or_paths.iter().map(AsRef::as_ref) {
        let error = match load(name) {
            Ok(spec) => match machines.iter().find(|(_, other)| other.name == spec.name) {
                None => {
                    machines.push((name, spec));
                    continue;
                }
                Some((first, _)) => {
                    load::duplicate_name(&spec.name, &first.to_string_lossy(), &name.to_string_lossy())
                }
            },
            Err(error) => error,
        };
        wrong = Some(match wrong {
            Some(earlier) => earlier.merge(error),
            None => error,
        });
    }
    match wrong {
        Some(error) => Err(error),
        None => Ok(machines.into_iter().map(|(_, spec)| spec).collect()),
    }
}

/// Reads a machine from a text; `file` is its name in messages. A base is looked for among the built-in machines
/// only; nothing outside of the text is read.
///
/// # Errors
///
/// Everything that is wrong in it.
pub fn parse(text: &str, file: &str) -> Result<MachineSpec, SpecError> {
    let source = load::source_file(file, text.as_bytes().to_vec())?;
    load::from_file(source, None).map(|loaded| loaded.spec)
}

/// Returns the names of the built-in machines, in the order of lists.
pub fn builtin_names() -> impl ExactSizeIterator<Item = &'static str> {
    builtin::ALL.iter().map(|machine| machine.name)
}

/// Returns the machine as one complete file without `extends`: every value with its place or `default` in a comment.
///
/// # Errors
///
/// Those of [`load`].
pub fn show(name_or_path: impl AsRef<OsStr>) -> Result<String, SpecError> {
    load::by_name_or_path(name_or_path.as_ref()).map(|loaded| show::file(&loaded))
}
