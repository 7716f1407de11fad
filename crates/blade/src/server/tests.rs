use super::*;
use crate::codec::{MAX_MESSAGE_BYTES, PAGE_BYTES, Page, Word, WordSize};
use crate::store::{PAGE_NUMBERS, StoreDesign};

const ONE: Address = Address::Local(1);
const OTHER: Address = Address::Local(2);

fn server(strict: bool, design: ServerDesign) -> Server {
    Server::new(PageStore::in_memory(StoreDesign { capacity_pages: 16, strict }).unwrap(), design)
}

fn lenient() -> Server {
    server(false, ServerDesign::default())
}

fn page(seed: u8) -> Page {
    std::array::from_fn(|at| (at / 5) as u8 ^ seed)
}

fn word(offset: u16) -> Word {
    Word::new(offset, WordSize::Eight).unwrap()
}

/// The answers' messages.
fn raw(server: &mut Server, source: Address, message: &[u8]) -> Vec<Vec<u8>> {
    let mut replies = Replies::default();
    server.handle(source, message, &mut replies);
    replies.iter().map(<[u8]>::to_vec).collect()
}

/// The answer, if it is a single one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Single {
    Nothing,
    Done,
    Word(u64),
    Refused,
    Page,
}

fn ask(server: &mut Server, source: Address, txid: u32, page: u64, command: Command<'_>) -> Single {
    let mut buffer = [0; MAX_MESSAGE_BYTES];
    let messages = raw(server, source, Request { txid, page, command }.emit(&mut buffer));
    let answers: Vec<_> = messages.iter().map(|message| Response::parse(message).unwrap()).collect();
    assert!(answers.iter().all(|response| response.txid == txid));
    match answers[..] {
        [] => Single::Nothing,
        [Response { answer: Answer::Done, .. }] => Single::Done,
        [Response { answer: Answer::Refused, .. }] => Single::Refused,
        [Response { answer: Answer::Word(value), .. }] => Single::Word(value),
        [_, _, _] => Single::Page,
        _ => panic!("{answers:?}"),
    }
}

fn part(server: &mut Server, source: Address, txid: u32, to: u64, content: &Page, part: Part) -> Single {
    ask(server, source, txid, to, Command::WritePage(PagePart::of(content, part)))
}

fn write(server: &mut Server, source: Address, txid: u32, to: u64, content: &Page) -> Single {
    let [first, second, third] = Part::ALL;
    assert_eq!(part(server, source, txid, to, content, second), Single::Nothing);
    assert_eq!(part(server, source, txid, to, content, third), Single::Nothing);
    part(server, source, txid, to, content, first)
}

#[test]
fn a_page_is_answered_in_three_parts() {
    let mut server = lenient();
    assert_eq!(write(&mut server, ONE, 1, 15, &page(3)), Single::Done);
    let mut buffer = [0; MAX_MESSAGE_BYTES];
    let request = Request { txid: 2, page: 15, command: Command::ReadPage };
    let messages = raw(&mut server, OTHER, request.emit(&mut buffer));
    assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [1376, 1376, 1368]);
    let bytes: Vec<u8> = messages.iter().flat_map(|message| message[8..].to_vec()).collect();
    assert_eq!(bytes, page(3));
}

#[test]
fn everything_that_is_wrong_is_refused_under_its_transaction() {
    let mut server = lenient();
    let refused = |txid: u32| vec![[vec![1, 0x83, 0, 0], txid.to_le_bytes().to_vec()].concat()];
    let header = |version, op, part, page: u64| {
        [vec![version, op, part, 0, 5, 0, 0, 0], page.to_le_bytes().to_vec()].concat()
    };
    let crossing = [0xd3, 0xff, 0, 0, 0, 0, 0, 0];
    for message in [
        header(0, 0, 0, 0),
        header(1, 9, 0, 0),
        header(1, 1, 3, 0),
        header(1, 0, 0, PAGE_NUMBERS),
        header(1, 0, 0, u64::MAX),
        [header(1, 0, 0, 0), vec![0]].concat(),
        header(1, 2, 0, 0),
        [header(1, 2, 0, 0), crossing.to_vec()].concat(),
        [header(1, 1, 0, PAGE_NUMBERS), vec![0; 1368]].concat(),
        [header(1, 1, 2, 0), vec![0; 1368]].concat(),
        [header(1, 0, 0, 0), vec![0; 2000]].concat(),
    ] {
        assert_eq!(raw(&mut server, ONE, &message), refused(5), "{message:?}");
    }
    for bytes in 0..16 {
        assert!(raw(&mut server, ONE, &header(1, 0, 0, 0)[..bytes]).is_empty());
    }
    let counts = server.counts();
    assert_eq!((counts.malformed, counts.beyond, counts.unreadable), (8, 3, 16));
    assert_eq!((counts.pages, counts.incomplete), (0, 0));
}

#[test]
fn a_strict_blade_refuses_pages_that_were_never_written() {
    let mut server = server(true, ServerDesign::default());
    for command in [Command::ReadPage, Command::ReadWord(word(0)), Command::Add(word(0), 1)] {
        assert_eq!(ask(&mut server, ONE, 1, 3, command), Single::Refused);
    }
    write(&mut server, ONE, 2, 3, &page(0));
    assert_eq!(ask(&mut server, ONE, 3, 3, Command::ReadPage), Single::Page);
    assert_eq!(server.counts().never_written, 3);
}

#[test]
fn a_full_blade_changes_its_pages_and_takes_no_other() {
    let mut server = lenient();
    for number in 0..16 {
        assert_eq!(write(&mut server, ONE, number, u64::from(number) << 20, &page(1)), Single::Done);
    }
    assert_eq!(part(&mut server, ONE, 20, 1, &page(1), Part::First), Single::Refused);
    assert_eq!(ask(&mut server, ONE, 21, 1, Command::Add(word(0), 1)), Single::Refused);
    assert_eq!(ask(&mut server, ONE, 22, 1, Command::ReadPage), Single::Page, "of zeroes");
    assert_eq!(write(&mut server, ONE, 23, 15 << 20, &page(2)), Single::Done);
    assert_eq!((server.counts().full, server.counts().beyond), (2, 0));
}

#[test]
fn a_repeated_atomic_is_answered_and_not_done_again() {
    let mut server = lenient();
    let add = Command::Add(word(8), 5);
    assert_eq!(ask(&mut server, ONE, 1, 0, add), Single::Word(0));
    assert_eq!(ask(&mut server, ONE, 1, 0, add), Single::Word(0));
    assert_eq!(ask(&mut server, OTHER, 1, 0, add), Single::Word(5), "another client's own transaction");
    assert_eq!(ask(&mut server, ONE, 2, 0, add), Single::Word(10));
    let swap = Command::CompareAndSwap { word: word(8), new: 1, expected: 15 };
    assert_eq!(ask(&mut server, ONE, 3, 0, swap), Single::Word(1));
    assert_eq!(ask(&mut server, ONE, 3, 0, swap), Single::Word(1));
    assert_eq!(ask(&mut server, ONE, 4, 0, swap), Single::Word(0));
    assert_eq!(ask(&mut server, ONE, 1, 0, Command::Add(word(8), 6)), Single::Word(1), "another request");
    assert_eq!(server.counts().repeated, 2);
}

#[test]
fn a_write_that_comes_late_once_more_does_not_undo_a_newer_one() {
    let mut server = lenient();
    write(&mut server, ONE, 1, 0, &page(1));
    write(&mut server, ONE, 2, 0, &page(2));
    ask(&mut server, ONE, 3, 1, Command::WriteWord(word(0), 3));
    ask(&mut server, ONE, 4, 1, Command::WriteWord(word(0), 4));
    let [first, second, third] = Part::ALL;
    for late in [second, first] {
        assert_eq!(part(&mut server, ONE, 1, 0, &page(1), late), Single::Nothing, "one answer a page");
    }
    assert_eq!(part(&mut server, ONE, 1, 0, &page(1), third), Single::Done, "all of it came again");
    assert_eq!(part(&mut server, ONE, 1, 0, &page(1), third), Single::Nothing);
    assert_eq!(ask(&mut server, ONE, 3, 1, Command::WriteWord(word(0), 3)), Single::Done);
    assert_eq!(server.store().read(0).unwrap(), page(2));
    assert_eq!(server.store().read_word(1, word(0)).unwrap(), 4);
}

#[test]
fn clients_never_see_each_others_parts() {
    let mut server = lenient();
    let [first, second, third] = Part::ALL;
    for at in [first, second] {
        assert_eq!(part(&mut server, ONE, 7, 0, &page(1), at), Single::Nothing);
        assert_eq!(part(&mut server, OTHER, 7, 0, &page(2), at), Single::Nothing);
    }
    assert_eq!(server.store().read(0).unwrap(), [0; PAGE_BYTES], "nothing is written before all is there");
    assert_eq!(part(&mut server, ONE, 7, 0, &page(1), third), Single::Done);
    assert_eq!(server.store().read(0).unwrap(), page(1));
    assert_eq!(part(&mut server, OTHER, 7, 0, &page(2), third), Single::Done);
    assert_eq!(server.store().read(0).unwrap(), page(2));
}

#[test]
fn a_transaction_in_use_twice_does_neither() {
    let mut server = lenient();
    let [first, second, third] = Part::ALL;
    part(&mut server, ONE, 7, 0, &page(1), first);
    assert_eq!(part(&mut server, ONE, 7, 1, &page(1), second), Single::Refused);
    part(&mut server, ONE, 7, 0, &page(1), first);
    assert_eq!(ask(&mut server, ONE, 7, 0, Command::ReadPage), Single::Refused);
    part(&mut server, ONE, 7, 0, &page(1), first);
    assert_eq!(ask(&mut server, ONE, 7, 0, Command::Add(word(0), 1)), Single::Refused);
    assert_eq!(part(&mut server, ONE, 7, 0, &page(1), second), Single::Nothing);
    assert_eq!(part(&mut server, ONE, 7, 0, &page(1), third), Single::Nothing, "the first part is forgotten");
    assert_eq!((server.counts().contradictions, server.counts().pages), (3, 0));
}

#[test]
fn a_machine_writes_no_more_pages_than_its_quota() {
    let design = ServerDesign { quota_pages: Some(2), ..ServerDesign::default() };
    let mut server = server(false, design);
    let socket = |port| Address::Udp(([10, 0, 0, 1], port).into());
    assert_eq!(write(&mut server, socket(1), 1, 0, &page(1)), Single::Done);
    assert_eq!(ask(&mut server, socket(2), 1, 1, Command::Add(word(0), 1)), Single::Word(0));
    assert_eq!(ask(&mut server, socket(3), 1, 2, Command::Add(word(0), 1)), Single::Refused);
    assert_eq!(part(&mut server, socket(3), 2, 2, &page(1), Part::First), Single::Refused);
    assert_eq!(write(&mut server, socket(3), 3, 1, &page(3)), Single::Done, "pages that exist may change");
    assert_eq!(ask(&mut server, ONE, 1, 2, Command::WriteWord(word(0), 1)), Single::Done, "another machine");
    assert_eq!(server.counts().over_quota, 2);
}

#[test]
fn a_flood_takes_no_more_memory_than_the_design_says() {
    let design = ServerDesign { clients: 4, incomplete_writes: 3, remembered: 5, quota_pages: None };
    let mut server = server(false, design);
    for number in 0..10_000 {
        let source = Address::Local(number % 37);
        part(
            &mut server,
            source,
            number as u32,
            number % 16,
            &page(number as u8),
            Part::ALL[number as usize % 3],
        );
        ask(&mut server, source, !number as u32, number % 16, Command::Add(word(0), 1));
    }
    let counts = server.counts();
    assert!(counts.clients == 4 && counts.incomplete <= 12 && counts.pages <= 16, "{counts}");
    assert!(counts.forgotten > 9_000, "{counts}");
    for number in 0..100 {
        part(&mut server, ONE, number, 0, &page(number as u8), Part::First);
    }
    assert_eq!(server.counts().given_up, 97);
}

#[test]
fn a_client_that_vanishes_leaves_nothing_that_hinders_others() {
    let design = ServerDesign { clients: 2, ..ServerDesign::default() };
    let mut server = server(false, design);
    part(&mut server, ONE, 1, 0, &page(1), Part::First);
    for number in 10..20 {
        assert_eq!(write(&mut server, Address::Local(number), 1, 0, &page(number as u8)), Single::Done);
    }
    assert_eq!(server.counts().incomplete, 0);
    assert_eq!(server.store().read(0).unwrap(), page(19));
}

#[test]
fn nothing_is_acknowledged_that_is_not_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let design = StoreDesign { capacity_pages: 16, strict: false };
    let store = PageStore::in_file(design, &folder.path().join("pages"), true).unwrap();
    let mut server = Server::new(store, ServerDesign::default());
    let set = Command::WriteWord(word(0), 1);
    assert_eq!(ask(&mut server, ONE, 1, 0, set), Single::Done);
    server.store.fail();
    assert_eq!(ask(&mut server, ONE, 2, 1, set), Single::Refused);
    assert_eq!(ask(&mut server, ONE, 2, 1, set), Single::Refused, "nor when it comes again");
    assert_eq!(write(&mut server, ONE, 3, 1, &page(1)), Single::Refused);
    assert_eq!((server.counts().failed, server.first_failure().is_some()), (3, true));
}

#[test]
fn the_table_of_counts_leaves_out_what_is_zero() {
    let mut server = lenient();
    write(&mut server, ONE, 1, 0, &page(1));
    let table = server.counts().to_string();
    assert!(table.contains("pages written                            1\n"), "{table}");
    assert!(!table.contains("refused"), "{table}");
}
