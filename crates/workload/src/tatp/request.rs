//! The requests of clients.

use crate::random::SplitMix64;

/// The seven transactions with their shares in percent, and what each draws beside a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// 35: all of a subscriber's row.
    GetSubscriberData,
    /// 10: where calls are forwarded to.
    GetNewDestination { facility: u8, start: u8, end: u8 },
    /// 35: a row of access information.
    GetAccessData { access: u8 },
    /// 2: a bit of the subscriber, and a byte of a facility.
    UpdateSubscriberData { bit: bool, facility: u8, data: u8 },
    /// 14: where the subscriber is.
    UpdateLocation { location: u32 },
    /// 2: a call forwarding is inserted.
    InsertCallForwarding { facility: u8, start: u8, end: u8, number: u32 },
    /// 2: a call forwarding is deleted.
    DeleteCallForwarding { facility: u8, start: u8 },
}

/// Which transactions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Only `UpdateSubscriberData`.
    UpdateSubscriber,
    /// All seven.
    Standard,
}

impl Request {
    /// Draws a request of a mix. Hours a call forwarding starts at are counted in eighths: 0, 1, 2 for 0, 8, 16 o'clock.
    pub(super) fn draw(mix: Mix, random: &mut SplitMix64) -> Self {
        let percent = match mix {
            Mix::UpdateSubscriber => 80,
            Mix::Standard => random.below(100),
        };
        // One number has bits enough for all the rest.
        let bits = random.next();
        let kind = 1 + (bits & 3) as u8;
        let below = |bound: u64, shift: u32| (((bits >> shift & 0xff) * bound) / 256) as u8;
        let (start, end) = (below(3, 8), 1 + below(24, 16));
        let number = (bits >> 32) as u32;
        match percent {
            0..35 => Self::GetSubscriberData,
            35..45 => Self::GetNewDestination { facility: kind, start, end },
            45..80 => Self::GetAccessData { access: kind },
            80..82 => Self::UpdateSubscriberData {
                bit: bits >> 2 & 1 == 1,
                facility: kind,
                data: (bits >> 24) as u8,
            },
            82..96 => Self::UpdateLocation { location: number },
            96..98 => Self::InsertCallForwarding { facility: kind, start, end, number },
            _ => Self::DeleteCallForwarding { facility: kind, start },
        }
    }
}
