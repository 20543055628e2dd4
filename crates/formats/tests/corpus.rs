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

#[test]
fn documents_of_lugh() {
    run("lugh_document", 40, fuzz::lugh_document);
}

#[test]
fn archives_of_lugh() {
    run("lugh_archive", 60, fuzz::lugh_archive);
}

#[test]
fn indexes_of_loki() {
    run("loki_index", 60, fuzz::loki_index);
}

#[test]
fn metadata_of_loki() {
    run("loki_metadata", 60, fuzz::loki_metadata);
}
