//! The options by which files are opened.

use crate::core::types::Owner;

/// The options with which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Whether the file is opened to read it.
    pub read: bool,
    /// Whether the file is opened to write it.
    pub write: bool,
    /// All writes go behind its end.
    pub append: bool,
    /// The file loses its bytes.
    pub truncate: bool,
    /// The file is made if it is not there.
    pub create: bool,
    /// The file is made, and must not be there.
    pub create_new: bool,
    /// A symbolic link in the path's last place is refused (`ELOOP`), and not followed.
    pub no_follow: bool,
    /// Permissions of a new one.
    pub mode: u32,
    /// The owner of a new file.
    pub owner: Owner,
}

impl Default for OpenOptions {
    /// To read a file that is there.
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            no_follow: false,
            mode: 0o644,
            owner: Owner::default(),
        }
    }
}

impl OpenOptions {
    /// Returns options that open a file for nothing yet: the calls below say what for, as those of the standard library's options do.
    #[allow(clippy::new_without_default)] // The default is to read.
    pub fn new() -> Self {
        Self { read: false, ..Self::default() }
    }

    /// Sets whether the file is opened to read it.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// Sets whether the file is opened to write it.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Sets whether all writes go behind the file's end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Sets whether the file loses its bytes.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Sets whether the file is made if it is not there.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Sets whether the file is made, and must not be there.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Sets whether a symbolic link in the path's last place is refused (`ELOOP`), and not followed.
    pub fn no_follow(&mut self, no_follow: bool) -> &mut Self {
        self.no_follow = no_follow;
        self
    }

    /// Sets the owner of a new file.
    pub fn owner(&mut self, owner: Owner) -> &mut Self {
        self.owner = owner;
        self
    }

    /// Sets the permissions of a new file.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Returns options to write a file from its beginning, made if it is not there.
    pub fn creating() -> Self {
        Self { read: false, write: true, create: true, truncate: true, ..Self::default() }
    }

    /// Returns options to write behind a file's end, made if it is not there.
    pub fn appending() -> Self {
        Self { read: false, append: true, create: true, ..Self::default() }
    }

    /// Returns options to read and write a file, made if it is not there.
    pub fn updating() -> Self {
        Self { write: true, create: true, ..Self::default() }
    }
}
