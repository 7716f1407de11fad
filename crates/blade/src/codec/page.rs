//! A page, and the three parts in which it travels.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// A page's content.
pub type Page = [u8; PAGE_BYTES];

/// Which of a page's three parts: 171, 171 and 170 words of 8 bytes, so that each fits into an Ethernet frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Part {
    /// Bytes 0 to 1367.
    First,
    /// Bytes 1368 to 2735.
    Second,
    /// Bytes 2736 to 4095.
    Third,
}

impl Part {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Third];
    /// Bytes of the longest.
    pub const MAX_BYTES: usize = 1368;

    /// The part of this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::First),
            1 => Some(Self::Second),
            2 => Some(Self::Third),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Where it begins in the page.
    pub const fn offset(self) -> usize {
        self as usize * Self::MAX_BYTES
    }

    /// How long it is.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Third => PAGE_BYTES - 2 * Self::MAX_BYTES,
            _ => Self::MAX_BYTES,
        }
    }

    /// Its bytes in the page.
    pub const fn range(self) -> std::ops::Range<usize> {
        self.offset()..self.offset() + self.bytes()
    }
}

/// A part of a page with its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagePart<'a> {
    part: Part,
    bytes: &'a [u8],
}

impl<'a> PagePart<'a> {
    /// None if `bytes` are not as many as the part has.
    pub fn new(part: Part, bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() == part.bytes()).then_some(Self { part, bytes })
    }

    /// A part of this page.
    pub fn of(page: &'a Page, part: Part) -> Self {
        Self { part, bytes: &page[part.range()] }
    }

    /// Which one.
    pub fn part(self) -> Part {
        self.part
    }

    /// Its content, as many bytes as the part has.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Puts it into its place.
    pub fn copy_to(self, page: &mut Page) {
        page[self.part.range()].copy_from_slice(self.bytes);
    }
}
