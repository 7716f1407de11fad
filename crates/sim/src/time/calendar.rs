//! A resource that is reserved ahead of time, with gaps.

use std::collections::VecDeque;

/// When something that serves one request at a time is busy.
///
/// A request takes the first gap that is long enough, also one before requests that were told a later time. Without
/// gaps one slow request, told to use a bus in a millisecond, would hold the bus until then for all that come after
/// it.
#[derive(Clone, Debug, Default)]
pub(super) struct Calendar {
    /// Busy times, in order, neither touching nor overlapping each other.
    busy: VecDeque<(u64, u64)>,
    /// The end of the last busy time that was forgotten: nothing is reserved before.
    forgotten_ps: u64,
}

impl Calendar {
    /// Reserves the first `length_ps` at `from_ps` at the earliest; returns when they start.
    #[inline]
    pub(super) fn reserve(&mut self, from_ps: u64, length_ps: u64) -> u64 {
        if length_ps == 0 {
            return from_ps;
        }
        let mut start_ps = from_ps.max(self.forgotten_ps);
        let mut index = match self.busy.back() {
            Some(&(_, end_ps)) if end_ps > start_ps => {
                self.busy.partition_point(|&(_, end_ps)| end_ps <= start_ps)
            }
            _ => self.busy.len(),
        };
        while let Some(&(begin_ps, end_ps)) = self.busy.get(index) {
            if start_ps + length_ps <= begin_ps {
                break;
            }
            start_ps = end_ps;
            index += 1;
        }
        self.insert(index, start_ps, start_ps + length_ps);
        start_ps
    }

    /// Gives back a part of what was reserved.
    pub(super) fn release(&mut self, start_ps: u64, length_ps: u64) {
        if length_ps == 0 {
            return;
        }
        let stop_ps = start_ps + length_ps;
        let index = self.busy.partition_point(|&(_, end_ps)| end_ps <= start_ps);
        let (begin_ps, end_ps) = self.busy[index];
        assert!(begin_ps <= start_ps && stop_ps <= end_ps, "{start_ps}..{stop_ps} ps is not reserved");
        match (begin_ps == start_ps, stop_ps == end_ps) {
            (true, true) => drop(self.busy.remove(index)),
            (true, false) => self.busy[index].0 = stop_ps,
            (false, true) => self.busy[index].1 = start_ps,
            (false, false) => {
                self.busy[index].1 = start_ps;
                self.busy.insert(index + 1, (stop_ps, end_ps));
            }
        }
    }

    /// Forgets what is over by `now_ps`: no caller asks for an earlier time.
    #[inline]
    pub(super) fn forget(&mut self, now_ps: u64) {
        while let Some(&(_, end_ps)) = self.busy.front()
            && end_ps <= now_ps
        {
            self.forgotten_ps = end_ps;
            self.busy.pop_front();
        }
    }

    /// Inserts a busy time from `start_ps` to `end_ps`, before the busy time at `index`.
    fn insert(&mut self, index: usize, start_ps: u64, end_ps: u64) {
        let touches_before = index > 0 && self.busy[index - 1].1 == start_ps;
        let touches_after = self.busy.get(index).is_some_and(|next| next.0 == end_ps);
        match (touches_before, touches_after) {
            (true, true) => {
                self.busy[index - 1].1 = self.busy[index].1;
                self.busy.remove(index);
            }
            (true, false) => self.busy[index - 1].1 = end_ps,
            (false, true) => self.busy[index].0 = start_ps,
            (false, false) => self.busy.insert(index, (start_ps, end_ps)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_vm::random::SplitMix64;

    use super::*;

    /// One bool a tick.
    #[test]
    fn the_first_gap_is_found_given_back_and_found_again() {
        let mut random = SplitMix64::new(3);
        for round in 0..200 {
            let (mut calendar, mut ticks) = (Calendar::default(), vec![false; 4_000]);
            let mut reserved = Vec::new();
            for now in 0..100 {
                let now = now * random.below(4);
                match random.below(4) {
                    0 if !reserved.is_empty() => {
                        let (start, length) =
                            reserved.swap_remove(random.below(reserved.len() as u64) as usize);
                        calendar.release(start, length);
                        ticks[start as usize..(start + length) as usize].fill(false);
                    }
                    _ => {
                        let (from, length) = (now + random.below(50), 1 + random.below(9));
                        let start = calendar.reserve(from, length);
                        let is_free =
                            |&start: &u64| !ticks[start as usize..][..length as usize].contains(&true);
                        assert_eq!(Some(start), (from..).find(is_free), "round {round}, at {now}");
                        ticks[start as usize..][..length as usize].fill(true);
                        reserved.push((start, length));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_forgotten_stays_taken() {
        let mut calendar = Calendar::default();
        assert_eq!(
            [(10, 5), (30, 5), (0, 10)].map(|(from, length)| calendar.reserve(from, length)),
            [10, 30, 0]
        );
        calendar.forget(20);
        assert_eq!(calendar.busy, [(30, 35)]);
        assert_eq!(calendar.reserve(3, 5), 15, "not into a time that is forgotten");
        assert_eq!(calendar.reserve(3, 0), 3, "no time needs no gap");
    }
}
