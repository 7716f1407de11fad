//! Numbers of descriptors of our own, refused to the program's calls, and moved when the program wants them.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint};

use crate::own::{LEAST, copy};
use crate::process::is_our_process;
use crate::{connection, mappings, names};

fn all() -> impl Iterator<Item = c_int> {
    let kept = mappings::kept().chain(names::kept());
    connection::connection().map(|(_, number)| number).into_iter().chain(kept).filter(|&own| own >= 0)
}

/// Whether it is one of them.
#[inline]
pub(crate) fn is_own(descriptor: c_int) -> bool {
    descriptor >= LEAST.load(Ordering::Relaxed) && all().any(|own| own == descriptor)
}

/// The first one from a descriptor on.
pub(crate) fn next(from: c_uint) -> Option<c_uint> {
    all().filter_map(|own| c_uint::try_from(own).ok()).filter(|&own| own >= from).min()
}

/// The program wants a number: what is ours there goes elsewhere.
pub(crate) fn make_way(number: c_int) {
    if !is_own(number) || !is_our_process() {
        return;
    }
    let moved = copy(number, number.saturating_add(1));
    let moved = if moved == number { copy(number, 3) } else { moved };
    LEAST.fetch_min(moved, Ordering::Relaxed);
    match connection::connection().filter(|&(_, own)| own == number) {
        Some((client, _)) => client.descriptor_is_now(moved),
        None => {
            mappings::moved(number, moved);
            names::moved(number, moved);
        }
    }
}
