//! What other programs wrote, as the fuzz targets read it: the kept corpus and variations of each file.

use rappel_formats::fuzz;
use rappel_testing::corpus::run;

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
