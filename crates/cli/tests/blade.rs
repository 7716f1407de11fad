//! `pagewalk blade` as a process: what it prints, how it ends, and that nothing acknowledged is lost when it is killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewalk_blade::codec::{PAGE_BYTES, Page, Word, WordSize};
use pagewalk_blade::{ClientDesign, Failure, Operation, Outcome, PAGE_NUMBERS};
use pagewalk_vm::random::SplitMix64;

use crate::common::{AnyClient, Blade, pagewalk, text};

fn refused(arguments: &[&str], word: &str) {
    let output = pagewalk(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.contains(word), "{arguments:?} does not say `{word}`: {text}");
}

#[test]
fn a_blade_prints_what_it_did_when_it_is_told_to_end() {
    let blade = Blade::start(&["--capacity", "4KiB"]);
    // A busy computer's answers may take long: a request that is sent again is counted again.
    let mut patient = ClientDesign::default();
    (patient.first_wait, patient.longest_wait) = (Duration::from_secs(30), Duration::from_secs(30));
    let mut client = blade.client(patient);
    client.write_page(PAGE_NUMBERS - 1, &[7; PAGE_BYTES]).expect("a write");
    assert_eq!(*client.read_page(PAGE_NUMBERS - 1).expect("a read"), [7; PAGE_BYTES]);
    assert!(client.read_page(PAGE_NUMBERS).is_err());
    assert!(client.write_page(0, &[7; PAGE_BYTES]).is_err());
    // Behind this, the blade has also heard the parts that the client did not wait for.
    assert!(client.read_page(PAGE_NUMBERS - 1).is_ok());
    let text = blade.end();
    assert!(text.contains("pages written                            1\n"), "{text}");
    assert!(text.contains("refused: no such page                    1\n"), "{text}");
    // Each of a page's three parts is answered.
    assert!(text.contains("refused: store full                      3\n"), "{text}");
}

#[test]
fn its_document_is_one_json_object() {
    let blade = Blade::start(&["--format", "json", "--strict"]);
    let output = pagewalk(&["blade", "ping", "--blade", &blade.at, "--count", "5"]);
    assert_eq!(output.status.code(), Some(2), "a strict blade has no page to read");
    blade.client(ClientDesign::default()).write_page(0, &[1; PAGE_BYTES]).expect("a write");
    let output = pagewalk(&["blade", "ping", "--blade", &blade.at, "--count", "5", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!((&document["schema"], &document["reads"]), (&1.into(), &5.into()));
    assert!(document["round_trips"]["median_us"].as_f64().is_some_and(|time| time > 0.0), "{document}");
    let document: serde_json::Value = serde_json::from_str(&blade.end()).expect("one document");
    assert_eq!(document["schema"], 1);
    // More than one if the answer took long, and `ping` asked again.
    assert!(document["counts"]["never_written"].as_u64().is_some_and(|count| count >= 1), "{document}");
}

#[test]
fn wrong_use_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not pages").expect("a file");
    let path = path.to_str().expect("text");
    refused(&["blade", "serve", "--listen", "tcp:127.0.0.1:1"], "udp:127.0.0.1:7400");
    refused(&["blade", "serve", "--listen", "udp:127.0.0.1"], "host and port");
    refused(&["blade", "serve", "--capacity", "5000B"], "whole number of 4KiB pages");
    refused(&["blade", "serve", "--sync"], "--store");
    refused(&["blade", "serve", "--key", path], "exactly 32 bytes");
    refused(&["blade", "serve", "--listen", "eth:none-such"], "cannot open eth:none-such");
    refused(&["blade", "ping", "--blade", "ring:/none/such"], "cannot open ring:/none/such");
    let missing = pagewalk(&["blade", "ping", "--blade", "ring:/none/such"]);
    assert_eq!(text(&missing.stderr).matches("No such file").count(), 1, "{}", text(&missing.stderr));
    // The name that the file would have had at first was part of the text.
    for serve in [["--listen", "ring:/none/such"], ["--store", "/none/such"]] {
        let unwritable = pagewalk(&[&["blade", "serve"], &serve[..]].concat());
        assert_eq!(unwritable.status.code(), Some(2), "{serve:?}");
        let said = text(&unwritable.stderr);
        assert!(said.contains("No such file") && !said.contains("tmp"), "{said}");
    }
    refused(&["blade", "serve", "--listen", "udp:127.0.0.1:0", "--store", path], "no blade's store");
    refused(&["blade", "serve", "--listen", "udp:192.0.2.1:1"], "cannot open udp:192.0.2.1:1");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let at = format!("udp:{}", silent.local_addr().expect("bound"));
    refused(&["blade", "ping", "--blade", &at], "did not answer");
}

#[test]
fn a_ring_and_a_key_serve_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ring, key, other) =
        (folder.path().join("ring"), folder.path().join("key"), folder.path().join("other"));
    std::fs::write(&key, [7; 32]).expect("a file");
    std::fs::write(&other, [8; 32]).expect("a file");
    let [ring, key, other] = [&ring, &key, &other].map(|path| path.to_str().expect("text"));
    let ring = format!("ring:{ring}");
    let blade = Blade::start_at(&ring, &["--key", key]);
    let output = pagewalk(&["blade", "ping", "--blade", &ring, "--count", "20", "--key", key]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for word in [&format!("20 reads of a page from {ring}"), "p50 (median)", "p99"] {
        assert!(printed.contains(word), "{printed}");
    }
    refused(&["blade", "ping", "--blade", &ring, "--key", other], "did not answer");
    refused(&["blade", "ping", "--blade", &ring], "did not answer");
    let text = blade.end();
    assert!(text.contains("pages read") && !text.contains("malformed"), "{text}");
}

/// Writes of pages, and additions to a counter, a whole window of them at a time.
struct Stress {
    client: AnyClient,
    random: SplitMix64,
    /// Which page each transaction writes, and its stamp; no page for an addition.
    busy: BTreeMap<u32, Option<(u64, u64)>>,
    /// By page: the stamp that was acknowledged last, and one that was begun later.
    pages: BTreeMap<u64, (u64, Option<u64>)>,
    /// Additions that were acknowledged, and begun.
    added: u64,
    begun: u64,
    /// Stamps are never used twice.
    stamps: u64,
}

const COUNTER: u64 = 63;
const CAPACITY: [&str; 2] = ["--capacity", "256KiB"];

fn counter() -> Word {
    Word::new(8, WordSize::Eight).expect("within the page")
}

/// All of a page says which write it is from.
fn stamped(stamp: u64) -> Box<Page> {
    let bytes = stamp.to_le_bytes();
    Box::new(std::array::from_fn(|at| bytes[at % 8]))
}

impl Stress {
    fn new(client: AnyClient, seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        let (busy, pages) = (BTreeMap::new(), BTreeMap::new());
        Self { client, random, busy, pages, added: 0, begun: 0, stamps: 0 }
    }

    /// Begins as much as there is room for, one write for each page at a time.
    fn begin(&mut self) {
        while self.client.free() > 0 {
            let page = self.random.below(COUNTER);
            let (operation, what) = if self.random.below(5) == 0 {
                self.begun += 1;
                (Operation::Add { page: COUNTER, word: counter(), value: 1 }, None)
            } else if self.busy.values().flatten().any(|&(other, _)| other == page) {
                continue;
            } else {
                self.stamps += 1;
                self.pages.entry(page).or_default().1 = Some(self.stamps);
                (Operation::WritePage { page, content: stamped(self.stamps) }, Some((page, self.stamps)))
            };
            let txid = self.client.submit(operation).expect("room");
            self.busy.insert(txid, what);
        }
    }

    /// Hears of one end, if there is one soon. False if the blade is gone.
    fn hear(&mut self) -> bool {
        let completion = self.client.poll(Duration::from_millis(50)).expect("a socket");
        let Some(completion) = completion else { return true };
        match (self.busy.remove(&completion.txid).expect("ours"), completion.result) {
            (Some((page, stamp)), Ok(Outcome::Done)) => {
                self.pages.insert(page, (stamp, None));
            }
            (None, Ok(Outcome::Word(_))) => self.added += 1,
            (_, Ok(other)) => panic!("{other:?}"),
            (_, Err(Failure::Unreachable { .. })) => return false,
            (what, Err(failure)) => panic!("{failure}: {what:?}"),
        }
        true
    }

    /// Goes on with another client: the answers to what is under way are lost.
    fn give_up(&mut self, client: AnyClient) {
        self.client = client;
        self.busy.clear();
    }

    /// Every page is from its write that was acknowledged last, or from one that was begun later, and from one only. What is
    /// found stays. Of additions, up to `twice` may have been done twice.
    fn check(&mut self, twice: u64) {
        for (&page, (acknowledged, later)) in &mut self.pages {
            let content = self.client.read_page(page).expect("a page");
            let stamp = u64::from_le_bytes(std::array::from_fn(|at| content[at]));
            assert_eq!(content, stamped(stamp), "page {page} is in pieces");
            assert!(
                stamp == *acknowledged || Some(stamp) == *later,
                "page {page} has {stamp}, not {acknowledged} or {later:?}"
            );
            (*acknowledged, *later) = (stamp, None);
        }
        let found = self.client.read_word(COUNTER, counter()).expect("a word");
        let (added, begun) = (self.added, self.begun + twice);
        assert!((added..=begun).contains(&found), "{added} <= {found} <= {begun}");
    }
}

/// Kills the blade at moments by the seed, starts it on the same file, and looks at every page before anything is sent again.
fn killed_and_looked_at(seed: u64, rounds: u64, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pages");
    let arguments = [&CAPACITY, &["--store", path.to_str().expect("text")][..], options].concat();
    let mut blade = Blade::start(&arguments);
    // Gives up soon.
    let design = ClientDesign::default().tries(3);
    let mut stress = Stress::new(blade.client(design), seed);
    let mut moments = SplitMix64::new(seed);
    for _ in 0..rounds {
        let moment = Duration::from_micros(moments.below(60_000));
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(moment);
                blade.kill();
                killed.store(true, Ordering::Relaxed);
            });
            loop {
                stress.begin();
                if !stress.hear() {
                    break;
                }
            }
            // The client may also have lost patience with a machine that has much to do. Nothing is known then either.
        });
        assert!(killed.load(Ordering::Relaxed));
        blade = Blade::start(&arguments);
        stress.give_up(blade.client(ClientDesign::default()));
        stress.check(0);
        stress.give_up(blade.client(design));
    }
    assert!(stress.added > 0 && stress.stamps > 0);
    assert!(blade.end().contains("pages in the store"));
}

/// Kills the blade at moments by the seed and starts it again, while one client goes on and on.
fn killed_under_a_client(seed: u64, rounds: u64, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pages");
    let arguments = [&CAPACITY, &["--store", path.to_str().expect("text")][..], options].concat();
    let mut blade = Blade::start(&arguments);
    let mut stress = Stress::new(blade.client(ClientDesign::default()), seed);
    let mut moments = SplitMix64::new(seed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                std::thread::sleep(Duration::from_micros(moments.below(100_000)));
                blade.restart();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            stress.begin();
            assert!(stress.hear(), "the client gave up");
        }
    });
    while !stress.busy.is_empty() {
        assert!(stress.hear(), "the client gave up");
    }
    assert!(stress.pages.values().all(|(_, later)| later.is_none()));
    assert_eq!(stress.added, stress.begun);
    // The blade's memory of what it has done ends with it, so that what is under way then may be done twice.
    stress.check(rounds * ClientDesign::default().window as u64);
}

#[test]
fn nothing_acknowledged_is_lost_when_a_blade_is_killed() {
    killed_and_looked_at(1, 8, &[]);
    killed_and_looked_at(2, 3, &["--sync"]);
}

#[test]
fn a_client_goes_on_while_a_blade_is_killed_and_started_again() {
    killed_under_a_client(3, 8, &[]);
    killed_under_a_client(4, 3, &["--sync"]);
}

#[test]
#[ignore = "long: `make soak`"]
fn nothing_acknowledged_is_lost_however_often_a_blade_is_killed() {
    for seed in 100..110 {
        killed_and_looked_at(seed, 60, &[]);
        killed_and_looked_at(seed, 10, &["--sync"]);
        killed_under_a_client(seed, 60, &[]);
        killed_under_a_client(seed, 10, &["--sync"]);
    }
}
