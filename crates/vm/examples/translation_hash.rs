//! The translation hash for a circuit: its tables, and vectors to check the circuit with.
//!
//! ```text
//! translation_hash tables FOLDER SEED      writes table0.hex to table5.hex, for $readmemh
//! translation_hash vectors COUNT SEED      prints lines of `key member hash`, hexadecimal
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use pagewalk_vm::hash::{HashFamily, Tabulation};

/// Members that the circuit has.
const MEMBERS: u64 = 8;
const KEY_BITS: u32 = 45;

fn tables(folder: &Path, hash: &Tabulation) -> io::Result<()> {
    let words: Vec<u32> = hash.words().collect();
    for (number, table) in words.chunks(256).enumerate() {
        let mut file = BufWriter::new(File::create(folder.join(format!("table{number}.hex")))?);
        for word in table {
            writeln!(file, "{word:08x}")?;
        }
        file.flush()?;
    }
    Ok(())
}

fn vectors(count: u64, hash: &Tabulation) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for number in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Every slice of all ones now and then: there the index wraps.
        let key = if number % 16 == 0 { u64::MAX } else { state } >> (64 - KEY_BITS);
        let member = state % MEMBERS;
        writeln!(out, "{key:011x} {member:x} {:08x}", hash.hash(key, member as u32))?;
    }
    out.flush()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, what, seed] = &arguments[..] else {
        eprintln!("usage: translation_hash tables FOLDER SEED | vectors COUNT SEED");
        return ExitCode::from(2);
    };
    let Ok(seed) = seed.parse() else {
        eprintln!("error: the seed `{seed}` is no number");
        return ExitCode::from(2);
    };
    let hash = Tabulation::new(seed);
    let done = match (command.as_str(), what.parse()) {
        ("tables", _) => tables(Path::new(what), &hash),
        ("vectors", Ok(count)) => vectors(count, &hash),
        _ => Err(io::Error::other(format!(
            "`{command} {what}` is neither `tables FOLDER` nor `vectors COUNT`"
        ))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
