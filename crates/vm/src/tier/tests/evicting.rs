//! Pages on their way out, and those that come back.

use super::*;

/// A tier of one way in which page 1 is dirty.
fn dirty(evict_buffer: u32) -> Tier<u32> {
    let mut tier = tier(small(1, 4, evict_buffer, 4));
    fetch(&mut tier, 1, NOW_WRITE);
    tier
}

fn slot_of(tier: &Tier<u32>, page: u64) -> u16 {
    tier.leaving().find(|&(other, ..)| other == P(page)).unwrap().1.0
}

#[test]
fn a_full_evict_buffer_blocks_until_a_write_is_done() {
    let mut tier = dirty(1);
    fetch(&mut tier, 2, NOW_WRITE);
    assert_eq!(miss(&mut tier, 3, 3, LATER), [], "a blocked miss has done nothing, not even its read");
    assert_eq!((tier.blocked(), tier.is_pending(P(3))), (Some(Blocked::EvictBuffer), false));
    assert_eq!(tier.lookup(P(2), false), Some(F(0)), "its victim is still there");
    let slot = slot_of(&tier, 1);
    let effects = written(&mut tier, 1);
    assert!(matches!(effects[..], [Effect::Read { .. }, Effect::Copy { .. }]), "{effects:?}, slot {slot}");
    assert_eq!(tier.counts().blocked_by_evict_buffer, 1);
}

#[test]
fn a_clean_victim_needs_no_slot() {
    let mut tier = dirty(1);
    fetch(&mut tier, 2, LATER);
    assert_eq!(miss(&mut tier, 3, 3, LATER), [read(3, 0), discard(2, 0)]);
}

/// In a set of two ways: page 1 waits in the buffer for page 3 to arrive, page 2 is resident.
fn waiting(evict_buffer: u32, second: Completion) -> (Tier<u32>, u16) {
    let mut tier = tier(small(2, 4, evict_buffer, 4));
    fetch(&mut tier, 1, NOW_WRITE);
    fetch(&mut tier, 2, second);
    miss(&mut tier, 3, 3, LATER);
    let slot = slot_of(&tier, 1);
    (tier, slot)
}

#[test]
fn a_page_whose_write_has_not_begun_comes_back_dirty_and_its_slot_is_free() {
    let (mut tier, slot) = waiting(4, LATER);
    assert_eq!(miss(&mut tier, 1, 9, LATER), [discard(2, 1), restore(1, slot, 1), wake(9, LATER, 1, 1)]);
    assert_eq!(tier.resident(P(1)), Some(Resident { page: P(1), frame: F(1), dirty: true }));
    assert_eq!(tier.leaving().count(), 0);
    assert_eq!(
        arrive(&mut tier, 3),
        [install(3, 0), wake(3, LATER, 3, 0)],
        "nothing is written for it any more"
    );
    assert_eq!(tier.counts().restores, 1);
}

#[test]
fn a_slot_that_was_given_back_is_not_written_for_the_wrong_page() {
    let (mut tier, _) = waiting(4, LATER);
    miss(&mut tier, 1, 9, LATER);
    // Page 1 leaves again for page 4, probably into the same slot.
    miss(&mut tier, 4, 4, LATER);
    let slot = slot_of(&tier, 1);
    assert_eq!(arrive(&mut tier, 3), [install(3, 0), wake(3, LATER, 3, 0)]);
    assert_eq!(arrive(&mut tier, 4), [install(4, 1), write(1, slot), wake(4, LATER, 4, 1)]);
}

#[test]
fn a_page_that_is_being_written_comes_back_clean_and_its_slot_stays() {
    let mut tier = dirty(4);
    fetch(&mut tier, 2, LATER);
    let slot = slot_of(&tier, 1);
    assert_eq!(miss(&mut tier, 1, 9, LATER), [discard(2, 0), restore(1, slot, 0), wake(9, LATER, 1, 0)]);
    assert_eq!(tier.resident(P(1)), Some(Resident { page: P(1), frame: F(0), dirty: false }));
    assert_eq!(tier.leaving().collect::<Vec<_>>(), [(P(1), SlotIndex(slot), true)]);
    // It leaves again, clean, and comes back again from the same slot.
    assert_eq!(fetch(&mut tier, 2, LATER)[1], discard(1, 0));
    assert_eq!(miss(&mut tier, 1, 9, NOW_WRITE)[1], restore(1, slot, 0));
    assert!(tier.resident(P(1)).unwrap().dirty);
    written(&mut tier, 1);
    assert_eq!(tier.leaving().count(), 0);
}

#[test]
fn the_write_of_newer_data_waits_for_the_older() {
    let mut tier = dirty(4);
    fetch(&mut tier, 2, LATER);
    let old = slot_of(&tier, 1);
    miss(&mut tier, 1, 9, NOW_WRITE);
    let effects = fetch(&mut tier, 2, LATER);
    let Effect::Copy { slot: SlotIndex(new), .. } = effects[1] else { panic!("{effects:?}") };
    assert_ne!(new, old, "the old data are still read");
    assert_eq!(effects[2..], [install(2, 0), wake(0, LATER, 2, 0)], "no second write under way");
    assert_eq!(written(&mut tier, 1), [write(1, new)]);
    assert_eq!(written(&mut tier, 1), []);
    assert!(tier.is_idle());
}

#[test]
fn the_newest_of_two_comes_back() {
    let mut tier = dirty(4);
    fetch(&mut tier, 2, LATER);
    miss(&mut tier, 1, 9, NOW_WRITE);
    let effects = fetch(&mut tier, 2, LATER);
    let Effect::Copy { slot: SlotIndex(new), .. } = effects[1] else { panic!("{effects:?}") };
    assert_eq!(miss(&mut tier, 1, 9, LATER)[1], restore(1, new, 0));
    assert!(tier.resident(P(1)).unwrap().dirty, "flash will have the older data only");
    assert_eq!(written(&mut tier, 1), []);
}

/// The buffer is full of pages whose writes wait, and the victim of one that comes back is dirty.
#[test]
fn in_a_full_buffer_a_page_changes_places_with_its_victim() {
    let (mut tier, slot) = waiting(1, NOW_WRITE);
    let effects = miss(&mut tier, 1, 9, LATER);
    let Effect::Copy { page, slot: SlotIndex(spare), .. } = effects[0] else { panic!("{effects:?}") };
    assert_eq!(page, P(2));
    assert_ne!(spare, slot);
    assert_eq!(effects[1..], [restore(1, slot, 1), write(2, spare), wake(9, LATER, 1, 1)]);
}

#[test]
fn a_page_that_is_being_written_waits_for_its_victim_s_slot_and_is_then_read() {
    let mut tier = dirty(1);
    fetch(&mut tier, 2, NOW_WRITE);
    assert_eq!(miss(&mut tier, 1, 9, LATER), []);
    assert_eq!(tier.blocked(), Some(Blocked::EvictBuffer));
    let effects = written(&mut tier, 1);
    assert_eq!(effects[0], read(1, 0));
    assert!(matches!(effects[1], Effect::Copy { page: FlashPage(2), .. }), "{effects:?}");
}

#[test]
fn a_page_that_comes_back_waits_for_a_way() {
    let mut tier = dirty(4);
    miss(&mut tier, 2, 2, LATER);
    let slot = slot_of(&tier, 1);
    assert_eq!(miss(&mut tier, 1, 1, LATER), []);
    assert_eq!(tier.blocked(), Some(Blocked::Ways));
    assert_eq!(
        arrive(&mut tier, 2),
        [
            install(2, 0),
            write(1, slot),
            wake(2, LATER, 2, 0),
            discard(2, 0),
            restore(1, slot, 0),
            wake(1, LATER, 1, 0)
        ]
    );
}
