//! `v2p.textproto`: which physical address each virtual page of a trace had.
//!
//! ```text
//! address_mapping_group {
//!   page_size: 0x200000
//!   address_mapping { virtual_address: 0x7f0000000000 physical_address: 0x40000000 }
//!   ...
//! }
//! ```
//!
//! The text form of a protobuf message: fields in any order, numbers decimal, hexadecimal or octal, an absent field 0, remarks
//! behind `#`. Other fields are left out. A file has pages of one or several sizes. It names no process: all of a trace's have
//! these pages. Source: DynamoRIO, `v2p_reader.cpp`.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use pagewalk_vm::addr::{PAGE_BYTES, PageSize};

use super::super::input::unreadable;
use super::place::within;
use crate::error::{Place, TraceError};

/// The longest file that is read; a mapping takes some 80 bytes.
const MAX_BYTES: u64 = 1 << 30;
/// The deepest nesting of messages.
const MAX_DEPTH: usize = 16;
const NAME: &str = "v2p.textproto";
/// Page sizes that a trace may have. Those between the sizes of x86-64 become pages of the next smaller one, side by side.
pub(in super::super) const PAGE_SIZES: RangeInclusive<u64> = PAGE_BYTES..=PageSize::Size1G.bytes();

/// The mapping of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The page's size in bytes.
    pub page_bytes: u64,
    /// An address in the page.
    pub virtual_address: u64,
    /// The physical address of that address.
    pub physical_address: u64,
}

/// The mapping that stands beside a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Translations {
    /// The file that it comes from.
    pub file: PathBuf,
    /// The pages with their frames, in the order of the file.
    pub pages: Vec<Translation>,
}

impl Translations {
    /// The mapping beside the trace `path`, if there is one: in the trace's folder, or in its neighbours.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no such text.
    pub(in super::super) fn beside(path: &Path) -> Result<Option<Self>, TraceError> {
        let folder = if path.is_dir() { within(path)? } else { path.parent().unwrap_or(path).to_path_buf() };
        let outer = folder.parent().filter(|_| folder.ends_with("trace"));
        let candidates = [
            Some(folder.join(NAME)),
            outer.map(|outer| outer.join(NAME)),
            outer.map(|outer| outer.join("aux").join(NAME)),
        ];
        let Some(file) = candidates.into_iter().flatten().find(|file| file.is_file()) else {
            return Ok(None);
        };
        let mut text = String::new();
        let name = file.display().to_string();
        let opened = std::fs::File::open(&file).map_err(TraceError::io("open", &file))?;
        opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(&name, error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(TraceError::Refused(format!("{name}: more than {MAX_BYTES} bytes")));
        }
        let pages = parse(&text, &name)?;
        Ok(Some(Self { file, pages }))
    }

    /// Returns the number of pages of each size.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        for page in &self.pages {
            *sizes.entry(page.page_bytes).or_default() += 1;
        }
        sizes
    }
}

/// Reads the text of a mapping; `name` is its file's in messages.
///
/// # Errors
///
/// What is wrong, with its line.
pub fn parse(text: &str, name: &str) -> Result<Vec<Translation>, TraceError> {
    let mut tokens = Tokens { rest: text, line: 1 };
    let mut pages = Vec::new();
    message(&mut tokens, 0, &mut |field, tokens, depth| match field {
        "address_mapping_group" => group(tokens, depth, &mut pages),
        _ => skip(tokens, depth),
    })
    .map_err(|what| TraceError::Malformed {
        file: name.to_owned(),
        place: Place::Line(tokens.line),
        what,
    })?;
    Ok(pages)
}

fn group(tokens: &mut Tokens<'_>, depth: usize, pages: &mut Vec<Translation>) -> Result<(), String> {
    let first = pages.len();
    let mut page_bytes = 0;
    tokens.open()?;
    message(tokens, depth + 1, &mut |field, tokens, depth| {
        match field {
            "page_size" => page_bytes = tokens.number()?,
            "address_mapping" => {
                let (mut virtual_address, mut physical_address) = (0, 0);
                tokens.open()?;
                message(tokens, depth + 1, &mut |field, tokens, depth| {
                    match field {
                        "virtual_address" => virtual_address = tokens.number()?,
                        "physical_address" => physical_address = tokens.number()?,
                        _ => skip(tokens, depth)?,
                    }
                    Ok(())
                })?;
                pages.push(Translation { page_bytes: 0, virtual_address, physical_address });
            }
            _ => skip(tokens, depth)?,
        }
        Ok(())
    })?;
    if !page_bytes.is_power_of_two() || !PAGE_SIZES.contains(&page_bytes) {
        return Err(format!(
            "a group of pages of {page_bytes} bytes; `page_size` must be a power of two from 4 KiB to 1 GiB"
        ));
    }
    pages[first..].iter_mut().for_each(|page| page.page_bytes = page_bytes);
    Ok(())
}

/// Reads fields until the message ends: at `}`, or for the outermost one at the end of the text.
fn message<'a>(
    tokens: &mut Tokens<'a>,
    depth: usize,
    field: &mut dyn FnMut(&'a str, &mut Tokens<'a>, usize) -> Result<(), String>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("messages in messages, more than {MAX_DEPTH} deep"));
    }
    loop {
        match tokens.next() {
            None if depth == 0 => return Ok(()),
            None => return Err("the text ends inside `{`: it was cut short".to_owned()),
            Some("}") if depth > 0 => return Ok(()),
            Some("," | ";") => {}
            Some(name) if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => {
                field(name, tokens, depth)?;
            }
            Some(other) => return Err(format!("`{}` where a field's name belongs", shortened(other))),
        }
    }
}

/// Leaves out the value of a field.
fn skip(tokens: &mut Tokens<'_>, depth: usize) -> Result<(), String> {
    match tokens.value()? {
        "{" => message(tokens, depth + 1, &mut |_, tokens, depth| skip(tokens, depth)),
        "}" => Err("`}` where a field's value belongs".to_owned()),
        _ => Ok(()),
    }
}

fn shortened(token: &str) -> String {
    token.chars().take(40).collect()
}

/// The words of a text: names and numbers, quoted strings, and single marks.
struct Tokens<'a> {
    rest: &'a str,
    line: u64,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        loop {
            let first = self.rest.chars().next()?;
            match first {
                '\n' => {
                    self.line += 1;
                    self.rest = &self.rest[1..];
                }
                '#' => self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..],
                _ if first.is_whitespace() => self.rest = &self.rest[first.len_utf8()..],
                '"' | '\'' => {
                    let end = self.rest[1..].find([first, '\n']).map_or(self.rest.len(), |end| end + 2);
                    return Some(self.take(end));
                }
                _ if is_word(first) => {
                    let end = self.rest.find(|next| !is_word(next)).unwrap_or(self.rest.len());
                    return Some(self.take(end));
                }
                _ => return Some(self.take(first.len_utf8())),
            }
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (token, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        token
    }

    /// The word behind a field's name and its colon.
    fn value(&mut self) -> Result<&'a str, String> {
        match self.next() {
            Some(":") => self.next(),
            other => other,
        }
        .ok_or_else(|| "the text ends before a field's value: it was cut short".to_owned())
    }

    fn open(&mut self) -> Result<(), String> {
        match self.value()? {
            "{" => Ok(()),
            other => Err(format!("`{}` where `{{` belongs", shortened(other))),
        }
    }

    fn number(&mut self) -> Result<u64, String> {
        let word = self.value()?;
        let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(&word[1..], 8),
            None => word.parse(),
        };
        number.map_err(|_| format!("`{}` is no number of 64 bits", shortened(word)))
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-' | '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_with_pages_of_two_sizes() {
        let text = "# remark { \naddress_mapping_group {\n page_size: 0x200000\n address_mapping { virtual_address: 0x123 \
                    physical_address: 0x3 }\n address_mapping { physical_address: 6 }\n information { page_count: 1 who: \"}\" } }\n\
                    address_mapping_group: { address_mapping { virtual_address: 4096, physical_address: 010 } page_size: 4096 }\n\
                    information { a { b: 1 } }\n";
        let page = |page_bytes, virtual_address, physical_address| Translation {
            page_bytes,
            virtual_address,
            physical_address,
        };
        let pages = parse(text, "v2p").unwrap();
        assert_eq!(pages, [page(0x20_0000, 0x123, 3), page(0x20_0000, 0, 6), page(4096, 4096, 8)]);
        let sizes = Translations { file: PathBuf::new(), pages }.sizes();
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [(4096, 1), (0x20_0000, 2)]);
    }

    #[test]
    fn wrong_mappings_name_their_line() {
        for (text, expected) in [
            ("address_mapping_group {\n page_size: 3\n}", "v2p: line 3: a group of pages of 3 bytes"),
            (
                "address_mapping_group {\n page_size: 2048\n}",
                "of 2048 bytes; `page_size` must be a power of two from",
            ),
            (
                "address_mapping_group {\n page_size: 0x80000000\n}",
                "of 2147483648 bytes; `page_size` must be",
            ),
            ("address_mapping_group {\n page_size: x\n}", "v2p: line 2: `x` is no number"),
            ("address_mapping_group {\n", "line 2: the text ends inside `{`"),
            ("address_mapping_group", "line 1: the text ends before a field's value"),
            ("}", "line 1: `}` where a field's name belongs"),
            ("address_mapping_group 7", "line 1: `7` where `{` belongs"),
            (&"a {".repeat(100), "more than 16 deep"),
        ] {
            let error = parse(text, "v2p").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
