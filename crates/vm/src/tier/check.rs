//! The conditions that must always hold of a tier.

use super::evict_buffer::Stage;
use super::{Resident, Tier};

impl<W: Copy> Tier<W> {
    /// Checks that every page is in one place only and that nothing waits for what will not come. For tests: it looks at
    /// everything.
    ///
    /// # Panics
    ///
    /// If not.
    pub fn check(&self) {
        for Resident { page, frame, .. } in self.tags.iter() {
            let at = self.tags.peek(page).map(|found| found.frame);
            assert_eq!(at, Some(frame), "{page:?} is in two frames");
            assert!(!self.is_pending(page), "{page:?} is resident and pending");
            let newest = self.leaving.find(page).map(|(_, stage)| stage);
            assert!(
                matches!(newest, None | Some(Stage::Writing)),
                "{page:?} is resident and leaves: {newest:?}"
            );
        }
        for (page, entry) in self.pending.iter() {
            assert_eq!(self.tags.reserved_for(entry.frame), Some(page), "{page:?} has lost its frame");
            assert_eq!(self.leaving.find(page), None, "{page:?} is read, but its newest data are here");
        }
        assert_eq!(self.tags.reserved(), self.pending.len(), "reserved frames and pending pages");
        let mut under_way = self.pending.len();
        for (page, slot, stage) in self.leaving.iter() {
            let twins: Vec<_> = self.leaving.iter().filter(|&(other, ..)| other == page).collect();
            let writing = twins.iter().filter(|&(.., stage)| *stage == Stage::Writing).count();
            assert!(writing <= 1 && twins.len() - writing <= 1, "{page:?} is in the evict buffer too often");
            match stage {
                Stage::Waiting(entry) => assert_eq!(self.pending.entry(entry).victim, Some(slot), "{page:?}"),
                Stage::Held => assert_eq!(writing, 1, "{page:?} is held by nothing"),
                _ => under_way += 1,
            }
        }
        assert!(self.leaving.len() <= self.design.evict_buffer as usize, "more than the evict buffer holds");
        assert_eq!(
            self.blocked.is_some(),
            !self.queue.is_empty(),
            "the queue waits for a reason, or not at all"
        );
        assert!(self.blocked.is_none() || under_way > 0, "{:?}, and nothing is under way", self.blocked);
    }
}
