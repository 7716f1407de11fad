//! Memory that loses a page in the middle of an operation: the operation fails, and what is left is a file system in which it happened or
//! did not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::crashes::{Tree, tree};
use super::*;

const PAGE: u64 = 4_096;

/// Memory of which one page is lost at some store, as the handler of faults leaves it: from then on the page is one of zeroes that does
/// not persist.
struct Losing {
    memory: Recording,
    /// Stores until the page of one is lost.
    left: Cell<u64>,
    lost: RefCell<Option<(u64, Vec<u8>)>>,
}

impl Losing {
    fn new(image: Vec<u8>) -> Self {
        Self { memory: Recording::new(image), left: Cell::new(u64::MAX), lost: RefCell::default() }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None if !self.has_failed() => {
                *self.lost.borrow_mut() = Some((at / PAGE, vec![0; PAGE as usize]));
            }
            None => {}
        }
        let mut lost = self.lost.borrow_mut();
        for (at, byte) in (at..).zip(bytes) {
            match &mut *lost {
                Some((page, seen)) if *page == at / PAGE => seen[(at % PAGE) as usize] = *byte,
                _ => self.memory.write(at, &[*byte]),
            }
        }
    }
}

impl PersistentMemory for Losing {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.read(at, &mut word);
        u64::from_le_bytes(word)
    }
    fn store(&self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }
    fn read(&self, at: u64, into: &mut [u8]) {
        self.memory.read(at, into);
        if let Some((page, seen)) = &*self.lost.borrow() {
            let inside = (at..).zip(into).filter(|(at, _)| at / PAGE == *page);
            inside.for_each(|(at, byte)| *byte = seen[(at % PAGE) as usize]);
        }
    }
    fn write(&self, at: u64, bytes: &[u8]) {
        self.put(at, bytes);
    }
    fn zero(&self, at: u64, bytes: u64) {
        self.put(at, &vec![0; bytes as usize]);
    }
    fn flush(&self, _: u64, _: u64) {}
    fn fence(&self) {}
    fn has_failed(&self) -> bool {
        self.lost.borrow().is_some()
    }
}

type Lossy = FileSystem<Losing>;

/// Runs an operation on copies of an image, each of which loses a page at another store, until one loses none. Visits what is left.
fn lose(
    image: &[u8],
    operation: impl Fn(&mut Lossy) -> Result<()>,
    visit: &mut dyn FnMut(&mut FileSystem<Recording>),
) -> u64 {
    for stores in 0.. {
        let (mut system, _) = FileSystem::mount(Losing::new(image.to_vec()), clock()).unwrap();
        system.store.memory().left.set(stores);
        let done = operation(&mut system);
        let memory = system.into_memory();
        if !memory.has_failed() {
            assert_eq!(done, Ok(()));
            return stores;
        }
        assert_eq!(done, Err(Error::IO), "the page of store {stores} was lost");
        let (mut left, _) = FileSystem::mount(memory.memory, clock())
            .unwrap_or_else(|error| panic!("the page of store {stores} was lost: {error}"));
        visit(&mut left);
    }
    unreachable!("an operation ends")
}

fn furnished() -> (Vec<u8>, Tree) {
    let mut system = empty(900);
    let below = system.create(Ino::ROOT, b"dir", DIRECTORY, ME, 0).unwrap();
    let file = make(&mut system, "file");
    system.write(file, 0, &[1; 30_000]).unwrap();
    let other = system.create(below, b"other", FILE, ME, 0).unwrap();
    system.write(other, 0, &[2; 5_000]).unwrap();
    let old = tree(&mut system);
    (system.into_memory().image(), old)
}

#[test]
fn names_change_whole_or_not_at_all_where_a_page_is_lost() {
    type Operation = fn(&mut Lossy) -> Result<()>;
    let operations: [(&str, Operation); 7] = [
        ("create", |system| system.create(Ino::ROOT, b"new", FILE, ME, 0).map(|_| ())),
        ("mkdir", |system| system.create(Ino::ROOT, b"new", DIRECTORY, ME, 0).map(|_| ())),
        ("symlink", |system| system.create_link_to(Ino::ROOT, b"new", b"file", ME).map(|_| ())),
        ("unlink", |system| system.unlink(Ino::ROOT, b"file")),
        ("rename over another", |system| {
            let dir = system.look_up(Ino::ROOT, b"dir")?;
            system.rename((Ino::ROOT, b"file"), (dir, b"other"), Replace::Yes)
        }),
        ("chmod", |system| {
            let file = system.look_up(Ino::ROOT, b"file")?;
            system.set_attributes(file, &SetAttributes { mode: Some(0o600), ..Default::default() })
        }),
        ("attribute", |system| {
            let file = system.look_up(Ino::ROOT, b"file")?;
            system.set_extended(file, b"user.x", &[7; 5_000], SetExtended::Any)
        }),
    ];
    let (image, old) = furnished();
    for (name, operation) in operations {
        let (mut after, _) = FileSystem::mount(Losing::new(image.clone()), clock()).unwrap();
        operation(&mut after).unwrap();
        let mut after = FileSystem::mount(after.into_memory().memory, clock()).unwrap().0;
        let new = tree(&mut after);
        let mut states = [0, 0];
        let stores = lose(&image, operation, &mut |system| {
            let left = tree(system);
            assert!(left == old || left == new, "{name}: neither before nor after");
            states[usize::from(left == new)] += 1;
        });
        // The tree does not show attributes: of them all that is asked for is a sound file system.
        let is_seen = old == new || states.iter().all(|&count| count > 0);
        assert!(stores > 5 && is_seen, "{name}: {stores}, {states:?}");
    }
}

/// The size shows no byte that is lost, and what was there before stays.
#[test]
fn bytes_are_old_or_new_where_a_page_is_lost() {
    let (image, _) = furnished();
    for overwrites in [Overwrites::InPlace, Overwrites::Whole] {
        for (offset, bytes) in [(100usize, 5_000usize), (30_000, 10), (28_000, 50_000), (40_000, 3_000)] {
            let old = vec![1; 30_000];
            let mut new = old.clone();
            new.resize(old.len().max(offset + bytes), 0);
            new[offset..offset + bytes].fill(5);
            let mut sizes = BTreeMap::new();
            let write = |system: &mut Lossy| {
                system.set_overwrites(overwrites);
                let file = system.look_up(Ino::ROOT, b"file")?;
                system.write(file, offset as u64, &vec![5; bytes]).map(|written| assert_eq!(written, bytes))
            };
            lose(&image, write, &mut |system| {
                let file = system.look_up(Ino::ROOT, b"file").unwrap();
                let left = contents(system, file);
                assert!(left.len() == old.len() || left.len() == new.len(), "{}", left.len());
                assert!(left.len() == old.len() || left[old.len()..] == new[old.len()..], "{offset}");
                let is_right = |(at, byte): (usize, &u8)| old.get(at) == Some(byte) || new[at] == *byte;
                assert!(left.iter().enumerate().all(is_right), "{offset}");
                let before = &left[..old.len()];
                let is_whole = before == old || *before == new[..old.len()];
                assert!(overwrites == Overwrites::InPlace || is_whole, "{offset}: torn");
                *sizes.entry(left.len()).or_insert(0) += 1;
            });
            assert!(sizes.contains_key(&old.len()), "{sizes:?}");
        }
    }
}

/// Everything that a store which has failed is asked for is answered with `EIO`, and changes nothing.
#[test]
fn a_failed_store_does_nothing() {
    let (image, _) = furnished();
    let (mut system, _) = FileSystem::mount(Losing::new(image), clock()).unwrap();
    let file = system.look_up(Ino::ROOT, b"file").unwrap();
    system.store.memory().left.set(0);
    assert_eq!(system.write(file, 0, b"lost"), Err(Error::IO));
    let before = system.store.memory().memory.image();
    assert_eq!(system.write(file, 0, b"x"), Err(Error::IO));
    assert_eq!(system.read(file, 0, &mut [0; 9]), Err(Error::IO));
    assert_eq!(system.attributes(file), Err(Error::IO));
    assert_eq!(system.look_up(Ino::ROOT, b"none"), Err(Error::IO));
    assert_eq!(system.list(Ino::ROOT, 0, &mut |_, _, _, _| true), Err(Error::IO));
    assert_eq!(system.extended(file, b"user.x"), Err(Error::IO));
    assert_eq!(system.seek(file, 0, Seek::Hole), Err(Error::IO));
    assert_eq!(system.read_link(file), Err(Error::IO));
    assert_eq!(system.create(Ino::ROOT, b"new", FILE, ME, 0), Err(Error::IO));
    assert_eq!(system.unlink(Ino::ROOT, b"file"), Err(Error::IO));
    assert_eq!(system.punch(file, 0..9_000), Err(Error::IO));
    assert_eq!(system.allocate(file, 0..90_000, false), Err(Error::IO));
    system.store.settle();
    assert!(system.store.memory().memory.image() == before);
}
