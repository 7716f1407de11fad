//! Machine files.

pub mod settings;
