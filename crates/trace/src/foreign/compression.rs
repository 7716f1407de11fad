//! Decompression, chosen by a file's first bytes.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::error::TraceError;

/// The memory that an xz stream may ask its decoder for; `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 512 << 20;
/// log2 of the largest window that a zstd stream may ask for; `zstd --ultra -22` needs 27.
const ZSTD_WINDOW_LOG: u32 = 27;
const BUFFER_BYTES: usize = 1 << 17;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
}

impl Compression {
    const PACKED: [Self; 4] = [Self::Gzip, Self::Xz, Self::Zstd, Self::Bzip2];

    fn magic(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Gzip => b"\x1f\x8b\x08",
            Self::Xz => b"\xfd7zXZ\0",
            Self::Zstd => b"\x28\xb5\x2f\xfd",
            Self::Bzip2 => b"BZh",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Xz => ".xz",
            Self::Zstd => ".zst",
            Self::Bzip2 => ".bz2",
        }
    }

    /// By the first bytes of the content.
    pub(super) fn sniff(content: &[u8]) -> Self {
        Self::PACKED.into_iter().find(|kind| content.starts_with(kind.magic())).unwrap_or(Self::None)
    }

    /// What `name`'s suffix promises, with the name before it.
    pub(super) fn of_name(name: &str) -> (Self, &str) {
        Self::PACKED
            .into_iter()
            .find_map(|kind| Some((kind, name.strip_suffix(kind.suffix())?)))
            .unwrap_or((Self::None, name))
    }
}

/// A file's content, decompressed.
pub(super) struct Unpacked {
    pub(super) reader: Box<dyn Read>,
    pub(super) compression: Compression,
}

/// Opens a file; decides by its first bytes whether and how it is compressed.
pub(super) fn open(path: &Path) -> Result<Unpacked, TraceError> {
    let file = std::fs::File::open(path).map_err(TraceError::io("open", path))?;
    if file.metadata().map_err(TraceError::io("examine", path))?.is_dir() {
        return Err(TraceError::Refused(format!(
            "{} is a folder; name one trace file in it",
            path.display()
        )));
    }
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let compression = Compression::sniff(reader.fill_buf().map_err(TraceError::io("read", path))?);
    let name = path.to_string_lossy();
    let (promised, _) = Compression::of_name(&name);
    if promised != Compression::None && promised != compression {
        return Err(TraceError::Refused(format!(
            "{name} is named {} but does not begin like such a file; rename it or download it again",
            promised.suffix()
        )));
    }
    let reader = unpack(reader, compression).map_err(TraceError::io("decompress", path))?;
    Ok(Unpacked { reader, compression })
}

fn unpack(reader: BufReader<std::fs::File>, compression: Compression) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(reader),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Compression::Xz => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(reader, stream))
        }
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(reader)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
    })
}
