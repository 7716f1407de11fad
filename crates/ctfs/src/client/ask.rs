//! Requests of a client for names and attributes, asked of the owner in shared memory.

use rustix::io::Errno;

use crate::client::connection::{Lease, LeaseClient};
use crate::core::inode::Ino;
use crate::core::types::Attributes;
use crate::memory::mailbox::{Sleep, WORDS};
use crate::protocol::requests::{
    Base, Caller, DONE, FOLLOW, KERNELS, NO_ID, REPLACES_NOTHING, Refused, Request, SetTime, What, attributes,
};

/// A file that was opened without the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OpenedBeside {
    /// The number of the open file at the owner's service.
    pub handle: u64,
    /// The inode number of the file.
    pub ino: Ino,
    /// The lease of it, which holds until a program opens the file in a way that would see a difference.
    pub lease: Lease,
}

/// A change of a file's attributes; an attribute that is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The new permission bits.
    pub mode: Option<u32>,
    /// The new owner's number.
    pub uid: Option<u32>,
    /// The new group's number.
    pub gid: Option<u32>,
    /// The new time of access.
    pub accessed: SetTime,
    /// Change of its bytes.
    pub modified: SetTime,
}

/// The requests that a client makes of the owner by itself, one at a time: see [`LeaseClient::ask`].
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    client: &'a LeaseClient,
    caller: Caller,
    sleep: Sleep,
}

type Answered<T> = std::result::Result<T, Refused>;

impl Ask<'_> {
    fn send(&self, mut request: Request, texts: [&[u8]; 2]) -> Answered<[u64; WORDS]> {
        let client = self.client;
        if client.gate.serial(client.number) != client.serial {
            return Err(Refused::Kernels);
        }
        request.texts = texts.map(<[u8]>::len);
        let mut words = request.to_words();
        let (mailbox, bell) = (client.gate.mailbox(client.number), client.gate.bell());
        mailbox
            .ask((bell, client.number), &mut words, texts, self.sleep, || client.is_owner_gone())
            .ok_or(Refused::Kernels)?;
        match words[0] {
            DONE => Ok(words),
            KERNELS => Err(Refused::Kernels),
            number => Err(Refused::Error(Errno::from_raw_os_error(number as i32))),
        }
    }

    fn request(&self, what: What, base: Base) -> Request {
        Request::new(what, self.caller, base)
    }

    /// Returns the attributes of a file.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for the others.
    pub fn look(&self, base: Base, path: &[u8], follows: bool) -> Answered<Attributes> {
        let request = Request { flags: u32::from(follows) * FOLLOW, ..self.request(What::Look, base) };
        self.send(request, [path, b""]).map(|words| attributes(&words))
    }

    /// Opens a file with `open`'s flags, and makes it if they say so.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(&self, base: Base, path: &[u8], flags: i32, mode: u32) -> Answered<OpenedBeside> {
        let request = Request { flags: flags as u32, mode, ..self.request(What::Open, base) };
        let words = self.send(request, [path, b""])?;
        let [handle, ino, index, word, inode, writes] = std::array::from_fn(|at| words[1 + at]);
        let lease = Lease { index: index as usize, word, inode, writes: writes != 0 };
        Ok(OpenedBeside { handle, ino: Ino(ino), lease })
    }

    /// Closes what was opened. The client does not wait for that; an owner that is gone has closed it.
    pub fn close(&self, handle: u64) {
        let client = self.client;
        if client.gate.serial(client.number) == client.serial {
            let words = self.request(What::Close, Base::Handle(handle)).to_words();
            let mailbox = client.gate.mailbox(client.number);
            let _ = mailbox.post((client.gate.bell(), client.number), &words, [b""; 2], self.sleep, &|| {
                client.is_owner_gone()
            });
        }
    }

    /// Returns a path from the root on by which the kernel can open an open file once more, and the file that this is to be.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn path<'a>(&self, handle: u64, into: &'a mut [u8]) -> Answered<(&'a [u8], Ino)> {
        let words = self.send(self.request(What::Path, Base::Handle(handle)), [b""; 2])?;
        let mailbox = self.client.gate.mailbox(self.client.number);
        Ok((mailbox.text(into, words[1] as usize), Ino(words[2])))
    }

    /// Lets a range of what was opened have frames; up to where it has.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn reserve(&self, handle: u64, offset: u64, bytes: u64) -> Answered<u64> {
        let request = Request { range: [offset, bytes], ..self.request(What::Reserve, Base::Handle(handle)) };
        let reached = self.send(request, [b""; 2])?[1];
        // The file may lie elsewhere now.
        self.client.memory.keep_translations_since(self.client.gate.closings());
        Ok(reached)
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn make_directory(&self, base: Base, path: &[u8], mode: u32) -> Answered<()> {
        self.send(Request { mode, ..self.request(What::MakeDirectory, base) }, [path, b""]).map(drop)
    }

    /// Takes a file's name away.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn unlink(&self, base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::Unlink, base), [path, b""]).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn remove_directory(&self, base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::RemoveDirectory, base), [path, b""]).map(drop)
    }

    /// Gives a file another name; it takes the name from another file, if it may.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn rename(
        &self,
        (base, path): (Base, &[u8]),
        (to, name): (Ino, &[u8]),
        may_replace: bool,
    ) -> Answered<()> {
        let flags = if may_replace { 0 } else { REPLACES_NOTHING };
        self.send(Request { flags, other: to, ..self.request(What::Rename, base) }, [path, name]).map(drop)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn link(&self, (base, path): (Base, &[u8]), (to, name): (Ino, &[u8]), follows: bool) -> Answered<()> {
        let flags = u32::from(follows) * FOLLOW;
        self.send(Request { flags, other: to, ..self.request(What::Link, base) }, [path, name]).map(drop)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn link_to(&self, target: &[u8], base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::LinkTo, base), [path, target]).map(drop)
    }

    /// Reads a symbolic link's target, as much as there is room for.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn read_link<'a>(&self, base: Base, path: &[u8], into: &'a mut [u8]) -> Answered<&'a [u8]> {
        let words = self.send(self.request(What::ReadLink, base), [path, b""])?;
        Ok(self.client.gate.mailbox(self.client.number).text(into, words[1] as usize))
    }

    /// Changes a file's attributes.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn change(&self, base: Base, path: &[u8], follows: bool, change: Change) -> Answered<()> {
        let given = |value: Option<u32>| value.unwrap_or(NO_ID);
        let request = Request {
            flags: u32::from(follows) * FOLLOW,
            mode: given(change.mode),
            ids: [given(change.uid), given(change.gid)],
            times: [change.accessed, change.modified],
            ..self.request(What::Change, base)
        };
        self.send(request, [path, b""]).map(drop)
    }
}

impl LeaseClient {
    /// Names and attributes, asked of the owner in shared memory. Only one thread of this process asks, and nothing else of it is in the
    /// middle of a read or a write.
    pub fn ask(&self, caller: Caller, sleep: Sleep) -> Ask<'_> {
        Ask { client: self, caller, sleep }
    }
}
