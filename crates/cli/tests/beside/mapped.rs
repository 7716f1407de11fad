//! Tests of files that programs map into their memory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{shim, start};
use crate::mounted::{Store, text};

/// Bytes of a file, mapped by the C library, as programs do, so that the shim sees it.
pub(super) struct Bytes {
    start: *mut u8,
    length: usize,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.unmap(0, self.length);
    }
}

#[allow(unsafe_code)]
impl Bytes {
    fn of(file: &File, offset: i64, length: usize, protection: i32, flags: i32) -> Self {
        use std::os::fd::AsRawFd;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), offset) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Self { start: start.cast(), length }
    }

    /// All of a file, to read it.
    fn shared(path: &Path) -> Self {
        Self::shared_of(&File::open(path).expect("open"))
    }

    pub(super) fn shared_of(file: &File) -> Self {
        let length = file.metadata().expect("known").len() as usize;
        if length == 0 {
            return Self { start: std::ptr::null_mut(), length };
        }
        Self::of(file, 0, length, libc::PROT_READ, libc::MAP_SHARED)
    }

    /// Bytes from an offset on, if so many are mapped.
    pub(super) fn get(&self, offset: usize, length: usize) -> Option<Vec<u8>> {
        let is_there = offset + length <= self.length;
        // SAFETY: it is mapped, and others change it between two looks at most.
        let byte = |at| unsafe { self.start.add(at).read_volatile() };
        is_there.then(|| (offset..offset + length).map(byte).collect())
    }

    fn is_all(&self, range: std::ops::Range<usize>, byte: u8) -> bool {
        // SAFETY: it is mapped, and others change it between two looks at most.
        range.clone().all(|at| unsafe { self.start.add(at).read_volatile() } == byte)
    }

    fn unmap(&self, from: usize, to: usize) {
        // SAFETY: the test does not read that range any more.
        assert!(to == 0 || unsafe { libc::munmap(self.start.add(from).cast(), to - from) } == 0);
    }

    fn resize(&self, to: usize) -> *mut u8 {
        // SAFETY: there is no reference into the mapping.
        unsafe { libc::mremap(self.start.cast(), self.length, to, libc::MREMAP_MAYMOVE) }.cast()
    }

    /// The kernel's own word for what is mapped there.
    fn name(&self) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
        let start = format!("{:x}-", self.start as usize);
        maps.lines().find(|line| line.starts_with(&start)).expect("it is mapped").to_owned()
    }
}

#[allow(unsafe_code)]
fn free_frames(mount: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(mount.as_os_str().as_bytes()).expect("no zero");
    // SAFETY: zeroes are a value of it, and both arguments live.
    let space = unsafe {
        let mut space: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(path.as_ptr(), &raw mut space), 0);
        space
    };
    space.f_bfree
}

/// Free frames are so many, now or soon: the mount hears what is not mapped any more, and does not answer.
fn frames_come_back(mount: &Path, wanted: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while free_frames(mount) < wanted {
        assert!(Instant::now() < until, "{} of {wanted}", free_frames(mount));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fills what room there is, and gives it back.
fn use_all_frames(mount: &Path) {
    let file = OpenOptions::new().append(true).create(true).open(mount.join("filler")).expect("open");
    while (&file).write(&[0xee; 100_000]).is_ok() {}
    std::fs::remove_file(mount.join("filler")).expect("removed");
}

/// What a program sees that maps files to read them, while they change and go.
#[allow(unsafe_code)]
pub(super) fn mapped(mount: &Path) {
    const BYTES: usize = 3_000_100;
    const PAGE: usize = 4_096;
    let path = mount.join("mapped");
    let write = |at: u64, bytes: &[u8]| {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).expect("open");
        file.write_all_at(bytes, at).expect("written");
    };
    use_all_frames(mount);
    write(0, &[1; 10]);
    let free = free_frames(mount);
    write(0, &vec![1; BYTES]);
    let bytes = Bytes::shared(&path);
    assert!(bytes.name().ends_with("store.ctfs"), "the store itself: {}", bytes.name());
    assert!(bytes.is_all(0..BYTES, 1));
    assert!(bytes.is_all(BYTES..BYTES.next_multiple_of(PAGE), 0), "nothing of other files behind the end");
    // A write to the file is seen in the mapping.
    write(5_000, &[2; 20_000]);
    assert!(bytes.is_all(5_000..25_000, 2) && bytes.is_all(25_000..BYTES, 1));
    // What is cut off is zero, and what is written there later is seen.
    let file = OpenOptions::new().write(true).open(&path).expect("open");
    file.set_len(10_000).expect("cut");
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(10_000..BYTES, 0));
    use_all_frames(mount);
    assert!(bytes.is_all(10_000..BYTES, 0));
    write(2_000_000, &[3; 1_000_100]);
    assert!(bytes.is_all(10_000..2_000_000, 0) && bytes.is_all(2_000_000..BYTES, 3));
    // A copy, which can be changed.
    let private = {
        let file = File::open(&path).expect("open");
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        Bytes::of(&file, 8_192, PAGE, protection, flags)
    };
    assert!(private.is_all(0..1_808, 2) && private.is_all(1_808..PAGE, 0));
    // SAFETY: it is mapped to be written.
    unsafe { private.start.write_volatile(9) };
    assert!(private.is_all(0..1, 9) && bytes.is_all(8_192..8_193, 2));
    drop(private);
    // Neither the name nor an open file is needed.
    drop(file);
    std::fs::remove_file(&path).expect("removed");
    use_all_frames(mount);
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(2_000_000..BYTES, 3));
    // No process can write to the mapping.
    // SAFETY: the mapping stays as it is.
    let refused = unsafe { libc::mprotect(bytes.start.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) };
    assert_eq!(refused, -1);
    // It gets smaller at its end, in its middle and at its beginning, and no larger.
    assert_eq!(bytes.resize(BYTES + 100_000) as *mut libc::c_void, libc::MAP_FAILED);
    assert_eq!(bytes.resize(2_900_000), bytes.start);
    bytes.unmap(100 * PAGE, 500 * PAGE);
    bytes.unmap(0, PAGE);
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(2_100_000..2_900_000, 3));
    assert!(free_frames(mount) + 600 < free, "all of it is kept");
    // SAFETY: the test does not read the pages that are replaced.
    let replaced = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(bytes.start.add(500 * PAGE).cast(), 209 * PAGE, libc::PROT_READ, flags, -1, 0)
    };
    assert_eq!(replaced.cast(), bytes.start.wrapping_add(500 * PAGE));
    assert!(bytes.is_all(5_000..10_000, 2));
    bytes.unmap(PAGE, 100 * PAGE);
    std::mem::forget(bytes);
    frames_come_back(mount, free);
    // A child sees what its parent saw, whatever becomes of that.
    write(0, &[4; 300_000]);
    let bytes = Bytes::shared(&path);
    std::fs::remove_file(&path).expect("removed");
    let (mut said, say) = std::io::pipe().expect("a pipe");
    // SAFETY: the child calls nothing that another thread could hold a lock of, but reads a pipe and its memory.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(say);
        let _ = said.read(&mut [0; 1]);
        // SAFETY: it ends at once.
        unsafe { libc::_exit(if bytes.is_all(0..300_000, 4) { 0 } else { 1 }) };
    }
    drop(bytes);
    use_all_frames(mount);
    drop(say);
    let mut status = 0;
    // SAFETY: it is this process's child, and the status lives.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw something else");
    // What was mapped since does not wait for another process.
    let free = free_frames(mount);
    write(0, &[5; 300_000]);
    drop(Bytes::shared(&path));
    std::fs::remove_file(&path).expect("removed");
    frames_come_back(mount, free);
}

/// Ends in the middle, with files that are mapped and have no names, and a child that has them, too.
#[allow(unsafe_code)]
pub(super) fn leaves_mapped(mount: &Path) {
    let path = mount.join("left");
    std::fs::write(&path, vec![6; 2_000_000]).expect("written");
    let bytes = Bytes::shared(&path);
    std::fs::remove_file(&path).expect("removed");
    let parent = std::process::id();
    // SAFETY: the child does nothing but look at its memory and wait.
    if unsafe { libc::fork() } == 0 {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        if !bytes.is_all(0..2_000_000, 6) {
            println!("the child saw something else");
        }
    }
    // SAFETY: it ends.
    unsafe { libc::raise(libc::SIGKILL) };
}

#[test]
fn files_that_are_mapped_to_be_read_are_the_stores_own_memory() {
    let Some(shim) = shim() else { return };
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let (folder, mount) = (store.folder.path(), store.mount_point());
    let output = start("mapped", Some(&shim), folder, 0, 0).wait_with_output().expect("it ended");
    assert!(output.status.success(), "{}", text(&output.stdout));
    let free = free_frames(&mount);
    let mut process = start("leaves mapped", Some(&shim), folder, 0, 0);
    let status = process.wait().expect("it ended");
    assert!(!status.success(), "{status}");
    // The child has it for a while.
    assert!(free_frames(&mount) + 400 < free);
    use_all_frames(&mount);
    let mut said = String::new();
    process.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
    assert!(!said.contains("something else"), "{said}");
    frames_come_back(&mount, free);
    drop(mounted);
    store.is_sound();
    // Where overwriting takes other frames the kernel maps.
    let Some(_mounted) = store.mount_with(&["--strict"]) else { return };
    std::fs::write(mount.join("file"), [7; 10_000]).expect("written");
    let output = start("cut", Some(&shim), folder, 0, 0).wait_with_output().expect("it ended");
    assert!(text(&output.stdout).contains("before the end"), "{}", text(&output.stdout));
}
