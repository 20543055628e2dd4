//! What a home may hold, as the fuzz targets read it: the kept corpus and thousands of variations.

use rappel_store::fuzz;
use rappel_testing::corpus::run;

#[test]
fn records() {
    run("record", 1000, fuzz::record);
}

#[test]
fn blocks() {
    run("block", 1000, fuzz::block);
}

#[test]
fn trees() {
    run("tree", 2000, fuzz::tree);
}

#[test]
fn chunk_lists() {
    run("chunk_list", 2000, fuzz::chunk_list);
}

#[test]
fn manifests() {
    run("manifest", 1000, fuzz::manifest);
}

#[test]
fn commits() {
    run("commit", 2000, fuzz::commit);
}

#[test]
fn documents() {
    run("document", 2000, fuzz::document);
}
