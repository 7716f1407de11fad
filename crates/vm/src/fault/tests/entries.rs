//! The format of remote entries.

use proptest::prelude::*;

use super::*;
use crate::table::{Entry, Geometry, RiscV};

proptest! {
    #[test]
    fn remote_entries_encode_and_decode_every_field(number in 0u32..1 << 28, protection in 0u16..1 << 10, reserved in 0u32..1 << 24) {
        let entry = RemotePte { id: id(number), protection, reserved };
        let word = entry.encode();
        let formula = u64::from(reserved) << 40 | u64::from(number) << 12 | u64::from(protection) << 2 | 2;
        prop_assert_eq!(word, formula);
        prop_assert_eq!(RemotePte::decode(word), Some(entry));
    }

    #[test]
    fn every_word_with_r_and_without_v_is_a_remote_entry_and_no_other(word: u64) {
        match RemotePte::decode(word) {
            Some(entry) => {
                prop_assert_eq!(word & 3, 2);
                prop_assert_eq!(entry.encode(), word);
            }
            None => prop_assert_ne!(word & 3, 2),
        }
    }

    #[test]
    fn the_local_entry_has_the_protection_and_the_frame_and_nothing_else(word: u64, frame in 0u64..1 << 44) {
        let entry = RemotePte::decode(word & !3 | 2).unwrap();
        let address = frame << 12;
        prop_assert_eq!(entry.local(Pfn(frame)), (word >> 2) & 0x3ff | (address >> 12) << 10);
    }
}

/// As in the figure: from a page that a user may read and write.
#[test]
fn a_local_entry_is_one_of_the_risc_v_tables() {
    let protection = RemotePte::VALID | RemotePte::READ | RemotePte::WRITE | RemotePte::ACCESSED;
    let local = RemotePte { protection, ..remote(7) }.local(frame(3));
    let Entry::Leaf(leaf) = RiscV::decode(local, 0) else { panic!("{local:#x} is no leaf") };
    assert_eq!((leaf.frame, leaf.readable, leaf.writable), (frame(3), true, true));
    assert_eq!((leaf.executable, leaf.accessed, leaf.dirty), (false, true, false));
    assert!(matches!(RiscV::decode(remote(7).encode(), 0), Entry::Empty), "a remote entry is invalid");
}

#[test]
fn ids_have_28_bits_and_0_is_one() {
    assert_eq!(PageId::new(0).map(PageId::number), Some(0));
    assert_eq!(PageId::new((1 << 28) - 1), Some(PageId::MAX));
    assert_eq!(PageId::new(1 << 28), None);
    assert_eq!(PageId::of_low_bits(0xffff_ffff_f000_0001), id(1));
}

#[test]
fn the_unbooked_bit_is_one_of_the_two_for_software() {
    assert_eq!(u64::from(RemotePte::UNBOOKED) & 0b11 << 8, u64::from(RemotePte::UNBOOKED));
    let leaving = RemotePte { protection: 0xd7 | RemotePte::UNBOOKED, ..remote(1) };
    let local = leaving.local(frame(0));
    assert!(RemotePte::is_unbooked(local) && !RemotePte::is_unbooked(leaving.encode()));
    let booked = RemotePte::booked(local, RemotePte::READ);
    assert!(!RemotePte::is_unbooked(booked));
    let expected = RemotePte { protection: 0xd7 & !RemotePte::PERMISSIONS | RemotePte::READ, ..remote(1) };
    assert_eq!(booked, expected.local(frame(0)), "with the permissions of now, the rest as it was");
    assert_eq!(leaving.permitting(RemotePte::READ).protection, expected.protection | RemotePte::UNBOOKED);
}
