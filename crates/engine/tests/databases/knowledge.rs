//! Folders of documents that are captured whole.

use rappel::types::knowledge::Document;
use rappel::types::{Facet, FacetState};
use rappel::{DiffOptions, RestoreOptions, SaveOptions};
use rappel_store::sink::Source;
use rappel_testing::Project;

use crate::support::{World, reference};

fn world() -> World {
    let project = Project::new()
        .file("code", "1")
        .file("knowledge/my-app/plan.md", "# The plan\n\ntext\n")
        .file("knowledge/my-app/deep/notes.md", "---\ntitle: Notes\n---\n")
        .file("knowledge/other/raw.bin", [0u8, 1, 2])
        .file("rappel.toml", "[knowledge]\npaths = [\"knowledge/\"]\n")
        .file(".gitignore", "knowledge\n");
    let world = World::new(project);
    world.git(&["init", "-q"]);
    world
}

fn documents(world: &World, id: &str) -> Vec<Document> {
    let index = world.open().show(&reference(id)).unwrap().manifest.knowledge.unwrap().index;
    let store =
        rappel_store::Store::open(world.home.path(), rappel_store::Options::default()).unwrap();
    serde_json::from_slice(&store.get(&index).unwrap()).unwrap()
}

#[test]
fn it_is_compared_by_itself_and_what_is_not_there_is_told() {
    let world = world();
    let first = world.save("first");
    world.write("knowledge/my-app/plan.md", "# Another plan\n");
    world.write("code", "2");
    let compare = |only: &[Facet]| {
        let options = DiffOptions { only: only.to_vec(), ..DiffOptions::default() };
        world.open().diff(&reference(&first), None, &options)
    };
    let modified = |only: &[Facet]| {
        let diff = compare(only).unwrap();
        diff.files.modified.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(modified(&[Facet::Knowledge]), ["knowledge/my-app/plan.md"]);
    assert_eq!(modified(&[Facet::Files]), ["code"]);
    assert_eq!(compare(&[]).unwrap().knowledge, 1);
    assert!(compare(&[Facet::Process]).is_err());

    world.write(
        "rappel.toml",
        "[knowledge]\npaths = [\"nowhere\"]\n[variables]\ncapture = [\"NOT_SET\"]\n",
    );
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    let told = |part: &str| saved.notes.iter().any(|note| note.contains(part));
    assert!(told("there is no nowhere") && told("NOT_SET is not kept"), "{:?}", saved.notes);
    assert!(!saved.checkpoint.manifest.partial);
    let hints = world.open().status().unwrap().remarks;
    assert!(hints.iter().any(|hint| hint.contains("nowhere")), "{hints:?}");
}

#[test]
fn it_is_captured_although_git_ignores_it_and_listed_in_an_index() {
    let world = world();
    let first = world.save("first");
    let manifest = world.open().show(&reference(&first)).unwrap().manifest;
    assert_eq!(manifest.state_of(Facet::Knowledge), FacetState::Captured);
    let knowledge = manifest.knowledge.unwrap();
    assert_eq!(
        (&knowledge.projects[..], knowledge.document_count),
        (&["my-app".to_owned(), "other".to_owned()][..], 3)
    );
    let found = documents(&world, &first);
    let titles: Vec<_> =
        found.iter().map(|one| (one.path.to_string(), one.title.as_deref())).collect();
    assert_eq!(
        titles,
        [
            ("knowledge/my-app/deep/notes.md".to_owned(), Some("Notes")),
            ("knowledge/my-app/plan.md".to_owned(), Some("The plan")),
            ("knowledge/other/raw.bin".to_owned(), None),
        ]
    );
    // A change is found, and what did not change is taken over.
    world.write("knowledge/my-app/plan.md", "# Another plan\n");
    world.remove("knowledge/other/raw.bin");
    let second = world.save("second");
    let titles: Vec<_> =
        documents(&world, &second).into_iter().map(|one| one.title.unwrap()).collect();
    assert_eq!(titles, ["Notes", "Another plan"]);
    let third = world.save("third");
    let part = |id: &str| world.open().show(&reference(id)).unwrap().manifest.knowledge;
    assert_eq!(part(&second), part(&third));
}

#[test]
fn it_is_restored_with_everything_by_itself_or_not_at_all() {
    let world = world();
    let first = world.save("first");
    let change = || {
        world.write("code", "2");
        world.write("knowledge/my-app/plan.md", "gone wrong");
        world.write("knowledge/new/late.md", "# Late\n");
    };
    change();
    world.restore(&first);
    assert_eq!(world.read("knowledge/my-app/plan.md"), "# The plan\n\ntext\n");
    assert!(!world.exists("knowledge/new/late.md"));
    world.undo();
    assert_eq!(world.read("knowledge/new/late.md"), "# Late\n");

    let choose = |only: Option<Facet>, skip: Option<Facet>| RestoreOptions {
        only: only.map(|facet| [facet].into()),
        skip: skip.into_iter().collect(),
        ..RestoreOptions::default()
    };
    let only = choose(Some(Facet::Knowledge), None);
    let report = world.open().restore(&reference(&first), &only).unwrap();
    assert!(report.actions.iter().all(|action| action.facet == Facet::Knowledge), "{report:?}");
    assert_eq!(
        (world.read("code"), world.read("knowledge/my-app/plan.md")),
        ("2".into(), "# The plan\n\ntext\n".into())
    );
    change();
    let skip = choose(None, Some(Facet::Knowledge));
    world.open().restore(&reference(&first), &skip).unwrap();
    assert_eq!(
        (world.read("code"), world.read("knowledge/my-app/plan.md")),
        ("1".into(), "gone wrong".into())
    );
}

#[test]
fn where_it_was_not_asked_for_it_authorises_no_delete() {
    let world = world();
    world.clock.advance(61_000);
    let options = SaveOptions { skip: [Facet::Knowledge].into(), ..SaveOptions::default() };
    let saved = world.open().save(&options).unwrap().checkpoint.manifest;
    assert_eq!(saved.state_of(Facet::Knowledge), FacetState::NotAsked);
    world.write("code", "2");
    world.restore(&saved.id.to_string());
    assert_eq!(world.read("code"), "1");
    assert!(world.exists("knowledge/my-app/plan.md"));
}
