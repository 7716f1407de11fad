//! Threads that wait for the disk, each for what was asked for before it came: one of them does it for all that have asked.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Turns {
    asked: AtomicU64,
    /// How many had asked when what was done last began.
    done: Mutex<u64>,
}

impl Turns {
    /// Asks for something that the next turn does.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns when everything asked for before this call is done: this thread does it, unless another thread has begun to behind the last
    /// of those calls. An error reaches the thread that acted alone; the next thread acts again.
    pub(crate) fn take<E>(&self, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let own = self.asked.load(Ordering::SeqCst);
        let mut done = self.done.lock();
        if *done >= own {
            return Ok(());
        }
        let asked = self.asked.load(Ordering::SeqCst);
        act()?;
        *done = asked;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn who_asks_while_it_is_done_waits_for_the_next_turn_with_all_others() {
        let (turns, times, has_begun) = (Turns::default(), AtomicU64::new(0), AtomicBool::new(false));
        let until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let other = || {
                until(&|| has_begun.load(Ordering::SeqCst));
                turns.ask();
                turns.take(|| {
                    times.fetch_add(1, Ordering::SeqCst);
                    Ok::<(), ()>(())
                })
            };
            let others = [scope.spawn(other), scope.spawn(other)];
            turns.ask();
            let first = turns.take(|| {
                has_begun.store(true, Ordering::SeqCst);
                until(&|| turns.asked.load(Ordering::SeqCst) == 3);
                times.fetch_add(1, Ordering::SeqCst);
                Ok::<(), ()>(())
            });
            assert_eq!(first, Ok(()));
            for other in others {
                assert_eq!(other.join().expect("it ends"), Ok(()));
            }
        });
        assert_eq!(times.into_inner(), 2);
    }

    #[test]
    fn nothing_is_done_that_no_thread_has_asked_for_and_errors_count_for_nothing() {
        let turns = Turns::default();
        assert_eq!(turns.take(|| Err("unasked")), Ok(()));
        turns.ask();
        assert_eq!(turns.take(|| Err("first")), Err("first"));
        assert_eq!(turns.take(|| Err("second")), Err("second"));
        assert_eq!(turns.take(|| Ok::<(), &str>(())), Ok(()));
        assert_eq!(turns.take(|| Err("done")), Ok(()));
    }
}
