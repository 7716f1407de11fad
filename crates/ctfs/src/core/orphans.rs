//! Inodes without a name that a program still has open: a list in the store, so that a crash does not lose what they hold.

use pagewalk_vm::file::{PersistentMemory, Transaction};
use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::inode::{Field, Ino, Inodes, MOST_INODES};
use crate::core::root;

/// Puts one at the head of the list.
pub(crate) fn add<M: PersistentMemory>(transaction: &mut Transaction<'_, M>, ino: Ino) -> Result<()> {
    let head = transaction.root_word(root::ORPHANS);
    transaction.set_field(ino, Field::NextOrphan, head)?;
    transaction.set_root_word(root::ORPHANS, ino.0);
    Ok(())
}

/// Takes one inode out of the list.
pub(crate) fn remove<M: PersistentMemory>(transaction: &mut Transaction<'_, M>, ino: Ino) -> Result<()> {
    let next = transaction.field(ino, Field::NextOrphan)?;
    let mut at = Ino(transaction.root_word(root::ORPHANS));
    if at == ino {
        transaction.set_root_word(root::ORPHANS, next);
        return Ok(());
    }
    // A damaged list may be a circle.
    for _ in 0..MOST_INODES {
        let behind = Ino(transaction.field(at, Field::NextOrphan)?);
        if behind == ino {
            return transaction.set_field(at, Field::NextOrphan, next);
        }
        if behind == Ino::NONE {
            break;
        }
        at = behind;
    }
    Err(Errno::IO)
}
