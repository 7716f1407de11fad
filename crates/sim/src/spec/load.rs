//! From a name, a path or a text to a machine.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Diagnostic, Diagnostics, SourceFile, SpecError, did_you_mean};
use super::key::MAX_FILE_BYTES;
use super::options;
use super::resolve::{self, FILE};
use super::settings::MachineSpec;
use super::tree::{Leaf, Node, Table, Value};
use super::{builtin, merge};

/// A machine with the tree that it was built from.
pub(super) struct Loaded {
    pub(super) spec: MachineSpec,
    pub(super) tree: Table,
    pub(super) file: Arc<SourceFile>,
    /// The base that it extends.
    pub(super) base: Option<Arc<SourceFile>>,
}

/// Loads a built-in machine by its name, or a file: anything with a `/` in it or with the ending `.toml`.
pub(super) fn by_name_or_path(name_or_path: &OsStr) -> Result<Loaded, SpecError> {
    let bytes = name_or_path.as_encoded_bytes();
    if bytes.contains(&b'/') || bytes.ends_with(b".toml") {
        let path = Path::new(name_or_path);
        return from_file(read_file(path)?, Some(path));
    }
    let name = name_or_path.to_string_lossy();
    match builtin::find(&name) {
        Some(machine) => from_file(built_in_file(machine), None),
        None => Err(unknown_machine(&name)),
    }
}

/// Builds the machine that a text describes. Its base is looked for beside `path`, if there is one, and among the
/// built-in machines.
pub(super) fn from_file(file: Arc<SourceFile>, path: Option<&Path>) -> Result<Loaded, SpecError> {
    let mut errors = Diagnostics::default();
    let tree = options::read(&file, FILE, &mut errors);
    let Some(tree) = tree.filter(|tree| !matches!(tree.get("extends"), Some(Node::Broken))) else {
        return errors.finish(None);
    };
    let (tree, base) = match tree.leaf("extends").cloned() {
        None => (Some(tree), None),
        Some(extends) => match base_tree(&extends, path, &mut errors) {
            Some((base_tree, base)) => (Some(merge::over_base(base_tree, tree, FILE)), Some(base)),
            // The child's own mistakes have been found; what it lacks may be the base's to give.
            None => (None, None),
        },
    };
    let Some(mut tree) = tree else {
        return errors.finish(None);
    };
    merge::fill_defaults(&mut tree, FILE, &mut errors);
    let spec = resolve::machine(&tree, &file, &mut errors);
    errors.finish(spec).map(|spec| Loaded { spec, tree, file, base })
}

/// Refuses what is too long before anything looks at it.
pub(super) fn source_file(label: &str, bytes: Vec<u8>) -> Result<Arc<SourceFile>, SpecError> {
    let label: String = label.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if bytes.len() > MAX_FILE_BYTES {
        let help = "a machine file has at most 1MiB; is this one?".to_owned();
        return Err(SpecError::general(format!("{label}: more than 1MiB long"), &[help]));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Arc::new(SourceFile { label, text })),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let line = 1 + bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
            let message =
                format!("{label}:{line}: not UTF-8 text: byte {:#04x} at offset {offset}", bytes[offset]);
            Err(SpecError::general(message, &["a machine file is TOML, which is UTF-8 text".to_owned()]))
        }
    }
}

fn read_file(path: &Path) -> Result<Arc<SourceFile>, SpecError> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte beyond the limit tells a file that is too long; a device never ends.
        std::fs::File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let label = path.display().to_string();
    match read() {
        Ok(bytes) => source_file(&label, bytes),
        Err(error) => {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let near = did_you_mean(stem, builtin_names());
            let help =
                near.map(|near| format!("`{near}` is a built-in machine: name it without path and ending"));
            Err(SpecError::general(format!("cannot read machine file {label}: {error}"), help.as_slice()))
        }
    }
}

fn built_in_file(machine: &builtin::Builtin) -> Arc<SourceFile> {
    Arc::new(SourceFile { label: machine.label.to_owned(), text: machine.text.to_owned() })
}

fn builtin_names() -> impl Iterator<Item = &'static str> {
    builtin::ALL.iter().map(|machine| machine.name)
}

fn unknown_machine(name: &str) -> SpecError {
    let mut help = Vec::new();
    if let Some(near) = did_you_mean(name, builtin_names()) {
        help.push(format!("did you mean `{near}`?"));
    }
    help.push(known_machines());
    if Path::new(&format!("{name}.toml")).is_file() {
        help.push(format!("the file is named `{name}.toml`"));
    } else {
        help.push("a machine file is named by its path, with a `/` or the ending .toml".to_owned());
    }
    SpecError::general(format!("no machine `{}`", super::quantity::excerpt(name)), &help)
}

fn known_machines() -> String {
    format!("built-in machines: {}", builtin_names().collect::<Vec<_>>().join(", "))
}

/// The tree of the base that `extends` names, and its file.
fn base_tree(
    extends: &Leaf,
    path: Option<&Path>,
    errors: &mut Diagnostics,
) -> Option<(Table, Arc<SourceFile>)> {
    let Value::Text(name) = &extends.value else { return None };
    let file = match find_base(name, path) {
        Ok(file) => file,
        Err(help) => {
            let message = format!("`extends`: no machine `{}`", super::quantity::excerpt(name));
            let wrong = help.into_iter().fold(Diagnostic::new(&extends.origin, message), Diagnostic::help);
            return errors.report(wrong);
        }
    };
    let tree = options::read(&file, FILE, errors)?;
    if let Some(second) = tree.leaf("extends") {
        let wrong = Diagnostic::new(&extends.origin, format!("`{name}` itself extends another machine"));
        let second = super::value::write(&second.value);
        return errors.report(wrong.help(format!(
            "a machine extends once: write extends = {second} and repeat the keys of `{name}` that you need"
        )));
    }
    Some((tree, file))
}

/// The base's file: one beside `path` before a built-in machine, so that a copied and edited folder of machines
/// is used as edited; but never the extending file itself, which may bear the name of the built-in it refines.
fn find_base(name: &str, path: Option<&Path>) -> Result<Arc<SourceFile>, Vec<String>> {
    let mut help = Vec::new();
    if let Some(path) = path {
        let file_name = if name.ends_with(".toml") { name.to_owned() } else { format!("{name}.toml") };
        let beside = path.parent().map_or_else(|| PathBuf::from(&file_name), |dir| dir.join(&file_name));
        if is_same_file(&beside, path) {
            help.push("a machine cannot extend itself".to_owned());
        } else if beside.is_file() {
            return read_file(&beside).map_err(|error| error.messages().map(str::to_owned).collect());
        } else {
            help.push(format!("there is no file {} either", beside.display()));
        }
    }
    if let Some(machine) = builtin::find(name) {
        return Ok(built_in_file(machine));
    }
    if let Some(near) = did_you_mean(name, builtin_names()) {
        help.insert(0, format!("did you mean `{near}`?"));
    }
    help.push(known_machines());
    Err(help)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The error of a run that names two machines alike.
pub(super) fn duplicate_name(name: &str, first: &str, second: &str) -> SpecError {
    let help =
        "results are told apart by the machine's name: give one of the files another `name`".to_owned();
    SpecError::general(format!("two machines are named `{name}`: `{first}` and `{second}`"), &[help])
}
