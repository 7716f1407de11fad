//! Tests of the designs that a tier can have.

use super::*;

#[test]
fn the_default_is_table_i() {
    let design = TierDesign::default();
    design.check().unwrap();
    assert_eq!(u64::from(design.frames()) * 4096, 2 << 30, "2 GiB a controller");
    assert_eq!(
        design.miss_status.sets * design.miss_status.ways * 8,
        16 << 10,
        "entries of 8 bytes in one row"
    );
    let controllers: Vec<_> = (0..6).map(|page| design.controller_of(P(page))).collect();
    assert_eq!(controllers, [0, 1, 2, 3, 0, 1]);
}

#[test]
fn what_cannot_be_is_named() {
    let error = |design: TierDesign| Tier::<u32>::new(design).unwrap_err().to_string();
    let base = TierDesign::default;
    assert_eq!(
        error(TierDesign { sets: 3, ..base() }),
        "sets of a tier is 3; allowed: a power of two, at most 2^26"
    );
    assert_eq!(error(TierDesign { ways: 17, ..base() }), "ways of a tier is 17; allowed: 1 to 16");
    assert_eq!(error(TierDesign { ways: 0, ..base() }), "ways of a tier is 0; allowed: 1 to 16");
    assert_eq!(
        error(TierDesign { index_shift: 17, ..base() }),
        "index_shift of a tier is 17; allowed: 0 to 16"
    );
    let miss_status = MissStatusShape { sets: 0, ways: 8 };
    assert!(error(TierDesign { miss_status, ..base() }).starts_with("miss_status.sets of a tier is 0"));
    let miss_status = MissStatusShape { sets: 1, ways: 33 };
    assert!(error(TierDesign { miss_status, ..base() }).starts_with("miss_status.ways of a tier is 33"));
    assert!(error(TierDesign { evict_buffer: 0, ..base() }).starts_with("evict_buffer of a tier is 0"));
    assert!(error(TierDesign { queue: 1 << 17, ..base() }).starts_with("queue of a tier is 131072"));
}

#[test]
fn the_flat_partition_is_a_range_of_pages() {
    let partition = Partition { flat: P(8)..P(10) };
    let flat: Vec<_> = (6..12).filter(|&page| partition.is_flat(P(page))).collect();
    assert_eq!(flat, [8, 9]);
    assert!(!Partition::default().is_flat(P(0)));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is in the flat partition")]
fn a_flat_page_is_never_looked_up() {
    let partition = Partition { flat: P(8)..P(10) };
    tier(TierDesign { partition, ..small(1, 1, 1, 1) }).lookup(P(9), false);
}
