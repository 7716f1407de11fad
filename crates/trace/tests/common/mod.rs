//! Helpers of the tests.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;

use pagewalk_trace::container::{PwtSource, Reader, Writer};
use pagewalk_trace::{Batch, Source, SourceError, SourceInfo};

/// Everything that a source produces, and how it ended.
pub fn collect(source: &mut dyn Source) -> (Vec<Batch>, Result<(), SourceError>) {
    let mut batches = Vec::new();
    let mut sink = |batch: &mut Batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    };
    let result = source.run(&mut sink);
    (batches, result)
}

/// Writes the batches to a new file.
pub fn write(path: &Path, source: &SourceInfo, batches: &[Batch]) {
    let mut writer = Writer::create(path, source).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
}

/// The bytes of a file with these batches.
pub fn encode(batches: &[Batch]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    write(&path, &named("test"), batches);
    std::fs::read(&path).unwrap()
}

/// Everything in a file, or what is wrong with it.
pub fn decode(bytes: &[u8]) -> Result<Vec<Batch>, String> {
    let reader = Reader::new(Cursor::new(bytes), "t.pwt".to_owned()).map_err(|error| error.to_string())?;
    let (batches, result) = collect(&mut PwtSource::new(reader));
    result.map(|()| batches).map_err(|error| error.to_string())
}

/// A source that is only a name.
pub fn named(name: &str) -> SourceInfo {
    SourceInfo { name: name.to_owned(), ..SourceInfo::default() }
}

/// The names in a folder.
pub fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
