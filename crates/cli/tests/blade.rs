//! `pagewalk blade` as a process: what it prints, how it ends, and that nothing acknowledged is lost when it is killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pagewalk_blade::codec::{PAGE_BYTES, Word, WordSize};
use pagewalk_blade::{Client, ClientDesign, Endpoint, Open, Operation, Outcome, Transport};

type AnyClient = Client<Box<dyn Transport + Send>>;

/// A blade that runs, and is ended with the test.
struct Blade {
    process: Child,
    at: String,
}

impl Blade {
    fn start(arguments: &[&str]) -> Self {
        Self::start_at("udp:127.0.0.1:0", arguments)
    }

    fn start_at(listen: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
            .args(["blade", "serve", "--listen", listen])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let stderr = process.stderr.take().expect("piped");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let at = line.trim_end().split(" at ").nth(1).unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, at }
    }

    fn client(&self, design: ClientDesign) -> AnyClient {
        let Open { transport, blade } =
            self.at.parse::<Endpoint>().expect("an address").connect(None).expect("a socket");
        Client::new(transport, blade, design).expect("a client")
    }

    /// As `kill` of the shell does it, by the process' number.
    fn signal(&self, name: &str) {
        let number = self.process.id().to_string();
        let status = Command::new("kill").args(["-s", name, &number]).status().expect("kill");
        assert!(status.success());
    }

    fn end(mut self) -> String {
        self.signal("TERM");
        let mut text = String::new();
        let mut stdout = self.process.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut stdout, &mut text).expect("text");
        assert!(self.process.wait().expect("it ends").success());
        text
    }
}

impl Drop for Blade {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pagewalk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagewalk")).args(arguments).output().expect("the command starts")
}

fn refused(arguments: &[&str], word: &str) {
    let output = pagewalk(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.contains(word), "{arguments:?} does not say `{word}`: {text}");
}

#[test]
fn a_blade_prints_what_it_did_when_it_is_told_to_end() {
    let blade = Blade::start(&["--capacity", "64KiB"]);
    let mut client = blade.client(ClientDesign::default());
    client.write_page(15, &[7; PAGE_BYTES]).expect("a write");
    assert_eq!(*client.read_page(15).expect("a read"), [7; PAGE_BYTES]);
    assert!(client.read_page(16).is_err());
    let text = blade.end();
    assert!(text.contains("pages written                            1\n"), "{text}");
    assert!(text.contains("refused: no such page                    1\n"), "{text}");
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
    assert_eq!((&document["schema"], &document["counts"]["never_written"]), (&1.into(), &1.into()));
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
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    refused(&["blade", "ping", "--blade", &ring, "--key", other], "did not answer");
    refused(&["blade", "ping", "--blade", &ring], "did not answer");
    let text = blade.end();
    assert!(text.contains("pages read") && !text.contains("malformed"), "{text}");
}

/// Writes, and counters, until `end`; what was acknowledged, and what is not known.
struct Stress {
    client: AnyClient,
    /// By page: the seed that was acknowledged last, and those that were begun later.
    pages: BTreeMap<u64, (u8, Vec<u8>)>,
    /// Additions that were acknowledged, and begun.
    added: u64,
    begun: u64,
    round: u64,
}

const COUNTER: u64 = 63;

impl Stress {
    fn new(blade: &Blade) -> Self {
        let design = ClientDesign { tries: 3, ..ClientDesign::default() };
        Self { client: blade.client(design), pages: BTreeMap::new(), added: 0, begun: 0, round: 0 }
    }

    /// Until the blade is gone or `end`; `after` acknowledged changes, `act` is done.
    fn run(&mut self, end: Instant, after: u64, act: impl FnOnce()) {
        let word = Word::new(8, WordSize::Eight).expect("within the page");
        let mut busy: BTreeMap<u32, Option<(u64, u8)>> = BTreeMap::new();
        let (mut acknowledged, mut act) = (0, Some(act));
        while Instant::now() < end {
            while self.client.free() > 0 {
                self.round += 1;
                let page = self.round * 7 % 61;
                let (operation, what) = if self.round.is_multiple_of(5) {
                    self.begun += 1;
                    (Operation::Add { page: COUNTER, word, value: 1 }, None)
                } else if busy.values().flatten().any(|&(other, _)| other == page) {
                    break;
                } else {
                    let seed = (self.round % 251) as u8;
                    self.pages.entry(page).or_default().1.push(seed);
                    (Operation::WritePage { page, content: Box::new([seed; PAGE_BYTES]) }, Some((page, seed)))
                };
                busy.insert(self.client.submit(operation).expect("room"), what);
            }
            let Some(completion) = self.client.poll(Duration::from_millis(50)).expect("a socket") else {
                continue;
            };
            match (busy.remove(&completion.txid).expect("ours"), completion.result) {
                (Some((page, seed)), Ok(Outcome::Done)) => {
                    self.pages.insert(page, (seed, Vec::new()));
                }
                (None, Ok(Outcome::Word(_))) => self.added += 1,
                (_, Ok(other)) => panic!("{other:?}"),
                (_, Err(_)) => return,
            }
            acknowledged += 1;
            if acknowledged == after
                && let Some(act) = act.take()
            {
                act();
            }
        }
        panic!("the blade was not killed");
    }

    fn check(&self, client: &mut AnyClient) {
        for (&page, (acknowledged, later)) in &self.pages {
            let content = client.read_page(page).expect("a page");
            assert!(content.iter().all(|&byte| byte == content[0]), "page {page} is in pieces");
            let known = content[0] == *acknowledged || later.contains(&content[0]);
            assert!(known, "page {page} has {}, not {acknowledged} or one of {later:?}", content[0]);
        }
        let word = Word::new(8, WordSize::Eight).expect("within the page");
        let counter = client.read_word(COUNTER, word).expect("a word");
        assert!(
            (self.added..=self.begun).contains(&counter),
            "{} <= {counter} <= {}",
            self.added,
            self.begun
        );
    }
}

fn killed_and_started_again(store: &Path, options: &[&str], after: u64) {
    let store = store.to_str().expect("text");
    let arguments = [&["--capacity", "256KiB", "--store", store], options].concat();
    let blade = Blade::start(&arguments);
    let mut stress = Stress::new(&blade);
    stress.run(Instant::now() + Duration::from_secs(60), after, || blade.signal("KILL"));
    drop(blade);
    let blade = Blade::start(&arguments);
    stress.check(&mut blade.client(ClientDesign::default()));
    let text = blade.end();
    assert!(text.contains("pages in the store"), "{text}");
}

#[test]
fn a_client_goes_on_where_a_killed_blade_is_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pages");
    let arguments = ["--capacity", "256KiB", "--store", path.to_str().expect("text")];
    let blade = Blade::start(&arguments);
    let mut client = blade.client(ClientDesign::default());
    client.write_page(0, &[1; PAGE_BYTES]).expect("a write");
    let at = blade.at.clone();
    drop(blade);
    let pages: Vec<u64> = (1..20).collect();
    for &page in &pages {
        let content = Box::new([page as u8; PAGE_BYTES]);
        client.submit(Operation::WritePage { page, content }).expect("room");
    }
    let _blade = Blade::start_at(&at, &arguments);
    for _ in &pages {
        let completion = client.poll(Duration::from_secs(20)).expect("a socket").expect("a completion");
        assert_eq!(completion.result, Ok(Outcome::Done));
    }
    for page in pages {
        assert_eq!(*client.read_page(page).expect("a page"), [page as u8; PAGE_BYTES]);
    }
    assert_eq!(*client.read_page(0).expect("a page"), [1; PAGE_BYTES]);
}

#[test]
fn nothing_acknowledged_is_lost_when_a_blade_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, after) in [1, 100, 1000, 5000].into_iter().enumerate() {
        killed_and_started_again(&folder.path().join(format!("pages-{number}")), &[], after);
    }
    killed_and_started_again(&folder.path().join("synced"), &["--sync"], 50);
}
