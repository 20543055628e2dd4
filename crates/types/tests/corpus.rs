//! What people may write, as the fuzz targets read it: the kept corpus and thousands of variations.

use rappel_testing::corpus::run;
use rappel_types::fuzz;

#[test]
fn references() {
    run("reference", 2000, fuzz::reference);
}

#[test]
fn moments() {
    run("when", 2000, fuzz::when);
}

#[test]
fn configurations() {
    run("config", 1000, fuzz::config);
}
