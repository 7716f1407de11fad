//! Programs that wait for the disk, and then go on in their own memory.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::{shim, start};
use crate::mounted::{Store, name, pagewalk, text};

const ROUNDS: u64 = 5;
/// Bytes that are appended before the program waits for the disk, how often in each round, and bytes behind that. The owner changes nothing
/// all the while, and what it has changed before it forgets.
const PIECE: usize = 300;
const PIECES: usize = 40;
const MORE: usize = 700;

/// Byte of a file at an offset.
fn byte(offset: usize) -> u8 {
    (offset / 251 + offset) as u8
}

/// Appends and waits for the disk, appends more, says so, and waits until it is told to go on.
pub(super) fn synced(folder: &Path) {
    let mut file =
        OpenOptions::new().append(true).create_new(true).open(folder.join("mount/file")).expect("made");
    let mut length = 0;
    let mut append = |file: &mut std::fs::File, bytes: usize| {
        // In pieces, so that most need nothing of the owner.
        for piece in (length..length + bytes).collect::<Vec<_>>().chunks(100) {
            let bytes: Vec<u8> = piece.iter().map(|&offset| byte(offset)).collect();
            file.write_all(&bytes).expect("written");
        }
        length += bytes;
    };
    for round in 0..ROUNDS {
        for _ in 0..PIECES {
            append(&mut file, PIECE);
            file.sync_data().expect("synced");
        }
        append(&mut file, MORE);
        println!("{round}");
        while !folder.join(round.to_string()).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A program that does not go on when its test has failed, and would keep the mount.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// While a program stands still, a copy of the store's file, which is not in the memory that held the original, is what a power failure
/// leaves: what the program waited for, and nothing that it did behind that.
#[test]
fn what_a_program_waited_for_outlives_a_power_failure() {
    let Some(shim) = shim() else { return };
    for number in 0..2 {
        let store = Store::new("16MiB");
        // In memory nothing outlives a power failure, and the mount makes no checkpoints.
        if rustix::fs::statfs(store.folder.path()).expect("known").f_type == 0x0102_1994 {
            println!("skipped: the folder for temporary files lies in memory");
            return;
        }
        let Some(mounted) = store.mount() else { return };
        let mut program = Program(start("synced", Some(&shim), store.folder.path(), number, 0));
        let lines = BufReader::new(program.0.stdout.take().expect("piped")).lines();
        let mut begin = Instant::now();
        for (round, line) in lines.enumerate() {
            assert_eq!(line.expect("text"), round.to_string());
            let failed = Store::new("4MiB");
            std::fs::copy(store.file(), failed.file()).expect("copied");
            // The mount syncs, too, when five seconds have gone by.
            let is_late = begin.elapsed() > Duration::from_secs(4);
            begin = Instant::now();
            std::fs::write(store.folder.path().join(round.to_string()), "").expect("written");
            let checked = pagewalk(&["fs", "fsck", name(&failed.file())]);
            assert!(text(&checked.stdout).contains("power failed"), "{}", text(&checked.stdout));
            let after = failed.mount().expect("as before");
            let bytes = std::fs::read(after.point.join("file")).expect("synced");
            let least = round * (PIECES * PIECE + MORE) + PIECES * PIECE;
            assert!(is_late || bytes.len() == least, "{number}, {round}: {} bytes", bytes.len());
            assert!(bytes.iter().enumerate().all(|(offset, &found)| found == byte(offset)));
            drop(after);
            failed.is_sound();
        }
        assert!(program.0.wait().expect("it ends").success());
        drop(mounted);
        store.is_sound();
    }
}
