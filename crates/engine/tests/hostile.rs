//! Checkpoints that nobody would make who means well: whatever a tree or a manifest says, nothing is
//! written outside the workspace or into `.git`, no wrong bytes come back, nothing hangs, and the
//! other checkpoints are as good as before.
#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    clippy::assigning_clones,
    reason = "tables of cases read better so"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod hostile_home;
mod support;

use hostile_home::{Forged, Node, commit, forge, json_of};
use rappel::types::{Content, ObjectId, Trigger};
use rappel::{DiffOptions, ErrorKind, ListFilter, RestoreOptions, SaveOptions};
use rappel_store::content::{Chunk, ChunkList};
use rappel_store::record::Kind;
use rappel_store::sink::{Role, Sink, id_of};
use rappel_store::writer::Writer;
use rappel_testing::{Project, snapshot};
use support::{World, path, reference};

fn world() -> World {
    let project = Project::new()
        .file("a", "abc")
        .file("notes/today", "text")
        .symlink("link", "../elsewhere")
        .file(".git/config", "[core]\n");
    std::fs::create_dir(project.outside().join("elsewhere")).unwrap();
    std::fs::write(project.outside().join("elsewhere/mine"), "mine").unwrap();
    World::new(project)
}

/// What every command makes of a checkpoint.
#[derive(Debug)]
struct Fate {
    /// Of `show --files`.
    files: Option<ErrorKind>,
    /// Of a comparison with a good checkpoint.
    diff: Option<ErrorKind>,
    /// Of a restore in place.
    restore: Option<ErrorKind>,
    /// Of a restore to another folder.
    restore_to: Option<ErrorKind>,
    /// Whether `verify` found something wrong with it.
    hurt: bool,
}

fn kind<T>(result: rappel::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| {
        assert!(!error.to_string().is_empty());
        error.kind()
    })
}

/// Has everything done with a checkpoint that can be done, and looks that nothing comes of it.
fn endure(world: &World, good: &str, evil: &str) -> Fate {
    let outside = world.project.outside().to_owned();
    let before = snapshot(&outside);
    let (good_ref, evil_ref) = (reference(good), reference(evil));
    let rappel = world.open();
    rappel.show(&evil_ref).unwrap();
    let listing = rappel.list(&ListFilter::default()).unwrap();
    assert!(listing.checkpoints.iter().any(|one| one.manifest.id.as_str() == good));
    assert_eq!(listing.unreadable, [""; 0]);
    rappel.status().unwrap();
    rappel.stats().unwrap();

    let files = kind(rappel.files_of(&evil_ref));
    let diff = rappel.diff(&good_ref, Some(&evil_ref), &DiffOptions::default());
    if let Ok(diff) = &diff {
        let _ = rappel.diff_text(diff, &mut |_| {});
    }
    let _ = rappel.diff(&evil_ref, None, &DiffOptions::default());
    for name in ["a", "link/x", ".git/config"] {
        let _ = rappel.cat(&evil_ref, &path(name), &mut Vec::new());
    }
    let dry = kind(rappel.plan_restore(&evil_ref, &RestoreOptions::default()));
    let copy = outside.join("copy");
    let copied = rappel.restore_to(&evil_ref, &copy, &RestoreOptions::default());
    assert_eq!(copied.is_err(), !copy.exists(), "a copy that failed leaves nothing");
    assert!(!copy.join(".git").exists() && !copy.join(".GIT").exists());
    let restore_to = kind(copied);
    let _ = std::fs::remove_dir_all(copy);
    assert_eq!(snapshot(&outside), before, "looking changes nothing");

    world.clock.advance(1000);
    let restored = world.open().restore(&evil_ref, &RestoreOptions::default());
    let restore = kind(restored);
    if dry.is_some() {
        assert!(restore.is_some(), "the plan was refused");
    }
    let after = snapshot(&outside);
    for (name, thing) in &before {
        if name.starts_with("elsewhere") || name.starts_with("project/.git") || restore.is_some() {
            assert_eq!(after.get(name), Some(thing), "{name}");
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        assert!(restore.is_none() && name.starts_with("project/"), "{name} is new");
        assert!(!name.to_lowercase().contains(".git/"), "{name} is new");
    }
    assert_eq!(world.open().status().unwrap().restores, 0, "nothing is left unfinished");

    let report = world.open().verify(None).unwrap();
    assert!(report.hurt.iter().all(|hurt| hurt.checkpoint.as_str() == evil), "{report:?}");
    assert!(report.damage.is_empty() || !report.hurt.is_empty(), "{report:?}");
    let alone = world.open().verify(Some(&evil_ref)).unwrap();
    assert_eq!(alone.hurt, report.hurt);
    world.open().gc(true, false).unwrap();

    world.write("a", "edited");
    world.save("after the attack");
    world.restore(good);
    assert_eq!(world.read("a"), "abc");
    Fate { files, diff: kind(diff), restore, restore_to, hurt: !report.hurt.is_empty() }
}

/// Commits a checkpoint whose tree is what `make` puts, and endures it.
fn with_tree(make: impl FnOnce(&Writer<'_>) -> ObjectId) -> Fate {
    let world = world();
    let good = world.save("good");
    let evil = commit(&world, &good, |manifest, writer| {
        let mut files = manifest.files.take().unwrap();
        files.tree = make(writer);
        manifest.files = Some(files);
    });
    endure(&world, &good, &evil)
}

fn with_leaf(node: Node) -> Fate {
    with_tree(|writer| node.put(writer))
}

fn assert_damage(name: &str, fate: &Fate) {
    let Fate { files, diff, restore, restore_to, hurt } = fate;
    for kind in [files, diff, restore, restore_to] {
        assert_eq!(*kind, Some(ErrorKind::Damage), "{name}: {fate:?}");
    }
    assert!(hurt, "{name}: {fate:?}");
}

#[test]
fn paths_that_lead_elsewhere() {
    let text = id_of(b"abc");
    for name in
        ["../elsewhere/x", "a/../../elsewhere/x", "/tmp/rappel-hostile", "a//b", "a/", "./a"]
    {
        assert_damage(name, &with_leaf(Node::leaf(1).file(name, text, 3)));
    }
    assert_damage("nul", &with_leaf(Node::leaf(1).file("a\0b", text, 3)));
    assert_damage("long", &with_leaf(Node::leaf(1).file(&"x".repeat(300), text, 3)));
    assert!(!std::path::Path::new("/tmp/rappel-hostile").exists());
}

#[test]
fn lists_that_no_folder_could_be() {
    let text = id_of(b"abc");
    let leaf = || Node::leaf(2);
    assert_damage("twice", &with_leaf(leaf().file("a", text, 3).file("a", text, 3)));
    assert_damage("unordered", &with_leaf(leaf().file("b", text, 3).file("a", text, 3)));
    assert_damage("below a file", &with_leaf(leaf().file("a", text, 3).file("a/b", text, 3)));
    let below_link = leaf().link("link", "../elsewhere").file("link/x", text, 3);
    assert_damage("below a link", &with_leaf(below_link));
    assert_damage("count", &with_leaf(leaf().file("a", text, 3)));
    assert_damage("size", &with_leaf(Node::leaf(1).file("a", text, u64::MAX)));
    assert_damage("no tree", &with_tree(|writer| writer.put(Role::Content, b"no", None).unwrap()));
    assert_damage("missing", &with_tree(|_| ObjectId([9; 32])));
}

#[test]
fn leaves_that_do_not_fit_together() {
    let text = id_of(b"abc");
    let two = |first: Node, second: Node, ends: [&'static str; 2]| {
        with_tree(move |writer| {
            let ids = [first.put(writer), second.put(writer)];
            let node = Node::inner(1, 2);
            node.child(ends[0], 1, ids[0]).child(ends[1], 1, ids[1]).put(writer)
        })
    };
    let file = |name: &str| Node::leaf(1).file(name, text, 3);
    let link = Node::leaf(1).link("link", "../elsewhere");
    assert_damage("below a link", &two(link, file("link/x"), ["link", "link/x"]));
    assert_damage("below a file", &two(file("b"), file("b/c"), ["b", "b/c"]));
    assert_damage("the same leaf twice", &two(file("b"), file("b"), ["b", "b"]));
    assert_damage("an end that lies", &two(file("b"), file("a"), ["b", "c"]));
    assert_damage("overlap", &{
        with_tree(|writer| {
            let first = Node::leaf(2).file("a", text, 3).file("c", text, 3).put(writer);
            let second = Node::leaf(2).file("b", text, 3).file("d", text, 3).put(writer);
            Node::inner(1, 2).child("c", 2, first).child("d", 2, second).put(writer)
        })
    });
    assert_damage("a count that lies", &{
        with_tree(|writer| {
            let leaf = file("a").put(writer);
            Node::inner(1, 1).child("a", 1 << 27, leaf).put(writer)
        })
    });
    assert_damage("levels that do not descend", &{
        with_tree(|writer| {
            let leaf = file("a").put(writer);
            Node::inner(5, 1).child("a", 1, leaf).put(writer)
        })
    });
}

#[test]
fn a_link_that_both_states_share_leads_nowhere() {
    let world = world();
    let good = world.save("good");
    let evil = commit(&world, &good, |manifest, writer| {
        let mut files = manifest.files.take().unwrap();
        // The leaf of the good checkpoint is shared, so that a comparison does not read it.
        let below = Node::leaf(1).file("notes/today/x", id_of(b"abc"), 3).put(writer);
        let node = Node::inner(1, 2).child("notes/today", 4, files.tree);
        files.tree = node.child("notes/today/x", 1, below).put(writer);
        manifest.files = Some(files);
    });
    let fate = endure(&world, &good, &evil);
    assert_eq!(fate.files, Some(ErrorKind::Damage));
    assert_eq!(fate.restore_to, Some(ErrorKind::Damage));
    assert_eq!(fate.restore, Some(ErrorKind::Conflict), "{fate:?}");
    assert!(fate.hurt);
}

#[test]
fn trees_that_would_take_forever() {
    // Every level refers to the one below a hundred times.
    let pile = |bottom: Node| {
        with_tree(move |writer| {
            let mut id = bottom.put(writer);
            for level in 2..=8 {
                let mut node = Node::inner(level, 100);
                for number in 100..200 {
                    node = node.child(&format!("n{number}"), 1, id);
                }
                id = node.put(writer);
            }
            id
        })
    };
    assert_damage("nothing below", &pile(Node::inner(1, 0)));
    assert_damage("a missing leaf", &pile(Node::inner(1, 1).child("n100", 1, ObjectId([9; 32]))));
    assert_damage("a leaf", &pile(Node::leaf(1).file("n100", id_of(b"abc"), 3)));
}

#[test]
fn git_is_left_to_git() {
    for name in [".git/config", ".GIT/hooks/pre-commit", "sub/.git/config", "git~1/config"] {
        let fate = with_leaf(Node::leaf(1).file(name, id_of(b"abc"), 3));
        assert_eq!((fate.restore, fate.restore_to, fate.hurt), (None, None, false), "{name}");
    }
}

#[test]
fn names_that_fold_together_are_a_matter_of_the_file_system() {
    let text = id_of(b"abc");
    let fate = with_leaf(Node::leaf(3).file("A", text, 3).file("Link", text, 3).file("a", text, 3));
    // Here they are told apart; where they are not, both ways to restore say so.
    assert!(matches!(fate.restore, None | Some(ErrorKind::Conflict)), "{fate:?}");
    assert!(matches!(fate.restore_to, None | Some(ErrorKind::Conflict)), "{fate:?}");
    assert!(!fate.hurt);
}

#[test]
fn sizes_that_lie() {
    let chunked = |size: u64, chunks: &'static [(&'static [u8], u64)]| {
        with_tree(move |writer| {
            let chunk = |(bytes, length): &(&[u8], u64)| Chunk {
                id: writer.put(Role::Content, bytes, None).unwrap(),
                length: *length,
            };
            let list = ChunkList(chunks.iter().map(chunk).collect()).encode();
            let list = writer.put(Role::Structure, &list, None).unwrap();
            Node::leaf(1).content("f", Content::Chunked(list), size).put(writer)
        })
    };
    let whole = |size: u64| with_leaf(Node::leaf(1).file("f", id_of(b"abc"), size));
    let cases = [
        ("a whole file", whole(4)),
        ("a whole file that is empty", whole(0)),
        ("a chunk", chunked(9, &[(b"abc", 9)])),
        ("a sum", chunked(7, &[(b"abc", 3), (b"def", 3)])),
        ("no chunk", chunked(7, &[])),
        ("no list", {
            with_tree(|writer| {
                let list = writer.put(Role::Content, b"no list", None).unwrap();
                Node::leaf(1).content("f", Content::Chunked(list), 7).put(writer)
            })
        }),
        ("a chunk that is missing", {
            with_tree(|writer| {
                let list = ChunkList(vec![Chunk { id: ObjectId([9; 32]), length: 3 }]).encode();
                let list = writer.put(Role::Structure, &list, None).unwrap();
                Node::leaf(1).content("f", Content::Chunked(list), 3).put(writer)
            })
        }),
    ];
    for (name, fate) in cases {
        assert_eq!(fate.restore, Some(ErrorKind::Damage), "{name}: {fate:?}");
        assert_eq!(fate.restore_to, Some(ErrorKind::Damage), "{name}: {fate:?}");
        assert!(fate.hurt, "{name}: {fate:?}");
    }
    let honest = chunked(6, &[(b"abc", 3), (b"def", 3)]);
    assert_eq!((honest.restore, honest.restore_to, honest.hurt), (None, None, false));
    let vast = with_tree(|writer| {
        let list = writer.put(Role::Structure, &ChunkList::default().encode(), None).unwrap();
        Node::leaf(1).content("f", Content::Chunked(list), i64::MAX as u64).put(writer)
    });
    // It is too much for the disk before anybody looks whether it is true.
    assert_eq!((vast.restore, vast.hurt), (Some(ErrorKind::Failed), true), "{vast:?}");
}

#[test]
fn manifests_that_say_odd_things() {
    let odd: [(&str, fn(&mut rappel::types::Manifest)); 9] = [
        ("a description without end", |m| m.description = Some("x\u{1b}[2J\n".repeat(200_000))),
        ("a parent that never was", |m| m.parent = Some("nobody".parse().unwrap())),
        ("its own parent", |m| m.parent = Some(m.id.clone())),
        ("a thousand tags", |m| m.tags = (0..1000).map(|n| format!("t\0{n}")).collect()),
        ("the far future", |m| m.created_at = "9999-12-30T00:00:00Z".parse().unwrap()),
        ("long before", |m| m.created_at = "-009999-02-01T00:00:00Z".parse().unwrap()),
        ("another root", |m| m.workspace.root = "\\xff\\x00/../..".into()),
        ("sums that lie", |m| {
            m.cost.new_bytes = u64::MAX;
            m.cost.wall_ms = 1e300;
            let files = m.files.as_mut().unwrap();
            (files.bytes, files.count, files.added) = (u64::MAX, u64::MAX, u64::MAX);
        }),
        ("rules that take forever", |m| {
            let rules = &mut m.files.as_mut().unwrap().rules;
            rules.exclude = vec!["a*".repeat(60) + "b", "**/".repeat(200), "[".repeat(500)];
            rules.include = vec!["{".repeat(500), "*".repeat(2000), "\\".into(), String::new()];
            rules.max_file_size = 0;
        }),
    ];
    for (name, change) in odd {
        let world = world();
        let good = world.save("good");
        let twice = world.save("the same again");
        for id in [&good, &twice] {
            let evil = commit(&world, id, |manifest, _| change(manifest));
            let fate = endure(&world, id, &evil);
            assert!(!fate.hurt, "{name}: {fate:?}");
            assert_eq!(fate.files, None, "{name}");
        }
        world.verify();
    }
}

#[test]
fn a_checkpoint_that_says_it_has_no_files_and_has() {
    let world = world();
    let good = world.save("good");
    let evil = commit(&world, &good, |manifest, _| manifest.facets.clear());
    world.write("a", "edited");
    let report = world.open().restore(&reference(&evil), &RestoreOptions::default()).unwrap();
    assert!(!report.warnings.is_empty());
    assert_eq!(world.read("a"), "edited");
}

#[test]
fn another_workspaces_checkpoint_is_not_put_over_this_ones_files() {
    let world = world();
    let good = world.save("good");
    let evil = commit(&world, &good, |manifest, _| manifest.workspace.id.0 ^= 1);
    let error = world.open().restore(&reference(&evil), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(world.open().list(&ListFilter::default()).unwrap().total, 1);
}

/// Everything beside an unreadable checkpoint goes on: the good one is listed and restored, what
/// cannot be read is named, and there can be new ones.
fn live_with(world: &World, good: &str, unreadable: &[&str]) {
    let rappel = world.open();
    let listing = rappel.list(&ListFilter::default()).unwrap();
    assert!(listing.checkpoints.iter().any(|one| one.manifest.id.as_str() == good));
    assert_eq!(listing.unreadable, unreadable);
    assert_eq!(listing.total, listing.checkpoints.len() + unreadable.len());
    let tagged = ListFilter { tag: Some("none".into()), ..ListFilter::default() };
    // Which tags they have is known, although nothing else of them can be read.
    assert_eq!(rappel.list(&tagged).unwrap().unreadable, [""; 0]);
    assert_eq!(rappel.stats().unwrap().unreadable, unreadable);
    let status = rappel.status().unwrap();
    assert!(unreadable.is_empty() || status.reasons.iter().any(|why| why.contains(unreadable[0])));
    for id in unreadable {
        let error = rappel.show(&reference(id)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Damage | ErrorKind::Failed), "{error}");
        assert!(
            rappel
                .restore_to(&reference(id), world.home.path(), &RestoreOptions::default())
                .is_err()
        );
    }
    rappel.verify(None).unwrap();
    rappel.gc(true, false).unwrap();
    world.write("a", "edited");
    let next = world.save("goes on");
    let shown = world.open().show(&reference(&next)).unwrap();
    let numbers = world.open().list(&ListFilter::default()).unwrap();
    let mut seen: Vec<_> = numbers.checkpoints.iter().map(|one| one.manifest.sequence).collect();
    seen.dedup();
    assert_eq!(seen.len(), numbers.checkpoints.len(), "no number is given twice");
    assert_eq!(seen[0], shown.manifest.sequence, "the newest comes first");
    world.restore(good);
    assert_eq!(world.read("a"), "abc");
    let listing = world.open().list(&ListFilter::default()).unwrap();
    assert_eq!(listing.unreadable, unreadable);
}

fn without_index(world: &World) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(world.home.path().join(name));
    }
}

#[test]
fn a_later_version_made_one() {
    for rebuilt in [false, true] {
        let world = world();
        let good = world.save("good");
        let later = commit(&world, &good, |manifest, _| manifest.version = 99);
        if rebuilt {
            without_index(&world);
        }
        let error = world.open().show(&reference(&later)).unwrap_err();
        assert_eq!(error.advice(), [rappel_types::Advice::Update]);
        live_with(&world, &good, &[&later]);
        let report = world.open().verify(None).unwrap();
        assert!(report.is_clean(), "nothing is wrong with it: {report:?}");
        assert!(report.unknown.iter().any(|told| told.contains(&later)), "{report:?}");
        let alone = world.open().verify(Some(&reference(&later))).unwrap();
        assert!(alone.is_clean() && !alone.unknown.is_empty());
    }
}

#[test]
fn manifests_with_words_that_nobody_knows() {
    let edits: [(&str, &str, &str); 4] = [
        ("facet", "\"agents\":\"absent\"", "\"moon\":\"captured\""),
        ("state", "\"agents\":\"absent\"", "\"agents\":\"eaten\""),
        ("trigger", "\"trigger\":\"manual\"", "\"trigger\":\"moon-phase\""),
        ("path", "\"skipped\":[]", "\"skipped\":[{\"path\":\"../../etc\",\"reason\":\"\"}]"),
    ];
    for (name, from, to) in edits {
        let world = world();
        let good = world.save("good");
        let json = json_of(&world, &good, "chk_odd");
        assert!(json.contains(from), "{name}: {json}");
        forge(&world, Forged::record(Kind::Manifest, json.replacen(from, to, 1).as_bytes()));
        live_with(&world, &good, &["chk_odd"]);
        assert!(!world.open().verify(None).unwrap().is_clean(), "{name}");
    }
}

#[test]
fn manifests_without_a_place_in_any_history() {
    let edits: [(&str, &str, &str); 4] = [
        ("id", "\"id\":\"chk_odd\"", "\"id\":\"../../etc/passwd\""),
        ("number", "\"sequence\":2", "\"sequence\":18446744073709551615"),
        ("time", "\"created_at\":\"2026", "\"created_at\":\"soon 2026"),
        ("all of it", "{\"version\"", "[\"version\""),
    ];
    for (name, from, to) in edits {
        let world = world();
        let good = world.save("good");
        let json = json_of(&world, &good, "chk_odd");
        assert!(json.contains(from), "{name}: {json}");
        forge(&world, Forged::record(Kind::Manifest, json.replacen(from, to, 1).as_bytes()));
        live_with(&world, &good, &[]);
        assert!(!world.open().verify(None).unwrap().is_clean(), "{name}");
    }
}

#[test]
fn a_manifest_is_damaged_on_the_disk() {
    for rebuilt in [false, true] {
        let world = world();
        let good = world.save("good");
        world.write("a", "second");
        let hurt = world.save("hurt");
        world.write("a", "abc");
        hostile_home::damage_last(&world, Kind::Manifest, 1);
        if rebuilt {
            without_index(&world);
        }
        // Built anew, the index cannot know whose manifest that was.
        let known: &[&str] = if rebuilt { &[] } else { &[&hurt] };
        live_with(&world, &good, known);
        assert!(!world.open().verify(None).unwrap().is_clean());
    }
}

#[test]
fn a_save_does_not_need_the_tree_before_it() {
    let world = world();
    let good = world.save("good");
    for with_cache in [true, false] {
        let evil = commit(&world, &good, |manifest, _| {
            manifest.files.as_mut().unwrap().tree = ObjectId([9; 32]);
        });
        if !with_cache {
            std::fs::remove_dir_all(world.home.path().join("cache")).unwrap();
        }
        world.write("a", format!("{with_cache}"));
        let status = world.open().status().unwrap();
        assert!(status.reasons.iter().any(|why| why.contains(&evil)), "{status:?}");
        let saved = world.save("beside it");
        world.write("a", "later");
        world.restore(&saved);
        assert_eq!(world.read("a"), format!("{with_cache}"));
    }
}

#[test]
fn what_the_cache_is_about_is_damaged() {
    let world = world();
    let good = world.save("good");
    world.write("new", "file");
    hostile_home::damage_last(&world, Kind::Block, usize::MAX);
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint;
    assert!(saved.created);
    let id = saved.manifest.id.to_string();
    world.remove("new");
    world.remove("a");
    world.restore(&id);
    assert_eq!((world.read("a"), world.read("new")), ("abc".into(), "file".into()));
    let error = world.open().restore(&reference(&good), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damage);
}

#[test]
fn commits_that_make_no_sense() {
    for json in ["no json", "{}", "{\"version\":1}", "null"] {
        let world = world();
        let good = world.save("good");
        forge(&world, Forged::Raw(Kind::Commit, json.as_bytes().to_vec()));
        live_with(&world, &good, &[]);
    }
    let world = world();
    let good = world.save("good");
    forge(&world, Forged::Commit(|commit| commit.sequence = u64::MAX));
    live_with(&world, &good, &[]);
}

#[test]
fn documents_that_make_no_sense() {
    let world = world();
    let good = world.save("good");
    for kind in [Kind::Label, Kind::Tombstone, Kind::Undo, Kind::Workspace, Kind::Loss, Kind::Event]
    {
        for json in
            ["[]", "{\"version\":99}", "{\"version\":1,\"paths\":[\"../..\"]}", "\"\\u0000\""]
        {
            let payload = format!("[{good:?},{json}]");
            forge(&world, Forged::record(kind, payload.as_bytes()));
        }
        forge(&world, Forged::record(kind, b"no json"));
    }
    let listing = world.open().list(&ListFilter::default()).unwrap();
    let shown = listing.checkpoints.iter().any(|one| one.manifest.trigger == Trigger::Manual);
    // A tombstone that cannot be read still says whose it is: nothing is freed for it.
    assert!(shown || world.open().undelete(&good).is_ok());
    live_with(&world, &good, &[]);
}
