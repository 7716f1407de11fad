//! Ending a source before its end: a request that a signal or a timer makes, and that sources look for.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use crate::event::Batch;
use crate::source::{Sink, Source, SourceError, SourceInfo};

/// The request by which a source is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopRequest {
    /// The source ends as it does when its sink has enough.
    Now,
    /// A signal came to the command. A live program gets the signal as well, and time to end in good order; every
    /// other source ends as for [`StopRequest::Now`].
    Signal {
        /// The number of the signal.
        number: i32,
        /// Whether the program has received the signal already, as from the terminal that it shares.
        is_delivered: bool,
    },
}

/// A place for one request to end early. Clones share the place; the first request counts.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<OnceLock<StopRequest>>);

impl Stop {
    /// Asks every source that looks here to end.
    pub fn request(&self, request: StopRequest) {
        // A later request has nothing to add: the end is under way.
        let _ = self.0.set(request);
    }

    /// Returns the first request, if there was one.
    pub fn requested(&self) -> Option<StopRequest> {
        self.0.get().copied()
    }
}

/// A source that ends at the next batch after a request, as if its sink had enough then.
pub struct Stoppable<'a> {
    source: &'a mut dyn Source,
    stop: &'a Stop,
    is_cut: bool,
}

impl<'a> Stoppable<'a> {
    /// Creates a source that runs `source` until `stop` holds a request.
    pub fn new(source: &'a mut dyn Source, stop: &'a Stop) -> Self {
        Self { source, stop, is_cut: false }
    }

    /// Returns whether a request ended the last run before the source's own end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Source for Stoppable<'_> {
    fn info(&self) -> SourceInfo {
        self.source.info()
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let Self { source, stop, is_cut } = self;
        *is_cut = false;
        source.run(&mut |batch: &mut Batch| {
            *is_cut = stop.requested().is_some();
            if *is_cut { ControlFlow::Break(()) } else { sink.batch(batch) }
        })
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_vm::addr::VirtAddr;

    use super::*;
    use crate::event::Access;

    /// Batches of one access, without end.
    struct Endless;

    impl Source for Endless {
        fn info(&self) -> SourceInfo {
            SourceInfo::default()
        }

        fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
            let mut batch = Batch::new();
            loop {
                batch.accesses.clear();
                batch.push(Access::load(VirtAddr(0x1000), 8));
                if sink.batch(&mut batch).is_break() {
                    return Ok(());
                }
            }
        }
    }

    #[test]
    fn a_source_ends_after_the_batch_in_which_it_was_asked() {
        let stop = Stop::default();
        let mut taken = 0;
        let mut count = |batch: &mut Batch| {
            taken += batch.accesses.len();
            if taken == 5 {
                stop.request(StopRequest::Signal { number: 15, is_delivered: false });
                stop.request(StopRequest::Now);
            }
            ControlFlow::Continue(())
        };
        let mut endless = Endless;
        let mut source = Stoppable::new(&mut endless, &stop);
        source.run(&mut count).unwrap();
        assert!(source.is_cut());
        assert_eq!(taken, 5);
        let first = StopRequest::Signal { number: 15, is_delivered: false };
        assert_eq!(stop.clone().requested(), Some(first), "the first request counts");
    }
}
