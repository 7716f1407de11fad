//! Decompression, chosen by the first bytes of the content.

use std::io::{self, BufReader, Chain, Read};

/// The memory that an xz stream may ask its decoder for; `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 512 << 20;
/// log2 of the largest window that a zstd stream may ask for; `zstd --ultra -22` needs 27.
const ZSTD_WINDOW_LOG: u32 = 27;
/// Compressed bytes that a decoder takes at a time.
const BUFFER_BYTES: usize = 1 << 15;

/// How a stream of bytes is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Lz4,
    Snappy,
}

/// What is particular to a compression: its tool's name, the first bytes of such content, and the suffix of such names.
struct Row {
    kind: Compression,
    name: &'static str,
    magic: &'static [u8],
    suffix: &'static str,
}

const ROWS: [Row; 6] = [
    Row { kind: Compression::Gzip, name: "gzip", magic: b"\x1f\x8b\x08", suffix: ".gz" },
    Row { kind: Compression::Xz, name: "xz", magic: b"\xfd7zXZ\0", suffix: ".xz" },
    Row { kind: Compression::Zstd, name: "zstd", magic: b"\x28\xb5\x2f\xfd", suffix: ".zst" },
    Row { kind: Compression::Bzip2, name: "bzip2", magic: b"BZh", suffix: ".bz2" },
    Row { kind: Compression::Lz4, name: "lz4", magic: b"\x04\x22\x4d\x18", suffix: ".lz4" },
    Row { kind: Compression::Snappy, name: "snappy", magic: b"\xff\x06\0\0sNaPpY", suffix: ".sz" },
];

impl Compression {
    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.kind == self)
    }

    /// The name of the tool that compresses in this way; empty for [`Compression::None`].
    pub(super) fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }

    /// The suffix of files that are compressed in this way.
    pub(super) fn suffix(self) -> &'static str {
        self.row().map_or("", |row| row.suffix)
    }

    /// Tells the compression by the first bytes of the content.
    pub(super) fn sniff(content: &[u8]) -> Self {
        ROWS.iter().find(|row| content.starts_with(row.magic)).map_or(Self::None, |row| row.kind)
    }

    /// The compression that the suffix of `name` promises, with the name before the suffix.
    pub(super) fn of_name(name: &str) -> (Self, &str) {
        ROWS.iter()
            .find_map(|row| Some((row.kind, name.strip_suffix(row.suffix)?)))
            .unwrap_or((Self::None, name))
    }

    /// The suffixes of all compressions.
    pub(super) fn suffixes() -> String {
        ROWS.map(|row| row.suffix).join(" ")
    }
}

/// A reader of the decompressed content. Compressed streams one after the other, as `cat` makes them, are read as one.
pub(super) fn unpack(reader: impl Read + 'static, compression: Compression) -> io::Result<Box<dyn Read>> {
    let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
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
        Compression::Lz4 => Box::new(Lz4::new(reader)),
        Compression::Snappy => Box::new(snap::read::FrameDecoder::new(reader)),
    })
}

/// Decodes lz4 frames one after the other, each by a decoder of its own, because frames have blocks of different sizes.
///
/// The decoder of `lz4_flex` takes the end of the input between two blocks for the end of a frame. So an empty frame is put
/// behind the input: behind a whole frame it decodes to nothing, inside a frame its magic is an impossible block length.
struct Lz4<R: Read> {
    /// Always there but while the next frame's takes its place.
    decoder: Option<Lz4Decoder<R>>,
}

type Lz4Decoder<R> = lz4_flex::frame::FrameDecoder<Chain<R, &'static [u8]>>;

/// Magic, flags (version 1, independent blocks), block size of 64 KiB, header checksum, end mark.
const EMPTY_LZ4_FRAME: &[u8] = b"\x04\x22\x4d\x18\x60\x40\x82\0\0\0\0";

impl<R: Read> Lz4<R> {
    fn new(reader: R) -> Self {
        Self { decoder: Some(Lz4Decoder::new(reader.chain(EMPTY_LZ4_FRAME))) }
    }
}

impl<R: Read> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let bytes = decoder.read(buffer)?;
            let (_, rest) = decoder.get_ref().get_ref();
            if bytes > 0 || rest.is_empty() || buffer.is_empty() {
                return Ok(bytes);
            }
            self.decoder = self.decoder.take().map(|decoder| Lz4Decoder::new(decoder.into_inner()));
        }
        Ok(0)
    }
}
