//! The operations of an open file: bytes are read and written under a lease, or by the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, iovec, off_t, ssize_t};
use pagewalk_ctfs::faults::Recovery;
use pagewalk_ctfs::{Lease, LeaseClient, Place, ReadDone, Written};
use parking_lot::RwLock;

use crate::answers::{Answer, answer, failed};
use crate::offsets::{Growth, Sequence};
use crate::threads::{reading, writing};
use crate::{connection, kernel, limits, mappings, offsets, process, stand_in};

/// Bytes that get frames ahead of a file's end: so many times its size, at least and at most. Closing it gives back what it did not
/// need.
const AHEAD: u64 = 16;
const LEAST_AHEAD: u64 = 128 << 10;
const MOST_AHEAD: u64 = 16 << 20;
/// Attempts to write where there are frames now.
const MOST_ATTEMPTS: u32 = 100;
/// Operations between two attempts to get a lease back, at most.
const MOST_SKIPPED: u32 = 1_024;

/// Offsets of files that the kernel does not know, at most.
const MOST_OFFSET: i64 = 1 << 40;

/// The number that stands for no descriptor.
pub(crate) const NONE: c_int = -1;

/// Reads and writes from the offset on: other processes have it, too, and move it.
const OFFSET: u8 = 1;
/// All operations go through the kernel.
const ALL: u8 = 2;

/// A file, however often it is open.
pub(crate) struct File {
    /// The lease, until this process knows that it has ended. Threads that read or write under it share the lock.
    pub(crate) lease: RwLock<Option<Lease>>,
    /// The only descriptor, as long as the owner does not know that it is ours: many files are opened to be mapped, inherited or
    /// looked at.
    pub(crate) unknown: AtomicI32,
    /// Attempts to get it back that are to be left out, and how many were the last time.
    skips: AtomicU32,
    skipped: AtomicU32,
    growth: Growth,
}

/// What descriptors that are copies of each other share.
pub(crate) struct Description {
    pub(crate) file: Arc<File>,
    pub(crate) client: &'static LeaseClient,
    /// Reads and writes from the offset on come one after the other.
    sequence: RwLock<Sequence>,
    appends: AtomicBool,
    reads: bool,
    writes: bool,
    /// What the kernel does from now on.
    kernels: AtomicU8,
    beside: Beside,
}

/// A file that was opened without the kernel: behind its descriptor is nothing that could be used. It becomes the kernel's before anything
/// that is not done here could meet it.
struct Beside {
    /// Its number at the owner's service; 0 for none.
    handle: AtomicU64,
    offset: AtomicU64,
    /// How the program has opened it.
    flags: c_int,
}

/// How many there are.
static BESIDE: AtomicU32 = AtomicU32::new(0);

impl Beside {
    fn new(handle: u64, flags: c_int) -> Self {
        if handle != 0 {
            BESIDE.fetch_add(1, Ordering::Relaxed);
        }
        Self { handle: AtomicU64::new(handle), offset: AtomicU64::new(0), flags }
    }

    #[inline]
    fn handle(&self) -> Option<u64> {
        Some(self.handle.load(Ordering::Relaxed)).filter(|&handle| handle != 0)
    }

    #[inline]
    fn offset(&self) -> Option<u64> {
        self.handle().map(|_| self.offset.load(Ordering::Relaxed))
    }

    /// The file stops being opened beside the kernel.
    fn ends(&self) -> Option<u64> {
        let handle = Some(self.handle.swap(0, Ordering::Relaxed)).filter(|&handle| handle != 0)?;
        BESIDE.fetch_sub(1, Ordering::Relaxed);
        Some(handle)
    }
}

impl Drop for Description {
    /// The thread that drops it is within a call.
    fn drop(&mut self) {
        if let Some(handle) = self.beside.ends() {
            connection::ask(self.client).close(handle);
        }
    }
}

/// Whether any file was opened without the kernel.
#[inline]
pub(crate) fn has_beside() -> bool {
    BESIDE.load(Ordering::Relaxed) > 0
}

impl File {
    pub(crate) fn new(unknown: c_int) -> Self {
        Self {
            lease: RwLock::new(None),
            unknown: AtomicI32::new(unknown),
            skips: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
            growth: Growth::new(),
        }
    }
}

/// What one call reads or writes, in parts. All of it can be addressed: the kernel answers what cannot.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    parts: &'a [iovec],
    bytes: usize,
}

impl<'a> Parts<'a> {
    /// Nothing if the kernel is to say what is wrong with them, or does only a part.
    #[inline]
    pub(crate) fn new(parts: &'a [iovec]) -> Option<Self> {
        /// Bytes of one call at most.
        const MOST_BYTES: usize = 0x7fff_f000;
        /// No program's memory lies behind this, on any processor with four levels of page tables.
        const PROGRAMS_END: usize = 1 << 47;
        let mut bytes = 0;
        for part in parts {
            let is_there = part.iov_len <= MOST_BYTES
                && !part.iov_base.is_null()
                && (part.iov_base as usize).checked_add(part.iov_len).is_some_and(|end| end <= PROGRAMS_END);
            bytes += if is_there { part.iov_len } else { return None };
        }
        (bytes <= MOST_BYTES).then_some(Self { parts, bytes })
    }
}

impl Description {
    pub(crate) fn new(file: Arc<File>, client: &'static LeaseClient, flags: c_int, handle: u64) -> Self {
        let access = flags & libc::O_ACCMODE;
        Self {
            file,
            client,
            sequence: RwLock::new(Sequence::new()),
            appends: AtomicBool::new(flags & libc::O_APPEND != 0),
            reads: access != libc::O_WRONLY,
            writes: access != libc::O_RDONLY,
            kernels: AtomicU8::new(0),
            beside: Beside::new(handle, flags),
        }
    }

    /// The number at the owner's service of a file that was opened without the kernel.
    pub(crate) fn beside(&self) -> Option<u64> {
        self.beside.handle()
    }

    /// How the program has opened it.
    pub(crate) fn flags(&self) -> c_int {
        self.beside.flags
    }

    /// Makes the file the kernel's, if it was opened without the kernel.
    pub(crate) fn make_real(&self, descriptor: c_int) {
        let Some(handle) = self.beside.handle() else { return };
        let ask = connection::ask(self.client);
        let open = || stand_in::open_again(&ask, handle, self.beside.flags, connection::our_device());
        let is_open = match open() {
            Some(opened) => {
                kernel::replace(opened, descriptor);
                true
            }
            None => kernel::open_in_place(descriptor, stand_in::stands_in(), open),
        };
        if is_open {
            let offset = self.beside.offset.load(Ordering::Relaxed) as off_t;
            let _ = kernel::seek(descriptor, offset, libc::SEEK_SET);
        } else {
            // The descriptor stays one that nothing can be done with.
            self.kernels.fetch_or(ALL, Ordering::AcqRel);
        }
        self.beside.ends();
        // The lease ends with this, if it did not when the file was opened.
        ask.close(handle);
    }

    #[inline]
    pub(crate) fn is_kernels(&self) -> bool {
        self.kernels.load(Ordering::Acquire) & ALL != 0
    }

    /// The kernel does everything with the file from now on.
    pub(crate) fn hand_back(&self, descriptor: c_int) {
        let _sequence = writing(&self.sequence);
        if self.is_kernels() {
            return;
        }
        offsets::settle();
        let mut lease = writing(&self.file.lease);
        // Otherwise nothing was done with it here, and as long as the owner does not hear of it no other client will.
        if self.file.unknown.swap(NONE, Ordering::AcqRel) == NONE {
            *lease = None;
            self.file.skipped.store(MOST_SKIPPED, Ordering::Relaxed);
            // The kernel must not keep bytes of a file that is written beside it. While a program is stopped in the middle of a copy
            // the owner cannot end leases; if the owner is gone there is nothing to keep apart.
            while LeaseClient::bar(kernel::borrowed(&descriptor)) == Err(rustix::io::Errno::BUSY) {}
            // The kernel learns how long the file is: it would not let the program see a mapping beyond what it knows.
            kernel::look_at(descriptor);
        }
        // Only now: a thread that sees this goes on through the kernel.
        self.kernels.fetch_or(ALL, Ordering::AcqRel);
    }

    /// Maps bytes of the file, if that can be done here.
    pub(crate) fn map(
        &self,
        descriptor: c_int,
        bytes: (off_t, usize),
        protection: c_int,
        flags: c_int,
    ) -> Option<*mut libc::c_void> {
        if !self.reads || !process::is_our_process() {
            return None;
        }
        // No thread hands it back meanwhile.
        let _lease = reading(&self.file.lease);
        if self.is_kernels() {
            return None;
        }
        self.make_real(descriptor);
        self.file.unknown.store(NONE, Ordering::Release);
        mappings::map(self.client, kernel::borrowed(&descriptor), bytes, protection, flags, self.writes)
    }

    /// Asks for a lease: there was none yet, or another process has used the file, and perhaps that is over. A program that is about to
    /// write says where and how much.
    fn gain(&self, descriptor: c_int, written: Option<(Place, u64)>) -> bool {
        use rustix::io::Errno;
        let file = &self.file;
        if file.skips.load(Ordering::Relaxed) > 0 {
            file.skips.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut lease = writing(&file.lease);
        if self.is_kernels() {
            return false;
        }
        self.make_real(descriptor);
        file.unknown.store(NONE, Ordering::Release);
        if lease.is_none() {
            match self.client.lease(kernel::borrowed(&descriptor), written) {
                Ok(gained) => *lease = Some(gained),
                // The number is another file's, closed and opened again where nothing here could see it; or the connection is.
                Err(Errno::NOTTY | Errno::BADF | Errno::INVAL) => {
                    self.kernels.fetch_or(ALL, Ordering::AcqRel);
                }
                Err(_) => {}
            }
        }
        let next = if lease.is_some() {
            0
        } else {
            (file.skipped.load(Ordering::Relaxed) * 2).clamp(1, MOST_SKIPPED)
        };
        file.skipped.store(next, Ordering::Relaxed);
        file.skips.store(next, Ordering::Relaxed);
        lease.is_some()
    }

    /// Whether there is a lease now.
    fn has_lease(&self, descriptor: c_int) -> bool {
        // In two steps: asking for one changes what is looked at.
        let has_one = reading(&self.file.lease).is_some();
        has_one || self.gain(descriptor, None)
    }

    /// Does something under the lease, or otherwise without one: no thread of this process gets it meanwhile, so that the kernel keeps
    /// nothing that is written beside it.
    #[inline]
    fn leased<T>(
        &self,
        descriptor: c_int,
        mut act: impl FnMut(&Lease) -> Option<T>,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        let done = reading(&self.file.lease).as_ref().and_then(&mut act);
        match done {
            Some(done) => done,
            None => self.leased_again(descriptor, &mut act, otherwise),
        }
    }

    #[cold]
    fn leased_again<T>(
        &self,
        descriptor: c_int,
        act: &mut dyn FnMut(&Lease) -> Option<T>,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        for _ in 0..2 {
            let lease = reading(&self.file.lease);
            if let Some(done) = lease.as_ref().and_then(&mut *act) {
                return done;
            }
            let is_over = lease.is_some();
            drop(lease);
            if is_over {
                *writing(&self.file.lease) = None;
            }
            if !self.gain(descriptor, None) {
                break;
            }
        }
        let lease = reading(&self.file.lease);
        match lease.as_ref().and_then(act) {
            Some(done) => done,
            None => otherwise(),
        }
    }

    /// What is left of a part before memory that is not there, or the error's number: as the kernel has it, whatever lies before is done.
    #[cold]
    fn before_fault(&self, address: usize, part: &iovec) -> Result<usize, c_int> {
        let before = address.wrapping_sub(part.iov_base as usize);
        match before {
            _ if self.client.is_stores(address) => Err(libc::EIO),
            1.. if before < part.iov_len => Ok(before),
            _ => Err(libc::EFAULT),
        }
    }

    /// Reads at an offset into one part: how much that was, or the error's number.
    #[inline]
    fn read_part(
        &self,
        descriptor: c_int,
        at: u64,
        part: &iovec,
        recovery: &Recovery,
    ) -> Result<usize, c_int> {
        let mut length = part.iov_len;
        loop {
            let into = (part.iov_base.cast(), length);
            let read = self.leased(
                descriptor,
                |lease| {
                    // SAFETY: (1) the program's own, and faults are known here; (2) this thread's; (3) the lease is held.
                    match unsafe { self.client.read(lease, at, into, recovery) } {
                        ReadDone::Bytes(read) => Some(Ok(read)),
                        ReadDone::Fault(address) => Some(Err(self.before_fault(address, part))),
                        ReadDone::Ended => None,
                    }
                },
                || {
                    self.make_real(descriptor);
                    // SAFETY: as the program's own call.
                    let read = unsafe {
                        let arguments = [descriptor as usize, into.0 as usize, length, at as usize];
                        kernel::call(libc::SYS_pread64, arguments)
                    };
                    usize::try_from(read).map_err(|_| Err(-read as c_int))
                },
            );
            match read {
                Ok(read) => return Ok(read),
                Err(Ok(before)) => length = before,
                Err(Err(number)) => return Err(number),
            }
        }
    }

    /// Reads at an offset into all parts.
    #[inline]
    fn read_parts(
        &self,
        descriptor: c_int,
        offset: u64,
        Parts { parts, .. }: Parts<'_>,
        recovery: &Recovery,
    ) -> Result<usize, c_int> {
        let mut done = 0;
        for part in parts {
            match self.read_part(descriptor, offset + done as u64, part, recovery) {
                Ok(read) => {
                    done += read;
                    if read < part.iov_len {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(number) => return Err(number),
            }
        }
        Ok(done)
    }

    /// Writes all parts, at an offset or behind the end: how much, and where that ended.
    fn write_parts(
        &self,
        descriptor: c_int,
        place: Place,
        Parts { parts, bytes }: Parts<'_>,
        recovery: &Recovery,
    ) -> Result<(usize, u64), c_int> {
        let mut end = None;
        let mut done = 0;
        // One after the other, without another thread between.
        let mut lease = writing(&self.file.lease);
        if lease.is_none() {
            drop(lease);
            self.gain(descriptor, Some((place, (bytes as u64).clamp(LEAST_AHEAD, MOST_AHEAD))));
            lease = writing(&self.file.lease);
        }
        'parts: for part in parts {
            let mut left = *part;
            while left.iov_len > 0 {
                let piece = iovec { iov_len: left.iov_len.min(LeaseClient::most_at_once()), ..left };
                let at = match place {
                    Place::At(offset) => Place::At(offset + done as u64),
                    Place::End => end.map_or(Place::End, Place::At),
                };
                match self.write_piece(descriptor, &mut lease, at, piece, recovery) {
                    Ok((offset, written)) => {
                        done += written;
                        end = Some(offset + written as u64);
                        if written < piece.iov_len {
                            break 'parts;
                        }
                    }
                    Err(_) if done > 0 => break 'parts,
                    Err(number) => return Err(number),
                }
                left.iov_base = left.iov_base.wrapping_byte_add(piece.iov_len);
                left.iov_len -= piece.iov_len;
            }
        }
        let nothing = match place {
            Place::At(offset) => offset,
            Place::End => 0,
        };
        Ok((done, end.unwrap_or(nothing)))
    }

    fn write_piece(
        &self,
        descriptor: c_int,
        lease: &mut Option<Lease>,
        place: Place,
        piece: iovec,
        recovery: &Recovery,
    ) -> Result<(u64, usize), c_int> {
        let mut length = piece.iov_len;
        let mut attempts = 0;
        while let Some(held) = lease.filter(|lease| lease.writes) {
            let from = (piece.iov_base.cast_const().cast(), length);
            // SAFETY: (1) the program's own, and faults are known here; (2) this thread's; (3) the lease is held.
            match unsafe { self.client.write(&held, place, from, recovery, attempts > 0) } {
                Written::At(offset) => return Ok((offset, length)),
                Written::Behind(offset) => {
                    if self.beside.handle().is_none() {
                        self.file.growth.begins();
                    }
                    return Ok((offset, length));
                }
                Written::Ended => *lease = None,
                Written::NoFrames(offset) => {
                    attempts += 1;
                    // Others may have given frames back meanwhile, but not for ever: another program has written to our memory.
                    if attempts > MOST_ATTEMPTS {
                        return Err(libc::EIO);
                    }
                    limits::limit_may_have_changed();
                    if limits::has_size_limit() {
                        break;
                    }
                    let reached = self.reserve(descriptor, &held, offset, length as u64)?;
                    length = length.min(reached.saturating_sub(offset) as usize);
                }
                Written::Fault(address) => length = self.before_fault(address, &piece)?,
            }
        }
        self.make_real(descriptor);
        // The kernel appends behind the length that it knows.
        self.length_is_needed(descriptor);
        let (start, here) = (piece.iov_base as usize, descriptor as usize);
        // SAFETY: as the program's own call.
        let written = unsafe {
            match place {
                Place::At(offset) => kernel::call(libc::SYS_pwrite64, [here, start, length, offset as usize]),
                Place::End => kernel::call(libc::SYS_write, [here, start, length]),
            }
        };
        let Ok(written) = usize::try_from(written) else { return Err(-written as c_int) };
        let offset = match place {
            Place::At(offset) => offset,
            Place::End => kernel::seek(descriptor, 0, libc::SEEK_CUR)?.saturating_sub(written as u64),
        };
        Ok((offset, written))
    }

    /// Gets frames; for a file that grows, more than it needs now.
    fn reserve(&self, descriptor: c_int, lease: &Lease, offset: u64, bytes: u64) -> Result<u64, c_int> {
        let file = kernel::borrowed(&descriptor);
        let size = self.client.size(lease).unwrap_or(0);
        let ahead =
            if offset == size { size.saturating_mul(AHEAD).clamp(LEAST_AHEAD, MOST_AHEAD) } else { 0 };
        if let Some(handle) = self.beside.handle() {
            let ask = connection::ask(self.client);
            let reserved = ask.reserve(handle, offset, bytes.max(ahead.min(size)));
            if let Ok(reached) = reserved.or_else(|_| ask.reserve(handle, offset, bytes)) {
                return Ok(reached);
            }
            // Frames that others have ahead of what they write are for the kernel's requests to find.
            self.make_real(descriptor);
        }
        let reserved = match LeaseClient::reserve(file, offset, bytes.max(ahead)) {
            Err(_) if ahead > bytes => LeaseClient::reserve(file, offset, bytes),
            reserved => reserved,
        };
        reserved.map_err(|error| error.raw_os_error())
    }

    /// Reads from the offset on. Nothing if the kernel is to do that.
    pub(crate) fn read(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let mut sequence = writing(&self.sequence);
        // Other processes would see an offset behind the end for a moment.
        if !self.reads || self.kernels.load(Ordering::Acquire) != 0 {
            return None;
        }
        if let Some(at) = self.beside.offset() {
            let read = self.read_parts(descriptor, at, parts, recovery);
            if let Ok(read) = read {
                self.move_to(&sequence, descriptor, at + read as u64);
            }
            return answer(read);
        }
        if let Some(at) = sequence.borrowed(descriptor) {
            let read = self.read_parts(descriptor, at, parts, recovery);
            if let Ok(read) = read {
                sequence.move_to(descriptor, at + read as u64);
            }
            return answer(read);
        }
        if !self.has_lease(descriptor) {
            return None;
        }
        let (at, claimed) = claim(descriptor, parts.bytes)?;
        let read = self.read_parts(descriptor, at, parts, recovery);
        let end = at + read.unwrap_or(0) as u64;
        if end != claimed {
            sequence.move_to(descriptor, end);
        }
        answer(read)
    }

    /// Moves the offset to another place, of a file that may have become the kernel's just now.
    fn move_to(&self, sequence: &Sequence, descriptor: c_int, offset: u64) {
        match self.beside.handle() {
            Some(_) => self.beside.offset.store(offset, Ordering::Relaxed),
            None => sequence.move_to(descriptor, offset),
        }
    }

    /// Reads at an offset. Nothing if the kernel is to do that.
    #[inline]
    pub(crate) fn read_at(
        &self,
        descriptor: c_int,
        offset: off_t,
        parts: Parts<'_>,
        recovery: &Recovery,
    ) -> Answer {
        let offset = u64::try_from(offset).ok().filter(|_| self.reads)?;
        answer(self.read_parts(descriptor, offset, parts, recovery))
    }

    /// Whether writes are the kernel's: it says what is wrong, or ends the program.
    #[inline]
    fn may_write(&self) -> bool {
        self.writes && !limits::has_size_limit()
    }

    /// Writes from the offset on, or behind the end. Nothing if the kernel is to do that.
    pub(crate) fn write(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let written = self.write_here(descriptor, parts, recovery);
        if written.is_none() {
            self.length_is_needed(descriptor);
        }
        written
    }

    #[inline]
    fn write_here(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let mut sequence = writing(&self.sequence);
        let appends = self.appends.load(Ordering::Relaxed);
        // Other processes see each write at once, and where it ended.
        if !self.may_write() || self.kernels.load(Ordering::Acquire) != 0 || parts.bytes == 0 {
            return None;
        }
        let borrowed = self.beside.offset().or_else(|| sequence.borrowed(descriptor));
        if borrowed.is_none() && self.file.skips.load(Ordering::Relaxed) > 0 {
            self.file.skips.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if appends {
            let written = self.write_parts(descriptor, Place::End, parts, recovery);
            if let Ok((_, end)) = written {
                self.move_to(&sequence, descriptor, end);
            }
            return answer(written.map(|(written, _)| written));
        }
        let (at, claimed) = match borrowed {
            Some(at) => (at, at),
            None => claim(descriptor, parts.bytes)?,
        };
        let written = self.write_parts(descriptor, Place::At(at), parts, recovery);
        let end = written.map_or(at, |(_, end)| end);
        if end != claimed {
            self.move_to(&sequence, descriptor, end);
        }
        answer(written.map(|(written, _)| written))
    }

    /// Writes at an offset. Nothing if the kernel is to do that.
    pub(crate) fn write_at(
        &self,
        descriptor: c_int,
        offset: off_t,
        parts: Parts<'_>,
        recovery: &Recovery,
    ) -> Answer {
        let Some(offset) = u64::try_from(offset).ok().filter(|_| self.may_write() && parts.bytes > 0) else {
            self.length_is_needed(descriptor);
            return None;
        };
        // As Linux does, whatever POSIX says.
        let place = if self.appends.load(Ordering::Relaxed) { Place::End } else { Place::At(offset) };
        let written = self.write_parts(descriptor, place, parts, recovery).map(|(written, _)| written);
        if self.kernels.load(Ordering::Acquire) & OFFSET != 0 {
            self.length_is_needed(descriptor);
        }
        answer(written)
    }

    /// Moves the offset, as `lseek` does. Nothing if the kernel is to do that.
    pub(crate) fn seek(&self, descriptor: c_int, by: off_t, whence: c_int) -> Answer {
        let sequence = writing(&self.sequence);
        let at = self.beside.offset().or_else(|| sequence.offset());
        let from = match (whence, at) {
            (libc::SEEK_SET, Some(_)) => 0,
            (libc::SEEK_CUR, Some(at)) => at as off_t,
            (libc::SEEK_END, _) if !self.is_kernels() => {
                // The owner need not be asked.
                let lease = reading(&self.file.lease);
                lease.as_ref().and_then(|lease| self.client.size(lease))? as off_t
            }
            _ => return None,
        };
        let to = from.checked_add(by).and_then(|to| u64::try_from(to).ok())?;
        if at.is_some() {
            // The kernel says what is too large for it.
            let to =
                i64::try_from(to).ok().filter(|&to| self.beside.handle().is_none() || to <= MOST_OFFSET)?;
            self.move_to(&sequence, descriptor, to as u64);
            return Some(to as ssize_t);
        }
        answer(kernel::seek(descriptor, to as off_t, libc::SEEK_SET).map(|at| at as usize))
    }

    /// Takes a range out of the file, or puts one in, if the mode says so.
    pub(crate) fn shift(&self, descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Answer {
        let shift = match mode {
            libc::FALLOC_FL_COLLAPSE_RANGE => pagewalk_ctfs::collapse_on_mount,
            libc::FALLOC_FL_INSERT_RANGE => pagewalk_ctfs::insert_on_mount,
            _ => return None,
        };
        let (Ok(start), Ok(bytes)) = (u64::try_from(offset), u64::try_from(length)) else {
            return failed(libc::EINVAL);
        };
        let shifted = shift(kernel::borrowed(&descriptor), start..start.saturating_add(bytes));
        kernel::look_at(descriptor);
        answer(shifted.map(|()| 0).map_err(|error| error.raw_os_error()))
    }

    /// What was written persists.
    pub(crate) fn sync(&self) -> Option<c_int> {
        if reading(&self.file.lease).is_none() || self.beside.handle().is_some() {
            return None;
        }
        match self.client.fence() {
            Ok(persists) => persists.then_some(0),
            Err(error) => failed(error.raw_os_error()).map(|failed| failed as c_int),
        }
    }

    /// Other processes get it, with the kernel's offset, and see how long it is.
    pub(crate) fn is_shared(&self, descriptor: c_int) {
        self.make_real(descriptor);
        self.kernels.fetch_or(OFFSET, Ordering::AcqRel);
        self.length_is_needed(descriptor);
    }

    /// The kernel learns how long the file is.
    pub(crate) fn length_is_needed(&self, descriptor: c_int) {
        if self.file.growth.ends() {
            kernel::look_at(descriptor);
        }
    }

    /// The program has changed its flags.
    pub(crate) fn set_flags(&self, flags: c_int) {
        self.appends.store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
    }
}

/// Moves the kernel's offset over bytes that are about to be read or written: from where to where. Whatever reads or writes from the
/// offset on meanwhile, a handler of a signal or another process, does so behind them.
fn claim(descriptor: c_int, bytes: usize) -> Option<(u64, u64)> {
    let claimed = kernel::seek(descriptor, bytes as off_t, libc::SEEK_CUR).ok()?;
    Some((claimed - bytes as u64, claimed))
}
