//! What a home may hold, as the fuzz targets read it: the kept corpus and thousands of variations.

use rappel_store::block::Block;
use rappel_store::bundle::Bundle;
use rappel_store::content::ChunkList;
use rappel_store::log::Commit;
use rappel_store::sink::{Role, Sink};
use rappel_store::store::decode_manifest;
use rappel_store::{fuzz, record, tree};
use rappel_testing::MemoryStore;
use rappel_testing::corpus::{run, seed};

/// A corpus of a format that is no longer ours would find nothing.
#[test]
fn the_valid_seeds_are_valid() {
    assert_eq!(record::all(&seed("record", "three"), 0).len(), 3);
    assert!(Block::parse(&seed("block", "mixed")).is_ok());
    assert!(ChunkList::decode(&seed("chunk_list", "list")).is_ok());
    assert!(decode_manifest(&seed("manifest", "full")).is_ok());
    assert!(Commit::decode(&seed("commit", "full")).is_ok());
    assert!(Bundle::from_bytes(seed("bundle", "two")).is_ok());
    let store = MemoryStore::default();
    let root = store.put(Role::Structure, &seed("tree", "leaf"), None);
    let entries = root.and_then(|root| tree::read(&store, &root));
    assert!(entries.is_ok_and(|entries| entries.len() == 4));
}

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

#[test]
fn bundles() {
    // Only two of them are valid; each of the others is wrong in one thing.
    for (name, bytes) in fuzz::bundle_seeds() {
        assert_eq!(seed("bundle", name), bytes, "{name}: run make_corpus");
        assert_eq!(Bundle::from_bytes(bytes).is_ok(), ["one", "two"].contains(&name), "{name}");
    }
    run("bundle", 1000, fuzz::bundle);
}
