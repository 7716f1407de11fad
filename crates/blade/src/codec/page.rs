//! A page, and the three parts in which it travels.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The content of a page.
pub type Page = [u8; PAGE_BYTES];

/// One of a page's three parts: 171, 171 and 170 words of 8 bytes, so that each fits into an Ethernet frame.
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

    /// Returns the part of this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::First),
            1 => Some(Self::Second),
            2 => Some(Self::Third),
            _ => None,
        }
    }

    /// Returns the number of the part.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the offset in bytes where the part begins in the page.
    pub const fn offset(self) -> usize {
        self as usize * Self::MAX_BYTES
    }

    /// Returns the length of the part in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Third => PAGE_BYTES - 2 * Self::MAX_BYTES,
            _ => Self::MAX_BYTES,
        }
    }

    /// Returns the range of the part's bytes in the page.
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
    /// Returns these bytes as a part; `None` if they are not as many as the part has.
    pub fn new(part: Part, bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() == part.bytes()).then_some(Self { part, bytes })
    }

    /// Returns a part of this page.
    pub fn of(page: &'a Page, part: Part) -> Self {
        Self { part, bytes: &page[part.range()] }
    }

    /// Returns which part of the page the bytes are.
    pub fn part(self) -> Part {
        self.part
    }

    /// Returns the content of the part, as many bytes as the part has.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Puts it into its place.
    pub fn copy_to(self, page: &mut Page) {
        page[self.part.range()].copy_from_slice(self.bytes);
    }
}
