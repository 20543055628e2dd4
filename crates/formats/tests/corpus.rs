//! Files of other programs as the fuzz targets read them: the kept corpus and its variations.

use rappel_formats::fuzz;
use rappel_testing::corpus::run;

#[test]
fn files_of_caf() {
    run("caf", 400, fuzz::caf);
}

#[test]
fn files_of_forge() {
    run("forge", 400, fuzz::forge);
}

#[test]
fn files_of_aiwg() {
    run("aiwg", 400, fuzz::aiwg);
}
