use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::codec::WordSize;

const PAGES: u64 = 5;

/// More pages than fit, of which the last two have no number that there is.
const NUMBERS: [u64; 9] = [0, 1, 4, 5, 262_144, 1 << 27, PAGE_NUMBERS - 1, PAGE_NUMBERS, u64::MAX];

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
    let page = || prop::sample::select(&NUMBERS[..]);
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

/// The pages that were written.
struct Model {
    strict: bool,
    pages: BTreeMap<u64, Page>,
}

impl Model {
    fn readable(&self, page: u64) -> bool {
        page < PAGE_NUMBERS && (!self.strict || self.pages.contains_key(&page))
    }

    fn writable(&self, page: u64) -> bool {
        page < PAGE_NUMBERS && (self.pages.contains_key(&page) || (self.pages.len() as u64) < PAGES)
    }

    fn page(&self, page: u64) -> Page {
        self.pages.get(&page).copied().unwrap_or([0; PAGE_BYTES])
    }

    fn load(&self, page: u64, word: Word) -> Option<u64> {
        let content = self.page(page);
        let at = usize::from(word.offset());
        let bytes = || {
            (0..word.size().bytes()).rev().fold(0, |value, byte| value << 8 | u64::from(content[at + byte]))
        };
        self.readable(page).then(bytes)
    }

    /// Whether the word can be stored; if so, it is.
    fn store(&mut self, page: u64, word: Word, value: u64) -> bool {
        let possible = self.readable(page) && self.writable(page);
        if possible {
            let content = self.pages.entry(page).or_insert([0; PAGE_BYTES]);
            for byte in 0..word.size().bytes() {
                content[usize::from(word.offset()) + byte] = (value >> (8 * byte)) as u8;
            }
        }
        possible
    }
}

fn agrees_with_an_array(store: &mut PageStore, strict: bool, steps: Vec<Step>) -> BTreeMap<u64, Page> {
    let mut model = Model { strict, pages: BTreeMap::new() };
    for step in steps {
        match step {
            Step::Read(page) => {
                let expected = model.readable(page).then(|| model.page(page));
                assert_eq!(store.read(page).ok(), expected);
            }
            Step::Write(page, seed) => {
                let content: Page = std::array::from_fn(|at| seed.wrapping_add((at / 9) as u8));
                assert_eq!(store.write(page, Box::new(content)).is_ok(), model.writable(page));
                if model.writable(page) {
                    model.pages.insert(page, content);
                }
            }
            Step::ReadWord(page, word) => {
                assert_eq!(store.read_word(page, word).ok(), model.load(page, word));
            }
            Step::WriteWord(page, word, value) => {
                assert_eq!(store.write_word(page, word, value).is_ok(), model.store(page, word, value));
            }
            Step::Add(page, word, value) => {
                let old = model.load(page, word);
                let added = old.filter(|old| model.store(page, word, old.wrapping_add(value)));
                assert_eq!(store.add(page, word, value).ok(), added);
            }
            Step::CompareAndSwap { page, word, new, right, other } => {
                let old = model.load(page, word);
                // Bits above the word's size do not count.
                let expected = if right { old.unwrap_or(0) | other & !word.size().mask() } else { other };
                let equal = old.map(|old| old == expected & word.size().mask());
                let swapped = equal.filter(|equal| !equal || model.store(page, word, new));
                assert_eq!(store.compare_and_swap(page, word, new, expected).ok(), swapped);
            }
        }
        assert_eq!(store.written_pages(), model.pages.len() as u64);
    }
    store.commit().unwrap();
    has_the_pages(store, &model);
    model.pages
}

fn has_the_pages(store: &PageStore, model: &Model) {
    for page in NUMBERS {
        assert_eq!(store.is_written(page), model.pages.contains_key(&page));
        assert_eq!(store.read(page).ok(), model.readable(page).then(|| model.page(page)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn pages_in_memory_are_an_array_of_bytes(strict: bool, steps in steps()) {
        agrees_with_an_array(&mut PageStore::in_memory(design(strict)).unwrap(), strict, steps);
    }

    #[test]
    fn pages_in_a_file_are_an_array_of_bytes(strict: bool, sync in prop::bool::weighted(0.05), steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let mut store = PageStore::in_file(design(strict), &path, sync).unwrap();
        let pages = agrees_with_an_array(&mut store, strict, steps);
        drop(store);
        let store = PageStore::in_file(design(strict), &path, sync).unwrap();
        has_the_pages(&store, &Model { strict, pages });
    }
}

#[test]
fn a_store_that_is_opened_again_has_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let word = Word::new(4092, WordSize::Four).unwrap();
    let mut store = PageStore::in_file(design(true), &path, true).unwrap();
    store.write(PAGES - 1, Box::new([7; PAGE_BYTES])).unwrap();
    store.add(PAGES - 1, word, 1).unwrap();
    store.commit().unwrap();
    drop(store);
    let store = PageStore::in_file(design(true), &path, false).unwrap();
    assert_eq!(store.written_pages(), 1);
    assert_eq!(store.read_word(PAGES - 1, word).unwrap(), 0x0707_0708);
    assert!(matches!(store.read(0), Err(StoreError::NeverWritten(0))));
}

/// A blade of 1 GiB refused page 262,144, the first number that is not below its capacity in pages: the capacity bounded the
/// page numbers, of which a program may use any of 28 bits.
#[test]
fn a_capacity_bounds_what_is_stored_and_not_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let mut store = PageStore::in_file(design(false), &path, false).unwrap();
    let mut stores = [&mut PageStore::in_memory(design(false)).unwrap(), &mut store];
    for store in &mut stores {
        for page in (0..PAGES).map(|number| PAGE_NUMBERS - 1 - number) {
            store.write(page, Box::new([page as u8; PAGE_BYTES])).unwrap();
        }
        let full = store.write(7, Box::new([7; PAGE_BYTES])).unwrap_err();
        assert!(matches!(full, StoreError::Full { page: 7, capacity_pages: PAGES }), "{full}");
        assert_eq!(store.read(7).unwrap(), [0; PAGE_BYTES], "a page that was not written is still zeroes");
        let beyond = store.write(PAGE_NUMBERS, Box::new([7; PAGE_BYTES])).unwrap_err();
        assert_eq!(beyond.to_string(), "there is no page 268435456; page numbers are 0 to 268435455");
    }
    assert!(path.metadata().unwrap().len() < 64 << 10, "the file has room for the capacity only");
}

/// Slots that a power failure has left empty between others are used again; a table that names a page twice is damaged.
#[test]
fn slots_are_found_again_and_each_page_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let open = || PageStore::in_file(design(true), &path, false);
    let mut store = open().unwrap();
    (10..13).for_each(|page| store.write(page, Box::new([page as u8; PAGE_BYTES])).unwrap());
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 + 8..4096 + 16].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let mut store = open().unwrap();
    assert!(store.read(10).is_ok() && store.read(11).is_err() && store.read(12).is_ok());
    (20..23).for_each(|page| store.write(page, Box::new([page as u8; PAGE_BYTES])).unwrap());
    assert!(store.write(23, Box::new([23; PAGE_BYTES])).is_err(), "five pages fit");
    drop(store);
    let store = open().unwrap();
    for page in [10, 12, 20, 21, 22] {
        assert_eq!(store.read(page).unwrap(), [page as u8; PAGE_BYTES]);
    }
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    for number in [11u64, PAGE_NUMBERS + 1, u64::MAX] {
        bytes[4096 + 32..4096 + 40].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(error.contains("it is damaged: slot 4 cannot hold page"), "{error}");
    }
}

#[test]
fn another_file_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let reason = |design| PageStore::in_file(design, &path, false).unwrap_err().to_string();
    let good = {
        PageStore::in_file(design(false), &path, false).unwrap();
        std::fs::read(&path).unwrap()
    };
    let wrong = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
        reason(design(false))
    };
    assert!(wrong(0).contains("no blade's store"));
    assert!(wrong(8).contains("version is 18"));
    assert!(wrong(13).contains("checksum"));
    assert!(wrong(20).contains("checksum"));
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(reason(design(false)).contains("was cut"));
    std::fs::write(&path, b"").unwrap();
    assert!(reason(design(false)).contains("no blade's store"));
    std::fs::write(&path, &good).unwrap();
    assert!(reason(StoreDesign { capacity_pages: 6, strict: false }).contains("has 5 pages, not 6"));
    let open = PageStore::in_file(design(false), &path, false).unwrap();
    assert!(reason(design(false)).contains("another blade uses it"));
    drop(open);
    assert_eq!(std::fs::read(&path).unwrap(), good, "nothing that was refused was changed");
}

#[test]
fn a_capacity_that_no_blade_has_is_refused() {
    for capacity_pages in [0, MAX_CAPACITY_PAGES + 1, u64::MAX] {
        let wrong = PageStore::in_memory(StoreDesign { capacity_pages, strict: false });
        assert!(matches!(wrong, Err(OpenError::Capacity(_))), "{capacity_pages}");
    }
}
