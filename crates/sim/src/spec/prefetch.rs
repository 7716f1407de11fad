//! The prefetchers of a cache level.

use super::section::{Words, section};

/// When a stream goes on into its next page.
static NEXT_PAGE: Words<bool> = Words(&[
    ("ahead", true, "while the program is in the page before: it has the page translated, too"),
    ("reached", false, "when the program gets there"),
]);

/// The line that a next-line prefetcher asks for.
static DIRECTION: Words<bool> = Words(&[
    ("up", false, "the ones behind each line that is used"),
    (
        "neighbours",
        true,
        "the one behind where the level has the one before, the one before where it has the one behind, and the one behind of a line that it does not have, and of which it has neither",
    ),
]);

section! {
    /// The prefetchers of a cache level, each of which works if its table is there.
    pub struct PrefetchSpec {
        next_line: Option<NextLineSpec> = "next-line" part(NextLineSpec), "the lines behind each one that is used";
        stride: Option<StrideSpec> = "stride" part(StrideSpec), "the lines that an instruction loads next if it goes on in equal steps";
        stream: Option<StreamSpec> = "stream" part(StreamSpec), "the lines ahead of accesses that go up or down from line to line, beyond pages";
    }
}

section! {
    /// The keys of a next-line prefetcher, which asks for the lines behind each one.
    pub struct NextLineSpec {
        lines: u32 = "lines" integer(1, 8) or "1", "lines behind the one that is used";
        by_neighbours: bool = "direction" word(&DIRECTION) or "\"up\"", "the lines that the level asks for";
        remembered: u32 = "remembered" integer(0, 65_536) or "0",
            "lines beside others that are remembered, to see whether they are used: an instruction of which most are not gets none; rounded up to a power of two. 0: each gets them";
    }
}

section! {
    /// The keys of a stride prefetcher, which knows the steps of instructions.
    pub struct StrideSpec {
        instructions: u32 = "instructions" integer(1, 65_536) or "256", "instructions that are remembered; rounded up to a power of two";
        distance: u32 = "distance" integer(1, 64) or "8", "steps ahead of the access";
    }
}

section! {
    /// The keys of a stream prefetcher, which knows the directions of pages, by virtual address.
    pub struct StreamSpec {
        pages: u32 = "pages" integer(1, 1_024) or "32", "pages that are remembered, those that were accessed last";
        distance: u32 = "distance" integer(1, 63) or "32", "lines ahead of the last access, at most; two for each that follows another";
        near: u32 = "near" integer(0, 63) or "0",
            "of these, the nearest lines, which come into this level: one more with each line that follows another from the third on, and so many at most; those farther ahead come into the next level. 0: all come into this one";
        crosses_pages: bool = "next-page" word(&NEXT_PAGE) or "\"ahead\"", "when lines of the stream's next page are asked for";
    }
}
