use pagewalk_vm::file::{PersistentMemory, STORE_MAGIC};

use super::*;
use crate::memory::survives::Blocks;

/// What a page of zeroes in a missing one's place leads to: `info` once panicked while its store was cut.
#[test]
fn nothing_lies_outside_of_a_memory_that_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Mapped::create(&folder.path().join("store"), 8_192, Survives::ProcessCrash).unwrap();
    memory.write(0, &[7; 8_192]);
    memory.health().fail(Failure::Cut);
    for at in [8_192, 8_190, 1, u64::MAX - 7, 0xffa3_e464_cf73_7000] {
        assert_eq!(memory.load(at), 0);
        memory.store(at, 1);
        let mut bytes = [1; 16];
        memory.read(at.max(8_190), &mut bytes);
        assert_eq!(bytes, [0; 16]);
        memory.write(at.max(8_190), &bytes);
        memory.append(at.max(8_190), &bytes);
        memory.zero(at.max(8_190), 16);
    }
    let mut bytes = [0; 8_192];
    memory.read(0, &mut bytes);
    assert_eq!(bytes, [7; 8_192]);
}

#[test]
#[should_panic(expected = "8 bytes at 0x2000 of 0x2000")]
fn the_end_of_a_sound_memory_is_its_callers_business() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Mapped::create(&folder.path().join("store"), 8_192, Survives::ProcessCrash).unwrap();
    memory.load(8_192);
}

/// A child between `fork` and `exec` has the descriptors of a store that was closed meanwhile.
#[test]
fn a_lock_that_is_held_for_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let memory = Mapped::create(&path, 8_192, Survives::ProcessCrash).unwrap();
    let inherited = memory.file().try_clone().unwrap();
    drop(memory);
    let child = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(inherited);
    });
    Mapped::open(&path, Survives::ProcessCrash).unwrap();
    child.join().unwrap();
}

#[test]
fn a_file_is_memory_that_one_process_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let memory = Mapped::create(&path, 10_000, Survives::PowerFailure).unwrap();
    assert_eq!(memory.bytes(), 8_192);
    memory.store(8, 0x1122);
    memory.write(4_090, b"across pages");
    memory.flush(0, 8_192);
    memory.fence();
    assert_eq!(Mapped::open(&path, Survives::ProcessCrash).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(memory);
    let memory = Mapped::open(&path, Survives::ProcessCrash).unwrap();
    let mut bytes = [0; 12];
    memory.read(4_090, &mut bytes);
    assert_eq!((memory.load(8), &bytes), (0x1122, b"across pages"));
    memory.zero(8, 8);
    assert_eq!(memory.load(8), 0);
    // Every alignment, short and long.
    for (at, length) in [(0, 1_023), (1, 1_024), (63, 1_100), (64, 2_048), (17, 3_000), (0, 4_096)] {
        let data: Vec<u8> = (0..length).map(|byte| (byte * 31 + at) as u8 | 1).collect();
        memory.zero(0, 8_192);
        memory.write(at as u64, &data);
        memory.fence();
        let mut bytes = vec![0; 8_192];
        memory.read(0, &mut bytes);
        assert_eq!(bytes[at as usize..at as usize + length as usize], data);
        assert!(
            bytes[..at as usize].iter().chain(&bytes[at as usize + length as usize..]).all(|&byte| byte == 0)
        );
    }
    memory.write_lines_back(3, 5_000);
    drop(memory);
    let refused = Mapped::open(&path, Survives::PowerFailureOfDax).unwrap_err();
    assert!(refused.to_string().contains("DAX"), "{refused}");
    let short = folder.path().join("short");
    std::fs::write(&short, "x").unwrap();
    assert!(Mapped::open(&short, Survives::ProcessCrash).is_err());
    let create = |bytes| Mapped::create(&short, bytes, Survives::ProcessCrash).map_err(|error| error.kind());
    assert_eq!(create(8_192).unwrap_err(), io::ErrorKind::AlreadyExists);
    assert_eq!(create(100).unwrap_err(), io::ErrorKind::InvalidInput);
    assert_eq!(std::fs::read(&short).unwrap(), b"x", "it is as it was");
    drop(Mapped::create_over(&short, 8_192, Survives::ProcessCrash, Blocks::AtOnce).unwrap());
    std::fs::write(&short, STORE_MAGIC.to_le_bytes()).unwrap();
    drop(create(8_192).unwrap());
}
