//! Files by path, as `std::fs` has them, without a system call.

mod file;
mod files;
mod options;
mod path;
#[cfg(test)]
mod tests;

pub use file::File;
pub use files::{DirectoryEntry, Files};
pub use options::OpenOptions;
pub use path::AsPath;
