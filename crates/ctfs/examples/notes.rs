//! A store in a file, used as a library: `cargo run --example notes [STORE]`.

use std::error::Error;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use pagewalk_ctfs::{FileSystem, Files, Mapped, OpenOptions, Owner, Survives, coarse_now};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = std::env::args().nth(1).map_or_else(|| folder.path().join("store"), Into::into);
    let memory = Mapped::create(&store, 16 << 20, Survives::ProcessCrash)?;
    let files = Files::new(FileSystem::format(memory, Owner::default(), coarse_now)?);
    files.create_directory(Path::new("/notes"), 0o755, Owner::default())?;
    let mut file = files.open("/notes/first", OpenOptions::new().read(true).write(true).create(true))?;
    writeln!(file, "contiguous in virtual memory")?;
    file.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    print!("{text}");
    for entry in files.list("/notes")? {
        println!("{} has {} bytes", String::from_utf8_lossy(&entry.name), file.size()?);
    }
    Ok(())
}
