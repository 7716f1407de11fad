//! Both ends of the secure mode over a wire whose datagrams are lost, repeated, changed, sent elsewhere and invented.
//!
//! Three bytes a step. Each side may only ever be given what the other sent to it, and each message once.
#![no_main]

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pagewalk_blade::secure::{Key, SecureBlade, SecureClient};
use pagewalk_blade::{Address, Transport};

const BLADE: Address = Address::Local(0);
/// Datagrams that are remembered, to be sent again.
const KEPT: usize = 64;

type Sent = (Address, Address, Vec<u8>);

#[derive(Clone)]
struct Wire {
    own: Address,
    /// Those just sent, which the input gives their fate.
    sent: Rc<RefCell<VecDeque<Sent>>>,
    arriving: Rc<RefCell<VecDeque<Sent>>>,
}

impl Transport for Wire {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        self.sent.borrow_mut().push_back((self.own, to, message.to_vec()));
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], _: Duration) -> io::Result<Option<(usize, Address)>> {
        let mut arriving = self.arriving.borrow_mut();
        let Some(at) = arriving.iter().position(|(_, to, _)| *to == self.own) else { return Ok(None) };
        let (from, _, message) = arriving.remove(at).expect("it is there");
        let bytes = message.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&message[..bytes]);
        Ok(Some((bytes, from)))
    }
}

fuzz_target!(|data: &[u8]| {
    let wire_of_blade = Wire { own: BLADE, sent: Rc::default(), arriving: Rc::default() };
    let key = || Key::new([7; 32]);
    let on = |own| Wire { own, ..wire_of_blade.clone() };
    let new_client =
        |number| SecureClient::new(on(Address::Local(number)), BLADE, key()).expect("random numbers");
    let mut clients = [1, 2, 3].map(new_client);
    let mut blade = SecureBlade::new(wire_of_blade.clone(), key(), 2);
    // What was sent and not yet arrived: source, destination, message.
    let mut genuine: BTreeSet<(Address, Address, u64)> = BTreeSet::new();
    let mut kept: VecDeque<Sent> = VecDeque::new();
    let mut number = 0_u64;
    let mut buffer = [0; 2048];
    let check = |bytes: &[u8], genuine: &mut BTreeSet<(Address, Address, u64)>, from, to| {
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("a message of ours"));
        assert!(bytes.len() == 24 && genuine.remove(&(from, to, number)), "not sent, or there before");
    };
    let (steps, _) = data.as_chunks::<3>();
    for &[what, who, operand] in steps {
        let at = usize::from(who % 3);
        let address = Address::Local(at as u64 + 1);
        number += 1;
        let mut message = [0xaa; 24];
        message[..8].copy_from_slice(&number.to_le_bytes());
        match what % 10 {
            0 | 1 => {
                genuine.insert((address, BLADE, number));
                clients[at].send(BLADE, &message).expect("a wire");
            }
            2 => {
                if blade.send(address, &message).is_ok() {
                    genuine.insert((BLADE, address, number));
                }
            }
            3 | 4 => {
                if let Some((bytes, from)) = blade.receive(&mut buffer, Duration::ZERO).expect("a wire") {
                    check(&buffer[..bytes], &mut genuine, from, BLADE);
                }
            }
            5 | 6 => {
                if let Some((bytes, from)) = clients[at].receive(&mut buffer, Duration::ZERO).expect("a wire")
                {
                    check(&buffer[..bytes], &mut genuine, from, address);
                }
            }
            7 if !kept.is_empty() => {
                // Again, changed, from or to somewhere else.
                let (mut from, mut to, mut datagram) = kept[usize::from(operand) % kept.len()].clone();
                match who >> 4 {
                    0..=5 => {}
                    6..=9 => {
                        let bit = usize::from(operand) * 7 % (8 * datagram.len());
                        datagram[bit / 8] ^= 1 << (bit % 8);
                    }
                    10 | 11 => datagram.truncate(usize::from(operand) % datagram.len()),
                    12 => from = address,
                    13 => to = address,
                    _ => (from, to) = (to, from),
                }
                wire_of_blade.arriving.borrow_mut().push_back((from, to, datagram));
            }
            8 if operand % 16 == 0 => blade = SecureBlade::new(wire_of_blade.clone(), key(), 2),
            9 if operand % 16 == 0 => clients[at] = new_client(at as u64 + 1),
            _ => {
                let rest = data[usize::from(operand) % data.len()..].to_vec();
                wire_of_blade.arriving.borrow_mut().push_back((address, BLADE, rest));
            }
        }
        let sent: Vec<Sent> = wire_of_blade.sent.borrow_mut().drain(..).collect();
        for datagram in sent {
            if operand % 8 != 7 {
                wire_of_blade.arriving.borrow_mut().push_back(datagram.clone());
            }
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(datagram);
        }
    }
});
