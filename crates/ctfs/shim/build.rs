//! Lets `src/cancelled.rs` stand before the function that unwinds frames of Rust.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=rust_eh_personality");
}
