//! A memory blade and several clients whose messages come in any order, more than once, damaged, or not at all.
//!
//! Four bytes a step: the operation, the client, the page, and a seed. Fresh requests must give what an array of bytes gives; what comes again
//! must change nothing; what is damaged must be refused; and no more may be kept than the limits say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_blade::codec::{
    Answer, Command, MAX_MESSAGE_BYTES, PAGE_BYTES, Page, PagePart, Part, Request, Response, Word, WordSize,
};
use pagewalk_blade::{Address, PAGE_NUMBERS, PageStore, Replies, Server, ServerDesign, StoreDesign};

const PAGES: u64 = 4;
const CLIENTS: u64 = 3;
/// Page writes under way, and messages that may come again: far fewer than the server remembers.
const UNDER_WAY: usize = 16;
const KEPT: usize = 64;

struct Write {
    client: u64,
    txid: u32,
    page: u64,
    content: Box<Page>,
    arrived: u8,
}

struct Watch {
    server: Server,
    replies: Replies,
    pages: Vec<Page>,
    txid: u32,
    writes: Vec<Write>,
    kept: Vec<(u64, Vec<u8>)>,
}

impl Watch {
    fn step(&mut self, [what, who, place, seed]: [u8; 4]) {
        let client = u64::from(who) % CLIENTS;
        // Those that fill the blade, and one that does not exist.
        let page = Some(u64::from(place) % (PAGES + 1)).filter(|&page| page < PAGES).unwrap_or(PAGE_NUMBERS);
        let size = WordSize::ALL[usize::from(who >> 2 & 3)];
        let offset = match what >> 4 {
            0..=3 => u16::from(seed),
            other => 4096 - u16::from(other) - size.bytes() as u16 + 4,
        };
        let Some(word) = Word::new(offset, size) else { return };
        let value = u64::from(seed) << (what >> 4) * 4 | u64::from(place);
        match what % 16 {
            0 | 1 => self.fresh(client, page, Command::ReadPage),
            2 => self.fresh(client, page, Command::ReadWord(word)),
            3 => self.fresh(client, page, Command::WriteWord(word, value)),
            4 => self.fresh(client, page, Command::Add(word, value)),
            5 => {
                let expected =
                    if seed % 2 == 0 && page < PAGES { word.load(&self.pages[page as usize]) } else { value };
                self.fresh(client, page, Command::CompareAndSwap { word, new: value, expected });
            }
            6 | 7 if self.writes.len() < UNDER_WAY => {
                self.txid += 1;
                let content = Box::new(std::array::from_fn(|at| seed ^ (at / 19) as u8));
                self.writes.push(Write { client, txid: self.txid, page, content, arrived: 0 });
            }
            8..=11 => self.part(usize::from(place), Part::ALL[usize::from(who % 3)]),
            12 | 13 => self.again(usize::from(place)),
            14 => self.damaged(usize::from(place), usize::from(who), seed),
            _ => {}
        }
        let counts = self.server.counts();
        assert!(counts.clients <= CLIENTS && counts.incomplete <= UNDER_WAY as u64 && counts.pages <= PAGES);
    }

    fn send(&mut self, client: u64, message: &[u8]) -> Vec<Vec<u8>> {
        self.server.handle(Address::Local(client), message, &mut self.replies);
        self.replies.iter().map(<[u8]>::to_vec).collect()
    }

    fn keep(&mut self, client: u64, message: Vec<u8>) {
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push((client, message));
    }

    fn fresh(&mut self, client: u64, page: u64, command: Command<'_>) {
        self.txid += 1;
        let txid = self.txid;
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        let message = Request { txid, page, command }.emit(&mut buffer).to_vec();
        let answers = self.send(client, &message);
        let answers: Vec<_> =
            answers.iter().map(|message| Response::parse(message).expect("sound")).collect();
        assert!(answers.iter().all(|response| response.txid == txid));
        let Some(own) = self.pages.get_mut(page as usize) else {
            assert!(matches!(answers[..], [Response { answer: Answer::Refused, .. }]));
            return;
        };
        let expected = match command {
            Command::ReadPage => {
                for (part, response) in Part::ALL.into_iter().zip(&answers) {
                    assert_eq!(response.answer, Answer::Page(PagePart::of(own, part)));
                }
                assert_eq!(answers.len(), 3);
                return;
            }
            Command::WritePage(_) => return,
            Command::ReadWord(word) => Answer::Word(word.load(own)),
            Command::WriteWord(word, value) => {
                word.store(own, value);
                Answer::Done
            }
            Command::Add(word, value) => {
                let old = word.load(own);
                word.store(own, old.wrapping_add(value));
                Answer::Word(old)
            }
            Command::CompareAndSwap { word, new, expected } => {
                let equal = word.load(own) == expected & word.size().mask();
                if equal {
                    word.store(own, new);
                }
                Answer::Word(equal.into())
            }
        };
        assert_eq!(answers, [Response { txid, answer: expected }]);
        self.keep(client, message);
    }

    fn part(&mut self, at: usize, part: Part) {
        if self.writes.is_empty() {
            return;
        }
        let at = at % self.writes.len();
        let write = &mut self.writes[at];
        let command = Command::WritePage(PagePart::of(&write.content, part));
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        let message = Request { txid: write.txid, page: write.page, command }.emit(&mut buffer).to_vec();
        write.arrived |= 1 << part.number();
        let (whole, client, page) = (write.arrived == 7, write.client, write.page);
        let answers = self.send(client, &message);
        if page >= PAGES {
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0][1], 0x83);
        } else if whole {
            assert_eq!(answers.len(), 1);
            assert_eq!(answers[0][1], 0x81);
            self.pages[page as usize] = *self.writes.swap_remove(at).content;
        } else {
            assert!(answers.is_empty(), "before all parts are there");
        }
        if page < PAGES {
            self.keep(client, message);
        }
    }

    fn again(&mut self, at: usize) {
        if let Some((client, message)) = self.kept.get(at % self.kept.len().max(1)).cloned() {
            let answers = self.send(client, &message);
            assert!(answers.len() <= 1 && answers.iter().all(|answer| answer[1] != 0x83));
            self.compare();
        }
    }

    fn damaged(&mut self, at: usize, cut: usize, seed: u8) {
        let Some((client, mut message)) = self.kept.get(at % self.kept.len().max(1)).cloned() else { return };
        match seed % 4 {
            0 => message[0] = seed | 2,
            1 => message[1] = 6 + seed % 100,
            2 => message.truncate(cut % message.len()),
            _ => message.push(seed),
        }
        assert!(Request::parse(&message).is_err());
        let answers = self.send(client, &message);
        assert_eq!(answers.len(), usize::from(message.len() >= 16));
        assert!(answers.iter().all(|answer| answer[1] == 0x83));
        self.compare();
    }

    fn compare(&self) {
        for (number, page) in self.pages.iter().enumerate() {
            assert!(self.server.store().read(number as u64).expect("a page") == *page, "page {number}");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let store = PageStore::in_memory(StoreDesign::new(PAGES)).expect("memory");
    let mut watch = Watch {
        server: Server::new(store, ServerDesign::default()),
        replies: Replies::default(),
        pages: vec![[0; PAGE_BYTES]; PAGES as usize],
        txid: 0,
        writes: Vec::new(),
        kept: Vec::new(),
    };
    let (steps, _) = data.as_chunks::<4>();
    for &step in steps {
        watch.step(step);
    }
    watch.compare();
    // Whatever else the bytes are, they are also one message of a stranger.
    let answers = watch.send(99, data);
    assert!(answers.iter().all(|answer| Response::parse(answer).is_ok()));
});
