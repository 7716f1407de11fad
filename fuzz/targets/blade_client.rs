//! A client of a memory blade whose answers are lost, repeated, reordered, forged by others, and mixed with garbage.
//!
//! Two bytes a step. Whatever arrives, an operation ends once, with what the blade has, or with the error that it did not
//! answer.
#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pagewalk_blade::codec::{PAGE_BYTES, Page, Response, Word, WordSize};
use pagewalk_blade::{
    Address, Client, ClientDesign, Failure, Operation, Outcome, PageStore, Replies, Server, ServerDesign,
    StoreDesign, Transport,
};

const BLADE: Address = Address::Local(0);
const PAGES: u64 = 4;

/// A network whose misdeeds are the input.
struct Network {
    server: Server,
    replies: Replies,
    script: VecDeque<[u8; 2]>,
    arriving: VecDeque<(Address, Vec<u8>)>,
}

impl Network {
    fn next(&mut self) -> [u8; 2] {
        self.script.pop_front().unwrap_or([0; 2])
    }
}

impl Transport for &mut Network {
    fn send(&mut self, _: Address, message: &[u8]) -> io::Result<()> {
        let [fate, operand] = self.next();
        if fate % 8 == 1 {
            return Ok(());
        }
        let network = &mut **self;
        for _ in 0..1 + usize::from(fate % 8 == 2) {
            network.server.handle(Address::Local(1), message, &mut network.replies);
            network.arriving.extend(network.replies.iter().map(|reply| (BLADE, reply.to_vec())));
        }
        let copies: Vec<_> = network.replies.iter().map(<[u8]>::to_vec).collect();
        for mut reply in copies {
            match fate % 8 {
                3 => network.arriving.push_front((Address::Local(7), reply)),
                4 => {
                    let at = usize::from(operand) % reply.len();
                    reply.truncate(at);
                    network.arriving.push_front((BLADE, reply));
                }
                5 => {
                    reply[0] = operand | 2;
                    network.arriving.push_front((BLADE, reply));
                }
                6 => {
                    // A transaction that no request has.
                    reply[7] ^= 0x80;
                    network.arriving.push_front((BLADE, reply));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _: Duration) -> io::Result<Option<(usize, Address)>> {
        let [fate, operand] = self.next();
        let count = self.arriving.len();
        let taken = match fate % 4 {
            1 if count > 0 => self.arriving.remove(usize::from(operand) % count),
            2 => {
                self.arriving.pop_front();
                None
            }
            _ => self.arriving.pop_front(),
        };
        Ok(taken.map(|(from, message)| {
            buffer[..message.len()].copy_from_slice(&message);
            (message.len(), from)
        }))
    }
}

fn operation([what, seed]: [u8; 2]) -> Operation {
    let page = u64::from(what >> 4) % PAGES;
    let word = Word::new(u16::from(seed), WordSize::ALL[usize::from(seed % 4)]).expect("within the page");
    let value = u64::from(seed);
    match what % 6 {
        0 => Operation::WritePage { page, content: Box::new([seed; PAGE_BYTES]) },
        1 => Operation::WriteWord { page, word, value },
        2 => Operation::Add { page, word, value },
        3 => Operation::CompareAndSwap { page, word, new: value, expected: 0 },
        4 => Operation::ReadWord { page, word },
        _ => Operation::ReadPage { page },
    }
}

/// The page and its outcome in the model; None for a page about which nothing is known any more.
fn perform(pages: &mut [Option<Page>], operation: &Operation) -> (u64, Option<Outcome>) {
    match *operation {
        Operation::ReadPage { page } => {
            (page, pages[page as usize].map(|content| Outcome::Page(Box::new(content))))
        }
        Operation::WritePage { page, ref content } => {
            // A write that is known to be lost may still come late; only pages that are known become known.
            if let Some(own) = &mut pages[page as usize] {
                *own = **content;
            }
            (page, Some(Outcome::Done))
        }
        Operation::ReadWord { page, word } => {
            (page, pages[page as usize].map(|content| Outcome::Word(word.load(&content))))
        }
        Operation::WriteWord { page, word, value } => {
            if let Some(own) = &mut pages[page as usize] {
                word.store(own, value);
            }
            (page, Some(Outcome::Done))
        }
        Operation::Add { page, word, value } => {
            let old = pages[page as usize].as_mut().map(|own| {
                let old = word.load(own);
                word.store(own, old.wrapping_add(value));
                Outcome::Word(old)
            });
            (page, old)
        }
        Operation::CompareAndSwap { page, word, new, expected } => {
            let swapped = pages[page as usize].as_mut().map(|own| {
                let equal = word.load(own) == expected & word.size().mask();
                if equal {
                    word.store(own, new);
                }
                Outcome::Word(equal.into())
            });
            (page, swapped)
        }
    }
}

fuzz_target!(|data: &[u8]| {
    // Messages without context first: no answer to nothing may do anything.
    let _ = Response::parse(data);
    let (steps, _) = data.as_chunks::<2>();
    let (operations, script) = steps.split_at(steps.len() / 4);
    let store = PageStore::in_memory(StoreDesign::new(PAGES)).expect("memory");
    let mut network = Network {
        server: Server::new(store, ServerDesign::default()),
        replies: Replies::default(),
        script: script.iter().copied().collect(),
        arriving: VecDeque::new(),
    };
    // Without waits every look at the network sends again what is under way.
    let design = ClientDesign::default().window(3).tries(5);
    let design = design.first_wait(Duration::ZERO).longest_wait(Duration::ZERO);
    let design = design.first_txid(data.first().copied().unwrap_or(0).into());
    let mut client = Client::new(&mut network, BLADE, design).expect("a client");
    let mut pages = vec![Some([0; PAGE_BYTES]); PAGES as usize];
    let mut busy: BTreeMap<u32, (u64, Option<Outcome>)> = BTreeMap::new();
    for &step in operations.iter().take(256) {
        let operation = operation(step);
        let wanted = match operation {
            Operation::ReadPage { page }
            | Operation::WritePage { page, .. }
            | Operation::ReadWord { page, .. }
            | Operation::WriteWord { page, .. }
            | Operation::Add { page, .. }
            | Operation::CompareAndSwap { page, .. } => page,
        };
        while client.free() == 0 || busy.values().any(|&(page, _)| page == wanted) {
            let Some(completion) = client.poll(Duration::ZERO).expect("a transport") else { continue };
            let (page, expected) = busy.remove(&completion.txid).expect("an operation ends once");
            match completion.result {
                Err(Failure::Unreachable { tries, .. }) => {
                    assert_eq!(tries, 5);
                    pages[page as usize] = None;
                }
                Err(failure) => panic!("{failure}"),
                Ok(outcome) => assert!(expected.is_none_or(|expected| expected == outcome), "page {page}"),
            }
        }
        let expected = perform(&mut pages, &operation);
        let txid = client.submit(operation).expect("room");
        assert!(busy.insert(txid, expected).is_none());
        assert!(client.under_way() <= 3);
    }
});
