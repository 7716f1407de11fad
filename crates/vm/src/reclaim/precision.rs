//! The precision of a policy as compared with exact LRU: the ages of the pages that it evicts.

use super::Placed;
use crate::addr::{Asid, Vpn};
use crate::frame::PageKey;

/// Places `pages` new pages one after the other, none of which is used again, and answers for every evicted page the
/// share of `frames` whose pages are older: 0 is what exact LRU would evict.
///
/// The setting of Figure 4 of Mosaic Pages (IEEE Micro 2024).
pub fn evicted_ages(pages: u32, frames: u64, mut place: impl FnMut(PageKey) -> Placed) -> Vec<f64> {
    let mut residents = Ranks(vec![0; pages as usize + 1]);
    let mut ages = Vec::new();
    for number in 0..pages as usize {
        let page = PageKey { asid: Asid(0), page: Vpn(number as u64) };
        if let Some((_, gone)) = place(page).evicted {
            let gone = gone.page.0 as usize;
            ages.push(f64::from(residents.below(gone)) / frames as f64);
            residents.add(gone, -1);
        }
        residents.add(number, 1);
    }
    ages
}

/// The number of resident pages below a number: a binary indexed tree (Fenwick, 1994).
struct Ranks(Vec<u32>);

impl Ranks {
    fn add(&mut self, number: usize, change: i32) {
        let mut at = number + 1;
        while at < self.0.len() {
            self.0[at] = self.0[at].wrapping_add_signed(change);
            at += at & at.wrapping_neg();
        }
    }

    fn below(&self, number: usize) -> u32 {
        let (mut at, mut sum) = (number, 0);
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}
