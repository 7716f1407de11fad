//! Tests of machine files: what is shipped, what is refused and how, what extends what.

mod bad;
mod extends;
mod fuzzing;
mod shipped;

/// The least that a machine needs.
const NAME: &str = "name = \"test\"\n";

/// A small machine that is right in everything.
const SOUND: &str = r#"
name = "sound"

[tlb.l1.set-associative]
entries = 64
ways = 4
pages = ["4KiB", "2MiB"]

[walk-cache]
entries = [2, 4, 32]

[caches.l1]
size = "32KiB"
ways = 8
latency = "4 cycles"

[caches.l2]
size = "1MiB"
ways = 16
latency = "14 cycles"
"#;

/// The whole report of a text that must be refused.
fn refusal(text: &str) -> String {
    super::parse(text, "bad.toml").expect_err("this text is no machine").to_string()
}
