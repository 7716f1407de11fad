//! The members of a zip archive whose directory, which stands at its end, was cut off: by the headers in front of them.
//!
//! ```text
//! +-----------+------+-------+------+--------------+-----------+-- ...
//! | header 30 | name | extra | data | (descriptor) | header 30 |
//! +-----------+------+-------+------+--------------+-----------+-- ...
//! ```
//!
//! A header without lengths has them behind the data, in the descriptor; such data is inflated to find its end. Layout: PKWARE,
//! "APPNOTE.TXT", version 6.3.10, 2022, sections 4.3.7 and 4.3.9.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::archive::{Extent, MAX_MEMBERS, Member};

const HEADER_BYTES: usize = 30;
const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// What follows the last member.
const DIRECTORY_MAGIC: &[u8; 4] = b"PK\x01\x02";
/// The flag of a header whose lengths stand behind the data.
const LENGTHS_FOLLOW: u16 = 8;
/// What stands for a length of a header where it is in the extra field, as 64 bits.
const ELSEWHERE: u32 = u32::MAX;
/// How long descriptors are: with a magic or without, with lengths of 32 or of 64 bits.
const DESCRIPTOR_BYTES: [u64; 4] = [16, 24, 12, 20];

/// The members of the archive `file` of `file_bytes` bytes, up to the first that is not to be found. The last one may be cut off:
/// its reader then says so.
pub(super) fn members(file: &Rc<File>, file_bytes: u64) -> io::Result<Vec<Member>> {
    let (mut members, mut next) = (Vec::new(), Some(0));
    while let Some(at) = next.filter(|_| members.len() < MAX_MEMBERS) {
        let Some((member, end)) = member_at(file, at, file_bytes)? else { break };
        members.push(member);
        next = end;
    }
    Ok(members)
}

/// The member whose header is at `at`, and where the next header is, if the member's end is known.
fn member_at(file: &Rc<File>, at: u64, file_bytes: u64) -> io::Result<Option<(Member, Option<u64>)>> {
    let mut header = [0; HEADER_BYTES];
    if at + HEADER_BYTES as u64 > file_bytes {
        return Ok(None);
    }
    file.read_exact_at(&mut header, at)?;
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
    let (flags, method) = (half(6), half(8));
    let mut name = vec![0; usize::from(half(26))];
    let start = at + HEADER_BYTES as u64 + name.len() as u64 + u64::from(half(28));
    if !header.starts_with(MAGIC) || !matches!(method, 0 | 8) || start > file_bytes {
        return Ok(None);
    }
    file.read_exact_at(&mut name, at + HEADER_BYTES as u64)?;
    let (packed, bytes) = (word(18), word(22));
    let mut member = Member {
        name: String::from_utf8_lossy(&name).into_owned(),
        start,
        packed_bytes: u64::from(packed),
        bytes: u64::from(bytes),
        checksum: word(14),
        deflated: method == 8,
    };
    if flags & LENGTHS_FOLLOW == 0 && packed != ELSEWHERE && bytes != ELSEWHERE {
        let end = start + member.packed_bytes;
        return Ok(Some((member, Some(end))));
    }
    if !member.deflated {
        // The end of stored data is not to be found.
        return Ok(None);
    }
    // Until the end is known, all there is belongs to the member, and is too short.
    (member.packed_bytes, member.bytes) = (file_bytes - start, u64::MAX);
    let Some(measured) = measure(file, start, file_bytes)? else { return Ok(Some((member, None))) };
    (member.packed_bytes, member.bytes, member.checksum) = measured;
    let end = start + member.packed_bytes;
    let next = if flags & LENGTHS_FOLLOW == 0 { Some(end) } else { behind_descriptor(file, end)? };
    Ok(Some((member, next)))
}

/// How many packed and unpacked bytes the deflated data at `start` has, and its checksum; none if it is cut off or damaged.
fn measure(file: &Rc<File>, start: u64, end: u64) -> io::Result<Option<(u64, u64, u32)>> {
    let packed = BufReader::new(Extent { file: Rc::clone(file), at: start, end });
    let mut decoder = flate2::CrcReader::new(flate2::bufread::DeflateDecoder::new(packed));
    match io::copy(&mut decoder.by_ref(), &mut io::sink()) {
        Ok(bytes) => {
            let checksum = decoder.crc().sum();
            Ok(Some((decoder.into_inner().total_in(), bytes, checksum)))
        }
        Err(error) if error.raw_os_error().is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Where the header behind the descriptor at `end` is.
fn behind_descriptor(file: &File, end: u64) -> io::Result<Option<u64>> {
    let begins = |at: u64| {
        let mut magic = [0; 4];
        match file.read_exact_at(&mut magic, at) {
            Ok(()) => Ok(&magic == MAGIC || &magic == DIRECTORY_MAGIC),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    };
    for bytes in DESCRIPTOR_BYTES {
        if begins(end + bytes)? {
            return Ok(Some(end + bytes));
        }
    }
    Ok(None)
}
