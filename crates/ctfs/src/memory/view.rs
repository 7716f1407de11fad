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

use crate::memory::missing::{Source, Watched};
use crate::memory::reserved::Reserved;

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
/// The chunk is mapped by several entries.
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
        // SAFETY: (1) the chunks are the window's, where nothing is mapped that a thread uses; (2) the first one's frames are the file's,
        // and no thread uses the others before theirs are.
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

    /// The page table has changed, and no thread uses the pages meanwhile.
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
        // SAFETY: (1) both ranges are the windows'; (2) nothing is used at the target, and no thread uses the source meanwhile.
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
        // SAFETY: the range is the window's, and no thread uses it.
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
