//! The thread of a mount that waits for the disk. Programs that ask at the same time wait together.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::Checkpoints;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::inode::address;
use crate::core::volume::Volume;
use crate::memory::mapped::Mapped;
use crate::owner::leases::LeaseTable;

/// Changes that no program asks for persist after this time, as ext4 has it.
const INTERVAL: Duration = Duration::from_secs(5);

/// Is told when everything that was done before has reached the disk, or cannot.
pub(crate) type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// A store's memory once more, and its checkpoints.
type OnceMore = (Mapped, Arc<Checkpoints>);

/// Lets clients store words of inodes. The store once more, for other threads than the one that waits.
#[derive(Clone, Debug)]
pub(crate) struct Holder(Arc<Mutex<OnceMore>>);

impl Holder {
    /// A client stores words of the inode that lies there from now on.
    pub(crate) fn hold(&self, at: u64) {
        let store = self.0.lock();
        let (memory, checkpoints) = &*store;
        checkpoints.hold(memory, at / PAGE_BYTES);
    }
}

/// The way to the thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Syncer {
    pub(crate) holder: Holder,
    /// The store once more, for the thread. The lock comes behind the volume's.
    served: Arc<Mutex<OnceMore>>,
    /// Both until it is dropped.
    ask: Option<mpsc::Sender<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread, where programs can ask.
    pub(crate) fn start(volume: &Arc<Volume<Mapped>>, leases: &Arc<LeaseTable>) -> io::Result<Option<Self>> {
        let once_more = || volume.shared().store.memory().for_checkpoints();
        let (Some(store), Some(served)) = (once_more()?, once_more()?) else { return Ok(None) };
        let (ask, asked) = mpsc::channel();
        let (volume, leases) = (volume.clone(), leases.clone());
        let served = Arc::new(Mutex::new(served));
        let to_serve = served.clone();
        let thread = std::thread::Builder::new()
            .name("sync".to_owned())
            .spawn(move || serve(&asked, &to_serve, (&volume, &leases)))?;
        let holder = Holder(Arc::new(Mutex::new(store)));
        Ok(Some(Self { holder, served, ask: Some(ask), thread: Some(thread) }))
    }

    /// The store lies in another memory now, which is given twice. No transaction is begun meanwhile, and no client is inside the gate.
    pub(crate) fn follow(&self, one: OnceMore, other: OnceMore) {
        *self.holder.0.lock() = one;
        *self.served.lock() = other;
    }

    /// Asks, and does not wait.
    pub(crate) fn ask(&self, answer: Answer) {
        let ask = self.ask.as_ref().expect("until it is dropped");
        if let Err(mpsc::SendError(answer)) = ask.send(answer) {
            answer(Err(Errno::IO));
        }
    }
}

/// Ends the thread, with a last checkpoint: the next owner finds everything in its place.
impl Drop for Syncer {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    asked: &mpsc::Receiver<Answer>,
    served: &Mutex<OnceMore>,
    (volume, leases): (&Volume<Mapped>, &LeaseTable),
) {
    let checkpoint = || {
        let system = volume.shared();
        let held: FxHashSet<u64> = leases
            .open_to_write()
            .into_iter()
            .filter(|ino| leases.is_written_beside(*ino))
            .filter_map(|ino| address(&system.store, ino).map(|at| at / PAGE_BYTES))
            .collect();
        let served = served.lock();
        let (memory, checkpoints) = &*served;
        // Transactions go on as soon as the images are taken.
        checkpoints.checkpoint_then(memory, Some(held), || drop(system)).map_err(|_| Errno::IO)
    };
    loop {
        match asked.recv_timeout(INTERVAL) {
            Ok(first) => {
                let all: Vec<Answer> = std::iter::once(first).chain(asked.try_iter()).collect();
                let done = checkpoint();
                all.into_iter().for_each(|answer| answer(done));
            }
            Err(RecvTimeoutError::Timeout) => {
                let is_needed = served.lock().1.is_needed();
                if is_needed {
                    // The next program that asks is told.
                    let _ = checkpoint();
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let system = volume.shared();
    let served = served.lock();
    let (memory, checkpoints) = &*served;
    let _ = checkpoints.end(memory);
    drop(system);
}
