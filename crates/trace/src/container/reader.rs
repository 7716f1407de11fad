//! Reading a `.pwt` file, whole or by chunk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::chunk::Decoder;
use super::cut;
use super::layout::{
    self, CHUNK_HEADER_BYTES, ChunkHeader, ChunkInfo, HEADER_BYTES, INDEX_ENTRY_BYTES, MAX_NAME_BYTES,
    Prefix, TRAILER_BYTES, TRAILER_UNCOVERED_BYTES, Trailer,
};
use super::{FORMAT_VERSION, MAGIC, Totals};
use crate::error::{Place, TraceError};
use crate::event::{Batch, ProcessId, ThreadId};
use crate::partial::Partial;
use crate::source::SourceInfo;

/// An open `.pwt` file whose header, index and trailer have been checked.
pub struct Reader<R = File> {
    inner: R,
    file: String,
    source: SourceInfo,
    pub(super) chunks: Vec<ChunkInfo>,
    pub(super) totals: Totals,
    pub(super) file_bytes: u64,
    decoder: Decoder,
    pub(super) buffer: Vec<u8>,
    /// Whether the header says that the recording was ended early.
    ended_early: bool,
    partial: Option<Partial>,
    pub(super) damage: Option<String>,
}

impl Reader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is no `.pwt` file, was cut short or is damaged.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("open", path))?;
        let metadata = file.metadata().map_err(TraceError::io("examine", path))?;
        if !metadata.is_file() {
            return Err(TraceError::Refused(format!(
                "{}: a .pwt must be a regular file, because it is read from its end",
                path.display()
            )));
        }
        Self::new(file, path.display().to_string())
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads header, index and trailer from `inner`; `file` is its name in messages.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub fn new(inner: R, file: String) -> Result<Self, TraceError> {
        let (mut reader, first_chunk) = Self::begin(inner, file)?;
        reader.read_end(first_chunk)?;
        Ok(reader)
    }

    /// Opens a file like [`Reader::new`], but of a file whose end is damaged or missing it takes the whole chunks
    /// before the damage, if there are any, and [`Reader::damage`] says what is wrong.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`], if no chunk is whole.
    pub fn new_or_salvaged(inner: R, file: String) -> Result<Self, TraceError> {
        let (mut reader, first_chunk) = Self::begin(inner, file)?;
        match reader.read_end(first_chunk) {
            Ok(()) => {}
            Err(damage @ TraceError::Malformed { .. }) => reader.salvage(first_chunk, damage)?,
            Err(error) => return Err(error),
        }
        Ok(reader)
    }

    /// Reads the header; answers where the first chunk begins.
    fn begin(inner: R, file: String) -> Result<(Self, u64), TraceError> {
        let decoder = Decoder::new().map_err(|error| unreadable(&file, error))?;
        let mut reader = Self {
            inner,
            file,
            source: SourceInfo::default(),
            chunks: Vec::new(),
            totals: Totals::default(),
            file_bytes: 0,
            decoder,
            buffer: Vec::new(),
            ended_early: false,
            partial: None,
            damage: None,
        };
        reader.file_bytes =
            reader.inner.seek(SeekFrom::End(0)).map_err(|error| unreadable(&reader.file, error))?;
        let first_chunk = reader.read_header()?;
        Ok((reader, first_chunk))
    }

    /// Reads what comes behind the chunks.
    fn read_end(&mut self, first_chunk: u64) -> Result<(), TraceError> {
        let trailer = self.read_trailer(first_chunk)?;
        self.read_index(first_chunk, &trailer)?;
        self.set_totals(trailer.totals);
        Ok(())
    }

    pub(super) fn set_totals(&mut self, totals: Totals) {
        self.totals = totals;
        self.source.expected_accesses = Some(totals.accesses);
    }

    /// Returns what the file says of the source it was recorded from. Its name is the source's, not the file's.
    pub fn source_info(&self) -> &SourceInfo {
        &self.source
    }

    /// Leaves executed blocks out of batches from now on, which then cost less to read.
    pub fn make_no_blocks(&mut self) {
        self.decoder.makes_blocks = false;
        self.source.gives_blocks = false;
    }

    /// Returns the file's name as its user gave it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the format version in which the file is written.
    pub fn version(&self) -> u32 {
        self.decoder.version
    }

    /// Returns the length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the totals of the whole file.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the reason why the recording holds a part of its source only, if it does.
    pub fn partial(&self) -> Option<&Partial> {
        self.partial.as_ref()
    }

    /// Returns the damage behind the last whole chunk of a file that was cut short or damaged.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Returns the chunks in order.
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    /// Loads a chunk and answers a cursor over its batches.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is damaged.
    ///
    /// # Panics
    ///
    /// If there is no such chunk.
    pub fn chunk(&mut self, number: usize) -> Result<ChunkCursor<'_, R>, TraceError> {
        let info = self.chunks[number];
        // The index was checked: the chunk lies in the file and has room for its header.
        self.read_at(info.offset, info.bytes as usize)?;
        let (found, right) = layout::chunk_checksums(&mut self.buffer);
        if found != right || found != info.checksum {
            let what = format!("chunk {number} is damaged: its checksum is {right:#018x}, not {found:#018x}");
            return Err(self.malformed(info.offset, what));
        }
        let header = self.buffer.first_chunk().and_then(ChunkHeader::parse);
        let Some(header) = header.filter(|header| matches_index(header, &info)) else {
            let what = format!("the header of chunk {number} is not the one that the index describes");
            return Err(self.malformed(info.offset, what));
        };
        let payload = &self.buffer[CHUNK_HEADER_BYTES..];
        if let Err(what) = self.decoder.load(header, payload) {
            return Err(self.malformed(info.offset, what));
        }
        Ok(ChunkCursor { reader: self, offset: info.offset })
    }

    /// Checks the header; answers where the first chunk begins.
    fn read_header(&mut self) -> Result<u64, TraceError> {
        if self.file_bytes < HEADER_BYTES as u64 {
            let what = "the file ends inside the header of a .pwt file".to_owned();
            return Err(self.malformed(self.file_bytes, what));
        }
        self.read_at(0, HEADER_BYTES)?;
        let prefix = Prefix::parse(self.buffer.first_chunk().expect("just read"));
        if prefix.magic != MAGIC {
            return Err(self.malformed(0, "not a .pwt file: it does not begin with the magic".to_owned()));
        }
        if !(1..=FORMAT_VERSION).contains(&prefix.version) {
            let what = format!(
                "format version {}; this program reads versions 1 to {FORMAT_VERSION}, record the trace again or use \
                 a matching release",
                prefix.version
            );
            return Err(self.malformed(8, what));
        }
        let name_bytes = prefix.name_bytes as usize;
        let end = HEADER_BYTES as u64 + name_bytes as u64 + 8;
        if name_bytes > MAX_NAME_BYTES || end > self.file_bytes {
            let what =
                format!("a source name of {name_bytes} bytes; it must fit into the file and into 65536");
            return Err(self.malformed(16, what));
        }
        self.read_at(0, end as usize)?;
        let (header, checksum) = self.buffer.split_at(end as usize - 8);
        if xxh3_64(header).to_le_bytes() != checksum {
            return Err(self.malformed(0, "the header is damaged: its checksum is wrong".to_owned()));
        }
        if !prefix.flags_are_known() {
            return Err(self.malformed(12, "the header has flags of a later format".to_owned()));
        }
        (self.decoder.version, self.ended_early) = (prefix.version, prefix.ended_early());
        match std::str::from_utf8(&header[HEADER_BYTES..]) {
            Ok(name) => self.source = prefix.source_info(name.to_owned()),
            Err(_) => return Err(self.malformed(24, "the source name is not UTF-8".to_owned())),
        }
        Ok(end)
    }

    /// Finds and checks the trailer (not yet its checksum, which covers the index too).
    fn read_trailer(&mut self, first_chunk: u64) -> Result<Trailer, TraceError> {
        let trailer_offset = self.file_bytes.saturating_sub(TRAILER_BYTES as u64);
        let trailer = if trailer_offset < first_chunk {
            None
        } else {
            self.read_at(trailer_offset, TRAILER_BYTES)?;
            Trailer::parse(self.buffer.first_chunk().expect("just read"))
        };
        let Some(trailer) = trailer else { return Err(self.no_trailer(first_chunk)?) };
        let index_bytes = trailer.totals.chunks.checked_mul(INDEX_ENTRY_BYTES as u64);
        let index_end = index_bytes.and_then(|bytes| trailer.index_offset.checked_add(bytes));
        if trailer.index_offset < first_chunk || index_end != Some(trailer_offset) {
            let what = format!(
                "the trailer says that the index of {} chunks begins at byte {}, which does not fit the file's \
                 length of {} bytes",
                trailer.totals.chunks, trailer.index_offset, self.file_bytes
            );
            return Err(self.malformed(trailer_offset, what));
        }
        Ok(trailer)
    }

    /// The error for a file without a trailer, with the place where its intact part ends.
    fn no_trailer(&mut self, first_chunk: u64) -> Result<TraceError, TraceError> {
        let (mut end, mut accesses, mut chunks) = (first_chunk, 0_u64, 0_u64);
        while end.saturating_add(CHUNK_HEADER_BYTES as u64) <= self.file_bytes {
            self.read_at(end, CHUNK_HEADER_BYTES)?;
            let header = self.buffer.first_chunk().and_then(ChunkHeader::parse);
            let Some(header) = header else { break };
            let next = end + CHUNK_HEADER_BYTES as u64 + header.payload_bytes();
            if next > self.file_bytes {
                break;
            }
            (end, accesses, chunks) = (next, accesses + u64::from(header.accesses), chunks + 1);
        }
        let what = format!(
            "the file has no trailer: it was cut short, or its recording did not finish; its whole chunks end at \
             byte {end} ({chunks} chunks, {accesses} accesses); record it again"
        );
        Ok(self.malformed(self.file_bytes, what))
    }

    /// Reads the index; every chunk must begin where the one before it ends.
    fn read_index(&mut self, first_chunk: u64, trailer: &Trailer) -> Result<(), TraceError> {
        let trailer_offset = self.file_bytes - TRAILER_BYTES as u64;
        let end_bytes = (self.file_bytes - trailer.index_offset) as usize;
        self.read_at(trailer.index_offset, end_bytes)?;
        let (index, trailer_bytes) = self.buffer.split_at(end_bytes - TRAILER_BYTES);
        let covered = &trailer_bytes[..TRAILER_BYTES - TRAILER_UNCOVERED_BYTES];
        if Trailer::checksum(index, covered) != trailer.checksum {
            let what = "the index or the trailer is damaged: their checksum is wrong".to_owned();
            return Err(self.malformed(trailer.index_offset, what));
        }
        let chunks: Vec<ChunkInfo> =
            index.as_chunks::<INDEX_ENTRY_BYTES>().0.iter().map(ChunkInfo::parse).collect();
        let mut offset = first_chunk;
        let mut sums = Totals::default();
        for (number, chunk) in chunks.iter().enumerate() {
            let begins_right = chunk.offset == offset
                && chunk.bytes as usize >= CHUNK_HEADER_BYTES
                && chunk.first_access == sums.accesses
                && chunk.first_instruction == sums.instructions;
            offset = offset.saturating_add(u64::from(chunk.bytes));
            if !begins_right || offset > trailer.index_offset {
                let place = trailer.index_offset + (number * INDEX_ENTRY_BYTES) as u64;
                let what = format!("the index entry of chunk {number} does not fit those before it");
                return Err(self.malformed(place, what));
            }
            sums.chunks += 1;
            sums.batches += u64::from(chunk.batches);
            sums.accesses += u64::from(chunk.accesses);
            sums.marks += u64::from(chunk.marks);
            sums.instructions = sums.instructions.saturating_add(chunk.instructions);
        }
        let chunks_end = offset;
        let cut_bytes = trailer.index_offset - chunks_end;
        if (cut_bytes > 0) != self.ended_early || cut_bytes > cut::MAX_BYTES || sums != trailer.totals {
            let what = "the trailer's totals are not the sums of the index".to_owned();
            return Err(self.malformed(trailer_offset, what));
        }
        if chunks.first().is_some_and(|first| (first.process, first.thread) != (ProcessId(0), ThreadId(1))) {
            let what = "the first chunk does not begin with process 0 and thread 1".to_owned();
            return Err(self.malformed(trailer.index_offset, what));
        }
        if self.ended_early {
            self.read_at(chunks_end, cut_bytes as usize)?;
            self.partial = cut::parse(&self.buffer);
            if self.partial.is_none() {
                let what = "the reason for which the recording was ended early is damaged".to_owned();
                return Err(self.malformed(chunks_end, what));
            }
        }
        self.chunks = chunks;
        Ok(())
    }

    /// Fills the buffer with `bytes` bytes from `offset`. The caller has checked that the file has them, so the
    /// buffer never outgrows the file.
    pub(super) fn read_at(&mut self, offset: u64, bytes: usize) -> Result<(), TraceError> {
        self.buffer.resize(bytes, 0);
        let result =
            self.inner.seek(SeekFrom::Start(offset)).and_then(|_| self.inner.read_exact(&mut self.buffer));
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.malformed(offset, "the file became shorter while it was read".to_owned()))
            }
            Err(error) => Err(unreadable(&self.file, error)),
        }
    }

    fn malformed(&self, offset: u64, what: String) -> TraceError {
        TraceError::Malformed { file: self.file.clone(), place: Place::Byte(offset), what }
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("file", &self.file)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

fn unreadable(file: &str, error: io::Error) -> TraceError {
    TraceError::Io { what: format!("cannot read {file}"), error }
}

fn matches_index(header: &ChunkHeader, info: &ChunkInfo) -> bool {
    header.payload_bytes() == u64::from(info.bytes) - CHUNK_HEADER_BYTES as u64
        && (header.batches, header.accesses, header.marks) == (info.batches, info.accesses, info.marks)
        && header.instructions == info.instructions
}

/// The batches of one chunk, in order.
pub struct ChunkCursor<'a, R> {
    reader: &'a mut Reader<R>,
    offset: u64,
}

impl<R: Read + Seek> ChunkCursor<'_, R> {
    /// Replaces `batch` by the next one; false at the end of the chunk.
    ///
    /// # Errors
    ///
    /// If the chunk's content is not what a writer produces.
    pub fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        self.reader.decoder.next(batch).map_err(|what| self.reader.malformed(self.offset, what))
    }
}

impl<R> std::fmt::Debug for ChunkCursor<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkCursor").field("offset", &self.offset).finish_non_exhaustive()
    }
}
