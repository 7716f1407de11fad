//! Files where the hardware finds them: every partition at its place in a window of addresses, mapped as the store's page table
//! says.
//!
//! ```text
//!   window of 512 GiB per partition of the largest size, reserved and empty
//!     +-- 2 MiB: mapped from the store's file when it is first used, if one entry of the table maps all of it
//! ```
//!
//! The window is a cache of the page table, as a process's own page tables are: it is made anew with every mount, what a
//! transaction unmaps goes, and what it swaps moves with its mappings. A file that grows gets frames that lie behind each other: its
//! mappings reach ahead over frames that it may get next, and whether it got them is looked up before they are used.
//!
//! Pages of 4 KiB are not mapped here: each would be a mapping of the kernel's, of which a process has 65,530. They are found by a
//! walk in software.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Remapped};
use parking_lot::Mutex;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use crate::missing::{Source, Watched};
use crate::reserved::Reserved;

/// A chunk is what one entry of the table maps.
const CHUNK_BYTES: u64 = PAGE_BYTES << LARGE_ORDER;
const CHUNK_PAGES: u64 = 1 << LARGE_ORDER;
/// A window is as large as the largest partition, and aligned so that whole tables of the hardware's move.
const WINDOW_BYTES: u64 = 512 << 30;
const WINDOW_CHUNKS: u64 = WINDOW_BYTES / CHUNK_BYTES;
const ALIGNMENT: u64 = 1 << 30;
const WINDOWS: u64 = 512;
/// Mappings of the kernel's that are left to the rest of the process.
const LEFT_TO_OTHERS: usize = 8_192;
/// What Linux has if it does not say.
const USUAL_LIMIT: usize = 65_530;

/// What is known of a chunk, in the lowest bits of its word.
const UNKNOWN: u32 = 0;
const MAPPED: u32 = 1;
/// No one entry maps it.
const IN_PIECES: u32 = 2;
const KNOWN: u32 = 3;
/// What is mapped there if it is not [`MAPPED`]: nothing, or a chunk of frames that another chunk's mapping reaches ahead over, by one
/// more than its number.
const AHEAD_SHIFT: u32 = 2;
/// Chunks that one mapping maps at most.
const MOST_AT_ONCE: u64 = 16;

struct Window {
    /// Before what is watched goes.
    _watched: Watched,
    reserved: Reserved,
    chunks: Box<[AtomicU32]>,
}

/// The bits for a chunk of frames that is mapped ahead; none in a store of petabytes.
fn ahead(number: u64) -> u32 {
    u32::try_from(number + 1).ok().filter(|number| number >> (32 - AHEAD_SHIFT) == 0).unwrap_or(0)
        << AHEAD_SHIFT
}

fn is_ahead(word: u32) -> bool {
    word > KNOWN
}

/// The windows of one store.
pub(crate) struct View {
    source: Source,
    windows: Box<[OnceLock<Option<Window>>]>,
    filling: Mutex<()>,
    mapped: AtomicUsize,
    limit: usize,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("mapped", &self.mapped)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl View {
    pub(crate) fn new(source: Source) -> Self {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let limit = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_LIMIT);
        Self::with_limit(source, limit.saturating_sub(LEFT_TO_OTHERS))
    }

    pub(crate) fn with_limit(source: Source, limit: usize) -> Self {
        Self {
            source,
            windows: (0..WINDOWS).map(|_| OnceLock::new()).collect(),
            filling: Mutex::new(()),
            mapped: AtomicUsize::new(0),
            limit,
        }
    }

    /// Chunks that are mapped, and how many may be.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.mapped.load(Ordering::Relaxed), self.limit)
    }

    #[inline]
    fn window(&self, number: u64) -> Option<&Window> {
        let slot = self.windows.get(number as usize)?;
        slot.get().unwrap_or_else(|| self.reserve(slot)).as_ref()
    }

    #[cold]
    fn reserve<'a>(&self, slot: &'a OnceLock<Option<Window>>) -> &'a Option<Window> {
        slot.get_or_init(|| Window::reserve(&self.source).ok())
    }

    /// Where bytes behind a page lie in one piece, if all of them are mapped. What is not is looked up: the frame of a chunk that
    /// one entry maps.
    #[inline(always)]
    pub(crate) fn at(
        &self,
        page: Vpn,
        offset: u64,
        bytes: u64,
        file: &File,
        find: impl Fn(Vpn) -> Option<Pfn>,
    ) -> Option<NonNull<u8>> {
        let place = page.0 * PAGE_BYTES + offset;
        let window = self.window(place / WINDOW_BYTES)?;
        let inside = place % WINDOW_BYTES;
        let (first, last) = (inside / CHUNK_BYTES, (inside + bytes.max(1) - 1) / CHUNK_BYTES);
        for chunk in first..=last {
            match window.chunks.get(chunk as usize)?.load(Ordering::Acquire) & KNOWN {
                MAPPED => {}
                UNKNOWN => {
                    let page = Vpn((place / WINDOW_BYTES * WINDOW_CHUNKS + chunk) * CHUNK_PAGES);
                    self.fill(window, chunk, page, file, &find)?;
                }
                _ => return None,
            }
        }
        // SAFETY: it lies within the window.
        #[allow(unsafe_code)]
        Some(unsafe { window.reserved.start().add(inside as usize) })
    }

    #[cold]
    #[allow(unsafe_code)]
    fn fill(
        &self,
        window: &Window,
        chunk: u64,
        page: Vpn,
        file: &File,
        find: &dyn Fn(Vpn) -> Option<Pfn>,
    ) -> Option<()> {
        let _filling = self.filling.lock();
        let state = &window.chunks[chunk as usize];
        match state.load(Ordering::Acquire) & KNOWN {
            MAPPED => return Some(()),
            IN_PIECES => return None,
            _ => {}
        }
        let Some(frame) = find(page) else {
            state.fetch_or(IN_PIECES, Ordering::Release);
            return None;
        };
        if self.mapped.load(Ordering::Relaxed) >= self.limit {
            return None;
        }
        let ahead = ahead(frame.0 / CHUNK_PAGES);
        if ahead == 0 || state.load(Ordering::Relaxed) != ahead {
            self.map(window, chunk, frame, file)?;
        }
        self.mapped.fetch_add(1, Ordering::Relaxed);
        state.store(MAPPED, Ordering::Release);
        Some(())
    }

    /// Maps a chunk, and as many more behind it as lie mapped before it: those may be the file's next.
    #[allow(unsafe_code)]
    fn map(&self, window: &Window, chunk: u64, frame: Pfn, file: &File) -> Option<()> {
        let word = |chunk| window.state(chunk).load(Ordering::Acquire);
        let before = (1..MOST_AT_ONCE.min(chunk + 1)).take_while(|back| word(chunk - back) == MAPPED);
        let most = (before.count() as u64 + 1).min(WINDOW_CHUNKS - chunk);
        let behind = (1..most).take_while(|more| word(chunk + more) != MAPPED);
        let chunks = behind.count() as u64 + 1;
        // SAFETY: (1) the chunks are the window's, where nothing is mapped that anybody uses; (2) the first one's frames are the file's,
        // and nobody uses the others before theirs are.
        let mapped = unsafe {
            rustix::mm::mmap(
                window.place(chunk),
                (chunks * CHUNK_BYTES) as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                frame.addr().0,
            )
        };
        mapped.ok()?;
        for more in 1..chunks {
            let known = word(chunk + more) & KNOWN;
            let number = frame.0 / CHUNK_PAGES + more;
            window.state(chunk + more).store(known | ahead(number), Ordering::Release);
        }
        Some(())
    }

    /// The page table has changed, and nobody uses the pages meanwhile.
    pub(crate) fn follow(&self, change: Remapped) {
        match change {
            Remapped::Changed { first, pages } => self.drop_range(first, pages),
            Remapped::Swapped { a, b, pages } => {
                if !self.move_range(a, b, pages) {
                    self.drop_range(a, pages);
                    self.drop_range(b, pages);
                }
            }
        }
    }

    /// The chunks that a range touches, by window.
    fn chunks(&self, first: Vpn, pages: u64) -> impl Iterator<Item = (&Window, std::ops::Range<u64>)> {
        let (from, to) = (first.0 / CHUNK_PAGES, (first.0 + pages).div_ceil(CHUNK_PAGES));
        (from / WINDOW_CHUNKS..=to.saturating_sub(1) / WINDOW_CHUNKS).filter_map(move |number| {
            let window = self.windows.get(number as usize)?.get()?.as_ref()?;
            let start = number * WINDOW_CHUNKS;
            Some((window, from.max(start) - start..to.min(start + WINDOW_CHUNKS) - start))
        })
    }

    /// Nothing is known any more; what is mapped goes, with what that reaches ahead over. What another one reaches ahead over stays: it
    /// may have become the file's.
    fn drop_range(&self, first: Vpn, pages: u64) {
        for (window, chunks) in self.chunks(first, pages) {
            let mut chunk = chunks.start;
            while chunk < chunks.end {
                let (begin, mut mapped) = (chunk, 0);
                while chunk < WINDOW_CHUNKS {
                    let word = window.state(chunk).load(Ordering::Acquire);
                    let is_mapped = word == MAPPED && chunk < chunks.end;
                    if !is_mapped && (mapped == 0 || !is_ahead(word)) {
                        break;
                    }
                    window.state(chunk).store(UNKNOWN, Ordering::Release);
                    mapped += usize::from(is_mapped);
                    chunk += 1;
                }
                if mapped > 0 {
                    window.clear(begin..chunk);
                    self.mapped.fetch_sub(mapped, Ordering::Relaxed);
                } else {
                    window.state(chunk).fetch_and(!KNOWN, Ordering::AcqRel);
                    chunk += 1;
                }
            }
        }
    }

    /// Moves the mappings of one range to the other, where nothing is mapped: with whole tables of the hardware's where it can.
    #[allow(unsafe_code)]
    fn move_range(&self, a: Vpn, b: Vpn, pages: u64) -> bool {
        let is_whole = [a.0, b.0, pages].into_iter().all(|number| number.is_multiple_of(CHUNK_PAGES));
        let (mut of_a, mut of_b) = (self.chunks(a, pages), self.chunks(b, pages));
        let (Some(to), None, Some(from), None) = (of_a.next(), of_a.next(), of_b.next(), of_b.next()) else {
            return false;
        };
        let is_mapped = |(window, chunks): &(&Window, std::ops::Range<u64>)| {
            chunks.clone().any(|chunk| window.state(chunk).load(Ordering::Acquire) == MAPPED)
        };
        let (to, from) = match (is_mapped(&to), is_mapped(&from)) {
            (false, true) => (to, from),
            (true, false) => (from, to),
            _ => return false,
        };
        if !is_whole {
            return false;
        }
        let length = (pages * PAGE_BYTES) as usize;
        // What is left behind stays mapped until something else is mapped there: in a gap another thread could get memory of its own.
        // SAFETY: (1) both ranges are the windows'; (2) nothing is used at the target, and nobody uses the source meanwhile.
        let moved = unsafe {
            rustix::mm::mremap_fixed(
                from.0.place(from.1.start),
                length,
                length,
                MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP,
                to.0.place(to.1.start),
            )
        };
        if moved.is_err() {
            // Kernels before 5.13 leave no mapping of a file behind, those before 6.17 move one mapping at a time; others may have
            // moved some.
            to.0.clear(to.1.clone());
            to.1.for_each(|chunk| to.0.state(chunk).store(UNKNOWN, Ordering::Release));
            return false;
        }
        from.0.clear(from.1.clone());
        for (source, target) in from.1.zip(to.1) {
            let word = from.0.state(source).swap(UNKNOWN, Ordering::AcqRel);
            to.0.state(target).store(word, Ordering::Release);
        }
        true
    }
}

impl Window {
    fn reserve(source: &Source) -> io::Result<Self> {
        let reserved = Reserved::new(WINDOW_BYTES, ALIGNMENT)?;
        Ok(Self {
            _watched: Watched::new(reserved.start().as_ptr(), WINDOW_BYTES, true, source),
            reserved,
            chunks: (0..WINDOW_CHUNKS).map(|_| AtomicU32::new(UNKNOWN)).collect(),
        })
    }

    fn state(&self, chunk: u64) -> &AtomicU32 {
        &self.chunks[chunk as usize]
    }

    fn place(&self, chunk: u64) -> *mut c_void {
        self.reserved.start().as_ptr().wrapping_add((chunk * CHUNK_BYTES) as usize).cast()
    }

    /// Nothing is mapped there any more.
    #[allow(unsafe_code)]
    fn clear(&self, chunks: std::ops::Range<u64>) {
        // SAFETY: the range is the window's, and nobody uses it.
        let cleared = unsafe {
            rustix::mm::mmap_anonymous(
                self.place(chunks.start),
                ((chunks.end - chunks.start) * CHUNK_BYTES) as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
            )
        };
        // What is mapped there would be another file's bytes.
        cleared.expect("a mapping is replaced by none");
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::path::PathBuf;

    use pagewalk_vm::random::SplitMix64;
    use rustix::fs::MemfdFlags;

    use crate::inode::Ino;
    use crate::mapped::{Mapped, Survives};
    use crate::paths::{Files, OpenOptions};
    use crate::system::{FileSystem, Overwrites, Owner};

    const MIB: u64 = 1 << 20;

    /// A store in memory of the kernel's, whose mappings may be so many.
    fn files(bytes: u64, limit: usize) -> (Files<Mapped>, OwnedFd) {
        let memory = rustix::fs::memfd_create("view", MemfdFlags::CLOEXEC).unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        let mut mapped = Mapped::create(&path, bytes, Survives::ProcessCrash).unwrap();
        mapped.limit_mappings(limit);
        let system = FileSystem::format(mapped, Owner::default(), || 0).unwrap();
        (Files::new(system), memory)
    }

    fn mappings(files: &Files<Mapped>) -> usize {
        files.shared().store().memory().mappings().unwrap().0
    }

    fn bytes_of(number: u8, length: u64) -> Vec<u8> {
        (0..length).map(|at| number.wrapping_add((at / 3_001) as u8)).collect()
    }

    #[test]
    fn a_file_is_one_range_of_addresses() {
        let (files, _memory) = files(64 * MIB, 1_000);
        let file = files.open("/f", &OpenOptions::updating()).unwrap();
        let data = bytes_of(7, 9 * MIB + 5);
        file.write_at(&data, 0).unwrap();
        let mut read = vec![0; data.len()];
        file.read_at(&mut read, 0).unwrap();
        assert!(read == data);
        assert_eq!(mappings(&files), 5);
        let system = files.shared();
        let memory = system.store().memory();
        let partition = system.inode(Ino(file.attributes().unwrap().ino.0)).unwrap().partition().unwrap();
        let first = memory.place_of(partition.first, 0, 1).unwrap();
        // An address is the first one plus the offset, across pages of whatever frames.
        for offset in [1, 4_095, 2 * MIB - 1, 2 * MIB, 5 * MIB + 77, 9 * MIB + 4] {
            let place = memory.place_of(partition.first, offset, 1).unwrap();
            assert_eq!(place.as_ptr() as u64 - first.as_ptr() as u64, offset);
            // SAFETY: it is mapped, and nobody writes it.
            #[allow(unsafe_code)]
            let byte = unsafe { *place.as_ptr() };
            assert_eq!(byte, data[offset as usize], "{offset}");
        }
        // The kernel says the same: no gap between the mappings of the store's file.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut at = first.as_ptr() as u64;
        for line in maps.lines().filter(|line| line.contains("memfd:view")) {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
            if from <= at && at < to {
                at = to;
            }
        }
        assert!(at - first.as_ptr() as u64 >= 10 * MIB, "the kernel maps {at:#x}");
    }

    #[test]
    fn mappings_move_with_a_file_and_go_with_it() {
        let (files, _memory) = files(128 * MIB, 1_000);
        let file = files.open("/f", &OpenOptions::updating()).unwrap();
        let mut expected = Vec::new();
        for (step, end) in [3 * MIB, 15 * MIB, 17 * MIB, 40 * MIB].into_iter().enumerate() {
            let part = bytes_of(step as u8, end - expected.len() as u64);
            file.write_at(&part, expected.len() as u64).unwrap();
            expected.extend(part);
            let before = mappings(&files);
            let mut read = vec![0; expected.len()];
            file.read_at(&mut read, 0).unwrap();
            assert!(read == expected, "{end}");
            // What was mapped in the smaller partition still is.
            assert!(before > 0 && mappings(&files) == end.div_ceil(2 * MIB) as usize, "{end}");
        }
        let other = files.open("/other", &OpenOptions::updating()).unwrap();
        let second = bytes_of(99, 20 * MIB);
        other.write_at(&second, 0).unwrap();
        for end in [33 * MIB, 15 * MIB + 1, 4 * MIB, MIB, 0] {
            file.set_len(end).unwrap();
            let mut read = vec![0; expected.len()];
            assert_eq!(file.read_at(&mut read, 0), Ok(end as usize));
            assert!(read[..end as usize] == expected[..end as usize], "{end}");
        }
        let mut read = vec![0; second.len()];
        other.read_at(&mut read, 0).unwrap();
        assert!(read == second);
        assert_eq!(mappings(&files), 10);
        drop(other);
        files.remove_file("/other").unwrap();
        assert_eq!(mappings(&files), 0);
    }

    /// A file that grows alone has few mappings; where files grow in turn, or get the frames of others, none sees another's bytes.
    #[test]
    fn what_mappings_reach_ahead_over_is_looked_up() {
        let (files, _memory) = files(200 * MIB, 1_000);
        let mut open: Vec<_> =
            (0..3).map(|at| files.open(format!("/{at}"), &OpenOptions::updating()).unwrap()).collect();
        let mut expected: Vec<Vec<u8>> = vec![Vec::new(); 3];
        let grow = |file: &crate::paths::File<Mapped>, expected: &mut Vec<u8>, step: u64| {
            let part = bytes_of(step as u8, 2 * MIB);
            for piece in part.chunks(64 << 10) {
                file.write_at(piece, expected.len() as u64).unwrap();
                expected.extend(piece);
            }
        };
        (0..20).for_each(|step| grow(&open[0], &mut expected[0], step));
        assert_eq!(mappings(&files), 19, "the first was small pages");
        let from = {
            let system = files.shared();
            let partition = system.inode(open[0].attributes().unwrap().ino).unwrap().partition().unwrap();
            system.store().memory().place_of(partition.first, 2 * MIB, 1).unwrap().as_ptr() as u64
        };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begins =
            maps.lines().map(|line| u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap());
        let count = begins.filter(|begin| (from..from + 38 * MIB).contains(begin)).count();
        assert!(count <= 3, "{count} mappings of the kernel's");
        let mut random = SplitMix64::new(3);
        for step in 20..120 {
            let at = random.below(3) as usize;
            if expected[at].len() as u64 > 30 * MIB || random.below(8) == 0 {
                if random.below(2) == 0 {
                    files.remove_file(format!("/{at}")).unwrap();
                    open[at] = files.open(format!("/{at}"), &OpenOptions::updating()).unwrap();
                    expected[at].clear();
                } else {
                    expected[at].truncate(random.below(20 * MIB) as usize);
                    open[at].set_len(expected[at].len() as u64).unwrap();
                }
            }
            grow(&open[at], &mut expected[at], step);
            for (file, expected) in open.iter().zip(&expected) {
                let mut read = vec![0; expected.len()];
                assert_eq!(file.read_at(&mut read, 0), Ok(expected.len()));
                assert!(read == *expected, "{step}");
            }
        }
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    }

    /// From 4 KiB to 8 GiB in nine moves, each of 64 entries of the table at most.
    #[test]
    #[ignore = "takes 10 GiB of memory; `make soak`"]
    fn a_file_grows_to_8_gib_without_being_copied() {
        let (files, _memory) = files(9 << 30, 10_000);
        let file = files.open("/f", &OpenOptions::appending()).unwrap();
        let mut bytes = bytes_of(1, MIB);
        for number in 0..(8 << 10) {
            bytes[..8].copy_from_slice(&u64::to_le_bytes(number));
            // The first in small pieces, through all the small partitions.
            for piece in bytes.chunks(if number < 4 { 4_096 } else { bytes.len() }) {
                assert_eq!(file.write_at(piece, 0), Ok(piece.len()));
            }
        }
        let counts = files.shared().counts();
        assert!(counts.most_entries_moved <= 64 && counts.moves == 7, "{counts:?}");
        let reader = files.open("/f", &OpenOptions::default()).unwrap();
        for number in 0..(8 << 10) {
            let mut word = [0; 8];
            reader.read_at(&mut word, number * MIB).unwrap();
            assert_eq!(u64::from_le_bytes(word), number);
        }
        assert_eq!(mappings(&files), (4 << 10) - 1, "the first was small pages, and still is");
    }

    #[test]
    fn beyond_the_kernels_limit_pages_are_walked_to() {
        let (files, _memory) = files(64 * MIB, 3);
        let file = files.open("/f", &OpenOptions::updating()).unwrap();
        let data = bytes_of(3, 21 * MIB);
        file.write_at(&data, 0).unwrap();
        for _ in 0..2 {
            for (chunk, expected) in (0..).zip(data.chunks(100_000)) {
                let mut read = vec![0; expected.len()];
                assert_eq!(file.read_at(&mut read, chunk * 100_000), Ok(expected.len()));
                assert!(read == expected, "{chunk}");
            }
        }
        assert_eq!(mappings(&files), 3);
    }

    /// Writes, cuts, holes and renames around the boundaries of pieces and partitions, against vectors.
    #[test]
    fn what_is_seen_is_what_was_written() {
        for overwrites in [Overwrites::InPlace, Overwrites::Whole] {
            let (files, _memory) = files(160 * MIB, 20);
            files.exclusive().unwrap().set_overwrites(overwrites);
            let mut random = SplitMix64::new(11);
            let mut expected: [Vec<u8>; 3] = Default::default();
            let open: Vec<_> = (0..3)
                .map(|file| files.open(format!("/{file}"), &OpenOptions::updating()).unwrap())
                .collect();
            for step in 0..250u64 {
                let at = random.below(3) as usize;
                let near =
                    [4_096, 2 * MIB, 4 * MIB, 16 * MIB][random.below(4) as usize] + random.below(3) - 1;
                match random.below(6) {
                    0..=2 => {
                        let offset = near.saturating_sub(random.below(3 * MIB));
                        let part = bytes_of(step as u8, 1 + random.below(3 * MIB));
                        let written = open[at].write_at(&part, offset).unwrap();
                        assert_eq!(written, part.len());
                        let end = offset as usize + written;
                        if expected[at].len() < end {
                            expected[at].resize(end, 0);
                        }
                        expected[at][offset as usize..end].copy_from_slice(&part);
                    }
                    3 => {
                        open[at].set_len(near).unwrap();
                        expected[at].resize(near as usize, 0);
                    }
                    4 => {
                        let range = near..near + random.below(4 * MIB) + 1;
                        let ino = open[at].attributes().unwrap().ino;
                        files.exclusive().unwrap().punch(ino, range.clone()).unwrap();
                        let end = (range.end as usize).min(expected[at].len());
                        let begin = (range.start as usize).min(end);
                        expected[at][begin..end].fill(0);
                    }
                    _ => {
                        let mut read = vec![1; expected[at].len() + 10];
                        assert_eq!(open[at].read_at(&mut read, 0), Ok(expected[at].len()));
                        assert!(read[..expected[at].len()] == expected[at], "{step}");
                    }
                }
                assert!(mappings(&files) <= 20);
            }
            for (file, expected) in open.iter().zip(&expected) {
                let mut read = vec![0; expected.len()];
                assert_eq!(file.read_at(&mut read, 0), Ok(expected.len()));
                assert!(read == *expected);
            }
            assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
        }
    }
}
