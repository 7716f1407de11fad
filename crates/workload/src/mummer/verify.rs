//! Matches checked without the tree: each by comparison, and at sampled places of the query that none is missing.

use std::collections::BTreeMap;

use super::matches::Match;
use crate::random::SplitMix64;

/// How many places of the query are looked at for missing matches.
const SAMPLES: u64 = 2000;
/// The longest stretch whose bases fit in a word.
const WORD_BASES: usize = 32;

/// Checks matches of at least `least` bases.
pub(crate) fn matches(
    reference: &[u8],
    query: &[u8],
    least: usize,
    seed: u64,
    found: &[Match],
) -> Result<(), String> {
    if let Some(pair) = found.windows(2).find(|pair| pair[0].query >= pair[1].query) {
        return Err(format!("matches are out of order: {:?} before {:?}", pair[0], pair[1]));
    }
    found.iter().try_for_each(|m| one(reference, query, least, m))?;
    complete(reference, query, least, seed, found)
}

/// A match is long enough, its bases are the same, and the bases before and behind are not.
fn one(reference: &[u8], query: &[u8], least: usize, m: &Match) -> Result<(), String> {
    let [at, start, bases] = [m.query, m.reference, m.bases].map(|n| n as usize);
    let stretch = |text: &[u8], from: usize| text.get(from..from + bases).map(<[u8]>::to_vec);
    let same = stretch(reference, start);
    if bases < least || same.is_none() || same != stretch(query, at) {
        return Err(format!("{m:?} is no match of at least {least} bases"));
    }
    let before = at > 0 && start > 0 && query[at - 1] == reference[start - 1];
    let next = (query.get(at + bases), reference.get(start + bases));
    if before || matches!(next, (Some(a), Some(b)) if a == b) {
        return Err(format!("{m:?} can be extended"));
    }
    Ok(())
}

/// Finds by words what the match at each sampled place must be, and looks it up.
fn complete(reference: &[u8], query: &[u8], least: usize, seed: u64, found: &[Match]) -> Result<(), String> {
    let width = least.min(WORD_BASES);
    if query.len() < width || reference.len() < width {
        return Ok(());
    }
    let mut random = SplitMix64::of_item(seed, u64::MAX);
    // Where each sampled word lies in the reference.
    let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut samples: Vec<usize> =
        (0..SAMPLES).map(|_| random.below((query.len() - width + 1) as u64) as usize).collect();
    // Half of them where there is something to be found.
    for sample in samples.iter_mut().skip(1).step_by(2).take(found.len()) {
        *sample = found[random.below(found.len() as u64) as usize].query as usize;
    }
    for &sample in &samples {
        places.entry(word(&query[sample..sample + width])).or_default();
    }
    let mask = if width == WORD_BASES { u64::MAX } else { (1 << (2 * width)) - 1 };
    let mut rolling = word(&reference[..width - 1]);
    for (start, &last) in reference[width - 1..].iter().enumerate() {
        rolling = (rolling << 2 | u64::from(last)) & mask;
        if let Some(places) = places.get_mut(&rolling) {
            places.push(start);
        }
    }
    for &sample in &samples {
        let expected = longest(reference, query, sample, &places[&word(&query[sample..sample + width])])
            .filter(|m| m.bases as usize >= least);
        let reported = found.binary_search_by_key(&(sample as u32), |m| m.query).ok().map(|i| found[i]);
        if reported != expected {
            return Err(format!("at base {sample} of the query: {reported:?}, by words {expected:?}"));
        }
    }
    Ok(())
}

/// The longest common stretch from a place of the query on, if it occurs once and cannot be extended to the left.
fn longest(reference: &[u8], query: &[u8], at: usize, places: &[usize]) -> Option<Match> {
    let common =
        |start: usize| query[at..].iter().zip(&reference[start..]).take_while(|(a, b)| a == b).count();
    let bases = places.iter().map(|&start| common(start)).max()?;
    let mut longest = places.iter().copied().filter(|&start| common(start) == bases);
    let start = longest.next().filter(|_| longest.next().is_none())?;
    let extends = at > 0 && start > 0 && query[at - 1] == reference[start - 1];
    (!extends).then_some(Match { query: at as u32, reference: start as u32, bases: bases as u32 })
}

/// Up to 32 bases as a number.
fn word(bases: &[u8]) -> u64 {
    bases.iter().fold(0, |word, &base| word << 2 | u64::from(base))
}
