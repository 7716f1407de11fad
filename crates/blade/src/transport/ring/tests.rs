use super::*;
use crate::transport::RECEIVE_BYTES;

fn pair() -> (tempfile::TempDir, Ring, Ring) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let blade = Ring::listen(&path).unwrap();
    let client = Ring::connect(&path).unwrap();
    (folder, blade, client)
}

fn receive(ring: &mut Ring) -> Option<Vec<u8>> {
    let mut buffer = [0xee; RECEIVE_BYTES];
    let (bytes, from) = ring.receive(&mut buffer, Duration::ZERO).unwrap()?;
    assert_eq!(from, Ring::PEER);
    Some(buffer[..bytes].to_vec())
}

#[test]
fn messages_come_in_order_and_whole() {
    let (_folder, mut blade, mut client) = pair();
    for round in 0..1000_usize {
        let message: Vec<u8> = (0..round % (MAX_DATAGRAM_BYTES + 1)).map(|at| (at ^ round) as u8).collect();
        client.send(Ring::PEER, &message).unwrap();
        blade.send(Ring::PEER, &message).unwrap();
        assert_eq!(receive(&mut blade).unwrap(), message);
        assert_eq!(receive(&mut client).unwrap(), message);
    }
    assert!(receive(&mut blade).is_none() && receive(&mut client).is_none());
    assert!(client.send(Ring::PEER, &[0; MAX_DATAGRAM_BYTES + 1]).is_err());
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let (_folder, mut blade, mut client) = pair();
    for number in 0..SLOTS {
        client.send(Ring::PEER, &number.to_le_bytes()).unwrap();
    }
    assert_eq!(client.send(Ring::PEER, &[0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    for number in 0..SLOTS {
        assert_eq!(receive(&mut blade).unwrap(), number.to_le_bytes());
    }
    client.send(Ring::PEER, &[7]).unwrap();
    assert_eq!(receive(&mut blade).unwrap(), [7]);
}

#[test]
fn whatever_the_other_end_writes_is_survived() {
    let (_folder, mut blade, client) = pair();
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        random ^ random >> 29
    };
    for round in 0..20_000_u32 {
        let written = match round % 3 {
            0 => next() as u32,
            1 => blade.read.wrapping_add(next() as u32 % (2 * SLOTS)),
            _ => blade.read,
        };
        client.word(Direction::Requests, Word::Written).store(written, Ordering::Release);
        client.word(Direction::Responses, Word::Read).store(next() as u32, Ordering::Release);
        client.word(Direction::Requests, Word::Sleeping).store(next() as u32, Ordering::Release);
        client.word(Direction::Responses, Word::Sleeping).store(next() as u32, Ordering::Release);
        client.word(Direction::Responses, Word::Processor).store(next() as u32, Ordering::Release);
        client.slot(Direction::Requests, blade.read)[0].store(next() >> (next() % 64), Ordering::Relaxed);
        if let Some(message) = receive(&mut blade) {
            assert!(message.len() <= MAX_DATAGRAM_BYTES);
        }
        let _ = blade.send(Ring::PEER, &[1; 100]);
        blade.flush();
    }
}

#[test]
fn there_is_one_client_at_a_time_and_it_begins_anew() {
    let (folder, mut blade, mut client) = pair();
    let path = folder.path().join("ring");
    assert_eq!(Ring::connect(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    client.send(Ring::PEER, &[1]).unwrap();
    blade.send(Ring::PEER, &[2]).unwrap();
    drop(client);
    let mut client = Ring::connect(&path).unwrap();
    assert!(receive(&mut client).is_none(), "the answer was for the one before");
    client.send(Ring::PEER, &[3]).unwrap();
    assert_eq!((receive(&mut blade), receive(&mut blade)), (Some(vec![1]), Some(vec![3])));
}

#[test]
fn a_blade_removes_its_own_file_and_no_other() {
    let (folder, blade, client) = pair();
    let path = folder.path().join("ring");
    let newer = Ring::listen(&path).unwrap();
    drop((blade, client));
    assert!(path.exists(), "the newer blade's");
    drop(newer);
    assert!(!path.exists());
    std::fs::write(&path, "something else").unwrap();
    assert!(Ring::listen(&path).unwrap_err().to_string().contains("no ring"));
    assert!(Ring::connect(&path).unwrap_err().to_string().contains("no ring"));
    std::fs::write(&path, vec![0; FILE_BYTES]).unwrap();
    assert!(Ring::listen(&path).unwrap_err().to_string().contains("version"));
}

#[test]
fn sleepers_are_woken() {
    let (_folder, mut blade, mut client) = pair();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; RECEIVE_BYTES];
        for _ in 0..200 {
            while blade.receive(&mut buffer, Duration::from_secs(5)).unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros(200));
            blade.send(Ring::PEER, &[1]).unwrap();
        }
    });
    let begun = Instant::now();
    let mut buffer = [0; RECEIVE_BYTES];
    for _ in 0..200 {
        client.send(Ring::PEER, &[1]).unwrap();
        while client.receive(&mut buffer, Duration::from_secs(5)).unwrap().is_none() {}
    }
    thread.join().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "no end slept through a message: {:?}",
        begun.elapsed()
    );
}

#[test]
fn a_sleeper_is_woken_by_a_flush_and_by_the_other_end_that_goes_away() {
    let (_folder, mut blade, mut client) = pair();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; RECEIVE_BYTES];
        let begun = Instant::now();
        for _ in 0..200 {
            while blade.receive(&mut buffer, Duration::from_secs(60)).unwrap().is_none() {}
        }
        begun.elapsed()
    });
    for number in 0..200 {
        client.send(Ring::PEER, &[1]).unwrap();
        if number < 199 {
            // Now and then it sleeps already, now and then not.
            client.flush();
            std::thread::sleep(Duration::from_micros(10 * number));
        }
    }
    drop(client);
    let waited = thread.join().unwrap();
    assert!(waited < Duration::from_secs(50), "it slept through a message: {waited:?}");
}

#[test]
fn an_end_looks_only_while_the_other_is_on_another_processor() {
    let (_folder, mut blade, mut client) = pair();
    let here = rustix::thread::sched_getaffinity(None).unwrap();
    let here = (0..rustix::thread::CpuSet::MAX_CPU).find(|&processor| here.is_set(processor)).unwrap();
    let mut only = rustix::thread::CpuSet::new();
    only.set(here);
    rustix::thread::sched_setaffinity(None, &only).unwrap();
    assert!(client.is_apart(), "the blade has never waited: its processor is not known");
    assert!(!blade.is_apart(), "the client has, here");
    let own = client.processor;
    blade.word(Direction::Requests, Word::Processor).store(own + 1, Ordering::Relaxed);
    assert!(client.is_apart());
}
