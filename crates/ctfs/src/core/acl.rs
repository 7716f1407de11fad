//! POSIX access control lists: the kernel asks for them and enforces them; the file system keeps them together with the mode.
//!
//! A file's *access* list grants what its mode cannot say; the mode's group bits are the list's mask then. A directory's *default* list
//! becomes the access list, and in directories the default list too, of whatever is made in the directory, instead of the umask. Both are
//! extended attributes, in the form that Linux has for them:
//!
//! ```text
//!  bytes 0-3        version, 2
//!  then, 8 bytes an entry:
//!  bytes 0-1        tag    1 owner, 2 user, 4 owning group, 8 group, 16 mask, 32 others
//!  bytes 2-3        permissions    4 read, 2 write, 1 execute
//!  bytes 4-7        user or group
//! ```
//!
//! Sources: withdrawn POSIX 1003.1e draft 17, section 23; Linux, `posix_acl_xattr.h`.

use pagewalk_vm::file::PersistentMemory;
use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::extended::{ACCESS_LIST, DEFAULT_LIST, SetExtended};
use crate::core::inode::{Field, Ino, kind};
use crate::core::names::With;
use crate::core::system::FileSystem;
use crate::core::types::Owner;

const VERSION: u32 = 2;
const PERMISSIONS: u32 = 0o777;

/// For whom an entry is.
mod tag {
    pub(super) const OWNER: u16 = 1;
    pub(super) const USER: u16 = 2;
    pub(super) const OWNING_GROUP: u16 = 4;
    pub(super) const GROUP: u16 = 8;
    pub(super) const MASK: u16 = 16;
    pub(super) const OTHERS: u16 = 32;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list that says something about every user: owner, owning group and others have one entry each, and a mask stands beside entries for
/// other users and groups.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Acl(Vec<Entry>);

impl Acl {
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (entries, []) = rest.as_chunks::<8>() else { return None };
        let entries = entries.iter().map(|&[tag0, tag1, low, high, id @ ..]| Entry {
            tag: u16::from_le_bytes([tag0, tag1]),
            permissions: u16::from_le_bytes([low, high]),
            id: u32::from_le_bytes(id),
        });
        let acl = Self(entries.collect());
        let count = |tag| acl.0.iter().filter(|entry| entry.tag == tag).count();
        let named = count(tag::USER) + count(tag::GROUP);
        let base = [tag::OWNER, tag::OWNING_GROUP, tag::OTHERS].map(count);
        let masks = count(tag::MASK);
        let is_one = u32::from_le_bytes(*version) == VERSION
            && base == [1; 3]
            && masks <= 1
            && (named == 0 || masks == 1)
            && named + masks + 3 == acl.0.len()
            && acl.0.iter().all(|entry| entry.permissions <= 7);
        is_one.then_some(acl)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.permissions.to_le_bytes());
            bytes.extend(entry.id.to_le_bytes());
        }
        bytes
    }

    /// Whether a mode says as much.
    fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// The entries that a mode's bits stand for, with the bits' place: the mask, if there is one, for the owning group.
    fn of_mode(&mut self) -> impl Iterator<Item = (&mut Entry, u32)> {
        let has_mask = self.0.iter().any(|entry| entry.tag == tag::MASK);
        let middle = if has_mask { tag::MASK } else { tag::OWNING_GROUP };
        self.0.iter_mut().filter_map(move |entry| match entry.tag {
            tag::OWNER => Some((entry, 6)),
            tag if tag == middle => Some((entry, 3)),
            tag::OTHERS => Some((entry, 0)),
            _ => None,
        })
    }

    /// The permissions that a mode has beside this list.
    fn permissions(&mut self) -> u32 {
        self.of_mode().map(|(entry, place)| u32::from(entry.permissions) << place).sum()
    }

    /// Follows a change of mode.
    fn set_permissions(&mut self, mode: u32) {
        self.of_mode().for_each(|(entry, place)| entry.permissions = (mode >> place & 7) as u16);
    }

    /// As a default list: the access list of what is made with a mode in the directory.
    fn of_new(&self, mode: u32) -> Self {
        let mut new = self.clone();
        new.of_mode().for_each(|(entry, place)| entry.permissions &= (mode >> place & 7) as u16);
        new
    }
}

impl<M: PersistentMemory> FileSystem<M> {
    fn list_of(&self, ino: Ino, name: &[u8]) -> Result<Option<Acl>> {
        if self.inode(ino)?.get(Field::Attributes) == Ino::NONE.0 {
            return Ok(None);
        }
        match self.extended(ino, name) {
            Ok(bytes) => Acl::of_bytes(&bytes).ok_or(Errno::IO).map(Some),
            Err(Errno::NODATA) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets a file's access list, and its mode with it, or a directory's default list. A file whose group the caller is not in loses
    /// the bit that lets programs act as that group, if `drops_group`.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the value is no list; `EACCES`: a default list is for directories; `EOPNOTSUPP`: a symbolic link has no list; as of
    /// [`FileSystem::set_extended`].
    pub fn set_list(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetExtended,
        drops_group: bool,
    ) -> Result<()> {
        let inode = self.inode(ino)?;
        let mut list = Acl::of_bytes(value).ok_or(Errno::INVAL)?;
        if inode.is(kind::SYMLINK) {
            return Err(Errno::OPNOTSUPP);
        }
        if name == DEFAULT_LIST {
            if !inode.is(kind::DIRECTORY) {
                return Err(Errno::ACCESS);
            }
            return self.change_extended(ino, &[(name, Some(value))], how, None);
        }
        let kept = inode.mode() & 0o7777 & !PERMISSIONS & if drops_group { !0o2000 } else { !0 };
        let mode = kept | list.permissions();
        let value = (!list.is_mode()).then_some(value);
        self.change_extended(ino, &[(name, value)], how, Some(mode))
    }

    /// Changes a file's permissions in its access list, if it has one that says something else; the mode follows in the same step.
    pub(crate) fn set_list_permissions(&mut self, ino: Ino, mode: u32) -> Result<()> {
        let Some(old) = self.list_of(ino, ACCESS_LIST)? else { return Ok(()) };
        let mut list = old.clone();
        list.set_permissions(mode);
        if list == old {
            return Ok(());
        }
        let value = list.to_bytes();
        self.change_extended(ino, &[(ACCESS_LIST, Some(&value))], SetExtended::Any, Some(mode & 0o7777))
    }

    /// Makes a file of any kind but a symbolic link, as [`FileSystem::create`], for a program with a umask: the directory's default
    /// list comes before that.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::create`]; nothing is made then.
    pub(crate) fn create_for(
        &mut self,
        parent: Ino,
        name: &[u8],
        (mode, umask): (u32, u32),
        owner: Owner,
        with: With,
    ) -> Result<Ino> {
        let Some(default) = self.list_of(parent, DEFAULT_LIST)? else {
            return self.create_with(parent, name, mode & !(umask & PERMISSIONS), owner, with);
        };
        let mut access = default.of_new(mode);
        let mode = mode & !PERMISSIONS | access.permissions();
        let is_directory = mode & kind::MASK == kind::DIRECTORY;
        let mut lists = Vec::new();
        let [access_bytes, default_bytes] = [&access, &default].map(Acl::to_bytes);
        if !access.is_mode() {
            lists.push((ACCESS_LIST, Some(&access_bytes[..])));
        }
        if is_directory {
            lists.push((DEFAULT_LIST, Some(&default_bytes[..])));
        }
        if lists.is_empty() {
            return self.create_with(parent, name, mode, owner, with);
        }
        // After a crash before the lists are there, the group has no rights that a list would take from it.
        let ino = self.create_with(parent, name, mode & !0o070, owner, with)?;
        let mode = self.inode(ino)?.mode() & 0o7777 & !PERMISSIONS | mode & PERMISSIONS;
        let listed = self.change_extended(ino, &lists, SetExtended::Any, Some(mode));
        if let Err(error) = listed {
            match is_directory {
                true => self.remove_directory(parent, name)?,
                false => self.unlink(parent, name)?,
            }
            return Err(error);
        }
        Ok(ino)
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_vm::file::Recording;

    use super::*;
    use crate::core::types::SetAttributes;

    fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = entries.iter().map(|&(tag, permissions, id)| Entry { tag, permissions, id });
        Acl(entries.collect()).to_bytes()
    }

    fn system() -> FileSystem<Recording> {
        FileSystem::format(Recording::new(vec![0; 640 * 4_096]), Owner::default(), || 0).unwrap()
    }

    const NO: u32 = u32::MAX;

    #[test]
    fn what_is_no_list_is_refused() {
        let base = [(tag::OWNER, 6, NO), (tag::OWNING_GROUP, 4, NO), (tag::OTHERS, 4, NO)];
        assert!(Acl::of_bytes(&bytes(&base)).is_some_and(|mut list| list.permissions() == 0o644));
        for (entries, word) in [
            (vec![], "nothing"),
            (base[..2].to_vec(), "others are missing"),
            ([&base[..], &base[..1]].concat(), "two owners"),
            ([&base[..], &[(tag::USER, 7, 3)]].concat(), "no mask beside a user"),
            ([&base[..], &[(tag::MASK, 7, NO), (tag::MASK, 7, NO)]].concat(), "two masks"),
            ([&base[..], &[(64, 7, 3)]].concat(), "a tag that there is not"),
            ([&base[..2], &[(tag::OTHERS, 8, NO)]].concat(), "a permission that there is not"),
        ] {
            assert_eq!(Acl::of_bytes(&bytes(&entries)), None, "{word}");
        }
        let good = bytes(&base);
        assert_eq!(Acl::of_bytes(&good[..good.len() - 1]), None);
        assert_eq!(Acl::of_bytes(&[&[1, 0, 0, 0], &good[4..]].concat()), None, "another version");
    }

    #[test]
    fn a_list_and_a_mode_are_one() {
        let mut system = system();
        let me = Owner::default();
        let file = system.create(Ino::ROOT, b"f", kind::FILE | 0o2_750, me, 0).unwrap();
        let list = bytes(&[
            (tag::OWNER, 6, NO),
            (tag::USER, 0, 7),
            (tag::OWNING_GROUP, 4, NO),
            (tag::MASK, 5, NO),
            (tag::OTHERS, 1, NO),
        ]);
        system.set_list(file, ACCESS_LIST, &list, SetExtended::Any, false).unwrap();
        assert_eq!(system.attributes(file).unwrap().mode & 0o7777, 0o2_651);
        assert_eq!(system.extended(file, ACCESS_LIST).as_deref(), Ok(&list[..]));
        let set = SetAttributes { mode: Some(0o730), ..SetAttributes::default() };
        system.set_attributes(file, &set).unwrap();
        let changed = bytes(&[
            (tag::OWNER, 7, NO),
            (tag::USER, 0, 7),
            (tag::OWNING_GROUP, 4, NO),
            (tag::MASK, 3, NO),
            (tag::OTHERS, 0, NO),
        ]);
        assert_eq!(system.extended(file, ACCESS_LIST).as_deref(), Ok(&changed[..]), "the mask follows");
        assert_eq!(system.attributes(file).unwrap().mode & 0o7777, 0o730);
        // A list that a mode can say is none.
        let base = bytes(&[(tag::OWNER, 6, NO), (tag::OWNING_GROUP, 0, NO), (tag::OTHERS, 0, NO)]);
        system.set_list(file, ACCESS_LIST, &base, SetExtended::Any, false).unwrap();
        assert_eq!(system.extended(file, ACCESS_LIST), Err(Errno::NODATA));
        assert_eq!(system.attributes(file).unwrap().mode & 0o7777, 0o600);
        assert_eq!(system.set_list(file, DEFAULT_LIST, &list, SetExtended::Any, false), Err(Errno::ACCESS));
        assert_eq!(system.set_list(file, ACCESS_LIST, b"list", SetExtended::Any, false), Err(Errno::INVAL));
        let set = SetAttributes { mode: Some(0o2_755), ..SetAttributes::default() };
        system.set_attributes(file, &set).unwrap();
        system.set_list(file, ACCESS_LIST, &list, SetExtended::Any, true).unwrap();
        assert_eq!(system.attributes(file).unwrap().mode & 0o7777, 0o651, "not the caller's group");
        assert_eq!(crate::check(&system), Vec::<String>::new());
    }

    #[test]
    fn default_lists_are_inherited() {
        let mut system = system();
        let me = Owner::default();
        let made = (kind::DIRECTORY | 0o777, 0o027);
        let above = system.create_for(Ino::ROOT, b"d", made, me, With::Nothing).unwrap();
        assert_eq!(system.attributes(above).unwrap().mode & 0o7777, 0o750, "the umask");
        let list = bytes(&[
            (tag::OWNER, 7, NO),
            (tag::USER, 6, 7),
            (tag::OWNING_GROUP, 5, NO),
            (tag::MASK, 7, NO),
            (tag::OTHERS, 0, NO),
        ]);
        system.set_list(above, DEFAULT_LIST, &list, SetExtended::Any, false).unwrap();
        assert_eq!(system.attributes(above).unwrap().mode & 0o7777, 0o750, "that is for what is made there");
        let file = system.create_for(above, b"f", (kind::FILE | 0o664, 0o077), me, With::Nothing).unwrap();
        assert_eq!(system.attributes(file).unwrap().mode, kind::FILE | 0o660, "no umask");
        let access = bytes(&[
            (tag::OWNER, 6, NO),
            (tag::USER, 6, 7),
            (tag::OWNING_GROUP, 5, NO),
            (tag::MASK, 6, NO),
            (tag::OTHERS, 0, NO),
        ]);
        assert_eq!(system.extended(file, ACCESS_LIST).as_deref(), Ok(&access[..]));
        assert_eq!(system.extended(file, DEFAULT_LIST), Err(Errno::NODATA));
        let below = system.create_for(above, b"b", (kind::DIRECTORY | 0o755, 0), me, With::Nothing).unwrap();
        assert_eq!(system.extended(below, DEFAULT_LIST).as_deref(), Ok(&list[..]));
        assert_eq!(system.attributes(below).unwrap().mode & 0o7777, 0o750);
        assert_eq!(crate::check(&system), Vec::<String>::new());
    }
}
