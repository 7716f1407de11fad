//! The average response of flash.

use super::Response;

/// An average in whole numbers: eight times its value is kept, so that small differences are not lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Average {
    eightfold: u64,
    measures: bool,
}

impl Average {
    pub(super) fn new(response: Response) -> Self {
        match response {
            Response::Measured { start } => Self { eightfold: start * 8, measures: true },
            Response::Constant(constant) => Self { eightfold: constant * 8, measures: false },
        }
    }

    pub(super) fn value(self) -> u64 {
        self.eightfold / 8
    }

    /// Takes note of one more response. A response above 2^60 counts as that.
    pub(super) fn measure(&mut self, response: u64) {
        if self.measures {
            self.eightfold = self.eightfold - self.eightfold / 8 + response.min(1 << 60);
        }
    }
}
