//! Writing a `.pwt` file: chunks are encoded on a second thread, and the file gets its name when it is finished.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use super::chunk::{EncodeProblem, Encoder, Pending, instructions};
use super::cut;
use super::layout::{self, ChunkInfo, Trailer};
use super::{MAX_SIDE_BYTES, Totals};
use crate::error::TraceError;
use crate::event::{Batch, Event, Mark, ProcessId, ThreadId};
use crate::partial::Partial;
use crate::source::SourceInfo;
use crate::unfinished::Unfinished;

/// Chunks that wait for the encoding thread at most; then [`Writer::write`] waits.
const QUEUE_CHUNKS: usize = 4;

/// Writes a `.pwt` file.
///
/// The bytes go to a file without a name in the folder of the target. [`Writer::finish`] gives it its name; a writer
/// that is dropped before, or that fails, leaves nothing behind, and an older file of that name as it was.
pub struct Writer {
    path: PathBuf,
    pending: Pending,
    partial: Option<Partial>,
    encoder: Option<EncoderThread>,
}

struct EncoderThread {
    work: SyncSender<Work>,
    /// Emptied buffers that come back.
    spare: Receiver<Pending>,
    thread: JoinHandle<Result<Option<Finished>, TraceError>>,
}

enum Work {
    Chunk(Pending),
    Finish(Option<Partial>),
}

struct Finished {
    file: Unfinished,
    totals: Totals,
}

impl Writer {
    /// Begins the file that will be `path`.
    ///
    /// # Errors
    ///
    /// If `path` names something that is not a regular file, or nothing can be created in its folder.
    pub fn create(path: &Path, source: &SourceInfo) -> Result<Self, TraceError> {
        let path = target(path)?;
        let mut file = Unfinished::create(&path).map_err(TraceError::io("create a file beside", &path))?;
        let header = layout::header(source);
        file.write_all(&header).map_err(TraceError::io("write", file.target()))?;
        let (work, work_receiver) = sync_channel(QUEUE_CHUNKS);
        let (spare_sender, spare) = channel();
        let encoder = ChunkWriter::new(file, header)?;
        let thread = std::thread::Builder::new()
            .name("pwt-encoder".to_owned())
            .spawn(move || encoder.run(&work_receiver, &spare_sender))
            .map_err(TraceError::io("start a thread to write", &path))?;
        let encoder = Some(EncoderThread { work, spare, thread });
        Ok(Self { path, pending: Pending::default(), partial: None, encoder })
    }

    /// Appends one batch to the file.
    ///
    /// # Errors
    ///
    /// If the batch breaks its contract, or writing failed; the latter may also be reported by a later call. The
    /// writer is of no use after an error.
    pub fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        batch.check().map_err(|what| self.refusal(&what))?;
        if !self.pending.has_room_for(batch) {
            self.send_pending()?;
        }
        self.pending.push(batch);
        Ok(())
    }

    /// Lets the file say that it holds a part of its source only, and why.
    pub fn mark_partial(&mut self, partial: Partial) {
        self.partial = Some(partial);
    }

    /// Completes the file and gives it its name. Its bytes are then with the operating system, not necessarily on
    /// the disk.
    ///
    /// # Errors
    ///
    /// If writing or renaming failed; nothing is left behind.
    pub fn finish(mut self) -> Result<Totals, TraceError> {
        if !self.pending.is_empty() {
            self.send_pending()?;
        }
        let Some(EncoderThread { work, thread, .. }) = self.encoder.take() else {
            return Err(self.refusal("writing failed before"));
        };
        // If the thread is gone, its result says why.
        let _ = work.send(Work::Finish(self.partial.take()));
        drop(work);
        let Some(Finished { file, totals }) = join(thread)? else {
            return Err(self.refusal("the encoder ended early"));
        };
        file.finish().map_err(TraceError::io("rename to", &self.path))?;
        Ok(totals)
    }

    fn send_pending(&mut self) -> Result<(), TraceError> {
        let Some(encoder) = &self.encoder else {
            return Err(self.refusal("writing failed before"));
        };
        let empty = encoder.spare.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.pending, empty);
        if encoder.work.send(Work::Chunk(full)).is_ok() {
            return Ok(());
        }
        match self.encoder.take().map(|encoder| join(encoder.thread)) {
            Some(Err(error)) => Err(error),
            _ => Err(self.refusal("the encoder ended early")),
        }
    }

    fn refusal(&self, what: &str) -> TraceError {
        TraceError::Refused(format!("cannot write {}: {what}", self.path.display()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(EncoderThread { work, thread, .. }) = self.encoder.take() {
            // Without `Finish` the thread drops the temporary file, which removes it; wait for that.
            drop(work);
            let _ = join(thread);
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

fn join<T>(thread: JoinHandle<Result<T, TraceError>>) -> Result<T, TraceError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Where the finished file goes: `path`, or what it points to if it is a symbolic link. Renaming over a device or
/// a pipe would replace it, so only regular files are accepted.
fn target(path: &Path) -> Result<PathBuf, TraceError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            std::fs::canonicalize(path).map_err(TraceError::io("resolve", path))
        }
        Ok(_) => Err(TraceError::Refused(format!(
            "cannot write {}: it is not a regular file; name a file, a .pwt cannot go to a pipe or a device",
            path.display()
        ))),
        Err(_) if path.file_name().is_some() => Ok(path.to_path_buf()),
        Err(error) => Err(TraceError::io("write", path)(error)),
    }
}

/// The encoding thread's side: encodes and writes chunks, keeps the index.
struct ChunkWriter {
    file: Unfinished,
    header: Vec<u8>,
    encoder: Encoder,
    index: Vec<ChunkInfo>,
    offset: u64,
    totals: Totals,
    process: ProcessId,
    thread: ThreadId,
}

impl ChunkWriter {
    /// Goes on behind the header that `file` has.
    fn new(file: Unfinished, header: Vec<u8>) -> Result<Self, TraceError> {
        let offset = header.len() as u64;
        let encoder = Encoder::new().map_err(TraceError::io("prepare to compress", file.target()))?;
        let (process, thread) = (ProcessId(0), ThreadId(1));
        let totals = Totals::default();
        Ok(Self { file, header, encoder, index: Vec::new(), offset, totals, process, thread })
    }

    /// None if the writer was dropped before it said `Finish`.
    fn run(mut self, work: &Receiver<Work>, spare: &Sender<Pending>) -> Result<Option<Finished>, TraceError> {
        for item in work {
            match item {
                Work::Chunk(mut pending) => {
                    self.write_chunk(&pending)?;
                    pending.clear();
                    let _ = spare.send(pending);
                }
                Work::Finish(partial) => return self.finish(partial.as_ref()).map(Some),
            }
        }
        Ok(None)
    }

    fn write_chunk(&mut self, pending: &Pending) -> Result<(), TraceError> {
        let (header, checksum) = self.encoder.encode(pending).map_err(|problem| {
            TraceError::Refused(match problem {
                EncodeProblem::ReservedBits(at) => format!(
                    "access {} cannot be stored: {:#x} has bits 52 to 63 set, which must be zero",
                    self.totals.accesses + at as u64,
                    pending.accesses[at].0
                ),
                EncodeProblem::TooManyMarks(bytes) => format!(
                    "the marks of one batch take {bytes} bytes; at most {MAX_SIDE_BYTES} are allowed, \
                     split the batch"
                ),
            })
        })?;
        let bytes = &self.encoder.bytes;
        self.file.write_all(bytes).map_err(TraceError::io("write", self.file.target()))?;
        self.index.push(ChunkInfo {
            offset: self.offset,
            bytes: bytes.len() as u32,
            batches: header.batches,
            accesses: header.accesses,
            marks: header.marks,
            instructions: header.instructions,
            first_access: self.totals.accesses,
            first_instruction: self.totals.instructions,
            process: self.process,
            thread: self.thread,
            checksum,
        });
        self.offset += bytes.len() as u64;
        self.totals.chunks += 1;
        self.totals.batches += u64::from(header.batches);
        self.totals.accesses += u64::from(header.accesses);
        self.totals.marks += u64::from(header.marks);
        self.totals.instructions = self.totals.instructions.saturating_add(instructions(&pending.marks));
        self.follow(&pending.marks);
        Ok(())
    }

    fn follow(&mut self, marks: &[Mark]) {
        for mark in marks {
            match mark.event {
                Event::Process(process) => self.process = process,
                Event::Thread(thread) => self.thread = thread,
                _ => {}
            }
        }
    }

    fn finish(mut self, partial: Option<&Partial>) -> Result<Finished, TraceError> {
        let piece = partial.map(cut::piece).unwrap_or_default();
        if partial.is_some() {
            layout::flag_ended_early(&mut self.header);
            self.file.rewrite_start(&self.header).map_err(TraceError::io("write", self.file.target()))?;
        }
        self.offset += piece.len() as u64;
        let mut end = Vec::with_capacity((self.index.len() + 1) * layout::INDEX_ENTRY_BYTES);
        for chunk in &self.index {
            chunk.put(&mut end);
        }
        let index = end.clone();
        Trailer::put(self.offset, &self.totals, &index, &mut end);
        let end = [piece, end].concat();
        self.file.write_all(&end).map_err(TraceError::io("write", self.file.target()))?;
        Ok(Finished { file: self.file, totals: self.totals })
    }
}
