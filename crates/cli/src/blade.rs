//! `pagewalk blade`: serve memory by the page, and measure a blade.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewalk_blade::secure::{Key, KeyError};
use pagewalk_blade::{
    Client, ClientDesign, Endpoint, Open, PageStore, Server, ServerDesign, StoreDesign, serve,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{BladeArguments, BladeCommand, FormatArgument, PingArguments, ServeArguments};
use crate::ending::{self, Early};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::print;
use crate::say::{complain, note};

/// Runs the commands `blade serve` and `blade ping`.
pub(crate) fn blade(arguments: &BladeArguments) -> anyhow::Result<Done> {
    match &arguments.command {
        BladeCommand::Serve(arguments) => serve_pages(arguments),
        BladeCommand::Ping(arguments) => ping(arguments),
    }
}

fn serve_pages(arguments: &ServeArguments) -> anyhow::Result<Done> {
    let store = Files::default().reads(&arguments.key);
    arguments.store.iter().try_fold(store, Files::writes)?;
    // Before there is a file: a signal leaves none that is half-made.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !ending::is_ignored(signal)) {
        // The second one ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .context("cannot watch for signals")?;
    }
    let design = StoreDesign::new(arguments.capacity).strict(arguments.strict);
    let store = match &arguments.store {
        Some(path) => PageStore::in_file(design, path, arguments.sync)?,
        None => PageStore::in_memory(design)?,
    };
    let design = ServerDesign::default().clients(arguments.clients as usize).quota_pages(arguments.quota);
    let mut server = Server::new(store, design);
    let Open { mut transport, blade } =
        arguments.listen.listen(key(arguments.key.as_deref())?, design.clients)?;
    let at = match &arguments.listen {
        // The port may have been left to the system.
        Endpoint::Udp(_) => blade.to_string(),
        // A client must know the card's address.
        Endpoint::Ethernet { .. } => format!("{}, which is {blade}", arguments.listen),
        _ => arguments.listen.to_string(),
    };
    note!("serving {} pages of 4KiB at {at}", arguments.capacity);
    serve(&mut transport, &mut server, &stop).with_context(|| format!("{at} failed"))?;
    let counts = server.counts();
    if let Some(failure) = server.first_failure() {
        complain!(
            "warning: {} changes were refused because the store failed, first with: {failure}",
            counts.failed
        );
    }
    match arguments.format {
        FormatArgument::Table => print(&counts.to_string())?,
        FormatArgument::Json => {
            let document = serde_json::json!({ "schema": 1, "blade": at, "counts": counts });
            print(&format!("{document:#}\n"))?;
        }
    }
    Ok(Done::Well)
}

/// Reads a key from its file.
pub(crate) fn key(path: Option<&Path>) -> Result<Option<Key>, KeyError> {
    path.map(Key::read).transpose()
}

/// A warm-up, so that neither connection nor caches are measured.
const WARM_UP: u64 = 16;

fn ping(arguments: &PingArguments) -> anyhow::Result<Done> {
    let Open { transport, blade } = arguments.blade.connect(key(arguments.key.as_deref())?)?;
    let mut client = Client::new(transport, blade, ClientDesign::default())?;
    let stop = ending::watch()?;
    let mut trips = Vec::new();
    for number in 0..WARM_UP + arguments.count {
        if !trips.is_empty() && stop.requested().is_some() {
            break;
        }
        let begun = Instant::now();
        client.read_page(0).with_context(|| arguments.blade.to_string())?;
        if number >= WARM_UP {
            trips.push(begun.elapsed());
        }
    }
    let measured = trips.len() as u64;
    let early = Early::asked(stop, None).filter(|_| measured < arguments.count);
    trips.sort_unstable();
    let at = |fraction: f64| microseconds(trips[((trips.len() - 1) as f64 * fraction).round() as usize]);
    let rows = [
        ("least_us", "least", at(0.0)),
        ("median_us", "p50 (median)", at(0.5)),
        ("p99_us", "p99", at(0.99)),
        ("most_us", "most", at(1.0)),
    ];
    let counts = client.counts();
    let blade = match &arguments.blade {
        Endpoint::Ring(_) => arguments.blade.to_string(),
        // Whose name may have been left open.
        _ => client.blade().to_string(),
    };
    match arguments.format {
        FormatArgument::Table => {
            let mut text = format!("{measured} reads of a page from {blade}, round trips in us\n");
            for (_, name, value) in rows {
                text.push_str(&format!("  {name:<14}{value:>10.1}\n"));
            }
            text.push_str(&format!("  {:<14}{:>10}\n", "sent again", counts.sent_again));
            print(&text)?;
        }
        FormatArgument::Json => {
            let trips: serde_json::Map<_, _> =
                rows.into_iter().map(|(name, _, value)| (name.to_owned(), value.into())).collect();
            let mut document = serde_json::json!({
                "schema": 1, "blade": blade, "reads": measured, "round_trips": trips, "counts": counts,
            });
            if let Some(early) = &early {
                document["partial"] = serde_json::json!(early.partial());
            }
            print(&format!("{document:#}\n"))?;
        }
    }
    if let Some(early) = &early {
        early.tell(format_args!("this result, of {measured} reads,"));
    }
    Ok(early.map_or(Done::Well, |early| early.done()))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
