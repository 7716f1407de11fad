//! Turns a JSON document on standard input into the report on standard output: `render html` or `render table`.
//!
//! ```text
//! pagewalk run --workload gups --format json | cargo run -p pagewalk-report --example render html > report.html
//! ```

use std::io::{Read, Write, stdin, stdout};
use std::process::ExitCode;

use pagewalk_report::{Document, Style, comparison, page};

fn main() -> ExitCode {
    let mut text = String::new();
    if let Err(error) = stdin().read_to_string(&mut text) {
        eprintln!("error: cannot read standard input: {error}");
        return ExitCode::from(2);
    }
    let document = match Document::from_json(&text) {
        Ok(document) => document,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let report = match std::env::args().nth(1).as_deref() {
        Some("html") => page(&document),
        Some("table") => comparison(&document.runs, Style::default()),
        _ => {
            eprintln!("error: say what to make of the document: `html` or `table`");
            return ExitCode::from(2);
        }
    };
    match stdout().write_all(report.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
