//! The requests of clients to the owner through the kernel, by `ioctl` on a file of the mount: leases, frames, mappings, and what
//! no system call of the kernel's passes on.

use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::inode::Ino;
use crate::core::types::Overwrites;
use crate::memory::mapped::Mapped;
use crate::owner::mounted::Mounted;
use crate::protocol::messages::{self, WORDS};

impl Mounted {
    /// What a client asks for.
    pub(crate) fn asked(
        &self,
        ino: Ino,
        handle: u64,
        command: u32,
        words: [u64; WORDS],
    ) -> Result<[u64; WORDS]> {
        self.is_well()?;
        match command {
            messages::HELLO if !self.has_clients => Err(Errno::NOTTY),
            messages::HELLO => Ok([messages::VERSION, self.leases.socket(), 0, 0]),
            messages::LEASE => {
                let [client, at, bytes, serial] = words;
                let client = (client as usize, serial);
                let file = self.volume.find(ino)?;
                let system = self.volume.unnoticed();
                // Overwriting as a whole needs the log, which is the owner's; and a write through the kernel takes away what running the
                // file gives a program.
                let may_write = system.overwrites != Overwrites::Whole && !system.has_privileges(ino)?;
                let lease = || {
                    let (index, word, writes) = self.leases.lease(handle, client, may_write)?;
                    if writes {
                        self.held(file.at);
                    }
                    Ok([index as u64, word, file.at, u64::from(writes)])
                };
                if bytes == 0 && !self.leases.ends_leases(handle, client.0) {
                    return lease();
                }
                let mut system = system.noticed()?;
                let leased = lease()?;
                let size = system.inode(ino)?.size();
                if leased[3] != 0 && bytes > 0 && [size, messages::FILE_END].contains(&at) {
                    // What there is no room for the client asks for when it writes.
                    let _ = system.reserve(ino, size..size.saturating_add(bytes));
                }
                Ok(leased)
            }
            messages::RESERVE => {
                let [offset, bytes, ..] = words;
                let end = offset.checked_add(bytes).ok_or(Errno::FBIG)?;
                Ok([self.change(|system| system.reserve(ino, offset..end))?, 0, 0, 0])
            }
            messages::PIN => {
                let ([keeper, serial, client_serial, _], file) = (words, self.volume.find(ino)?);
                let keeper = keeper as usize;
                let mut system = self.volume.unnoticed();
                let number = self.leases.pin(handle, (keeper, serial), client_serial)?;
                let pinned = match self.leases.is_written_beside(ino) {
                    // What lies behind its end does not become bytes of it meanwhile.
                    true => system.noticed().and_then(|mut system| system.pin(ino)),
                    false => system.pin(ino),
                };
                if let Err(error) = pinned {
                    self.leases.unpin(number, keeper);
                    return Err(error);
                }
                Ok([number, file.at, 0, 0])
            }
            messages::BAR => {
                let closed = self.write()?;
                self.leases.bar(handle)?;
                drop(closed);
                self.forget_size(ino);
                Ok([0; WORDS])
            }
            // The kernel may have kept bytes that would have to move, too.
            messages::COLLAPSE | messages::INSERT if self.writes_back => Err(Errno::OPNOTSUPP),
            messages::COLLAPSE | messages::INSERT => {
                let [offset, bytes, ..] = words;
                let range = offset..offset.checked_add(bytes).ok_or(Errno::FBIG)?;
                if !self.leases.writes(handle) {
                    return Err(Errno::BADF);
                }
                self.change(|system| match command {
                    messages::COLLAPSE => system.collapse(ino, range.clone()),
                    _ => system.insert(ino, range.clone()),
                })?;
                Ok([0; WORDS])
            }
            messages::GROW => self.grow(words[0]).map(|()| [0; WORDS]),
            _ => Err(Errno::NOTTY),
        }
    }

    /// Lets the store have so many bytes. Clients have mapped the old ones only: what is leased to them they use through the kernel.
    fn grow(&self, bytes: u64) -> Result<()> {
        let mut system = self.write()?;
        let for_syncer = |memory: &Mapped| Ok([memory.for_checkpoints()?, memory.for_checkpoints()?]);
        let grown = system.grow_with(bytes, for_syncer).map_err(|error| error.errno())?;
        if let Some(memories) = grown {
            if let (Some(syncer), [Some(one), Some(other)]) = (&self.syncer, memories) {
                syncer.follow(one, other);
            }
            self.leases.outgrow_clients();
        }
        Ok(())
    }

    /// A client stores words of an inode from now on.
    fn held(&self, at: u64) {
        if let Some(syncer) = &self.syncer {
            syncer.holder.hold(at);
        }
    }
}
