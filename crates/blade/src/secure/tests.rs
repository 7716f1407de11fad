use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::session::{RANDOM_BYTES, ReplayWindow};
use super::*;
use crate::address::Address;
use crate::transport::{RECEIVE_BYTES, Transport};

const CLIENT: Address = Address::Local(1);
const BLADE: Address = Address::Local(2);

/// From, to, content.
type Sent = (Address, Address, Vec<u8>);

/// Two ends of a wire, whose datagrams the test can see and change.
#[derive(Clone)]
struct Wire {
    own: Address,
    datagrams: Rc<RefCell<VecDeque<Sent>>>,
}

impl Transport for Wire {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        self.datagrams.borrow_mut().push_back((self.own, to, message.to_vec()));
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _: Duration) -> io::Result<Option<(usize, Address)>> {
        let mut datagrams = self.datagrams.borrow_mut();
        let ours = |to| to == self.own || to == Address::ANYONE && self.own != CLIENT;
        let Some(at) = datagrams.iter().position(|&(_, to, _)| ours(to)) else { return Ok(None) };
        let (from, _, message) = datagrams.remove(at).expect("it is there");
        buffer[..message.len()].copy_from_slice(&message);
        Ok(Some((message.len(), from)))
    }
}

struct Setup {
    wire: Wire,
    client: SecureClient<Wire>,
    blade: SecureBlade<Wire>,
}

fn key(seed: u8) -> Key {
    Key::new([seed; 32])
}

fn setup() -> Setup {
    let wire = Wire { own: CLIENT, datagrams: Rc::default() };
    let client = SecureClient::new(wire.clone(), BLADE, key(1)).unwrap();
    let blade = new_blade(&wire, key(1));
    Setup { wire, client, blade }
}

fn new_blade(wire: &Wire, key: Key) -> SecureBlade<Wire> {
    SecureBlade::new(Wire { own: BLADE, ..wire.clone() }, key, 4)
}

fn receive(transport: &mut impl Transport) -> Option<Vec<u8>> {
    let mut buffer = [0; RECEIVE_BYTES];
    let (bytes, _) = transport.receive(&mut buffer, Duration::ZERO).unwrap()?;
    Some(buffer[..bytes].to_vec())
}

impl Setup {
    /// What is on the wire now.
    fn seen(&self) -> Vec<Sent> {
        self.wire.datagrams.borrow().iter().cloned().collect()
    }

    fn inject(&self, datagram: Sent) {
        self.wire.datagrams.borrow_mut().push_back(datagram);
    }

    fn connect(&mut self) {
        self.client.send(BLADE, b"first").unwrap();
        assert_eq!(receive(&mut self.blade), None, "the hello");
        assert_eq!(receive(&mut self.client), None, "the welcome");
        assert_eq!(receive(&mut self.blade).unwrap(), b"first");
    }
}

#[test]
fn messages_arrive_and_do_not_show_on_the_wire() {
    let mut setup = setup();
    setup.connect();
    let message = [0x5a; 1384];
    setup.client.send(BLADE, &message).unwrap();
    setup.blade.send(CLIENT, b"an answer in plain words").unwrap();
    for (_, _, datagram) in setup.seen() {
        assert!(datagram.windows(8).all(|bytes| bytes != [0x5a; 8] && bytes != b"in plain"));
    }
    assert_eq!(setup.seen()[0].2.len(), 1384 + OVERHEAD_BYTES);
    assert_eq!(receive(&mut setup.blade).unwrap(), message);
    assert_eq!(receive(&mut setup.client).unwrap(), b"an answer in plain words");
}

#[test]
fn every_turned_bit_and_every_cut_is_noticed() {
    let mut setup = setup();
    setup.connect();
    setup.client.send(BLADE, b"pay 1").unwrap();
    let sealed = setup.wire.datagrams.borrow_mut().pop_front().unwrap();
    for bit in 0..8 * sealed.2.len() {
        let mut damaged = sealed.clone();
        damaged.2[bit / 8] ^= 1 << (bit % 8);
        setup.inject(damaged);
        assert_eq!(receive(&mut setup.blade), None, "bit {bit}");
    }
    for bytes in 0..sealed.2.len() {
        setup.inject((CLIENT, BLADE, sealed.2[..bytes].to_vec()));
        assert_eq!(receive(&mut setup.blade), None, "{bytes} bytes");
    }
    setup.wire.datagrams.borrow_mut().clear();
    setup.inject(sealed);
    assert_eq!(receive(&mut setup.blade).unwrap(), b"pay 1");
}

#[test]
fn nothing_is_taken_twice_or_from_elsewhere() {
    let mut setup = setup();
    setup.connect();
    setup.client.send(BLADE, b"pay 1").unwrap();
    let (from, to, sealed) = setup.seen()[0].clone();
    assert!(receive(&mut setup.blade).is_some());
    setup.inject((from, to, sealed.clone()));
    assert_eq!(receive(&mut setup.blade), None, "a replay");
    setup.inject((Address::Local(9), to, sealed.clone()));
    assert_eq!(receive(&mut setup.blade), None, "another source");
    setup.inject((to, from, sealed));
    assert_eq!(receive(&mut setup.client), None, "back to where it came from");
}

#[test]
fn a_restarted_blade_takes_nothing_from_before_and_the_client_recovers() {
    let mut setup = setup();
    setup.client.send(BLADE, b"first").unwrap();
    let hello = setup.seen()[0].clone();
    receive(&mut setup.blade);
    receive(&mut setup.client);
    setup.client.send(BLADE, b"pay 1").unwrap();
    let old = setup.seen();
    assert_eq!(
        (receive(&mut setup.blade), receive(&mut setup.blade)),
        (Some(b"first".into()), Some(b"pay 1".into()))
    );

    setup.blade = new_blade(&setup.wire, key(1));
    setup.inject(hello);
    old.into_iter().for_each(|datagram| setup.inject(datagram));
    for _ in 0..3 {
        assert_eq!(receive(&mut setup.blade), None, "of before");
    }
    setup.wire.datagrams.borrow_mut().clear();

    setup.client.send(BLADE, b"pay 2, if you please").unwrap();
    assert_eq!(receive(&mut setup.blade), None, "no such session");
    assert_eq!(receive(&mut setup.client), None, "lost");
    setup.client.send(BLADE, b"pay 2 again").unwrap();
    assert_eq!((receive(&mut setup.blade), receive(&mut setup.client)), (None, None));
    assert_eq!(receive(&mut setup.blade).unwrap(), b"pay 2 again");
}

#[test]
fn who_has_another_key_gets_nothing() {
    let mut setup = setup();
    setup.client = SecureClient::new(setup.wire.clone(), BLADE, key(2)).unwrap();
    setup.client.send(BLADE, b"let me in").unwrap();
    assert_eq!(receive(&mut setup.blade), None);
    assert!(setup.seen().is_empty(), "not even an answer");
    assert_eq!(setup.blade.counts().forged, 1);
    // A blade with another key cannot answer a hello either, nor say that a session is lost.
    let mut setup = super::tests::setup();
    setup.connect();
    let mut false_blade = new_blade(&setup.wire, key(2));
    setup.client.send(BLADE, b"secret").unwrap();
    assert_eq!(receive(&mut false_blade), None);
    assert_eq!(receive(&mut setup.client), None);
    setup.client.send(BLADE, b"still in session").unwrap();
    assert_eq!(receive(&mut setup.blade).unwrap(), b"still in session");
}

#[test]
fn a_replayed_hello_does_not_end_a_session() {
    let mut setup = setup();
    setup.client.send(BLADE, b"first").unwrap();
    let hello = setup.seen()[0].clone();
    setup.wire.datagrams.borrow_mut().clear();
    setup.inject(hello.clone());
    receive(&mut setup.blade);
    receive(&mut setup.client);
    assert!(receive(&mut setup.blade).is_some());
    for other in 0..1000 {
        setup.inject(hello.clone());
        setup.inject((Address::Local(other + 10), BLADE, hello.2.clone()));
        assert_eq!((receive(&mut setup.blade), receive(&mut setup.blade)), (None, None));
    }
    setup.wire.datagrams.borrow_mut().clear();
    setup.client.send(BLADE, b"second").unwrap();
    assert_eq!(receive(&mut setup.blade).unwrap(), b"second");
}

#[test]
fn a_lost_welcome_is_sent_again_and_both_lead_to_one_session() {
    let mut setup = setup();
    setup.client.send(BLADE, b"first").unwrap();
    let hello = setup.seen()[0].clone();
    setup.inject(hello);
    assert_eq!((receive(&mut setup.blade), receive(&mut setup.blade)), (None, None));
    let welcomes = setup.seen();
    assert_eq!(welcomes[0], welcomes[1]);
    assert_eq!((receive(&mut setup.client), receive(&mut setup.client)), (None, None));
    assert_eq!(receive(&mut setup.blade).unwrap(), b"first");
    assert_eq!(setup.blade.counts().sessions, 1);
}

#[test]
fn sessions_are_bounded_and_the_silent_one_gives_way() {
    let Setup { wire, mut blade, .. } = setup();
    let mut clients = Vec::new();
    for number in 10..16 {
        let wire = Wire { own: Address::Local(number), ..wire.clone() };
        let mut client = SecureClient::new(wire, BLADE, key(1)).unwrap();
        client.send(BLADE, &[1; 20]).unwrap();
        assert_eq!((receive(&mut blade), receive(&mut client)), (None, None));
        assert!(receive(&mut blade).is_some());
        clients.push(client);
    }
    clients[0].send(BLADE, &[2; 20]).unwrap();
    assert_eq!(receive(&mut blade), None);
    clients[5].send(BLADE, &[3; 20]).unwrap();
    assert_eq!(receive(&mut blade).unwrap(), [3; 20]);
    assert_eq!((blade.counts().sessions, blade.counts().lost), (6, 1));
}

#[test]
fn the_window_takes_each_number_once() {
    let mut window = ReplayWindow::default();
    let mut take = |number| {
        let new = window.is_new(number);
        if new {
            window.take(number);
        }
        new
    };
    for number in [0, 5, 3, 1023, 1024, 4, 1025] {
        assert!(take(number) && !take(number), "{number}");
    }
    assert!(!take(1), "too old");
    assert!(take(2), "just within the window");
    assert!(take(1_000_000) && !take(1025) && take(999_999) && !take(999_999) && take(1_000_000 - 1023));
    assert!(take(1_000_500) && take(1_000_499) && !take(1_000_000));
    assert!(take(u64::MAX - 1) && !take(u64::MAX - 1));
}

#[test]
fn a_key_is_a_file_of_32_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    assert!(matches!(Key::read(&path), Err(KeyError::Io { .. })));
    for (bytes, good) in [(31, false), (RANDOM_BYTES, true), (33, false), (0, false)] {
        std::fs::write(&path, vec![7; bytes]).unwrap();
        assert_eq!(Key::read(&path).is_ok(), good, "{bytes}");
    }
    assert_eq!(format!("{:?}", key(7)), "Key", "it does not print itself");
}

#[test]
fn a_client_of_anyone_keeps_to_the_first_blade_that_has_the_key() {
    let wire = Wire { own: CLIENT, datagrams: Rc::default() };
    let mut client = SecureClient::new(wire.clone(), Address::ANYONE, key(1)).unwrap();
    let mut stranger = SecureBlade::new(Wire { own: Address::Local(3), ..wire.clone() }, key(2), 4);
    let mut blade = new_blade(&wire, key(1));
    client.send(Address::ANYONE, b"first").unwrap();
    let hello = wire.datagrams.borrow()[0].clone();
    assert_eq!(hello.1, Address::ANYONE);
    assert_eq!(receive(&mut stranger), None, "a hello that it cannot read");
    wire.datagrams.borrow_mut().push_back((Address::Local(3), CLIENT, vec![2; 64]));
    assert_eq!(receive(&mut client), None, "no welcome");
    wire.datagrams.borrow_mut().push_back(hello);
    assert_eq!((receive(&mut blade), receive(&mut client)), (None, None), "hello and welcome");
    assert_eq!(receive(&mut blade).unwrap(), b"first");
    // Whatever the client calls it.
    for name in [Address::ANYONE, BLADE] {
        client.send(name, b"again").unwrap();
        assert_eq!(wire.datagrams.borrow()[0].1, BLADE);
        assert_eq!(receive(&mut blade).unwrap(), b"again");
    }
}

#[test]
fn a_client_that_turns_to_another_blade_shakes_hands_there() {
    const OTHER: Address = Address::Local(3);
    let mut setup = setup();
    setup.connect();
    let mut other = SecureBlade::new(Wire { own: OTHER, ..setup.wire.clone() }, key(1), 4);
    setup.client.send(OTHER, b"moved").unwrap();
    assert_eq!((receive(&mut other), receive(&mut setup.client)), (None, None), "hello and welcome");
    assert_eq!(receive(&mut other).unwrap(), b"moved");
    setup.blade.send(CLIENT, b"late").unwrap();
    assert_eq!(receive(&mut setup.client), None, "the session before is over");
    other.send(CLIENT, b"answer").unwrap();
    assert_eq!(receive(&mut setup.client).unwrap(), b"answer");
}
