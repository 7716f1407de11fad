//! The parts that the tests share: a network that misbehaves by a seed, and random operations with their model.

#![allow(dead_code)] // Without sessions under a key, a part of it is not used.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use pagewalk_blade::codec::{PAGE_BYTES, Page, Word, WordSize};
use pagewalk_blade::{Address, Client, Operation, Outcome, Transport};

/// Numbers from a seed (Sebastiano Vigna's SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// What a network does to messages, in percent.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    /// Held back until later ones have gone.
    pub(crate) delay: u64,
    /// A bit turned; only secure messages notice everywhere.
    pub(crate) damage: u64,
}

/// A transport with weather in both directions.
pub(crate) struct Lossy<T> {
    inner: T,
    weather: Weather,
    random: Random,
    outward: VecDeque<(Address, Vec<u8>)>,
    inward: VecDeque<(Address, Vec<u8>)>,
    pub(crate) lost: u64,
}

impl<T> Lossy<T> {
    pub(crate) fn new(inner: T, weather: Weather, seed: u64) -> Self {
        let (outward, inward) = (VecDeque::new(), VecDeque::new());
        Self { inner, weather, random: Random(seed), outward, inward, lost: 0 }
    }

    /// What goes on of a message, and of those held back.
    fn pass(
        &mut self,
        held: &mut VecDeque<(Address, Vec<u8>)>,
        from: Address,
        message: &[u8],
    ) -> Vec<(Address, Vec<u8>)> {
        let mut message = message.to_vec();
        if self.random.percent(self.weather.damage) {
            let bit = self.random.below(8 * message.len() as u64);
            message[bit as usize / 8] ^= 1 << (bit % 8);
        }
        let mut through = Vec::new();
        if self.random.percent(self.weather.loss) {
            self.lost += 1;
        } else {
            if self.random.percent(self.weather.duplication) {
                held.push_back((from, message.clone()));
            }
            if self.random.percent(self.weather.delay) {
                held.push_back((from, message));
            } else {
                through.push((from, message));
            }
        }
        while !held.is_empty() && self.random.percent(40) {
            let at = self.random.below(held.len() as u64) as usize;
            through.extend(held.remove(at));
        }
        through
    }
}

impl<T: Transport> Transport for Lossy<T> {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.outward);
        for (to, message) in self.pass(&mut held, to, message) {
            self.inner.send(to, &message)?;
        }
        self.outward = held;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        let Some((bytes, from)) = self.inner.receive(buffer, patience)? else {
            return Ok(self.inward.pop_front().map(|(from, message)| {
                buffer[..message.len()].copy_from_slice(&message);
                (message.len(), from)
            }));
        };
        let mut held = std::mem::take(&mut self.inward);
        let through = self.pass(&mut held, from, &buffer[..bytes]);
        self.inward = held;
        let mut through = through.into_iter();
        let first = through.next();
        self.inward.extend(through);
        Ok(first.map(|(from, message)| {
            buffer[..message.len()].copy_from_slice(&message);
            (message.len(), from)
        }))
    }
}

/// Pages as they must be.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) pages: BTreeMap<u64, Page>,
}

impl Model {
    pub(crate) fn page(&mut self, page: u64) -> &mut Page {
        self.pages.entry(page).or_insert([0; PAGE_BYTES])
    }

    /// What the operation must give.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::ReadPage { page } => Outcome::Page(Box::new(*self.page(page))),
            Operation::WritePage { page, ref content } => {
                *self.page(page) = **content;
                Outcome::Done
            }
            Operation::ReadWord { page, word } => Outcome::Word(word.load(self.page(page))),
            Operation::WriteWord { page, word, value } => {
                word.store(self.page(page), value);
                Outcome::Done
            }
            Operation::Add { page, word, value } => {
                let old = word.load(self.page(page));
                word.store(self.page(page), old.wrapping_add(value));
                Outcome::Word(old)
            }
            Operation::CompareAndSwap { page, word, new, expected } => {
                let equal = word.load(self.page(page)) == expected & word.size().mask();
                if equal {
                    word.store(self.page(page), new);
                }
                Outcome::Word(equal.into())
            }
        }
    }
}

pub(crate) fn random_page(random: &mut Random) -> Box<Page> {
    let seed = random.next();
    Box::new(std::array::from_fn(|at| (seed >> (at % 8 * 8)) as u8 ^ (at / 8) as u8))
}

/// An operation on this page.
pub(crate) fn random_operation(random: &mut Random, page: u64) -> Operation {
    let size = WordSize::ALL[random.below(4) as usize];
    // Few places, so that words overlap and comparisons are sometimes right.
    let offset =
        if random.percent(50) { random.below(16) } else { 4096 - size.bytes() as u64 - random.below(9) };
    let word = Word::new(offset as u16, size).expect("within the page");
    match random.below(6) {
        0 => Operation::ReadPage { page },
        1 => Operation::WritePage { page, content: random_page(random) },
        2 => Operation::ReadWord { page, word },
        3 => Operation::WriteWord { page, word, value: random.next() },
        4 => Operation::Add { page, word, value: random.next() },
        _ => Operation::CompareAndSwap { page, word, new: random.below(3), expected: random.below(3) },
    }
}

/// Random operations, several at a time but one at a time for each page, each compared with the model.
pub(crate) fn agrees_with_the_model<T: Transport>(
    client: &mut Client<T>,
    seed: u64,
    first_page: u64,
    operations: usize,
) {
    let (mut random, mut model) = (Random(seed), Model::default());
    let mut busy: BTreeMap<u32, (u64, Outcome)> = BTreeMap::new();
    let mut begun = 0;
    while begun < operations || !busy.is_empty() {
        let page = first_page + random.below(24);
        if begun < operations && client.free() > 0 && busy.values().all(|(other, _)| *other != page) {
            let operation = random_operation(&mut random, page);
            let expected = model.perform(&operation);
            let txid = client.submit(operation).expect("a free place");
            assert!(busy.insert(txid, (page, expected)).is_none());
            begun += 1;
        } else if let Some(completion) = client.poll(Duration::from_millis(1)).expect("a transport") {
            let (page, expected) = busy.remove(&completion.txid).expect("one of ours");
            assert_eq!(completion.result, Ok(expected), "seed {seed}, page {page}");
        }
    }
    for (&page, content) in &model.pages {
        assert_eq!(*client.read_page(page).expect("a page"), *content, "seed {seed}, page {page}");
    }
}
