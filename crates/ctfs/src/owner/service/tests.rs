use super::*;
use crate::client::Change;
use crate::memory::clock::coarse_now;
use crate::memory::survives::Survives;
use crate::protocol::requests::attributes;

const ROOT: Caller = Caller { uid: 0, gid: 0, umask: 0o022, is_root: true, has_groups: false };
const USER: Caller = Caller { uid: 7, gid: 8, umask: 0o022, is_root: false, has_groups: false };

struct Served {
    service: Service,
    client: (usize, u64),
    _folder: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let memory = Mapped::create(&path, 16 << 20, Survives::ProcessCrash).unwrap();
        let system = FileSystem::format(memory, Owner::default(), coarse_now).unwrap();
        let gate = Arc::new(Gate::create().unwrap());
        let leases = Arc::new(LeaseTable::new(gate.clone()).unwrap());
        let client = leases.add_client().unwrap();
        let service = Service {
            volume: Arc::new(Volume::with_gate(system, gate)),
            leases,
            known: Arc::default(),
            holder: None,
            is_over: Arc::default(),
        };
        Self { service, client, _folder: folder }
    }

    fn ask(&self, request: Request, path: &str, other: &str) -> Done<[u64; WORDS]> {
        let (mut words, mut text) = ([0; WORDS], Vec::new());
        let texts = [path.as_bytes().to_vec(), other.as_bytes().to_vec()];
        self.service.answer(self.client, &request, &texts, (&mut words, &mut text)).map(|()| words)
    }

    fn at_root(&self, what: What, caller: Caller, path: &str) -> Done<[u64; WORDS]> {
        self.ask(Request { mode: 0o755, ..Request::new(what, caller, Base::Directory(Ino::ROOT)) }, path, "")
    }

    fn open(&self, caller: Caller, path: &str, flags: i32, mode: u32) -> Done<[u64; WORDS]> {
        let base = Base::Directory(Ino::ROOT);
        let request = Request { flags: flags as u32, mode, ..Request::new(What::Open, caller, base) };
        self.ask(request, path, "")
    }

    fn close(&self, handle: u64) -> Done<()> {
        self.ask(Request::new(What::Close, ROOT, Base::Handle(handle)), "", "").map(drop)
    }
}

const MAKES: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
const KERNELS: Done<()> = Err(Refused::Kernels);
const MISSING: Done<()> = Err(Refused::Error(Errno::NOENT));

#[test]
fn what_is_sure_is_done_and_all_else_is_the_kernels() {
    let served = Served::new();
    served.at_root(What::MakeDirectory, ROOT, "d").unwrap();
    let there = Err(Refused::Error(Errno::EXIST));
    assert_eq!(served.at_root(What::MakeDirectory, ROOT, "d").map(drop), there);
    let opened = served.open(ROOT, "d/file", MAKES, 0o640).unwrap();
    assert_eq!(served.open(ROOT, "d/file", MAKES, 0o640).map(drop), there);
    let looked = attributes(&served.at_root(What::Look, ROOT, "d/../d/./file").unwrap());
    assert_eq!((looked.ino.0, looked.mode, looked.links), (opened[2], kind::FILE | 0o640, 1));
    assert_eq!(served.at_root(What::Look, ROOT, "d/none").map(drop), MISSING);
    assert_eq!(served.at_root(What::Look, ROOT, "none/none").map(drop), MISSING);
    // What lies outside, is no path, or may mean a directory only.
    for path in ["..", "../x", "d/../../x", "", "d/", "d\0x", "d/file/x"] {
        assert_eq!(served.at_root(What::Look, ROOT, path).map(drop), KERNELS, "{path:?}");
    }
    assert_eq!(served.at_root(What::Unlink, ROOT, "d").map(drop), KERNELS);
    assert_eq!(served.at_root(What::RemoveDirectory, ROOT, "d").map(drop), KERNELS, "not empty");
    // It stays while it is open, and is closed once.
    served.at_root(What::Unlink, ROOT, "d/file").unwrap();
    assert_eq!(served.at_root(What::Look, ROOT, "d/file").map(drop), MISSING);
    let handle = Base::Handle(opened[1]);
    let looked = attributes(&served.ask(Request::new(What::Look, ROOT, handle), "", "").unwrap());
    assert_eq!(looked.links, 0);
    served.close(opened[1]).unwrap();
    assert_eq!(served.close(opened[1]), KERNELS);
    served.at_root(What::RemoveDirectory, ROOT, "d").unwrap();
    assert_eq!(crate::check(&*served.service.volume.shared()), Vec::<String>::new());
    assert_eq!(served.service.volume.shared().space().used_inodes, 1);
}

#[test]
fn users_may_do_what_modes_let_them() {
    let served = Served::new();
    served.at_root(What::MakeDirectory, ROOT, "d").unwrap();
    let file = served.open(ROOT, "d/file", MAKES, 0o640).unwrap();
    served.close(file[1]).unwrap();
    let opens = |caller, flags| {
        served.open(caller, "d/file", flags, 0).map(|opened| served.close(opened[1]).unwrap())
    };
    assert_eq!(served.open(USER, "d/new", MAKES, 0o600).map(drop), KERNELS, "it is root's directory");
    assert_eq!(served.at_root(What::Unlink, USER, "d/file").map(drop), KERNELS);
    assert_eq!(opens(USER, libc::O_RDONLY), KERNELS);
    served.at_root(What::Look, USER, "d/file").unwrap();
    let change = |change: Change, caller| {
        let base = Base::Directory(Ino::ROOT);
        let given = |value: Option<u32>| value.unwrap_or(NO_ID);
        let ids = [given(change.uid), given(change.gid)];
        let request = Request { mode: given(change.mode), ids, ..Request::new(What::Change, caller, base) };
        served.ask(request, "d/file", "").map(drop)
    };
    assert_eq!(change(Change { mode: Some(0o666), ..Change::default() }, USER), KERNELS);
    change(Change { gid: Some(8), ..Change::default() }, ROOT).unwrap();
    assert_eq!(opens(USER, libc::O_RDONLY), Ok(()), "its group may");
    assert_eq!(opens(USER, libc::O_RDWR), KERNELS);
    let elsewhere = Caller { gid: 9, has_groups: true, ..USER };
    assert_eq!(opens(elsewhere, libc::O_RDONLY), KERNELS, "its groups are not known here");
    change(Change { uid: Some(7), ..Change::default() }, ROOT).unwrap();
    assert_eq!(opens(USER, libc::O_RDWR), Ok(()));
    assert_eq!(change(Change { mode: Some(0o4755), ..Change::default() }, USER), KERNELS);
    assert_eq!(change(Change { gid: Some(9), ..Change::default() }, USER), KERNELS);
    // A process that runs the file gets its owner's rights until a process writes it, which the kernel sees to.
    {
        let mut system = served.service.volume.exclusive().unwrap();
        let set = SetAttributes { mode: Some(0o4755), ..SetAttributes::default() };
        system.set_attributes(Ino(file[2]), &set).unwrap();
    }
    assert_eq!(opens(USER, libc::O_RDWR), KERNELS);
    // What the kernel may have read it would keep.
    let other = served.open(ROOT, "d/other", MAKES, 0o666).unwrap();
    served.close(other[1]).unwrap();
    served.service.known.keeps_pages(Ino(other[2]));
    assert_eq!(served.open(ROOT, "d/other", libc::O_RDWR, 0).map(drop), KERNELS);
    served.open(ROOT, "d/other", libc::O_RDONLY, 0).unwrap();
}

#[test]
fn links_are_followed_within() {
    let served = Served::new();
    let link = |target: &str, path: &str| {
        let request = Request::new(What::LinkTo, ROOT, Base::Directory(Ino::ROOT));
        served.ask(request, path, target).map(drop)
    };
    served.at_root(What::MakeDirectory, ROOT, "d").unwrap();
    let file = served.open(ROOT, "d/file", MAKES, 0o644).unwrap();
    for (target, path) in
        [("d", "to"), ("../d/file", "d/up"), ("/d", "outside"), ("../../x", "d/above"), ("round", "round")]
    {
        link(target, path).unwrap();
    }
    let follow = |path: &str| {
        let base = Base::Directory(Ino::ROOT);
        let request = Request { flags: FOLLOW, ..Request::new(What::Look, ROOT, base) };
        served.ask(request, path, "").map(|words| attributes(&words).ino.0)
    };
    assert_eq!(follow("to/file"), Ok(file[2]));
    assert_eq!(follow("to/up"), Ok(file[2]));
    for path in ["outside/file", "d/above", "round"] {
        assert_eq!(follow(path), Err(Refused::Kernels), "{path}");
    }
    let of_link = attributes(&served.at_root(What::Look, ROOT, "round").unwrap());
    assert_eq!(of_link.mode & kind::MASK, kind::SYMLINK);
}

#[test]
fn an_open_file_has_a_path_or_a_name_of_its_own() {
    assert_eq!(handle_of(b".pagewalk-open-1f"), Some(31));
    for name in [&b".pagewalk-open-"[..], b".pagewalk-open-01", b".pagewalk-open-F", b"pagewalk-open-1", b"x"]
    {
        assert_eq!(handle_of(name), None);
    }
    let served = Served::new();
    served.at_root(What::MakeDirectory, ROOT, "d").unwrap();
    served.at_root(What::MakeDirectory, ROOT, "d/e").unwrap();
    let opened = served.open(ROOT, "d/e/file", MAKES, 0o644).unwrap();
    let path = || {
        let (mut words, mut text) = ([0; WORDS], Vec::new());
        let request = Request::new(What::Path, ROOT, Base::Handle(opened[1]));
        let texts = [Vec::new(), Vec::new()];
        served.service.answer(served.client, &request, &texts, (&mut words, &mut text)).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(path(), "d/e/file");
    served.at_root(What::Unlink, ROOT, "d/e/file").unwrap();
    assert_eq!(handle_of(path().as_bytes()), Some(opened[1]));
    // Another client has nothing to do with it.
    let other = served.service.leases.add_client().unwrap();
    let (mut words, mut text) = ([0; WORDS], Vec::new());
    let request = Request::new(What::Close, ROOT, Base::Handle(opened[1]));
    let texts = [Vec::new(), Vec::new()];
    assert_eq!(served.service.answer(other, &request, &texts, (&mut words, &mut text)), KERNELS);
}
