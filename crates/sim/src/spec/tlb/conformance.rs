//! The contract of TLB arrays, for every registered kind.

use pagewalk_vm::addr::{Asid, PageSize, Pfn, Vpn};
use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sets::{self, ArrayShape, Indexing};
use pagewalk_vm::tlb::{Fill, Lookup, TlbStorage, Translation};

use super::ARRAYS;
use super::array::{Replacement, TlbArraySpec};
use crate::machine::tlbs;
use crate::spec::key::{Key, Kind, Presence, Shape};

const ASID: Asid = Asid(3);

/// What is particular to the example of a kind.
#[derive(Clone, Copy, Default)]
struct Example {
    name: &'static str,
    /// Entries beside those of the main array, wherever they come from.
    beside: usize,
    /// Whether an entry is a run of frames, too: then the frames of the example's pages follow each other.
    is_coalesced: bool,
}

/// The kinds with something particular; all others have nothing.
const PARTICULAR: [Example; 2] = [
    Example { name: "victim", beside: 4, is_coalesced: false },
    Example { name: "coalesced", beside: 0, is_coalesced: true },
];

impl Example {
    fn of(name: &'static str) -> Self {
        let particular = PARTICULAR.into_iter().find(|example| example.name == name);
        particular.unwrap_or(Self { name, ..Self::default() })
    }
}

/// The array of a kind, with 4, or the first word, for what has no default.
fn spec(name: &str, entries: u32, ways: u32) -> TlbArraySpec {
    let variant = ARRAYS.0.iter().find(|variant| variant.key.name == name).expect("a registered kind");
    let Shape::Table(keys) = variant.key.shape else { panic!("{name} has keys") };
    let own =
        |key: &&Key| matches!(key.presence, Presence::Required) && !["entries", "ways"].contains(&key.name);
    let value = |key: &Key| match key.shape {
        Shape::Value(Kind::Integer { .. }) => format!("{} = 4\n", key.name),
        Shape::Value(Kind::Words(words)) => format!("{} = [\"{}\"]\n", key.name, words.words()[0]),
        Shape::Value(Kind::Word(words)) => format!("{} = \"{}\"\n", key.name, words.words()[0]),
        _ => panic!("no example for {}", key.name),
    };
    let values: String = keys.iter().filter(own).map(value).collect();
    let text = format!("name = \"x\"\n[tlb.l1.{name}]\nentries = {entries}\nways = {ways}\n{values}");
    let mut spec = crate::spec::parse(&text, "example.toml").unwrap_or_else(|error| panic!("{error}"));
    spec.translation.tlb.remove(0).arrays.remove(0)
}

/// An array for 4 KiB pages, and a check of every look-up's frame.
struct Tested {
    array: TlbStorage,
    /// Pages that were touched, one bit each: a fill brings those of the run along.
    touched: Vec<bool>,
    is_coalesced: bool,
}

const PAGES: usize = 1 << 14;

impl Tested {
    /// The frames of neighbouring pages are far apart, unless that hides what the array is for.
    fn translation(&self, vpn: u64) -> Translation {
        let frame = if self.is_coalesced { vpn + 1 } else { vpn * 7 % 1_000_003 + 1 };
        Translation::new(Pfn(frame), PageSize::Size4K, true, false)
    }

    fn new(name: &str, entries: u32, ways: u32) -> Self {
        Self::indexed(name, entries, ways, Indexing::Modulo)
    }

    fn indexed(name: &str, entries: u32, ways: u32, indexing: Indexing) -> Self {
        let spec = spec(name, entries, ways);
        assert_eq!(spec.replacement, Replacement::Lru);
        let shape = ArrayShape { entries, ways, replacement: sets::Replacement::Lru, indexing };
        let array = spec.kind.build(&shape).expect("a possible shape");
        let is_coalesced = PARTICULAR.iter().any(|example| example.name == name && example.is_coalesced);
        Self { array, touched: vec![false; PAGES], is_coalesced }
    }

    fn is_hit(&mut self, asid: Asid, vpn: u64) -> bool {
        match self.array.lookup(asid, Vpn(vpn)) {
            Lookup::Hit(found) => {
                assert_eq!(found.frame_of(Vpn(vpn)), self.translation(vpn).frame(), "page {vpn:#x}");
                true
            }
            Lookup::SubEntryMiss | Lookup::Miss => false,
        }
    }

    fn fill(&mut self, asid: Asid, vpn: u64) {
        self.touched[vpn as usize] = true;
        let run = self.array.run_pages();
        let base = vpn & !(run - 1);
        let word = |page| if self.touched[page as usize] { self.translation(page).to_word() } else { 0 };
        let words: Vec<u64> = (base..base + run).map(word).collect();
        let translation = self.translation(vpn);
        let fill = Fill { vpn: Vpn(vpn), translation, cluster: &words, cluster_base: Vpn(base) };
        self.array.fill(asid, &fill);
    }

    /// Whether an access hits; it fills if not.
    fn access(&mut self, vpn: u64) -> bool {
        let is_hit = self.is_hit(ASID, vpn);
        if !is_hit {
            self.fill(ASID, vpn);
            assert!(self.is_hit(ASID, vpn), "a fill is followed by a hit");
        }
        is_hit
    }
}

fn each_kind(check: impl Fn(&'static str)) {
    each_example(|example| check(example.name));
}

fn each_example(check: impl Fn(&Example)) {
    let names = || ARRAYS.0.iter().map(|variant| variant.key.name);
    assert!(PARTICULAR.iter().all(|example| names().any(|name| name == example.name)));
    names().for_each(|name| check(&Example::of(name)));
}

/// A window that moves slowly, and far jumps.
fn stream(count: u64) -> impl Iterator<Item = u64> {
    let mut random = SplitMix64::new(5);
    (0..count).map(move |step| {
        let (near, far) = (step / 16 + random.next() % 64, random.next());
        if far % 3 == 0 { far / 3 % PAGES as u64 } else { near % PAGES as u64 }
    })
}

#[test]
fn a_fill_is_followed_by_hits_until_it_is_removed() {
    each_kind(|name| {
        let mut tested = Tested::new(name, 64, 4);
        for vpn in stream(10_000) {
            tested.access(vpn);
        }
        tested.array.invalidate(ASID, Vpn(9));
        assert!(!tested.access(9), "{name}");
        let other = 9 + tested.array.run_pages();
        tested.access(other);
        tested.array.invalidate(ASID, Vpn(9));
        assert!(!tested.is_hit(ASID, 9) && tested.is_hit(ASID, other), "{name}: one page is gone");
        tested.array.flush(Some(Asid(4)));
        assert!(tested.is_hit(ASID, other), "{name}: another address space is gone");
        assert!(!tested.is_hit(Asid(4), other), "{name}: address spaces are apart");
        tested.array.flush(Some(ASID));
        assert!(!tested.is_hit(ASID, other), "{name}: all are gone");
    });
}

#[test]
fn it_reaches_entries_times_pages_of_an_entry() {
    each_example(|&Example { name, beside, .. }| {
        let mut tested = Tested::new(name, 64, 4);
        let reach = 64 * tested.array.run_pages();
        for round in 0..3 {
            let hits = (0..reach).filter(|&vpn| tested.access(vpn)).count() as u64;
            assert_eq!(hits, if round == 0 { 0 } else { reach }, "{name}, round {round}");
        }
        // One entry more evicts from its own set only.
        tested.access(reach);
        let lost = (0..reach).filter(|&vpn| !tested.is_hit(ASID, vpn)).collect::<Vec<_>>();
        let classes = tested.array.set_classes().expect("these examples say which pages never share a set");
        let class = |vpn: u64| vpn >> classes.shift & (classes.classes - 1);
        let expected = if beside == 0 { tested.array.run_pages() } else { 0 };
        assert_eq!(lost.len() as u64, expected, "{name}");
        assert!(lost.iter().all(|&vpn| class(vpn) == class(reach)), "{name}: {lost:?}");
    });
}

/// Any choice of a set: a sweep that fills all sets hits, and a page pushes out none of another class from the main array.
#[test]
fn each_choice_of_sets_reaches_as_far() {
    for (entries, indexing) in [(48, Indexing::Modulo), (28, Indexing::Modulo), (64, Indexing::XorFold)] {
        each_example(|&Example { name, beside, .. }| {
            let mut tested = Tested::indexed(name, entries, 4, indexing);
            let classes = tested.array.set_classes().expect("LRU");
            let reach = u64::from(entries) * tested.array.run_pages();
            for round in 0..3 {
                let hits = (0..reach).filter(|&vpn| tested.access(vpn)).count() as u64;
                assert_eq!(
                    hits,
                    if round == 0 { 0 } else { reach },
                    "{name}, {entries} entries, round {round}"
                );
            }
            let class = |vpn: u64| vpn >> classes.shift & (classes.classes - 1);
            if beside > 0 {
                return;
            }
            for vpn in stream(2_000) {
                let before: Vec<u64> =
                    (0..PAGES as u64).step_by(61).filter(|&page| tested.is_hit(ASID, page)).collect();
                tested.access(vpn);
                let lost = before.into_iter().filter(|&page| !tested.is_hit(ASID, page));
                lost.for_each(|page| assert_eq!(class(page), class(vpn), "{name}, {entries} entries"));
            }
        });
    }
}

#[test]
fn more_entries_never_miss_more_when_fully_associative() {
    each_kind(|name| {
        let misses = |entries| {
            let mut tested = Tested::new(name, entries, entries);
            stream(20_000).filter(|&vpn| !tested.access(vpn)).count()
        };
        let by_size: Vec<usize> = [16, 32, 64].map(misses).into();
        assert!(by_size.is_sorted_by(|a, b| a >= b), "{name}: {by_size:?}");
    });
}

/// The model: a list of entries, the newest first, each with a block's number and the pages of it that are valid.
#[test]
fn it_agrees_with_a_list_reference_by_reference() {
    each_example(|&Example { name, beside, is_coalesced }| {
        let mut tested = Tested::new(name, 48, 48);
        let block = tested.array.run_pages();
        let mut list: Vec<(u64, u64)> = Vec::new();
        let mut touched = vec![false; PAGES];
        for (step, vpn) in stream(30_000).enumerate() {
            touched[vpn as usize] = true;
            let (number, offset) = (vpn / block, vpn % block);
            let is_touched = |offset: &u64| touched[(number * block + offset) as usize];
            let is_of =
                |entry: &(u64, u64)| entry.0 == number && (!is_coalesced || entry.1 >> offset & 1 != 0);
            let expected = match list.iter().position(is_of) {
                Some(place) => {
                    let (_, valid) = list.remove(place);
                    list.insert(0, (number, valid | 1 << offset));
                    valid >> offset & 1 != 0
                }
                None => {
                    let (from, to) = if is_coalesced {
                        let back = (0..offset).rev().take_while(is_touched).count() as u64;
                        (offset - back, offset + (offset..block).take_while(is_touched).count() as u64)
                    } else {
                        (0, block)
                    };
                    let valid = (from..to).filter(is_touched).fold(0, |valid, page| valid | 1 << page);
                    list.retain(|entry| entry.0 != number || entry.1 & valid == 0);
                    list.insert(0, (number, valid));
                    list.truncate(48 + beside);
                    false
                }
            };
            assert_eq!(tested.access(vpn), expected, "{name}, step {step}");
        }
    });
}

#[test]
fn a_page_that_does_not_fit_enters_in_pieces() {
    each_kind(|name| {
        let mut tested = Tested::new(name, 64, 4);
        let huge = Translation::new(Pfn(1024), PageSize::Size2M, false, false);
        tested.array.fill(ASID, &Fill::single(Vpn(512 + 9), huge));
        let Lookup::Hit(found) = tested.array.lookup(ASID, Vpn(512 + 9)) else { panic!("{name}: no hit") };
        assert_eq!((found.size(), found.frame()), (PageSize::Size4K, Pfn(1024 + 9)), "{name}");
    });
}

/// From the file to a core's TLBs.
#[test]
fn each_kind_is_built() {
    each_kind(|name| {
        let mut machine = crate::spec::load("x86-64").expect("it loads");
        machine.translation.tlb.truncate(1);
        machine.translation.tlb[0].arrays = vec![spec(name, 64, 4)];
        assert_eq!(tlbs(&machine, 1).levels().len(), 1, "{name}");
    });
}
