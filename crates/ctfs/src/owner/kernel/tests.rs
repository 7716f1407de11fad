use std::sync::{Arc, mpsc};

use super::*;
use crate::core::inode::kind;
use crate::core::volume::Volume;
use crate::memory::clock::coarse_now;
use crate::memory::gate::Gate;
use crate::memory::survives::Survives;
use crate::owner::leases::LeaseTable;
use crate::owner::mounted::Later;
use crate::owner::room::Room;

const OPENS: i32 = libc::O_RDWR | libc::O_CREAT;
const ROOT: Requester = Requester { owner: Owner { uid: 0, gid: 0 }, process: 1 };
const USER: Requester = Requester { owner: Owner { uid: 7, gid: 8 }, process: 2 };

struct Asked {
    mounted: Mounted,
    _later: mpsc::Receiver<Later>,
    _folder: tempfile::TempDir,
}

impl Asked {
    fn new(writes_back: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Mapped::create(&folder.path().join("store"), 16 << 20, Survives::ProcessCrash).unwrap();
        let system = FileSystem::format(memory, Owner::default(), coarse_now).unwrap();
        let gate = Arc::new(Gate::create().unwrap());
        let (later, waiting) = mpsc::channel();
        let mounted = Mounted {
            volume: Arc::new(Volume::with_gate(system, gate.clone())),
            leases: Arc::new(LeaseTable::new(gate).unwrap()),
            known: Arc::default(),
            later,
            forgetting: Arc::default(),
            room: Room::new(1),
            syncer: None,
            is_over: Arc::default(),
            has_clients: true,
            writes_back,
        };
        Self { mounted, _later: waiting, _folder: folder }
    }

    /// A file of a directory that a client makes, with so many bytes.
    fn made(&self, parent: Ino, name: &[u8], (mode, owner): (u32, Requester), bytes: u64) -> Ino {
        let make = |system: &mut FileSystem<Mapped>| {
            let ino = system.create_for(parent, name, (mode | kind::FILE, 0), owner.owner, With::Nothing)?;
            system.set_attributes(ino, &SetAttributes { size: Some(bytes), ..SetAttributes::default() })?;
            Ok(ino)
        };
        self.mounted.change_names(make).unwrap()
    }

    /// What the kernel asks for that has found no such name: the file, and its size.
    fn open(&self, requester: Requester, (parent, name): (Ino, &[u8]), flags: i32) -> Result<(Ino, u64)> {
        let opened = self.mounted.open_new(requester, (parent, name), (kind::FILE | 0o600, 0), flags);
        opened.map(|(attributes, handle)| {
            self.mounted.closed(attributes.ino, handle, flags);
            self.mounted.forget_lookups(attributes.ino, 1);
            (attributes.ino, attributes.size)
        })
    }
}

/// The kernel checks no permission of a file that is answered as a new one.
#[test]
fn a_file_that_was_made_meanwhile_is_opened_only_for_those_who_surely_may() {
    let asked = Asked::new(false);
    let root = Ino::ROOT;
    let own = asked.made(root, b"own", (0o600, USER), 100);
    let open = asked.made(root, b"open", (0o666, ROOT), 100);
    asked.made(root, b"root", (0o640, ROOT), 100);
    assert_eq!(asked.open(USER, (root, b"own"), OPENS), Ok((own, 100)));
    assert_eq!(asked.open(USER, (root, b"open"), OPENS), Ok((open, 100)));
    assert_eq!(asked.open(USER, (root, b"root"), OPENS), Err(Errno::STALE));
    assert_eq!(asked.open(USER, (root, b"root"), libc::O_CREAT), Err(Errno::STALE));
    // Whether root may is a matter of its capabilities, which the kernel knows.
    assert_eq!(asked.open(ROOT, (root, b"own"), OPENS), Err(Errno::STALE));
    assert_eq!(asked.open(USER, (root, b"own"), OPENS | libc::O_EXCL), Err(Errno::EXIST));
    // The kernel takes it for an empty file.
    assert_eq!(asked.open(USER, (root, b"own"), OPENS | libc::O_TRUNC), Ok((own, 0)));
    assert_eq!(asked.open(USER, (root, b"own"), OPENS), Ok((own, 0)), "and it is");
    assert_eq!(asked.open(USER, (root, b"root"), OPENS | libc::O_TRUNC), Err(Errno::STALE));
    // What is no regular file the kernel opens in other ways.
    let link = |system: &mut FileSystem<Mapped>| system.create_link_to(root, b"link", b"own", USER.owner);
    asked.mounted.change_names(link).unwrap();
    assert_eq!(asked.open(USER, (root, b"link"), OPENS), Err(Errno::STALE));
    // Of files in a sticky directory the kernel lets users make none but their own (`fs.protected_regular`).
    let make = |system: &mut FileSystem<Mapped>| {
        let mode = (kind::DIRECTORY | 0o1777, 0);
        system.create_for(root, b"sticky", mode, ROOT.owner, With::Nothing)
    };
    let sticky = asked.mounted.change_names(make).unwrap();
    let own = asked.made(sticky, b"own", (0o600, USER), 0);
    asked.made(sticky, b"open", (0o666, ROOT), 0);
    assert_eq!(asked.open(USER, (sticky, b"own"), OPENS), Ok((own, 0)));
    assert_eq!(asked.open(USER, (sticky, b"open"), OPENS), Err(Errno::STALE));
    assert_eq!(crate::check(&*asked.mounted.volume.shared()), Vec::<String>::new());
}

#[test]
fn a_kernel_that_writes_back_looks_again_before_it_empties_a_file() {
    let asked = Asked::new(true);
    let own = asked.made(Ino::ROOT, b"own", (0o600, USER), 100);
    assert_eq!(asked.open(USER, (Ino::ROOT, b"own"), OPENS | libc::O_TRUNC), Err(Errno::STALE));
    assert_eq!(asked.open(USER, (Ino::ROOT, b"own"), OPENS), Ok((own, 100)));
}

/// The kernel gives no lookup back of an answer that failed.
#[test]
fn a_refused_file_stays_unknown() {
    let asked = Asked::new(false);
    asked.made(Ino::ROOT, b"root", (0o600, ROOT), 100);
    let used = || asked.mounted.volume.shared().space().used_inodes;
    let before = used();
    assert_eq!(asked.open(USER, (Ino::ROOT, b"root"), OPENS), Err(Errno::STALE));
    let removed = asked.mounted.change_names(|system| system.unlink(Ino::ROOT, b"root"));
    assert_eq!((removed, used()), (Ok(()), before - 1));
}
