//! Room that removed files give back: a program that has removed a file has its room, but the kernel says later that the file is closed
//! and forgotten.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::inode::Ino;

/// How long the kernel takes at most to say that a removed file is forgotten, on a computer with much to do.
const FORGETTING_TAKES: Duration = Duration::from_secs(2);
/// How long a request waits where the newest file without a name has outlasted a whole wait: a program has it open.
const BRIEFLY: Duration = Duration::from_millis(50);
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// How requests that find no room wait for it.
pub(crate) struct Room {
    /// Threads that may wait: another one hears from the kernel that files are forgotten.
    most: usize,
    waiting: AtomicUsize,
    /// The file that a whole wait has not seen go.
    outlasted: Mutex<Option<Ino>>,
}

/// A request that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Room {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, waiting: AtomicUsize::new(0), outlasted: Mutex::new(None) }
    }

    fn begin(&self) -> Option<Waiting<'_>> {
        let more = |waiting| (waiting < self.most).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .ok()
            .map(|_| Waiting(&self.waiting))
    }

    /// Does something again that has found no room, while there are files without a name; `newest` is the one of them that was removed
    /// last.
    ///
    /// # Errors
    ///
    /// `NOSPC`: there is no room, and no file is about to give any. Whatever else the act fails with.
    pub(crate) fn wait_for<T>(
        &self,
        mut act: impl FnMut() -> Result<T>,
        newest: impl Fn() -> Option<Ino>,
    ) -> Result<T> {
        let mut done = act();
        if !matches!(done, Err(Errno::NOSPC)) {
            return done;
        }
        let Some(_waiting) = self.begin() else { return done };
        let outlasted = || self.outlasted.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        while matches!(done, Err(Errno::NOSPC)) {
            let Some(file) = newest() else { break };
            let patience = if *outlasted() == Some(file) { BRIEFLY } else { FORGETTING_TAKES };
            if begun.elapsed() >= patience {
                *outlasted() = Some(file);
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            done = act();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_as_long_as_a_removed_file_may_give_room() {
        let room = Room::new(1);
        let mut left = 100;
        let act = || {
            left -= 1;
            if left == 0 { Ok(7) } else { Err(Errno::NOSPC) }
        };
        assert_eq!(room.wait_for(act, || Some(Ino(3))), Ok(7));
        // The newest goes, and there is no room yet: nothing else gives any.
        let (mut tries, nameless) = (0, std::cell::Cell::new(3));
        let act = || {
            tries += 1;
            nameless.set(nameless.get() - 1);
            Err::<(), _>(Errno::NOSPC)
        };
        assert_eq!(
            room.wait_for(act, || (nameless.get() > 0).then(|| Ino(nameless.get()))),
            Err(Errno::NOSPC)
        );
        assert_eq!(tries, 3);
    }

    #[test]
    fn one_thread_is_left_that_gives_room() {
        let room = Room::new(1);
        let (mut outer, mut inner) = (0, 0);
        let act = || {
            outer += 1;
            let act = || {
                inner += 1;
                Err::<(), _>(Errno::NOSPC)
            };
            // The first try is before the wait; in the second, this thread waits.
            let newest = || (outer > 1).then_some(Ino(1));
            assert_eq!(room.wait_for(act, newest), Err(Errno::NOSPC));
            if outer < 3 { Err(Errno::NOSPC) } else { Ok(()) }
        };
        assert_eq!(room.wait_for(act, || Some(Ino(1))), Ok(()));
        assert_eq!(inner, 3);
        // A program has the file open: all of the wait was in vain, and later ones are short.
        assert_eq!(room.wait_for(|| Err::<(), _>(Errno::NOSPC), || Some(Ino(1))), Err(Errno::NOSPC));
        assert_eq!(*room.outlasted.lock().unwrap(), Some(Ino(1)));
    }
}
