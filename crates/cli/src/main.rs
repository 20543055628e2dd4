//! The rappel command.
fn main() {}
