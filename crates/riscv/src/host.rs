//! The host-target interface: two words in memory by which a program asks for a console, for system calls, and for its end.

use std::collections::VecDeque;
use std::io::{Read, Write};

use crate::files::Files;
use crate::image::Image;

/// Bytes that one call reads or writes at most; programs go on with the rest.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// Bytes of a path at most.
pub(crate) const MOST_PATH: u64 = 4_096;

/// The input that a program reads.
pub trait Input {
    /// The next byte, if there is one by now; with `wait`, when there is one. `None` for good at the end.
    fn byte(&mut self, wait: bool) -> Option<u8>;

    /// Whether the last wait for a byte was ended from outside. The machine then ends with [`End::Interrupted`](crate::End), and
    /// the program sees no end of its input.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Anything that is read without waiting for others: a file, bytes.
impl<R: Read> Input for R {
    fn byte(&mut self, _: bool) -> Option<u8> {
        let mut byte = [0];
        matches!(self.read(&mut byte), Ok(1)).then_some(byte[0])
    }
}

/// The other side of the interface.
pub struct Host {
    pub(crate) tohost: Option<u64>,
    pub(crate) fromhost: Option<u64>,
    pub(crate) input: Box<dyn Input>,
    pub(crate) output: Box<dyn Write>,
    pub(crate) errors: Box<dyn Write>,
    pub(crate) files: Option<Files>,
    /// Commands of the console that wait for a byte.
    pub(crate) reads: VecDeque<u64>,
    /// Answers that wait for their place.
    pub(crate) answers: VecDeque<u64>,
}

impl Host {
    /// Creates a host with these streams.
    pub fn new(input: Box<dyn Input>, output: Box<dyn Write>, errors: Box<dyn Write>) -> Self {
        let (reads, answers) = (VecDeque::new(), VecDeque::new());
        Self { tohost: None, fromhost: None, input, output, errors, files: None, reads, answers }
    }

    /// Returns the host with the files of a folder; programs reach nothing outside of it.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened.
    pub fn with_files(mut self, folder: &std::path::Path) -> std::io::Result<Self> {
        self.files = Some(Files::new(folder)?);
        Ok(self)
    }

    /// Returns a host that drops output and has no input.
    pub fn silent() -> Self {
        Self::new(Box::new(std::io::empty()), Box::new(std::io::sink()), Box::new(std::io::sink()))
    }

    /// What standard input has, up to the end of its line.
    pub(crate) fn line(&mut self, bytes: u64) -> Vec<u8> {
        let mut data = Vec::new();
        while (data.len() as u64) < bytes
            && let Some(byte) = self.input.byte(data.is_empty())
        {
            data.push(byte);
            if byte == b'\n' {
                break;
            }
        }
        data
    }

    /// Whether a wait for input was ended from outside.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.input.is_interrupted()
    }

    pub(crate) fn of_image(mut self, image: &Image) -> Self {
        (self.tohost, self.fromhost) = (image.tohost(), image.fromhost());
        self
    }
}
