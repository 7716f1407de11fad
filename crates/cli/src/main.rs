//! pagewalk
fn main() {}
