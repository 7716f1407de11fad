//! A blade and its client over UDP in one process: `cargo run --example remote_page`.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pagewalk_blade::codec::{Word, WordSize};
use pagewalk_blade::{
    Client, ClientDesign, Endpoint, Open, PageStore, Server, ServerDesign, StoreDesign, serve,
};

fn main() -> Result<(), Box<dyn Error>> {
    let store = PageStore::in_memory(StoreDesign::new(1024))?;
    let mut server = Server::new(store, ServerDesign::default());
    let listen: Endpoint = "udp:127.0.0.1:0".parse()?;
    let Open { mut transport, blade } = listen.listen(None, 16)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&mut transport, &mut server, &stop));
        let result = use_blade(&blade.to_string());
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("the server does not panic")?;
        result
    })?;
    print!("{}", server.counts());
    Ok(())
}

fn use_blade(at: &str) -> Result<(), Box<dyn Error>> {
    let Open { transport, blade } = at.parse::<Endpoint>()?.connect(None)?;
    let mut client = Client::new(transport, blade, ClientDesign::default())?;
    client.write_page(1 << 27, &[7; 4096])?;
    let counter = Word::new(8, WordSize::Eight).ok_or("a word within the page")?;
    println!("the word was {:#x}", client.add(1 << 27, counter, 1)?);
    println!("now it is    {:#x}", client.read_word(1 << 27, counter)?);
    Ok(())
}
