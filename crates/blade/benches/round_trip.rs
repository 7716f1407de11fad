//! Round trips of a 4 KiB page read, beside a bare ping-pong of datagrams of the same sizes over the same transport: 16 bytes
//! there, 1376, 1376 and 1368 back, out of as much memory.
//!
//! Both have a thread that answers, on the second processor, and run interleaved in small batches; figures are medians over all
//! batches. The ratio is what the blade adds: parsing, reassembly, copies, bookkeeping. For the secure mode the ping-pong is over
//! bare UDP and once more over the secure transport, so that the price of sealing shows by itself. Where the threads are free the
//! scheduler puts both ends together or apart as it likes; where it does not do the same with both pairs, the ratio shows that.
//!
//! `cargo bench -p pagewalk-blade -- [BATCHES]`

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use pagewalk_blade::codec::{PAGE_BYTES, Part, REQUEST_HEADER_BYTES, RESPONSE_HEADER_BYTES};
use pagewalk_blade::secure::{Key, SecureBlade, SecureClient};
use pagewalk_blade::transport::{RECEIVE_BYTES, Ring, Udp};
use pagewalk_blade::{
    Address, Client, ClientDesign, PageStore, Server, ServerDesign, StoreDesign, Transport, serve,
};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Round trips in a batch.
const TRIPS: u32 = 200;
/// What a page read may cost beside the ping-pong.
const MOST: f64 = 1.5;
/// Both send from as much memory, in the same order.
const PAGES: u64 = 1024;
const STEP: u64 = 389;
const PATIENCE: Duration = Duration::from_millis(100);

type Boxed = Box<dyn Transport + Send>;

/// Both ends of a transport, and the blade's address.
struct Ends {
    blade: Boxed,
    client: Boxed,
    at: Address,
}

fn udp() -> io::Result<Ends> {
    let blade = Udp::listen(([127, 0, 0, 1], 0).into())?;
    let socket = blade.address()?;
    Ok(Ends { blade: Box::new(blade), client: Box::new(Udp::towards(socket)?), at: Address::Udp(socket) })
}

fn ring() -> io::Result<Ends> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ring");
    let blade = Ring::listen(&path)?;
    Ok(Ends { client: Box::new(Ring::connect(&path)?), blade: Box::new(blade), at: Ring::PEER })
}

fn secure() -> io::Result<Ends> {
    let Ends { blade, client, at } = udp()?;
    let key = Key::new([7; 32]);
    let client = Box::new(SecureClient::new(client, at, key.clone())?);
    Ok(Ends { blade: Box::new(SecureBlade::new(blade, key, 4)), client, at })
}

/// Something that can be timed, and the thread that answers it.
struct Bench {
    trip: Box<dyn FnMut() -> io::Result<()>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Bench {
    fn page_read(ends: Ends, free: bool) -> io::Result<Self> {
        let Ends { mut blade, client, at } = ends;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let store = PageStore::in_memory(StoreDesign::new(PAGES));
        let mut server = Server::new(store.map_err(io::Error::other)?, ServerDesign::default());
        let thread = spawn(move || {
            stay_on(if free { ALL } else { 1..2 });
            serve(&mut blade, &mut server, &flag)
        });
        let mut client = Client::new(client, at, ClientDesign::default())?;
        for page in 0..PAGES {
            client.write_page(page, &[page as u8; PAGE_BYTES]).map_err(io::Error::other)?;
        }
        let mut page = 0;
        let trip = move || {
            page = (page + STEP) % PAGES;
            let content = client.read_page(page).map_err(io::Error::other)?;
            assert_eq!(content[PAGE_BYTES - 1], page as u8);
            Ok(())
        };
        Ok(Self { trip: Box::new(trip), stop, thread })
    }

    fn ping_pong(ends: Ends, free: bool) -> io::Result<Self> {
        let Ends { mut blade, mut client, at } = ends;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = spawn(move || {
            stay_on(if free { ALL } else { 1..2 });
            let mut buffer = [0; RECEIVE_BYTES];
            let pages = vec![[7_u8; RESPONSE_HEADER_BYTES + PAGE_BYTES]; PAGES as usize];
            let mut page = 0;
            while !flag.load(Ordering::Relaxed) {
                let Some((_, from)) = blade.receive(&mut buffer, PATIENCE)? else { continue };
                page = (page + STEP as usize) % pages.len();
                for part in Part::ALL {
                    let start = part.offset();
                    blade.send(from, &pages[page][start..start + RESPONSE_HEADER_BYTES + part.bytes()])?;
                }
            }
            Ok(())
        });
        let trip = move || {
            client.send(at, &[1; REQUEST_HEADER_BYTES])?;
            let (mut buffer, mut arrived) = ([0; RECEIVE_BYTES], 0);
            let begun = Instant::now();
            while arrived < Part::ALL.len() {
                arrived += usize::from(client.receive(&mut buffer, PATIENCE)?.is_some());
                // On loopback nothing is lost; should it be, the bench must not hang.
                if begun.elapsed() > Duration::from_secs(5) {
                    return Err(io::Error::other("a datagram was lost"));
                }
            }
            Ok(())
        };
        Ok(Self { trip: Box::new(trip), stop, thread })
    }

    /// Microseconds for a trip, the median of a batch.
    fn batch(&mut self) -> io::Result<f64> {
        let mut trips = Vec::with_capacity(TRIPS as usize);
        for _ in 0..TRIPS {
            let begun = Instant::now();
            (self.trip)()?;
            trips.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&mut trips))
    }

    fn end(self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the answering thread panicked")))
    }
}

const ALL: Range<usize> = 0..CpuSet::MAX_CPU;

/// Where the scheduler puts the two ends, together or apart, makes more difference than all that is measured here.
fn stay_on(processors: Range<usize>) {
    let mut set = CpuSet::new();
    processors.for_each(|processor| set.set(processor));
    // A machine with one processor has no choice anyway.
    let _ = sched_setaffinity(None, &set);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> io::Result<()> {
    let batches =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(25_usize).max(1);
    println!("{:<32}{:>12}{:>14}{:>10}", "page read over", "read, us", "ping-pong, us", "ratio");
    type Make = fn() -> io::Result<Ends>;
    let rows: [(&str, Make, Make, bool, Option<f64>); 5] = [
        ("udp", udp, udp, false, Some(MOST)),
        ("ring", ring, ring, false, Some(MOST)),
        ("ring, threads free", ring, ring, true, Some(MOST)),
        ("secure udp", secure, secure, false, Some(MOST)),
        ("secure udp, beside bare udp", secure, udp, false, None),
    ];
    for (name, read, bare, free, most) in rows {
        stay_on(if free { ALL } else { 0..1 });
        let (mut read, mut bare) = (Bench::page_read(read()?, free)?, Bench::ping_pong(bare()?, free)?);
        // Pairs whose order alternates: what else the machine does falls on both.
        let (mut reads, mut bares, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for batch in 0..=batches {
            let (of_read, of_bare) = if batch % 2 == 0 {
                let of_read = read.batch()?;
                (of_read, bare.batch()?)
            } else {
                let of_bare = bare.batch()?;
                (read.batch()?, of_bare)
            };
            // The first is a warm-up.
            if batch > 0 {
                reads.push(of_read);
                bares.push(of_bare);
                ratios.push(of_read / of_bare);
            }
        }
        let ratio = median(&mut ratios);
        let target = most.map_or(String::new(), |most| {
            format!("  target at most {most}: {}", if ratio <= most { "met" } else { "missed" })
        });
        println!("{name:<32}{:>12.1}{:>14.1}{ratio:>10.2}{target}", median(&mut reads), median(&mut bares));
        read.end()?;
        bare.end()?;
    }
    Ok(())
}
