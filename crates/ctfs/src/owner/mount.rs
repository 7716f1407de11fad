//! A mounted file system: the session with the kernel, and the threads that serve clients beside it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::core::system::FileSystem;
use crate::core::volume::Volume;
use crate::memory::gate::Gate;
use crate::memory::mapped::Mapped;
use crate::memory::missing::{Failure, Health};
use crate::owner::ends::MountPoint;
use crate::owner::fuse::{MOST_BYTES, Session};
use crate::owner::known::Known;
use crate::owner::leases::{self, LeaseTable, Left};
use crate::owner::mounted::{Later, Mounted, sooner_or_later};
use crate::owner::room::Room;
use crate::owner::service::{self, Service};
use crate::owner::syncer::Syncer;

/// A mounted file system. It is unmounted when this is dropped.
pub struct Mount {
    session: Session,
    point: MountPoint,
    health: Health,
    /// Ends the threads that welcome clients and answer them.
    stop: Arc<AtomicBool>,
    watch: JoinHandle<io::Result<()>>,
    service: JoinHandle<()>,
}

impl Mount {
    /// Returns whether a user has unmounted it, or it failed.
    pub fn is_finished(&self) -> bool {
        self.session.is_finished()
    }

    /// Takes the file system out of the tree of folders, also while files are open: these are served until they are closed, and the
    /// session is finished then. Answers whether it was still in the tree.
    ///
    /// # Errors
    ///
    /// The kernel, or `fusermount3` for users other than root, refuses.
    pub fn detach(&self) -> io::Result<bool> {
        self.point.detach()
    }

    /// Returns what has made the store fail, if anything has: then every operation answers `EIO`, and the store can be unmounted.
    pub fn failure(&self) -> Option<Failure> {
        self.health.failure()
    }

    /// Unmounts the file system.
    ///
    /// # Errors
    ///
    /// What the mount failed with, or the store ([`Mount::failure`]).
    pub fn end(self) -> io::Result<()> {
        let ended = self.session.end();
        self.stop.store(true, Ordering::Relaxed);
        let watched = self.watch.join().map_err(|_| io::Error::other("the watch of clients panicked"))?;
        self.service.join().map_err(|_| io::Error::other("the service of clients panicked"))?;
        ended.and(watched)?;
        self.health.failure().map_or(Ok(()), |failure| Err(io::Error::other(failure)))
    }
}

/// Raises what the kernel allows a FUSE mount from what suits a network to what suits memory: it reads files ahead in requests of
/// [`MOST_BYTES`] instead of the 128 KiB that it begins with, so that it asks less often, and keeps as much written as of any other
/// file system, instead of a hundredth of that, before it has writers wait. Only root may; for other users the mount works as it is.
fn raise_limits(at: &Path) -> io::Result<()> {
    let device = rustix::fs::stat(at)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    for (limit, wanted) in [("read_ahead_kb", MOST_BYTES >> 10), ("max_ratio", 100)] {
        let path = format!("/sys/class/bdi/{major}:{minor}/{limit}");
        let present: u32 = std::fs::read_to_string(&path)?.trim().parse().map_err(io::Error::other)?;
        if present < wanted {
            std::fs::write(&path, wanted.to_string())?;
        }
    }
    Ok(())
}

/// The rules that say what users and programs may do on a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MountRules {
    /// All users may use it, as permissions say; otherwise the one who mounts.
    pub allow_other: bool,
    /// Set-user and set-group bits and capabilities give no rights.
    pub no_suid: bool,
    /// Device files lead to no devices.
    pub no_dev: bool,
    /// Programs cannot be run.
    pub no_exec: bool,
    /// The kernel keeps what programs write until they close the file, and passes it on in large pieces. The owner lets no process become a
    /// client then: the kernel would not see what a client changes.
    pub write_back: bool,
}

/// Mounts a file system at a folder, until the answer is dropped or a user unmounts it.
///
/// # Errors
///
/// It cannot be mounted there.
pub fn mount(system: FileSystem<Mapped>, at: &Path, name: &str, rules: MountRules) -> io::Result<Mount> {
    let gate = Arc::new(Gate::create()?);
    let leases = Arc::new(LeaseTable::new(gate.clone())?);
    let listeners = leases::listen(leases.socket())?;
    let memory = system.store().memory();
    let (file, survives) = (memory.file().try_clone()?, memory.survives());
    let health = memory.health().clone();
    let is_as_its_file = !(system.is_read_only() && system.was_recovered);
    let has_clients = is_as_its_file && !rules.write_back;
    let is_read_only = system.is_read_only();
    let is_served = has_clients && !is_read_only;
    let volume = Arc::new(Volume::with_gate(system, gate.clone()));
    let syncer = Syncer::start(&volume, &leases)?;
    let known = Arc::new(Known::default());
    let (later, waiting) = mpsc::channel::<Later>();
    // It ends when the file system does.
    std::thread::Builder::new()
        .name("later".to_owned())
        .spawn(move || waiting.iter().for_each(|act| act()))?;
    // Not by the thread that sees clients go: this one may wait for a client that is gone.
    let (closed, closer) = (volume.clone(), later.clone());
    let has_left = move |left: Left| {
        let volume = closed.clone();
        let close = move |system: &mut FileSystem<Mapped>| {
            service::close_left(system, &left.opens)?;
            left.pins.iter().try_for_each(|ino| system.unpin(*ino))
        };
        let _ = closer.send(Box::new(move || sooner_or_later(&volume, close)));
    };
    let mounted = Mounted {
        volume,
        leases: leases.clone(),
        known: known.clone(),
        later,
        forgetting: Arc::default(),
        room: Room::new(Session::threads() - 1),
        syncer,
        // What can only be read is asked of the kernel.
        is_over: Arc::new(AtomicBool::new(!is_served)),
        has_clients,
        writes_back: rules.write_back,
    };
    let service = Service {
        volume: mounted.volume.clone(),
        leases: leases.clone(),
        known: known.clone(),
        holder: mounted.syncer.as_ref().map(|syncer| syncer.holder.clone()),
        is_over: mounted.is_over.clone(),
    };
    let at = at.canonicalize()?;
    let session = Session::begin(mounted, &at, (name, rules, is_read_only))?;
    known.notify_by(session.notify());
    let _ = raise_limits(&at);
    let point = MountPoint::of_mounted(at)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let watch = std::thread::Builder::new()
        .name("clients".to_owned())
        .spawn(move || leases::watch(&listeners, &leases, has_left, (&file, survives), &stopped))?;
    let stopped = stop.clone();
    let service =
        std::thread::Builder::new().name("service".to_owned()).spawn(move || service.run(&gate, &stopped))?;
    Ok(Mount { session, point, health, stop, watch, service })
}
