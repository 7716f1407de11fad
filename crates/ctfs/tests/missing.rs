//! A store whose file loses pages while a program has it open: every operation answers an error, and the program goes on.

use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewalk_ctfs::missing::Failure;
use pagewalk_ctfs::{
    Blocks, Error, FileSystem, Files, Mapped, MountError, OpenOptions, Owner, Replace, SetAttributes,
    Survives, check, coarse_now,
};

const MIB: u64 = 1 << 20;

fn made(path: &Path, bytes: u64, survives: Survives, blocks: Blocks) -> Files<Mapped> {
    let memory = Mapped::create_over(path, bytes, survives, blocks).expect("made");
    Files::new(FileSystem::format(memory, Owner::default(), coarse_now).expect("a file system"))
}

fn opened(path: &Path, survives: Survives) -> Result<Files<Mapped>, MountError> {
    let memory = Mapped::open(path, survives).expect("opened");
    FileSystem::mount(memory, coarse_now).map(|(system, _)| Files::new(system))
}

fn cut(path: &Path, bytes: u64) {
    File::options().write(true).open(path).expect("there").set_len(bytes).expect("cut");
}

/// What of a store that has failed is asked for is refused.
fn refuses_everything(files: &Files<Mapped>, file: &pagewalk_ctfs::File<Mapped>) {
    let io = Some(Error::IO);
    let mut bytes = [0; 100];
    assert_eq!(file.read_at(&mut bytes, 0).err(), io);
    assert_eq!(file.write_at(&bytes, 0).err(), io);
    assert_eq!(file.size().err(), io);
    assert_eq!(file.attributes().err(), io);
    assert_eq!(file.set_len(1).err(), io);
    assert_eq!(file.allocate(0..9_000, false).err(), io);
    assert_eq!(file.link("/name").err(), io);
    assert_eq!(file.collapse(0..4_096).err(), io);
    assert_eq!(files.open("/f", &OpenOptions::default()).err(), io);
    assert_eq!(files.open("/new", &OpenOptions::creating()).err(), io);
    assert_eq!(files.open_unnamed(0o600, Owner::default()).err(), io);
    assert_eq!(files.attributes("/f").err(), io);
    assert_eq!(files.link_attributes("/none").err(), io);
    assert_eq!(files.set_attributes("/f", &SetAttributes::default()).err(), io);
    assert_eq!(files.create_directory("/d", 0o700, Owner::default()).err(), io);
    assert_eq!(files.remove_file("/f").err(), io);
    assert_eq!(files.rename("/f", "/g", Replace::Yes).err(), io);
    assert_eq!(files.list("/").err(), io);
}

/// In memory, where pieces of 2 MiB are mapped once more, and on a disk.
#[test]
fn a_store_that_is_cut_refuses_everything_and_others_go_on() {
    for folder in ["/dev/shm", "/var/tmp"].map(Path::new).into_iter().filter(|folder| folder.is_dir()) {
        let folder = tempfile::tempdir_in(folder).expect("a folder");
        let [path, other] = ["store", "other"].map(|name| folder.path().join(name));
        let beside = made(&other, 16 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
        let kept = beside.open("/f", &OpenOptions::updating()).expect("open");
        for left in [0, 4_096, 3 * MIB / 2, 9 * MIB + 4_096] {
            let files = made(&path, 24 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
            let file = files.open("/f", &OpenOptions::updating()).expect("open");
            let data = vec![7; 10 * MIB as usize];
            assert_eq!(file.write_at(&data, 0), Ok(data.len()));
            let mut read = vec![0; data.len()];
            assert_eq!(file.read_at(&mut read, 0), Ok(data.len()));
            cut(&path, left);
            // All of its bytes, so that some are missing.
            assert_eq!(file.read_at(&mut read, 0), Err(Error::IO), "{left}");
            refuses_everything(&files, &file);
            drop((file, files));
            match Mapped::open(&path, Survives::ProcessCrash)
                .map(|memory| FileSystem::mount(memory, coarse_now))
            {
                Err(error) => assert!(error.to_string().contains("less than 4,096 bytes"), "{error}"),
                Ok(mounted) => {
                    let error = mounted.err().expect("no store");
                    assert!(error.to_string().contains("and there is room for"), "{error}");
                }
            }
            std::fs::remove_file(&path).expect("removed");
            assert_eq!(kept.write_at(b"other", 0), Ok(5));
        }
    }
}

/// Threads are anywhere in the library when the file is cut.
#[test]
fn a_store_may_be_cut_at_any_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut failures = 0;
    for round in 0..60u64 {
        let files = made(&path, 16 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3u64)
                .map(|thread| {
                    let files = files.clone();
                    scope.spawn(move || {
                        for step in 0..2_000u64 {
                            let path = format!("/{thread}-{}", step % 7);
                            let done = files
                                .open(&path, &OpenOptions::updating())
                                .and_then(|file| {
                                    file.write_at(&[3; 9_000], step * 977 % 200_000)?;
                                    file.read_at(&mut [0; 20_000], 0)?;
                                    file.set_len(step * 1_013 % 100_000)
                                })
                                .and_then(|()| files.rename(&path, format!("/{thread}"), Replace::Yes))
                                .and_then(|()| files.list("/"))
                                .and_then(|_| files.remove_file(format!("/{thread}")));
                            if let Err(error) = done {
                                return error;
                            }
                        }
                        Error::NOSYS
                    })
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_micros(300 + round * 331));
            // What is cut off is anything, the store's own pages among it.
            cut(&path, [0, 4_096 * 2, 4_096 * 261, 4_096 * 265, 4_096 * 280][round as usize % 5]);
            for thread in threads {
                let error = thread.join().expect("it does not panic");
                failures += usize::from(error == Error::IO);
                assert!([Error::IO, Error::NOSYS].contains(&error), "{error}");
            }
        });
        drop(files);
        std::fs::remove_file(&path).expect("removed");
    }
    assert!(failures > 100, "{failures}");
}

/// What was found in pages that are missing means nothing.
#[test]
fn a_check_says_that_the_file_was_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let files = made(&path, 16 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
    for number in 0..300 {
        let file = files.open(format!("/{number}"), &OpenOptions::creating()).expect("open");
        file.write_at(&[1; 5_000], 0).expect("written");
    }
    drop(files);
    for left in [0, 4_096, 2 * 4_096, 3 * 4_096, 260 * 4_096, 270 * 4_096, 600 * 4_096] {
        let whole = std::fs::read(&path).expect("read");
        let memory = Mapped::open_read_only(&path).expect("opened");
        cut(&path, left);
        let error = FileSystem::mount_unchecked(memory, coarse_now).map(|(system, _)| {
            check(&system);
            system.store().memory().failure()
        });
        match error {
            Ok(failure) => assert_eq!(failure, Some(Failure::Cut), "{left}"),
            Err(error) => assert!(error.to_string().contains("cannot be read"), "{left}: {error}"),
        }
        std::fs::write(&path, &whole).expect("written");
        let memory = Mapped::open_read_only(&path).expect("opened");
        let (system, _) = FileSystem::mount_unchecked(memory, coarse_now).expect("mounted");
        cut(&path, left);
        let problems = check(&system);
        let failure = system.store().memory().failure();
        assert!(failure == Some(Failure::Cut) || problems.is_empty(), "{left}: {problems:?}");
        std::fs::write(&path, &whole).expect("written");
    }
}

/// A file system in memory of so many bytes; `None` where that is impossible.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let small = Self(tempfile::tempdir().expect("a folder"));
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"]).arg(small.0.path());
        if !command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            println!("skipped: mounting takes the right to");
            return None;
        }
        Some(small)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A sparse store on a full disk: no room, and everything goes on.
#[test]
fn a_full_disk_is_no_room() {
    let Some(small) = Small::new(16 * MIB) else { return };
    let path = small.0.path().join("store");
    let files = made(&path, 256 * MIB, Survives::ProcessCrash, Blocks::AsNeeded);
    let file = files.open("/f", &OpenOptions::updating()).expect("open");
    let fill = |file: &pagewalk_ctfs::File<Mapped>, mut at: u64| {
        loop {
            match file.write_at(&[at as u8 | 1; 30_000], at) {
                Ok(written) => at += written as u64,
                Err(error) => return (at, error),
            }
        }
    };
    let (bytes, error) = fill(&file, 0);
    assert_eq!(error, Error::NOSPC);
    assert!((12 * MIB..16 * MIB).contains(&bytes), "{bytes}");
    assert_eq!(file.size(), Ok(bytes));
    let mut read = vec![0; bytes as usize];
    assert_eq!(file.read_at(&mut read, 0), Ok(bytes as usize));
    assert!(read.iter().all(|byte| *byte != 0));
    // What another file gives back it can have, and the disk's room when there is some again.
    file.set_len(4 * MIB).expect("cut");
    let other = files.open("/other", &OpenOptions::updating()).expect("open");
    let (bytes, error) = fill(&other, 0);
    assert_eq!(error, Error::NOSPC);
    assert!(bytes > 7 * MIB, "{bytes}");
    let grown = Command::new("mount")
        .args(["-o", &format!("remount,size={}", 24 * MIB)])
        .arg(small.0.path())
        .status();
    assert!(grown.is_ok_and(|status| status.success()));
    let (more, error) = fill(&other, bytes);
    assert_eq!((error, more > bytes + 5 * MIB), (Error::NOSPC, true), "{more}");
    drop((file, other, files));
    let memory = Mapped::open(&path, Survives::ProcessCrash).expect("opened");
    let (system, _) = FileSystem::mount(memory, coarse_now).expect("mounted");
    assert_eq!(check(&system), Vec::<String>::new());
    drop(system);
    std::fs::remove_file(&path).expect("removed");
    // A copy without its zeroes, where there is no room for what was in use.
    let Some(tiny) = Small::new(8 * MIB) else { return };
    let [full, holes] = ["full", "holes"].map(|name| tiny.0.path().join(name));
    let files = made(&path, 16 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
    let zeroes = files.open("/zeroes", &OpenOptions::updating()).expect("open");
    zeroes.write_at(&vec![0; 10 * MIB as usize], 0).expect("written");
    drop((zeroes, files));
    let copied = Command::new("cp").arg("--sparse=always").args([&path, &holes]).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let error = opened(&holes, Survives::ProcessCrash).expect_err("no room");
    assert!(error.to_string().contains("the disk has no room"), "{error}");
    // Even where not a page is left, it can be looked at.
    let rest = File::create(&full).expect("made");
    while std::io::Write::write_all(&mut &rest, &[1; 4_096]).is_ok() {}
    let memory = Mapped::open_read_only(&holes).expect("opened");
    let (system, _) = FileSystem::mount_unchecked(memory, coarse_now).expect("mounted");
    assert_eq!((check(&system), system.store().memory().failure()), (Vec::new(), None));
}

/// A store that the disk has no room for is refused before anything is done, and an old one stays.
#[test]
fn a_store_larger_than_its_disk_is_refused_at_once() {
    let Some(small) = Small::new(16 * MIB) else { return };
    let path = small.0.path().join("store");
    let is_refused = |bytes| {
        let made = Mapped::create_over(&path, bytes, Survives::ProcessCrash, Blocks::AtOnce);
        let error = made.map(drop).expect_err("no room");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
        assert!(error.to_string().contains(" are free"), "{error}");
    };
    is_refused(17 * MIB);
    assert_eq!(std::fs::metadata(&path).expect("there").len(), 0);
    drop(made(&path, 10 * MIB, Survives::ProcessCrash, Blocks::AtOnce));
    is_refused(17 * MIB);
    drop(opened(&path, Survives::ProcessCrash).expect("the old one"));
    // With the room of the old one there is enough.
    let files = made(&path, 12 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
    assert_eq!(files.grow(17 * MIB).expect_err("no room").errno(), Error::NOSPC);
    files.grow(14 * MIB).expect("there is room");
}

/// A file system that says no size has no limit.
#[test]
fn a_disk_without_a_size_has_room() {
    let Some(unlimited) = Small::new(0) else { return };
    for blocks in [Blocks::AtOnce, Blocks::AsNeeded] {
        let path = unlimited.0.path().join("store");
        let files = made(&path, 16 * MIB, Survives::ProcessCrash, blocks);
        let file = files.open("/f", &OpenOptions::creating()).expect("open");
        assert_eq!(file.write_at(&vec![1; 9 * MIB as usize], MIB), Ok(9 * MIB as usize));
    }
}

static FAULTS: AtomicUsize = AtomicUsize::new(0);

/// The program's own handler: a page of its own for what is missing.
#[allow(unsafe_code)]
extern "C" fn handle(_: libc::c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    FAULTS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: (1) the kernel's; (2) the page is the mapping's of the test below.
    unsafe {
        let page = (*information).si_addr() as usize & !4_095;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(page as *mut c_void, 4_096, libc::PROT_READ, how, -1, 0);
    }
}

/// Faults of the program's own mappings are its own business.
#[test]
#[allow(unsafe_code)]
fn the_handler_from_before_gets_all_other_faults() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("a program");
    if std::env::var_os("PAGEWALK_TEST_PART").is_none() {
        // Handlers are a process's: this needs one of its own.
        let test = "missing::the_handler_from_before_gets_all_other_faults";
        let ended =
            Command::new(program).args(["--exact", test]).env("PAGEWALK_TEST_PART", "handler").output();
        let ended = ended.expect("it starts");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zeroes are such a value.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()), 0);
        }
    });
    let path = folder.path().join("store");
    let files = made(&path, 4 * MIB, Survives::ProcessCrash, Blocks::AtOnce);
    let own =
        File::options().read(true).write(true).create(true).truncate(true).open(folder.path().join("own"));
    let own = own.expect("made");
    own.set_len(4_096).expect("sized");
    use std::os::fd::AsRawFd;
    // SAFETY: a fresh mapping of a page, which the handler replaces.
    let byte = unsafe {
        let start =
            libc::mmap(std::ptr::null_mut(), 4_096, libc::PROT_READ, libc::MAP_SHARED, own.as_raw_fd(), 0);
        own.set_len(0).expect("cut");
        start.cast::<u8>().read_volatile()
    };
    assert_eq!((byte, FAULTS.load(Ordering::SeqCst)), (0, 1));
    cut(&path, 0);
    assert_eq!(files.list("/").err(), Some(Error::IO));
    assert_eq!(FAULTS.load(Ordering::SeqCst), 1, "the store's own are not the program's");
}
