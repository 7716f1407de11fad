//! Counts the words of a text in several threads that share a map: `cargo run --example visits [FILE]`.

use std::thread;

use pagewalk_iceberg::IcebergMap;

const THREADS: usize = 4;

fn main() -> std::io::Result<()> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => "a page walk reads a page table, and a page table is a page".to_owned(),
    };
    let words: Vec<&str> =
        text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let counts: IcebergMap<&str, u64> = IcebergMap::new();
    thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(THREADS).max(1)) {
            let counts = &counts;
            scope.spawn(move || {
                for &word in part {
                    counts.entry(word).and_modify(|count| *count += 1).or_insert(1);
                }
            });
        }
    });
    let mut rows: Vec<(&str, u64)> = counts.into_iter().collect();
    rows.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    for (word, count) in rows.iter().take(10) {
        println!("{count:>8} {word}");
    }
    Ok(())
}
