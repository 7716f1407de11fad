//! Page faults for pages of files, which the kernel has in memory already.

use std::ffi::c_void;
use std::fs::File;
use std::hint::black_box;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::kernel::first_touches;
use super::mapping::PAGE_BYTES;
use super::quantity::Quantity;
use super::samples::quartile;
use super::{Found, Lab};

/// The most of the file that is used: 1,024 pages.
const FILE_BYTES: usize = 4 << 20;
/// What the kernel enters around a page that a load faults for (Linux, `mm/memory.c`, `fault_around_bytes`).
const AROUND_BYTES: usize = 64 << 10;

/// Measures faults for pages of this program's own file, which is in memory and on a file system as programs are. No cache has its data, as is
/// usual when a program begins (on x86-64; elsewhere the caches have what they have).
pub(super) fn files(lab: &mut Lab<'_>) -> Found {
    let bench = &mut lab.bench;
    let Some(file) = ProgramFile::open() else { return Vec::new() };
    let (mut loads, mut stores, mut touches) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.samples {
        if bench.is_stopped() {
            break;
        }
        file.flush();
        loads.extend(file.map().map(|own| bench.time(|_| own.load()) / own.steps(AROUND_BYTES)));
        file.flush();
        stores.extend(file.map().map(|mut own| bench.time(|_| own.store()) / own.steps(PAGE_BYTES)));
        touches.extend(first_touches(bench, file.bytes));
    }
    let touched = quartile(&touches).unwrap_or(0.0);
    let copies = stores.into_iter().map(|ns| ns - touched).filter(|ns| *ns > 0.0).collect();
    vec![(Quantity::FileFault, loads), (Quantity::CopyPage, copies)]
}

/// The file of this program.
struct ProgramFile {
    file: File,
    /// What is used of it, in whole parts of [`AROUND_BYTES`].
    bytes: usize,
}

impl ProgramFile {
    fn open() -> Option<Self> {
        let file = File::open("/proc/self/exe").ok()?;
        let bytes = file.metadata().ok()?.len().min(FILE_BYTES as u64) as usize / AROUND_BYTES * AROUND_BYTES;
        (bytes > 0).then_some(Self { file, bytes })
    }

    /// Maps it privately: stores change nothing of the file.
    fn map(&self) -> Option<FileMapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let mapped = unsafe { mmap(null_mut(), self.bytes, protection, MapFlags::PRIVATE, &self.file, 0) };
        let at = mapped.ok().and_then(NonNull::new)?;
        Some(FileMapping { at, bytes: self.bytes })
    }

    /// Takes the file's lines from all caches.
    fn flush(&self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(own) = self.map() {
            own.places(64).for_each(|at| {
                // SAFETY: SSE2, which every x86-64 processor has, has this instruction; the line is mapped.
                unsafe { std::arch::x86_64::_mm_clflush(at.cast()) }
            });
        }
    }
}

/// A mapping of the file, which ends with this value.
struct FileMapping {
    at: NonNull<c_void>,
    bytes: usize,
}

impl FileMapping {
    /// Returns the number of its parts of so many bytes.
    fn steps(&self, bytes: usize) -> f64 {
        (self.bytes / bytes) as f64
    }

    /// Returns where these begin.
    fn places(&self, bytes: usize) -> impl Iterator<Item = *mut u64> {
        let at = self.at.as_ptr();
        (0..self.bytes).step_by(bytes).map(move |offset| at.map_addr(|at| at + offset).cast())
    }

    /// Loads a word of each part that one fault brings.
    fn load(&self) {
        self.places(AROUND_BYTES).for_each(|at| {
            // SAFETY: the word is mapped and aligned, and a program that runs keeps its file as long as it is.
            black_box(unsafe { at.read_volatile() });
        });
    }

    /// Stores a word to each page.
    fn store(&mut self) {
        self.places(PAGE_BYTES).for_each(|at| {
            // SAFETY: as in `load`; the mapping is private and this value's own.
            unsafe { at.write_volatile(1) };
        });
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. A failure would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}
