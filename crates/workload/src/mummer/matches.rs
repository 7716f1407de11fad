//! The query streamed along the tree: at each of its bases the longest match, by suffix links from that at the base
//! before (Chang and Lawler, Algorithmica 1994), as MUMmer 3 does.

use super::sites;
use super::tree::{Child, Reference, TEXT_END, Text, Tree};
use crate::emit::{Emitter, Stop};

/// Instructions per base of the query, and per base compared (estimated by hand from the compiled loops).
pub(super) const STEP_INSTRUCTIONS: u64 = 15;
const BASE_INSTRUCTIONS: u64 = 6;

/// A stretch of the query that occurs in the reference once, and cannot be extended to either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) query: u32,
    pub(crate) reference: u32,
    pub(crate) bases: u32,
}

/// Where the longest match ends: below a node, as many bases in, on the edge to a child if it is not the node itself.
#[derive(Clone, Copy)]
struct Place {
    node: Reference,
    depth: usize,
    bases: usize,
    child: Option<Child>,
}

/// All matches of `least` bases or more, in the order of the query.
///
/// DEVIATION: MUMmer prints them; here only the check reads them.
pub(crate) fn find(
    tree: &Tree,
    query: &Text,
    least: usize,
    out: &mut Emitter<'_>,
) -> Result<Vec<Match>, Stop> {
    let mut matches = Vec::new();
    let mut place = Place { node: Reference::ROOT, depth: 0, bases: 0, child: None };
    for at in 0..query.len() {
        out.work(STEP_INSTRUCTIONS);
        out.enter(&sites::STEP)?;
        extend(tree, query, at, &mut place, out)?;
        let unique = place.child.and_then(|child| child.at.suffix()).filter(|_| place.bases >= least);
        if let Some(start) = unique
            && !extends_to_the_left(tree, query, at, start, out)?
        {
            matches.push(Match { query: at as u32, reference: start as u32, bases: place.bases as u32 });
        }
        place = without_first(tree, query, at, place, out)?;
    }
    Ok(matches)
}

/// Goes on as long as the query's bases are those of the tree.
fn extend(
    tree: &Tree,
    query: &Text,
    at: usize,
    place: &mut Place,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    loop {
        let child = match place.child {
            Some(child) => child,
            None => {
                // Behind the query's end lies a letter that no text has, like the one behind the reference.
                let letter = query.next(at + place.bases, out)?;
                if letter == TEXT_END {
                    return Ok(());
                }
                match tree.child_by(place.node, place.depth, letter, out)?.1 {
                    Some(child) => child,
                    None => return Ok(()),
                }
            }
        };
        place.child = Some(child);
        let (start, end) = (tree.start(child.at, out)?, tree.depth(child.at, out)?);
        while place.bases < end {
            out.work(BASE_INSTRUCTIONS);
            out.enter(&sites::COMPARE)?;
            let letter = tree.text().load(start + place.bases, out)?;
            if letter == TEXT_END || letter != query.next(at + place.bases, out)? {
                return out.enter(&sites::ARE_SAME);
            }
            out.enter(&sites::ARE_SAME)?;
            place.bases += 1;
        }
        *place = Place { node: child.at, depth: end, bases: end, child: None };
    }
}

/// Whether the bases before a match are the same.
fn extends_to_the_left(
    tree: &Tree,
    query: &Text,
    at: usize,
    start: usize,
    out: &mut Emitter<'_>,
) -> Result<bool, Stop> {
    Ok(at > 0 && start > 0 && query.next(at - 1, out)? == tree.text().load(start - 1, out)?)
}

/// Where all but the first base of the match end: from the node's suffix link down by depths alone.
fn without_first(
    tree: &Tree,
    query: &Text,
    at: usize,
    last: Place,
    out: &mut Emitter<'_>,
) -> Result<Place, Stop> {
    let bases = last.bases.saturating_sub(1);
    let (node, depth) = match last.depth {
        0 => (Reference::ROOT, 0),
        depth => (tree.link(last.node, out)?, depth - 1),
    };
    let mut place = Place { node, depth, bases, child: None };
    while place.depth < bases {
        let letter = query.next(at + 1 + place.depth, out)?;
        let child = tree.child_by(place.node, place.depth, letter, out)?.1.expect("known to be in the tree");
        let end = tree.depth(child.at, out)?;
        if end > bases {
            place.child = Some(child);
            break;
        }
        place = Place { node: child.at, depth: end, bases, child: None };
    }
    Ok(place)
}
