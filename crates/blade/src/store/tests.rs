use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::codec::WordSize;

const PAGES: u64 = 5;

fn design(strict: bool) -> StoreDesign {
    StoreDesign { capacity_pages: PAGES, strict }
}

#[derive(Clone, Debug)]
enum Step {
    Read(u64),
    Write(u64, u8),
    ReadWord(u64, Word),
    WriteWord(u64, Word, u64),
    Add(u64, Word, u64),
    CompareAndSwap { page: u64, word: Word, new: u64, right: bool, other: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = || 0..=PAGES;
    let word = || {
        let offsets = prop_oneof![0u16..32, 4080u16..4096, 0u16..4096];
        (offsets, 0usize..4)
            .prop_filter_map("within the page", |(offset, size)| Word::new(offset, WordSize::ALL[size]))
    };
    let value = || prop_oneof![any::<u64>(), Just(u64::MAX), Just(1)];
    let swap = (page(), word(), value(), any::<bool>(), value());
    let step = prop_oneof![
        page().prop_map(Step::Read),
        (page(), any::<u8>()).prop_map(|(page, seed)| Step::Write(page, seed)),
        (page(), word()).prop_map(|(page, word)| Step::ReadWord(page, word)),
        (page(), word(), value()).prop_map(|(page, word, value)| Step::WriteWord(page, word, value)),
        (page(), word(), value()).prop_map(|(page, word, value)| Step::Add(page, word, value)),
        swap.prop_map(|(page, word, new, right, other)| Step::CompareAndSwap {
            page,
            word,
            new,
            right,
            other
        }),
    ];
    prop::collection::vec(step, 1..120)
}

/// The pages as one array of bytes, and which are written.
struct Model {
    strict: bool,
    bytes: Vec<u8>,
    written: BTreeSet<u64>,
}

impl Model {
    fn readable(&self, page: u64) -> bool {
        page < PAGES && (!self.strict || self.written.contains(&page))
    }

    fn at(&self, page: u64, word: Word) -> usize {
        page as usize * PAGE_BYTES + usize::from(word.offset())
    }

    fn load(&self, page: u64, word: Word) -> Option<u64> {
        let bytes = |at| {
            (0..word.size().bytes())
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(self.bytes[at + byte]))
        };
        self.readable(page).then(|| bytes(self.at(page, word)))
    }

    fn store(&mut self, page: u64, word: Word, value: u64) {
        let at = self.at(page, word);
        for byte in 0..word.size().bytes() {
            self.bytes[at + byte] = (value >> (8 * byte)) as u8;
        }
        self.written.insert(page);
    }
}

fn agrees_with_an_array(store: &mut Store, strict: bool, steps: Vec<Step>) {
    let bytes = vec![0; PAGES as usize * PAGE_BYTES];
    let mut model = Model { strict, bytes, written: BTreeSet::new() };
    for step in steps {
        match step {
            Step::Read(page) => {
                let range = page as usize * PAGE_BYTES..(page as usize + 1) * PAGE_BYTES;
                let expected = model.readable(page).then(|| model.bytes[range].to_vec());
                assert_eq!(store.read(page).ok().map(Vec::from), expected);
            }
            Step::Write(page, seed) => {
                let content: Page = std::array::from_fn(|at| seed.wrapping_add((at / 9) as u8));
                assert_eq!(store.write(page, Box::new(content)).is_ok(), page < PAGES);
                if page < PAGES {
                    model.bytes[page as usize * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(&content);
                    model.written.insert(page);
                }
            }
            Step::ReadWord(page, word) => {
                assert_eq!(store.read_word(page, word).ok(), model.load(page, word));
            }
            Step::WriteWord(page, word, value) => {
                assert_eq!(store.write_word(page, word, value).is_ok(), model.readable(page));
                if model.readable(page) {
                    model.store(page, word, value);
                }
            }
            Step::Add(page, word, value) => {
                let old = model.load(page, word);
                assert_eq!(store.add(page, word, value).ok(), old);
                if let Some(old) = old {
                    model.store(page, word, old.wrapping_add(value));
                }
            }
            Step::CompareAndSwap { page, word, new, right, other } => {
                let old = model.load(page, word);
                // Bits above the word's size do not count.
                let expected = if right { old.unwrap_or(0) | other & !word.size().mask() } else { other };
                let equal = old.map(|old| old == expected & word.size().mask());
                assert_eq!(store.compare_and_swap(page, word, new, expected).ok(), equal);
                if equal == Some(true) {
                    model.store(page, word, new);
                }
            }
        }
        assert_eq!(store.written_pages(), model.written.len() as u64);
    }
    store.commit().unwrap();
    for page in 0..PAGES {
        assert_eq!(store.is_written(page), model.written.contains(&page));
        if model.readable(page) {
            assert_eq!(
                store.read(page).unwrap()[..],
                model.bytes[page as usize * PAGE_BYTES..][..PAGE_BYTES]
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn pages_in_memory_are_an_array_of_bytes(strict: bool, steps in steps()) {
        agrees_with_an_array(&mut Store::in_memory(design(strict)).unwrap(), strict, steps);
    }

    #[test]
    fn pages_in_a_file_are_an_array_of_bytes(strict: bool, sync in prop::bool::weighted(0.05), steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::in_file(design(strict), &folder.path().join("pages"), sync).unwrap();
        agrees_with_an_array(&mut store, strict, steps);
    }
}

#[test]
fn a_store_that_is_opened_again_has_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let word = Word::new(4092, WordSize::Four).unwrap();
    let mut store = Store::in_file(design(true), &path, true).unwrap();
    store.write(PAGES - 1, Box::new([7; PAGE_BYTES])).unwrap();
    store.add(PAGES - 1, word, 1).unwrap();
    store.commit().unwrap();
    drop(store);
    let store = Store::in_file(design(true), &path, false).unwrap();
    assert_eq!(store.written_pages(), 1);
    assert_eq!(store.read_word(PAGES - 1, word).unwrap(), 0x0707_0708);
    assert!(matches!(store.read(0), Err(StoreError::NeverWritten(0))));
}

#[test]
fn another_file_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let reason = |design| Store::in_file(design, &path, false).unwrap_err().to_string();
    let good = {
        Store::in_file(design(false), &path, false).unwrap();
        std::fs::read(&path).unwrap()
    };
    let wrong = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        reason(design(false))
    };
    assert!(wrong(0).contains("no blade's store"));
    assert!(wrong(8).contains("version is 17"));
    assert!(wrong(13).contains("checksum"));
    assert!(wrong(20).contains("checksum"));
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(reason(design(false)).contains("was cut"));
    std::fs::write(&path, b"").unwrap();
    assert!(reason(design(false)).contains("no blade's store"));
    std::fs::write(&path, &good).unwrap();
    assert!(reason(StoreDesign { capacity_pages: 6, strict: false }).contains("has 5 pages, not 6"));
    let open = Store::in_file(design(false), &path, false).unwrap();
    assert!(reason(design(false)).contains("another blade uses it"));
    drop(open);
    assert_eq!(std::fs::read(&path).unwrap(), good, "nothing that was refused was changed");
}

#[test]
fn a_capacity_that_no_blade_has_is_refused() {
    for capacity_pages in [0, MAX_CAPACITY_PAGES + 1, u64::MAX] {
        let wrong = Store::in_memory(StoreDesign { capacity_pages, strict: false });
        assert!(matches!(wrong, Err(OpenError::Capacity(_))), "{capacity_pages}");
    }
}
