//! The host-target interface: commands as programs give them.

use super::*;
use crate::End;

const CALL: u64 = RAM_BASE + 0x4000;
const BUFFER: u64 = RAM_BASE + 0x5000;

impl Machine {
    fn put_bytes(&mut self, addr: u64, bytes: &[u8]) {
        let offset = self.ram.offset(addr, bytes.len() as u64).unwrap();
        for (at, &byte) in (offset..).zip(bytes) {
            self.ram.write_at(at, 1, byte.into());
        }
    }

    /// A system call's result; its answer comes, too.
    fn call(&mut self, number: u64, arguments: &[u64]) -> i64 {
        self.put(CALL, number);
        (1..).zip(arguments).for_each(|(at, &argument)| self.put(CALL + 8 * at, argument));
        self.put(TOHOST, CALL);
        self.put(TOHOST + 64, 0);
        self.serve_host();
        assert_eq!((self.peek(TOHOST), self.peek(TOHOST + 64)), (0, 1));
        self.peek(CALL) as i64
    }
}

fn machine_with(host: Host) -> Machine {
    let image = Image::of_words(RAM_BASE, &[0], TOHOST, TOHOST + 64);
    let config = Config { memory: MEMORY, ..Config::default() };
    Machine::new(&config, &image, Box::new(InProcess::new()), host).unwrap()
}

#[test]
fn files_are_there_only_for_whom_was_given_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), "some text").unwrap();
    for given in [false, true] {
        let host = Host::silent();
        let host = if given { host.with_files(folder.path()).unwrap() } else { host };
        let mut machine = machine_with(host);
        machine.put_bytes(BUFFER, b"in\0");
        // The length of the path is an argument, flags and mode come behind it.
        let opened = machine.call(56, &[-100i64 as u64, BUFFER, 3, 0, 0]);
        if !given {
            assert_eq!(opened, -38);
            continue;
        }
        assert_eq!(opened, 3);
        assert_eq!(machine.call(62, &[3, 5, 0]), 5);
        assert_eq!(machine.call(63, &[3, BUFFER, 100]), 4);
        assert_eq!(machine.memory(BUFFER, 4).unwrap(), b"text");
        assert_eq!(machine.call(63, &[3, RAM_BASE + MEMORY - 4, 100]), -14, "not all of it is memory");
        assert_eq!(machine.call(57, &[3]), 0);
        assert_eq!(machine.call(63, &[3, BUFFER, 100]), -9);
        machine.put_bytes(BUFFER, b"out");
        assert_eq!(machine.call(56, &[0, BUFFER, 3, 0o101, 0o644]), 3);
        assert_eq!(machine.call(64, &[3, BUFFER, 3]), 3);
        assert_eq!(std::fs::read(folder.path().join("out")).unwrap(), b"out");
        assert_eq!(machine.call(56, &[0, RAM_BASE + MEMORY, 3, 0, 0]), -14);
    }
}

#[test]
fn what_is_no_call_says_so() {
    let mut machine = machine_with(Host::silent());
    assert_eq!(machine.call(1_234, &[]), -38);
    assert_eq!(machine.call(64, &[7, BUFFER, 1]), -9);
    assert_eq!(machine.call(64, &[1, 0x1000, 1]), -14);
    assert_eq!(machine.call(63, &[0, BUFFER, 10]), 0, "the end of the input");
    machine.put(TOHOST, 41 << 1 | 1);
    machine.serve_host();
    assert_eq!(machine.end, Some(End::Exit(41)));
}

#[test]
fn what_the_host_writes_is_seen_as_code_and_ends_reservations() {
    let mut machine = machine_with(Host::silent());
    // lr.d x7, (x5); then one instruction that a result replaces: of a call that there is not, -38.
    machine.x[5] = CALL;
    machine.put(RAM_BASE, 0x1002_b3af | (0x0000_006f << 32));
    machine.run(1);
    assert!(machine.reservation.is_some());
    machine.run(1);
    machine.call(1_234, &[]);
    assert_eq!(machine.reservation, None);
    machine.put(CALL, 0x0000_006f);
    machine.pc = CALL;
    machine.run(2);
    assert_eq!(machine.pc, CALL);
    machine.put(TOHOST, CALL);
    machine.serve_host();
    assert_eq!(machine.peek(CALL) as i64, -38);
    // 0xffda is a c.sdsp, to where nothing is: the old jump is forgotten.
    assert!(machine.run_block().is_err_and(|trap| trap.cause == Exception::StoreAccessFault));
}

#[test]
fn the_device_tree_can_be_copied_by_words() {
    let mut machine = machine_with(Host::silent());
    let size = u64::from((machine.load(0x1004, 4).unwrap() as u32).swap_bytes());
    let last = 0x1000 + (size - 1) / 8 * 8;
    assert!(machine.load(last, 8).is_ok(), "{size} bytes");
}
