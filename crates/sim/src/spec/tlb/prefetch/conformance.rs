//! The contract of TLB prefetchers, for every registered one.

use pagewalk_vm::addr::{Asid, PageSize, Vpn};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::tlb::prefetch::TlbMiss;

use super::PREFETCHERS;

/// The guesses at each of many misses.
fn guesses(name: &str, seed: u64) -> Vec<Vec<Vpn>> {
    let text = format!("name = \"x\"\nextends = \"x86-64\"\n[tlb-prefetch.{name}]\n");
    let spec = crate::spec::parse(&text, "example.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut prefetcher = spec.translation.prefetch.expect("a prefetcher").kind.build();
    let mut random = SplitMix64::new(seed);
    let mut page = 1 << 30;
    let guesses = (0..10_000).map(|_| {
        page += [1, 1, 2, 40][random.below(4) as usize];
        let mut pages = Vec::new();
        prefetcher.miss(&TlbMiss::of(Asid(1), Vpn(page), PageSize::Size4K), &mut pages);
        pages
    });
    guesses.collect()
}

#[test]
fn the_same_misses_lead_to_the_same_guesses_each_page_once() {
    for name in PREFETCHERS.0.iter().map(|variant| variant.key.name) {
        let first = guesses(name, 1);
        assert_eq!(first, guesses(name, 1), "{name}");
        assert!(first.iter().any(|pages| !pages.is_empty()), "{name} guesses");
        for pages in first {
            let mut once = pages.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), pages.len(), "{name}: {pages:?}");
        }
    }
}
