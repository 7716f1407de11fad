//! How often words come in a text, the rare ones left out: `cargo run --example words [FILE]`.

use pagewalk_elastic::ElasticMap;

const TEXT: &str = "the page that the walker wants is the page that the table maps";

fn main() -> std::io::Result<()> {
    let text = std::env::args().nth(1).map_or_else(|| Ok(TEXT.to_owned()), std::fs::read_to_string)?;
    let mut counts = ElasticMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_insert(0u64) += 1;
    }
    let different = counts.len();
    counts.retain(|_, count| *count > 1);
    counts.shrink_to_fit();
    let mut often: Vec<(&str, u64)> = counts.into_iter().collect();
    often.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    println!("{different} different words; more than once:");
    often.iter().for_each(|(word, count)| println!("{count:8} {word}"));
    Ok(())
}
