//! Client and server over networks that lose, repeat, delay and damage, and with peers that mean no good.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewalk_blade::codec::{
    Answer, Command, MAX_MESSAGE_BYTES, MacAddress, PAGE_BYTES, PagePart, Part, Request, Response, Word,
    WordSize,
};
use pagewalk_blade::secure::{Key, SecureBlade, SecureClient};
use pagewalk_blade::transport::{InProcess, Ring, Udp};
use pagewalk_blade::{
    Address, Client, ClientDesign, ClientError, Counts, Failure, Operation, Outcome, PAGE_NUMBERS, PageStore,
    Replies, Server, ServerDesign, StoreDesign, Transport, serve,
};

use crate::common::{Lossy, Random, Weather, agrees_with_the_model, random_page};

const STORM: Weather = Weather { loss: 10, duplication: 10, delay: 15, damage: 0 };

fn server(capacity_pages: u64) -> Server {
    let store = PageStore::in_memory(StoreDesign::new(capacity_pages)).expect("memory");
    Server::new(store, ServerDesign::default())
}

fn hasty() -> ClientDesign {
    let (first_wait, longest_wait) = (Duration::from_millis(1), Duration::from_millis(4));
    // Eight seconds: a busy machine may keep the blade's thread waiting.
    let design = ClientDesign::default().window(16).tries(2_000).first_txid(u32::MAX - 50);
    design.first_wait(first_wait).longest_wait(longest_wait)
}

fn word(offset: u16) -> Word {
    Word::new(offset, WordSize::Eight).expect("within the page")
}

#[test]
fn every_operation_gives_what_the_model_says() {
    let server = Arc::new(Mutex::new(server(32)));
    // Longer than a busy machine keeps the blade's thread waiting: nothing is sent again.
    let wait = Duration::from_secs(30);
    let design = ClientDesign::default().first_wait(wait).longest_wait(wait);
    let mut client = Client::new(InProcess::new(server, 1), InProcess::BLADE, design).expect("a client");
    agrees_with_the_model(&mut client, 1, 3, 5000);
    assert_eq!(client.counts().sent_again, 0);
}

#[test]
fn loss_repetition_and_delay_change_nothing() {
    for seed in 1..=6 {
        let server = Arc::new(Mutex::new(server(32)));
        let lossy = Lossy::new(InProcess::new(server.clone(), 1), STORM, seed);
        let mut client = Client::new(lossy, InProcess::BLADE, hasty()).expect("a client");
        agrees_with_the_model(&mut client, seed, 0, 400);
        let (counts, own) = (server.lock().expect("no panic").counts(), client.counts());
        assert!(counts.repeated > 0 && own.sent_again > 0 && own.late > 0, "{counts}");
        assert_eq!((counts.contradictions, own.malformed), (0, 0), "{counts}");
    }
}

#[test]
fn two_clients_in_a_storm_keep_to_themselves() {
    let server = Arc::new(Mutex::new(server(64)));
    let threads: Vec<_> = [1, 2]
        .map(|number| {
            let server = server.clone();
            std::thread::spawn(move || {
                let lossy = Lossy::new(InProcess::new(server, number), STORM, number);
                // The same transactions on purpose.
                let mut client = Client::new(lossy, InProcess::BLADE, hasty()).expect("a client");
                agrees_with_the_model(&mut client, number, 32 * (number - 1), 300);
            })
        })
        .into();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn a_counter_that_many_clients_add_to_counts_each_addition_once() {
    let server = Arc::new(Mutex::new(server(1)));
    for number in 0..4 {
        let lossy = Lossy::new(InProcess::new(server.clone(), number), STORM, number);
        let mut client = Client::new(lossy, InProcess::BLADE, hasty()).expect("a client");
        for _ in 0..100 {
            client.add(0, word(0), 1).expect("an addition");
        }
    }
    let server = server.lock().expect("no panic");
    assert_eq!(server.store().read_word(0, word(0)).expect("a word"), 400);
}

/// A server on a loopback socket, in a thread.
struct Running {
    at: Address,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Counts>,
}

impl Running {
    fn start(server: Server) -> Self {
        let transport = Udp::listen("127.0.0.1:0".parse().expect("an address")).expect("a socket");
        let at = Address::Udp(transport.address().expect("bound"));
        Self::over(transport, at, server)
    }

    fn over<T: Transport + Send + 'static>(mut transport: T, at: Address, mut server: Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            serve(&mut transport, &mut server, &flag).expect("a socket");
            server.counts()
        });
        Self { at, stop, thread }
    }

    fn client(&self, design: ClientDesign) -> Client<Udp> {
        let Address::Udp(at) = self.at else { panic!("{}", self.at) };
        Client::new(Udp::towards(at).expect("a socket"), self.at, design).expect("a client")
    }

    fn stop(self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

#[test]
fn udp_carries_everything() {
    let running = Running::start(server(32));
    agrees_with_the_model(&mut running.client(ClientDesign::default()), 5, 0, 1500);
    let counts = running.stop();
    assert_eq!((counts.malformed, counts.unreadable, counts.contradictions), (0, 0, 0), "{counts}");
}

#[test]
fn a_blade_that_waits_for_the_disk_gives_what_the_model_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let design = StoreDesign::new(32);
    let store = PageStore::in_file(design, &folder.path().join("pages"), true).expect("a file");
    let running = Running::start(Server::new(store, ServerDesign::default()));
    let mut client = running.client(ClientDesign::default().first_wait(Duration::from_secs(1)));
    agrees_with_the_model(&mut client, 7, 0, 400);
    let counts = running.stop();
    assert_eq!((counts.failed, counts.contradictions), (0, 0), "{counts}");
}

#[test]
fn a_ring_carries_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring");
    let running = Running::over(Ring::listen(&path).expect("a ring"), Ring::PEER, server(32));
    let ring = Ring::connect(&path).expect("a ring");
    let mut client = Client::new(ring, Ring::PEER, ClientDesign::default()).expect("a client");
    agrees_with_the_model(&mut client, 6, 0, 3000);
    let counts = running.stop();
    assert_eq!((counts.malformed, counts.unreadable, counts.contradictions), (0, 0, 0), "{counts}");
}

#[test]
fn secured_messages_survive_a_storm_that_turns_bits() {
    let key = || Key::new([7; 32]);
    for seed in 1..=3 {
        let udp = Udp::listen("127.0.0.1:0".parse().expect("an address")).expect("a socket");
        let socket = udp.address().expect("bound");
        let at = Address::Udp(socket);
        let running = Running::over(SecureBlade::new(udp, key(), 8), at, server(32));
        let lossy = Lossy::new(Udp::towards(socket).expect("a socket"), Weather { damage: 5, ..STORM }, seed);
        let secure = SecureClient::new(lossy, at, key()).expect("random numbers");
        let mut client = Client::new(secure, at, hasty()).expect("a client");
        agrees_with_the_model(&mut client, seed, 0, 300);
        let counts = running.stop();
        assert_eq!((counts.malformed, counts.contradictions), (0, 0), "{counts}");
    }
}

#[test]
fn a_secure_blade_answers_no_client_without_the_key() {
    let udp = Udp::listen("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    let socket = udp.address().expect("bound");
    let at = Address::Udp(socket);
    let running = Running::over(SecureBlade::new(udp, Key::new([7; 32]), 8), at, server(32));
    let design = hasty().tries(5);
    let mut open = Client::new(Udp::towards(socket).expect("a socket"), at, design).expect("a client");
    assert!(open.read_page(0).is_err());
    let wrong = SecureClient::new(Udp::towards(socket).expect("a socket"), at, Key::new([8; 32]));
    let mut wrong = Client::new(wrong.expect("random numbers"), at, design).expect("a client");
    assert!(wrong.read_page(0).is_err());
    let counts = running.stop();
    assert_eq!((open.counts().received, wrong.counts().received, counts.received), (0, 0, 0));
    assert!(counts.dropped >= 6, "{counts}");
}

/// Every refusal of a change named all the options that any change can fail by.
#[test]
fn a_refusal_names_the_page_and_the_options_that_the_request_can_fail_by() {
    let store = PageStore::in_memory(StoreDesign::new(1).strict(true)).expect("memory");
    let server = Arc::new(Mutex::new(Server::new(store, ServerDesign::default())));
    let mut client =
        Client::new(InProcess::new(server, 1), InProcess::BLADE, ClientDesign::default()).expect("a client");
    client.write_page(7, &[1; PAGE_BYTES]).expect("the page that there is room for");
    let mut said = |operation: Operation| {
        let page = operation.page();
        client.submit(operation).expect("room");
        let ended = client.poll(Duration::from_secs(10)).expect("a blade").expect("an answer");
        let text = ended.result.expect_err("a refusal").to_string();
        assert!(text.starts_with(&format!("the blade refused page {page}: ")), "{text}");
        ["--capacity", "--quota", "--strict", "0 to 268435455"].map(|word| text.contains(word))
    };
    let content = random_page(&mut Random(1));
    assert_eq!(said(Operation::WritePage { page: 8, content: content.clone() }), [true, true, false, false]);
    assert_eq!(said(Operation::ReadPage { page: 8 }), [false, false, true, false]);
    assert_eq!(said(Operation::WriteWord { page: 8, word: word(0), value: 1 }), [true, true, true, false]);
    assert_eq!(said(Operation::WritePage { page: 1 << 28, content }), [false, false, false, true]);
}

#[test]
fn submitting_stops_at_the_window() {
    let running = Running::start(server(32));
    let mut client = running.client(ClientDesign::default().window(4));
    for page in 0..4 {
        client.submit(Operation::WritePage { page, content: random_page(&mut Random(page)) }).expect("room");
    }
    let full = client.submit(Operation::ReadPage { page: 9 });
    assert!(matches!(full, Err(ClientError::WindowFull(4))), "{full:?}");
    assert_eq!(*client.read_page(9).expect("blocking calls need no room"), [0; PAGE_BYTES]);
    for done in 0..4 {
        assert_eq!(client.free(), done);
        let completion = client.poll(Duration::from_secs(5)).expect("a socket").expect("a completion");
        assert_eq!(completion.result, Ok(Outcome::Done));
    }
    assert_eq!(client.poll(Duration::from_secs(60)).expect("a socket"), None, "nothing to wait for");
    running.stop();
}

#[test]
fn refusals_come_back_as_errors() {
    let running = Running::start(server(4));
    let mut client = running.client(ClientDesign::default());
    for refused in
        [client.read_page(PAGE_NUMBERS).map(drop), client.write_page(PAGE_NUMBERS, &[1; PAGE_BYTES])]
    {
        assert!(
            matches!(refused, Err(ClientError::Failed(Failure::Refused { page: PAGE_NUMBERS, .. }))),
            "{refused:?}"
        );
    }
    assert!(client.add(u64::MAX, word(0), 1).is_err());
    client.write_page(PAGE_NUMBERS - 1, &[1; PAGE_BYTES]).expect("the last page");
    running.stop();
}

#[test]
fn a_blade_that_does_not_answer_is_unreachable_in_bounded_time() {
    // Bound, so that no other program answers for it, and never read.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = silent.local_addr().expect("bound");
    let design = hasty().tries(4);
    let mut client =
        Client::new(Udp::towards(at).expect("a socket"), Address::Udp(at), design).expect("a client");
    let begun = Instant::now();
    let txid = client.submit(Operation::WriteWord { page: 0, word: word(0), value: 1 }).expect("room");
    let error = client.read_page(7).expect_err("no blade answers");
    assert!(matches!(error, ClientError::Failed(Failure::Unreachable { tries: 4, .. })), "{error}");
    let completion = client.poll(Duration::from_secs(5)).expect("a socket").expect("a completion");
    assert_eq!(completion.txid, txid);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((client.counts().sent, client.under_way()), (8, 0));
}

#[test]
fn polling_without_patience_does_not_wait() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = silent.local_addr().expect("bound");
    let design = ClientDesign::default().first_wait(Duration::from_secs(60));
    let mut client =
        Client::new(Udp::towards(at).expect("a socket"), Address::Udp(at), design).expect("a client");
    client.submit(Operation::ReadPage { page: 0 }).expect("room");
    let begun = Instant::now();
    for patience in [Duration::ZERO, Duration::from_millis(1), Duration::ZERO] {
        assert_eq!(client.poll(patience).expect("a socket"), None);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn answers_from_elsewhere_or_to_nothing_have_no_effect() {
    let blade = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = blade.local_addr().expect("bound");
    let design = ClientDesign::default().first_txid(7).first_wait(Duration::from_secs(30));
    let mut client =
        Client::new(Udp::towards(at).expect("a socket"), Address::Udp(at), design).expect("a client");
    client.submit(Operation::ReadPage { page: 1 }).expect("room");
    let mut buffer = [0; 2048];
    let (_, to) = blade.recv_from(&mut buffer).expect("the request");
    let page = random_page(&mut Random(9));
    let answer = |socket: &UdpSocket, txid, answer| {
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        socket.send_to(Response { txid, answer }.emit(&mut buffer), to).expect("loopback");
    };
    let part = |part| Answer::Page(PagePart::of(&page, part));
    answer(&other, 7, Answer::Refused);
    answer(&other, 7, part(Part::First));
    answer(&blade, 8, Answer::Refused);
    answer(&blade, 7, Answer::Done);
    answer(&blade, 7, Answer::Word(1));
    blade.send_to(&[1, 0x80, 0, 0, 7, 0, 0, 0], to).expect("loopback");
    blade.send_to(&[0; 2000], to).expect("loopback");
    answer(&blade, 7, part(Part::Third));
    answer(&blade, 7, part(Part::Third));
    answer(&blade, 7, part(Part::First));
    assert_eq!(client.poll(Duration::from_millis(50)).expect("a socket"), None);
    answer(&blade, 7, part(Part::Second));
    let completion = client.poll(Duration::from_secs(5)).expect("a socket").expect("a completion");
    assert_eq!(completion.result, Ok(Outcome::Page(page)));
    let counts = client.counts();
    assert_eq!((counts.foreign, counts.malformed, counts.late), (2, 4, 2), "{counts:?}");
}

/// A blade in the process whose answers arrive when its client has sent three more messages.
struct Slow {
    inner: InProcess,
    sent: u64,
    answers: VecDeque<(u64, Vec<u8>)>,
}

impl Transport for Slow {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        self.inner.send(to, message)?;
        self.sent += 1;
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        while let Some((bytes, _)) = self.inner.receive(&mut buffer, Duration::ZERO)? {
            self.answers.push_back((self.sent + 3, buffer[..bytes].to_vec()));
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        if self.answers.front().is_none_or(|(due, _)| *due > self.sent) {
            std::thread::sleep(patience);
            return Ok(None);
        }
        let (_, message) = self.answers.pop_front().expect("an answer is there");
        buffer[..message.len()].copy_from_slice(&message);
        Ok(Some((message.len(), InProcess::BLADE)))
    }
}

/// Pages could not be read from a blade that is slower than the longest wait: each answer was to a try before the last.
#[test]
fn a_blade_slower_than_the_longest_wait_is_heard() {
    let inner = InProcess::new(Arc::new(Mutex::new(server(32))), 1);
    let slow = Slow { inner, sent: 0, answers: VecDeque::new() };
    let wait = Duration::from_micros(100);
    let design = ClientDesign::default().first_wait(wait).longest_wait(wait).tries(9);
    let mut client = Client::new(slow, InProcess::BLADE, design).expect("a client");
    let page = random_page(&mut Random(4));
    client.write_page(3, &page).expect("a blade");
    assert_eq!(client.read_page(3).expect("a blade"), page);
    assert_eq!(
        client.add(3, word(0), 1).expect("a blade"),
        u64::from_le_bytes(std::array::from_fn(|at| page[at]))
    );
    let counts = client.counts();
    assert!(counts.sent_again >= 6 && counts.unreachable == 0, "{counts:?}");
}

#[test]
fn a_page_is_never_made_of_two_answers() {
    let blade = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = blade.local_addr().expect("bound");
    let design = ClientDesign::default().first_wait(Duration::from_millis(30));
    let mut client =
        Client::new(Udp::towards(at).expect("a socket"), Address::Udp(at), design).expect("a client");
    let ticket = client.submit(Operation::ReadPage { page: 1 }).expect("room");
    let (old, new) = (random_page(&mut Random(1)), random_page(&mut Random(2)));
    let answer = |page, parts: &[Part]| {
        let mut buffer = [0; 2048];
        let (bytes, to) = blade.recv_from(&mut buffer).expect("the request");
        let request = Request::parse(&buffer[..bytes]).expect("a request");
        assert_eq!((request.page, request.command), (1, Command::ReadPage));
        for &part in parts {
            let (txid, answer) = (request.txid, Answer::Page(PagePart::of(page, part)));
            let mut buffer = [0; MAX_MESSAGE_BYTES];
            blade.send_to(Response { txid, answer }.emit(&mut buffer), to).expect("loopback");
        }
    };
    answer(&old, &[Part::First, Part::Second]);
    while client.counts().sent_again == 0 {
        assert_eq!(client.poll(Duration::from_millis(5)).expect("a socket"), None);
    }
    answer(&new, &Part::ALL);
    let completion = client.poll(Duration::from_secs(5)).expect("a socket").expect("a completion");
    assert_eq!((completion.txid, completion.result), (ticket, Ok(Outcome::Page(new))));
}

#[test]
fn noise_on_the_socket_does_not_disturb_a_client() {
    let running = Running::start(server(32));
    let Address::Udp(at) = running.at else { panic!("{}", running.at) };
    let noise = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut random = Random(3);
        for _ in 0..3000 {
            let mut bytes: Vec<u8> = (0..random.below(1600)).map(|_| random.next() as u8).collect();
            if let [version, op, ..] = &mut bytes[..] {
                (*version, *op) = (1, *op % 7);
            }
            // The kernel may be short of room; that is no matter here.
            let _ = socket.send_to(&bytes, at);
        }
    });
    agrees_with_the_model(&mut running.client(ClientDesign::default()), 8, 0, 500);
    noise.join().expect("no panic");
    let counts = running.stop();
    assert!(counts.malformed > 0 && counts.unreadable > 0, "{counts}");
}

/// An Ethernet without wires: a client, and blades that all hear what is for any blade.
struct Segment {
    blades: Vec<(Address, Arc<Mutex<Server>>)>,
    arrived: VecDeque<(Address, Vec<u8>)>,
}

impl Transport for Segment {
    fn send(&mut self, to: Address, message: &[u8]) -> std::io::Result<()> {
        let mut replies = Replies::default();
        for (at, server) in &self.blades {
            if to == *at || to == Address::ANYONE {
                server.lock().expect("no panic").handle(Address::Local(1), message, &mut replies);
                self.arrived.extend(replies.iter().map(|reply| (*at, reply.to_vec())));
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _: Duration) -> std::io::Result<Option<(usize, Address)>> {
        Ok(self.arrived.pop_front().map(|(from, message)| {
            buffer[..message.len()].copy_from_slice(&message);
            (message.len(), from)
        }))
    }
}

#[test]
fn a_client_of_anyone_keeps_to_the_blade_that_answers_first() {
    let card = |last| Address::Ethernet(MacAddress([2, 0, 0, 0, 0, last]));
    let blades: Vec<_> = [7, 8].map(|last| (card(last), Arc::new(Mutex::new(server(32))))).into();
    let counts = |at: usize| blades[at].1.lock().expect("no panic").counts();
    let segment = Segment { blades: blades.clone(), arrived: VecDeque::new() };
    let mut client = Client::new(segment, Address::ANYONE, ClientDesign::default()).expect("a client");
    client.write_word(3, word(0), 1).expect("a word");
    assert_eq!((counts(0).word_writes, counts(1).word_writes), (1, 1), "both were asked");
    assert_eq!(client.blade(), card(7));
    client.write_word(3, word(0), 2).expect("a word");
    agrees_with_the_model(&mut client, 9, 4, 300);
    assert_eq!(counts(1).received, 1, "the other was not asked again");
    client.turn_to(card(8));
    assert_eq!(client.read_word(3, word(0)).expect("a word"), 1, "its own");
    assert_eq!(client.blade(), card(8));
}
