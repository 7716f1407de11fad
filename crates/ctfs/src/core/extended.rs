//! Extended attributes: names and values beside a file's bytes, in an inode of their own that is replaced as a whole.

use pagewalk_vm::file::{Partition, PersistentMemory, SPACE_END};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::inode::{Field, Ino, Inode, Inodes, kind};
use crate::core::orphans;
use crate::core::system::FileSystem;
use crate::core::types::Owner;

/// As Linux has it.
const MOST_NAME: usize = 255;
/// As Linux has it.
const MOST_VALUE: usize = 65_536;
/// Of all of a file's together.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// Access control lists, which the kernel asks for by these names.
pub(crate) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// What the kernel gives a program that runs the file beside its user's rights.
pub(crate) const CAPABILITIES: &[u8] = b"security.capability";

/// Whether an extended attribute is a list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    name == ACCESS_LIST || name == DEFAULT_LIST
}

/// Whether a mount keeps an attribute of that name: those that programs or the kernel act on, as other file systems have them. Another
/// one of the kernel's own would be accepted and mean nothing.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    is_list(name) || prefixes.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
}

/// The rule by which a value is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SetExtended {
    /// Whether there is one or not.
    #[default]
    Any,
    /// Only if there is none.
    Create,
    /// Only if there is one.
    Replace,
}

/// Names and values, as they lie in the inode: the length of each in four bytes before it.
fn decode(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *bytes = rest;
        Some(part)
    }
    let (mut all, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        all.push((part(&mut rest)?, part(&mut rest)?));
    }
    Some(all)
}

/// How many of an inode's first bytes are names with their values.
pub(crate) fn whole_bytes(bytes: &[u8]) -> usize {
    let all = &bytes[..bytes.len().min(MOST_BYTES)];
    let (mut whole, mut parts, mut at) = (0, 0, 0);
    while let Some(length) = all[at..].first_chunk()
        && let end = at + 4 + u32::from_le_bytes(*length) as usize
        && end <= all.len()
    {
        (at, parts) = (end, parts + 1);
        whole = if parts % 2 == 0 { at } else { whole };
    }
    whole
}

fn encode<'a>(all: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in all.into_iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Whether all that an inode for attributes holds are names with their values.
    pub(crate) fn has_whole_attributes(&self, holder: &Inode) -> bool {
        // In a damaged store this inode may be unchecked so far.
        let lies_somewhere =
            |partition: Partition| partition.first < SPACE_END && partition.end() <= SPACE_END;
        if holder.size() > MOST_BYTES as u64 || !holder.partition().is_none_or(lies_somewhere) {
            return false;
        }
        let mut bytes = vec![0; holder.size() as usize];
        self.read_bytes(holder, 0, &mut bytes);
        whole_bytes(&bytes) == bytes.len()
    }

    fn extended_bytes(&self, ino: Ino) -> Result<Vec<u8>> {
        let holder = Ino(self.inode(ino)?.get(Field::Attributes));
        if holder == Ino::NONE {
            return Ok(Vec::new());
        }
        let inode = self.inode(holder)?;
        let mut bytes = vec![0; inode.size().min(MOST_BYTES as u64) as usize];
        self.read_bytes(&inode, 0, &mut bytes);
        self.sure(Ok(bytes))
    }

    /// Returns an extended attribute's value.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub fn extended(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let bytes = self.extended_bytes(ino)?;
        let all = decode(&bytes).ok_or(Errno::IO)?;
        let found = all.into_iter().find(|&(known, _)| known == name);
        found.map(|(_, value)| value.to_vec()).ok_or(Errno::NODATA)
    }

    /// Returns the names of all extended attributes, a zero byte behind each.
    ///
    /// # Errors
    ///
    /// There is no such inode.
    pub fn extended_names(&self, ino: Ino) -> Result<Vec<u8>> {
        let bytes = self.extended_bytes(ino)?;
        let all = decode(&bytes).ok_or(Errno::IO)?;
        Ok(all.into_iter().flat_map(|(name, _)| [name, b"\0"].concat()).collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    ///
    /// There is one, or none, against what was asked; name or value are too long; there is no room.
    pub fn set_extended(&mut self, ino: Ino, name: &[u8], value: &[u8], how: SetExtended) -> Result<()> {
        if name.is_empty() || name.len() > MOST_NAME {
            return Err(Errno::RANGE);
        }
        if value.len() > MOST_VALUE {
            return Err(Errno::TOOBIG);
        }
        self.change_extended(ino, &[(name, Some(value))], how, None)
    }

    /// Sets some extended attributes, removes those without a value, and changes the mode's lower twelve bits, all in one step.
    pub(crate) fn change_extended(
        &mut self,
        ino: Ino,
        changes: &[(&[u8], Option<&[u8]>)],
        how: SetExtended,
        mode: Option<u32>,
    ) -> Result<()> {
        let bytes = self.extended_bytes(ino)?;
        let mut all = decode(&bytes).ok_or(Errno::IO)?;
        for &(name, value) in changes {
            let at = all.iter().position(|(known, _)| *known == name);
            match (at, how) {
                (Some(_), SetExtended::Create) => return Err(Errno::EXIST),
                (None, SetExtended::Replace) => return Err(Errno::NODATA),
                _ => {}
            }
            match (at, value) {
                (Some(at), Some(value)) => all[at].1 = value,
                (None, Some(value)) => all.push((name, value)),
                (Some(at), None) => drop(all.remove(at)),
                (None, None) => {}
            }
        }
        self.replace_extended(ino, &encode(all), mode)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    ///
    /// There is none of that name. An access control list may be missing: the mode then says all of it, as after the call.
    pub fn remove_extended(&mut self, ino: Ino, name: &[u8]) -> Result<()> {
        let bytes = self.extended_bytes(ino)?;
        let mut all = decode(&bytes).ok_or(Errno::IO)?;
        let before = all.len();
        all.retain(|&(known, _)| known != name);
        match before - all.len() {
            0 if is_list(name) => Ok(()),
            0 => Err(Errno::NODATA),
            _ => self.replace_extended(ino, &encode(all), None),
        }
    }

    /// The new ones are written beside the old ones, and take their place at once.
    fn replace_extended(&mut self, ino: Ino, bytes: &[u8], mode: Option<u32>) -> Result<()> {
        if bytes.len() > MOST_BYTES {
            return Err(Errno::NOSPC);
        }
        let old = Ino(self.inode(ino)?.get(Field::Attributes));
        let mut new = Ino::NONE;
        if !bytes.is_empty() {
            new = self.create_without_name(kind::FILE | 0o600, Owner::default())?;
            match self.write_bytes(new, 0, bytes) {
                Ok(written) if written == bytes.len() => {}
                other => {
                    self.reclaim(new)?;
                    return Err(other.err().unwrap_or(Errno::NOSPC));
                }
            }
        }
        let now = self.now();
        let mut transaction = self.store.begin();
        if new != Ino::NONE {
            orphans::remove(&mut transaction, new)?;
            transaction.set_field(new, Field::Links, 1)?;
        }
        if old != Ino::NONE {
            transaction.set_field(old, Field::Links, 0)?;
            orphans::add(&mut transaction, old)?;
        }
        transaction.set_field(ino, Field::Attributes, new.0)?;
        if let Some(mode) = mode {
            let word = transaction.field(ino, Field::Mode)? & !0o7777 | u64::from(mode & 0o7777);
            transaction.set_field(ino, Field::Mode, word)?;
        }
        transaction.set_field(ino, Field::Changed, now)?;
        transaction.commit().map_err(of_store)?;
        if old == Ino::NONE { Ok(()) } else { self.reclaim(old) }
    }
}
