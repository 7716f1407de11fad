//! Step 3: lets each inode have a partition of its own or none.

use std::collections::BTreeMap;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, PersistentMemory, Places, StoreError};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};
use crate::core::frames::set_place;
use crate::core::inode::{Field, Ino, kind};
use crate::core::repair::state::Repair;

impl<M: PersistentMemory> Repair<M> {
    /// Lets each inode have a partition of its own or none. Answers which inodes are to have a copy of what another has, and
    /// of how many bytes.
    pub(super) fn place_inodes(&mut self) -> Result<Vec<(Ino, Ino, u64)>> {
        let mut candidates = Vec::new();
        for (&ino, &kind) in &self.used {
            let inode = self.inode(ino)?;
            let is_known = inode.partition().is_some_and(|partition| self.store.is_allocated(partition));
            // What a directory loses costs more than what a file does.
            candidates.push(((!is_known, kind != kind::DIRECTORY, ino), inode));
        }
        candidates.sort_by_key(|&(order, _)| order);
        let (mut places, mut owners, mut copies) = (Places::default(), BTreeMap::new(), Vec::new());
        for ((_, _, ino), inode) in candidates {
            let number = ino.0;
            match inode.partition() {
                Some(partition) if places.claim(partition) => {
                    owners.insert(partition, ino);
                    if inode.size() > partition.level.bytes() {
                        self.set_field(ino, Field::Size, partition.level.bytes())?;
                        self.say(format!("inode {number} had {} bytes, more than it has room", inode.size()));
                    }
                }
                Some(partition) => {
                    if let Some(&owner) = owners.get(&partition) {
                        copies.push((ino, owner, inode.size().min(partition.level.bytes())));
                    }
                    self.say(format!(
                        "inode {number} lost its bytes: it cannot have the L{} partition at page {}",
                        partition.level.number(),
                        partition.first
                    ));
                    self.displace(ino)?;
                }
                None if inode.size() > 0 || inode.get(Field::Mode) >> 32 != 0 => {
                    self.displace(ino)?;
                    self.say(format!("inode {number} had {} bytes and no partition", inode.size()));
                }
                None => {}
            }
        }
        // The inodes agree before the headers follow them.
        self.fence();
        let (failed, is_changed) = self.store.rebuild_partitions(&places).map_err(of_store)?;
        if is_changed {
            self.say(format!("made the headers of partitions say what {} inodes have", owners.len()));
        }
        for partition in failed {
            let ino = *owners.get(&partition).ok_or(Errno::IO)?;
            self.displace(ino)?;
            self.say(format!("inode {} lost its bytes: there was no frame for a header around them", ino.0));
        }
        Ok(copies)
    }

    pub(super) fn displace(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        self.set_field(ino, Field::Size, 0)?;
        self.set_field(ino, Field::Mode, inode.mode().into())?;
        self.set_field(ino, Field::First, 0)?;
        Ok(())
    }

    /// Gives an inode a copy of another one's bytes, as far as there is room.
    pub(super) fn copy(&mut self, ino: Ino, other: Ino, size: u64) -> Result<()> {
        let Some(from) = self.inode(other)?.partition() else { return Ok(()) };
        let mode = self.inode(ino)?.mode();
        let mut transaction = self.store.begin();
        let to = match transaction.allocate(from.level) {
            Ok(to) => to,
            Err(StoreError::NoFrames | StoreError::NoPartition) => return Ok(()),
            Err(error) => return Err(of_store(error)),
        };
        set_place(&mut transaction, ino, mode, Some(to))?;
        transaction.commit().map_err(of_store)?;
        let mut page = from.first;
        while page < from.end() {
            let mapped = match self.store.find_or_gap(page) {
                Err(gap) => {
                    page = Vpn((page.0 / gap + 1) * gap);
                    continue;
                }
                Ok(mapped) => mapped,
            };
            let order = if mapped.large { LARGE_ORDER } else { 0 };
            let mut transaction = self.store.begin();
            let copied = transaction.take_frames(order).and_then(|frame| {
                let memory = transaction.memory();
                let mut bytes = vec![0; (PAGE_BYTES << order) as usize];
                memory.read(mapped.frame.addr().0, &mut bytes);
                memory.write(frame.addr().0, &bytes);
                memory.flush(frame.addr().0, bytes.len() as u64);
                transaction.map(Vpn(page.0 - from.first.0 + to.first.0), frame, order > 0)
            });
            match copied {
                Ok(()) => transaction.commit().map_err(of_store)?,
                Err(StoreError::NoFrames) => break,
                Err(error) => return Err(of_store(error)),
            }
            page = Vpn(page.0 + (1 << order));
        }
        let size = size.min((page.0.min(from.end().0) - from.first.0) * PAGE_BYTES);
        self.set_field(ino, Field::Size, size)?;
        self.fence();
        self.say(format!("inode {} has a copy of {size} bytes of inode {}", ino.0, other.0));
        Ok(())
    }
}
