//! The whole chunks of a file whose index or trailer is missing or damaged.

use std::io::{Read, Seek};

use super::layout::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkInfo};
use super::{Reader, Totals};
use crate::error::TraceError;
use crate::event::{Batch, Event, ProcessId, ThreadId};

impl<R: Read + Seek> Reader<R> {
    /// Finds the chunks one after the other, up to the first that is not whole, and keeps `damage` for the end.
    ///
    /// # Errors
    ///
    /// `damage`, if no chunk is whole.
    pub(super) fn salvage(&mut self, first_chunk: u64, damage: TraceError) -> Result<(), TraceError> {
        self.chunks.clear();
        let (mut totals, mut end) = (Totals::default(), first_chunk);
        let (mut process, mut thread) = (ProcessId(0), ThreadId(1));
        while let Some((header, info)) = self.chunk_at(end)? {
            self.chunks.push(ChunkInfo {
                first_access: totals.accesses,
                first_instruction: totals.instructions,
                process,
                thread,
                ..info
            });
            // The checksum, and all that a decoder checks, tell whether it is whole.
            match self.follow(self.chunks.len() - 1, (process, thread)) {
                Ok(current) => (process, thread) = current,
                Err(TraceError::Malformed { .. }) => {
                    self.chunks.pop();
                    break;
                }
                Err(error) => return Err(error),
            }
            end += u64::from(info.bytes);
            totals.chunks += 1;
            totals.batches += u64::from(header.batches);
            totals.accesses += u64::from(header.accesses);
            totals.marks += u64::from(header.marks);
            totals.instructions = totals.instructions.saturating_add(header.instructions);
        }
        if self.chunks.is_empty() {
            return Err(damage);
        }
        self.set_totals(totals);
        self.damage = Some(damage.to_string());
        Ok(())
    }

    /// The chunk that its header at `offset` announces, if the file has room for it.
    fn chunk_at(&mut self, offset: u64) -> Result<Option<(ChunkHeader, ChunkInfo)>, TraceError> {
        if offset.saturating_add(CHUNK_HEADER_BYTES as u64) > self.file_bytes {
            return Ok(None);
        }
        self.read_at(offset, CHUNK_HEADER_BYTES)?;
        let first = self.buffer.first_chunk().expect("just read");
        let checksum = u64::from_le_bytes(*first.last_chunk().expect("a header is longer"));
        let Some(header) = ChunkHeader::parse(first) else { return Ok(None) };
        let bytes = CHUNK_HEADER_BYTES as u64 + header.payload_bytes();
        let bytes = u32::try_from(bytes).ok().filter(|&bytes| offset + u64::from(bytes) <= self.file_bytes);
        let ChunkHeader { batches, accesses, marks, instructions, .. } = header;
        let info = |bytes| ChunkInfo {
            offset,
            bytes,
            batches,
            accesses,
            marks,
            instructions,
            checksum,
            ..ChunkInfo::default()
        };
        Ok(bytes.map(|bytes| (header, info(bytes))))
    }

    /// Decodes a chunk, which begins with this process and thread; answers those at its end.
    fn follow(
        &mut self,
        number: usize,
        (mut process, mut thread): (ProcessId, ThreadId),
    ) -> Result<(ProcessId, ThreadId), TraceError> {
        let mut chunk = self.chunk(number)?;
        let mut batch = Batch::new();
        while chunk.next_batch(&mut batch)? {
            for mark in &batch.marks {
                match mark.event {
                    Event::Process(current) => process = current,
                    Event::Thread(current) => thread = current,
                    _ => {}
                }
            }
        }
        Ok((process, thread))
    }
}
