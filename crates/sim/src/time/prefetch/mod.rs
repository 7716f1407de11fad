//! Prefetchers of data caches: what an access makes them ask for.
//!
//! A prefetcher belongs to one cache level of one core, knows physical addresses, and stays within the 4 KiB page of the access that it
//! heard of. A new one is a file here, its keys in `spec/prefetch.rs`, and a field of [`Prefetchers`].

mod next_line;
mod stream;
mod stride;
mod wanted;

use self::next_line::NextLine;
use self::stream::Stream;
use self::stride::Stride;
pub(super) use self::wanted::{Heard, Wanted};
use crate::spec::settings::{CacheSpec, PrefetchSpec};

/// The prefetchers of one cache level.
#[derive(Clone, Debug)]
pub(super) struct Prefetchers {
    next_line: Option<NextLine>,
    stride: Option<Stride>,
    stream: Option<Stream>,
}

impl Prefetchers {
    /// Creates the prefetchers of a level; none if it has none.
    pub(super) fn new(spec: &CacheSpec) -> Option<Self> {
        let PrefetchSpec { next_line, stride, stream } = &spec.prefetch.as_ref()?;
        Some(Self {
            next_line: next_line.as_ref().map(NextLine::new),
            stride: stride.as_ref().map(Stride::new),
            stream: stream.as_ref().map(Stream::new),
        })
    }

    /// Hears of an access, and adds the lines that are worth having.
    #[inline]
    pub(super) fn hear(&mut self, heard: &Heard, wanted: &mut Wanted) {
        if let Some(stride) = &mut self.stride {
            stride.hear(heard, wanted);
        }
        if let Some(stream) = &mut self.stream {
            stream.hear(heard.line, wanted);
        }
        if let Some(next_line) = &mut self.next_line {
            next_line.hear(heard.line, wanted);
        }
    }
}
