//! Names the shared library as programs look for it when they start: the number changes when a program must be built anew.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpagewalk_ctfs_c.so.0");
}
