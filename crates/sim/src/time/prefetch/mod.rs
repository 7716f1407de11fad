//! Prefetchers of data caches: what an access makes them ask for.
//!
//! A prefetcher belongs to one cache level of one core, and stays within the 4 KiB page of the access that it
//! heard of; a stream goes on into the page that follows. A new one is a file here, its keys in `spec/prefetch.rs`, and a field of [`Prefetchers`].

mod next_line;
mod stream;
mod stride;
mod wanted;

use self::next_line::NextLine;
use self::stream::Stream;
use self::stride::Stride;
pub(super) use self::wanted::{Ask, Heard, Wanted};
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

    /// Hears of an access to a level that `has` lines, and adds those that are worth having; returns when the line of the access was asked for, if that
    /// was earlier.
    #[inline]
    pub(super) fn hear(
        &mut self,
        heard: &Heard,
        has: impl FnMut(u64) -> bool,
        wanted: &mut Wanted,
    ) -> Option<u64> {
        // The stream first: it may have asked for a line earlier.
        let asked_ps = self.stream.as_mut().and_then(|stream| stream.hear(heard, wanted));
        if let Some(stride) = &mut self.stride {
            stride.hear(heard, wanted);
        }
        if let Some(next_line) = &mut self.next_line {
            next_line.hear(heard, has, wanted);
        }
        asked_ps
    }
}
