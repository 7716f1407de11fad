//! Raw Ethernet between two network namespaces. Skipped, with the reason, where these cannot be made.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewalk_blade::codec::MacAddress;
use pagewalk_blade::transport::Ethernet;
use pagewalk_blade::{Address, Client, ClientDesign, PageStore, Server, ServerDesign, StoreDesign, serve};

use crate::common;

/// Which part this program plays when it runs itself in a namespace.
const ROLE: &str = "PAGEWALK_TEST_BLADE_ROLE";
const BLADE: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0a]);
const CLIENT: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0b]);

fn ip(arguments: &str) -> Result<(), String> {
    let Output { status, stderr, .. } = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .map_err(|error| format!("ip cannot be run: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`ip {arguments}`: {}", String::from_utf8_lossy(&stderr).trim()))
}

/// Two namespaces with a cable between them, gone with the test.
struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    fn new() -> Result<Self, String> {
        let names = ["a", "b"].map(|end| format!("pagewalk-{}-{end}", std::process::id()));
        let made = Self { names };
        let [a, b] = &made.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        ip(&format!(
            "-n {a} link add blade0 address {BLADE} type veth peer name blade1 address {CLIENT} netns {b}"
        ))?;
        ip(&format!("-n {a} link set blade0 up"))?;
        ip(&format!("-n {b} link set blade1 up"))?;
        Ok(made)
    }

    /// This test again, in a namespace.
    fn start(&self, end: usize, role: &str) -> Child {
        let own = std::env::current_exe().expect("this program");
        Command::new("ip")
            .args(["netns", "exec", &self.names[end]])
            .arg(own)
            .args(["--exact", "ethernet::raw_frames_carry_everything_between_two_namespaces", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .spawn()
            .expect("ip runs")
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// Serves until its standard input ends.
fn be_blade() {
    let mut card = Ethernet::listen("blade0").expect("an interface");
    assert_eq!(card.address(), BLADE);
    let store = PageStore::in_memory(StoreDesign::new(32)).expect("memory");
    let mut server = Server::new(store, ServerDesign::default());
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    serve(&mut card, &mut server, &stop).expect("an interface");
    let counts = server.counts();
    assert_eq!((counts.malformed, counts.unreadable, counts.contradictions), (0, 0, 0), "{counts}");
    assert!(counts.page_writes > 0, "{counts}");
}

fn be_client() {
    let card = Ethernet::client("blade1").expect("an interface");
    let mut client = Client::new(card, Address::Ethernet(BLADE), ClientDesign::default()).expect("a client");
    common::agrees_with_the_model(&mut client, 11, 0, 1000);
}

#[test]
fn raw_frames_carry_everything_between_two_namespaces() {
    match std::env::var(ROLE).as_deref() {
        Ok("blade") => return be_blade(),
        Ok(_) => return be_client(),
        Err(_) => {}
    }
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(reason) => {
            println!("skipped: no network namespaces: {reason}");
            return;
        }
    };
    let mut blade = namespaces.start(0, "blade");
    let client = namespaces.start(1, "client").wait().expect("it ends");
    drop(blade.stdin.take());
    let blade = blade.wait().expect("it ends");
    assert!(client.success() && blade.success(), "client: {client}, blade: {blade}");
}

#[test]
fn an_interface_that_is_not_there_is_refused() {
    let error = Ethernet::listen("none-such").expect_err("no such interface").to_string();
    assert!(error.contains("CAP_NET_RAW") || error.contains("No such device"), "{error}");
}
