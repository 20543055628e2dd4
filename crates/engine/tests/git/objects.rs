//! What is stored of objects: each once, and never too few.

use rappel_store::sink::Source;
use rappel_store::{Options, Store, tree};

use crate::bench::{Bench, arg, assert_same, git, portrait};
use crate::support::reference;
use rappel::types::{Manifest, Node};

/// The bundles of a checkpoint's first repository, with their sizes.
fn bundles(bench: &Bench, manifest: &Manifest) -> Vec<(String, u64)> {
    let store = Store::open(bench.world.home.path(), Options::default()).unwrap();
    let source: &dyn Source = &store;
    let root = manifest.git.as_ref().unwrap().tree.unwrap();
    let entries = tree::read(source, &root).unwrap();
    let packs = entries.into_iter().filter(|entry| entry.path.as_bytes().ends_with(b".pack"));
    packs
        .map(|entry| match entry.node {
            Node::File { size, .. } => (entry.path.to_string(), size),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Bytes that do not compress, so that storing them twice shows.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    std::iter::repeat_with(&mut next).take(length / 16).collect()
}

#[test]
fn what_is_held_is_not_stored_again() {
    let bench = Bench::new();
    bench.commit("large", &noise(1, 200_000));
    let first = bench.manifest();
    let held = bundles(&bench, &first);
    bench.world.write("a", "only a file\n");
    let second = bench.manifest();
    assert_eq!(bundles(&bench, &second), held);
    // Packed anew in the user's repository.
    bench.git(&["gc", "-q"]);
    let third = bench.manifest();
    assert_eq!(bundles(&bench, &third), held);
    assert!(third.cost.new_bytes < 20_000, "{}", third.cost.new_bytes);
    bench.git(&["repack", "-q", "-a", "-d", "-f"]);
    bench.commit("small", "small\n");
    let fourth = bench.manifest();
    let more = bundles(&bench, &fourth);
    assert_eq!(more.len(), held.len() + 1);
    assert!(held.iter().all(|one| more.contains(one)));
    assert!(fourth.cost.new_bytes < 20_000, "{}", fourth.cost.new_bytes);
    // A lost memo costs time, not space.
    std::fs::remove_dir_all(bench.world.home.path().join("cache")).unwrap();
    let fifth = bench.manifest();
    assert_eq!(bundles(&bench, &fifth), more);
}

#[test]
fn another_clone_stores_next_to_nothing() {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    bench.commit("large", &noise(2, 200_000));
    bench.save();
    let clone = bench.outside("clone");
    bench.git(&["clone", "-q", "--no-hardlinks", arg(bench.root()), arg(&clone)]);
    let before = portrait(&clone);
    let saved = bench.manifest_at(&clone);
    assert!(saved.cost.new_bytes < 20_000, "{}", saved.cost.new_bytes);
    // It stands by itself.
    let all = bench.world.open();
    let first = all.list(&rappel::ListFilter { all: true, ..Default::default() }).unwrap();
    for checkpoint in first.checkpoints {
        all.delete(&[reference(checkpoint.manifest.id.as_str())], true).unwrap();
    }
    all.gc(true, false).unwrap();
    drop(all);
    std::fs::remove_dir_all(clone.join(".git")).unwrap();
    let rappel = rappel::Rappel::open(bench.world.options_at(&clone)).unwrap();
    rappel.restore(&reference(saved.id.as_str()), &rappel::RestoreOptions::default()).unwrap();
    assert_same(&portrait(&clone), &before, "restored");
}

#[test]
fn what_is_left_after_deletions_still_restores() {
    // Every second one, all but the last, all but the first, all but the middle.
    for kept in [&[1, 3, 5][..], &[5], &[0], &[2]] {
        let bench = Bench::new();
        let mut saved = Vec::new();
        for round in 0..6 {
            match round % 3 {
                0 => bench.commit(&format!("f{round}"), &noise(round, 4_000)),
                1 => {
                    bench.git(&["stash", "push", "-q", "-u"]);
                    bench.world.write("later", noise(round, 400));
                    bench.git(&["add", "later"]);
                }
                _ => {
                    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
                    bench.git(&[
                        "reflog",
                        "expire",
                        "--expire=all",
                        "--expire-unreachable=all",
                        "--all",
                    ]);
                    bench.git(&["gc", "-q", "--prune=now"]);
                }
            }
            saved.push((bench.save(), bench.portrait()));
        }
        let rappel = bench.world.open();
        for (at, (id, _)) in saved.iter().enumerate() {
            if !kept.contains(&at) {
                rappel.delete(&[reference(id)], true).unwrap();
                rappel.gc(true, false).unwrap();
            }
        }
        drop(rappel);
        bench.world.verify();
        for &at in kept {
            let out = bench.restore_to(&saved[at].0, &format!("out{at}"));
            assert_same(&portrait(&out), &saved[at].1, "elsewhere");
        }
        // What was stored with a deleted one is stored again where it is needed.
        bench.world.write("a", "one more\n");
        let last = (bench.save(), bench.portrait());
        bench.lose_git();
        bench.restore(&last.0);
        assert_same(&bench.portrait(), &last.1, "restored");
    }
}

#[test]
fn many_small_bundles_become_fewer() {
    let bench = Bench::empty();
    bench.commit("large", &noise(3, 100_000));
    let mut most = 0;
    let mut last = None;
    for round in 0..70 {
        bench.commit("f", &format!("{round}\n"));
        let manifest = bench.manifest();
        assert_eq!(manifest.partial_reasons, []);
        most = most.max(bundles(&bench, &manifest).len());
        last = Some(manifest);
    }
    let last = last.unwrap();
    assert!((30..=65).contains(&most), "{most}");
    assert!(bundles(&bench, &last).len() < 30);
    let before = bench.portrait();
    let rappel = bench.world.open();
    let all = rappel.list(&rappel::ListFilter { all: true, ..Default::default() }).unwrap();
    let others = all.checkpoints.iter().map(|one| one.manifest.id.as_str().to_owned());
    let others: Vec<_> = others.filter(|id| id != last.id.as_str()).collect();
    let others: Vec<_> = others.iter().map(|id| reference(id)).collect();
    rappel.delete(&others, true).unwrap();
    rappel.gc(true, false).unwrap();
    drop(rappel);
    bench.lose_git();
    bench.restore(last.id.as_str());
    assert_same(&bench.portrait(), &before, "restored");
}

#[test]
fn whatever_git_does_meanwhile() {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    let root = bench.root().to_owned();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut saved = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                std::fs::write(root.join("busy"), format!("{round}\n")).unwrap();
                git(&root, &["add", "busy"]);
                git(&root, &["commit", "-q", "-m", "busy"]);
                git(&root, &["branch", "-f", "moving"]);
                match round % 4 {
                    0 => {
                        git(&root, &["reset", "-q", "--hard", "HEAD~2"]);
                        git(&root, &["branch", "-D", "moving"]);
                        git(&root, &["reflog", "expire", "--expire=all", "--all"]);
                        git(&root, &["gc", "-q", "--prune=now"]);
                    }
                    2 => drop(git(&root, &["pack-refs", "--all"])),
                    _ => {}
                }
            }
        });
        let rounds = std::env::var("RAPPEL_STRESS_ROUNDS").ok().and_then(|text| text.parse().ok());
        for _ in 0..rounds.unwrap_or(12) {
            saved.push(bench.manifest());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for (at, manifest) in saved.iter().enumerate() {
        let part = manifest.git.as_ref();
        assert!(part.is_some(), "{:?}", manifest.partial_reasons);
        let out = bench.restore_to(manifest.id.as_str(), &format!("out{at}"));
        let now = portrait(&out);
        let lost = manifest.partial_reasons.iter().any(|one| one.reason.contains("missing"));
        assert!(
            lost || !now.fsck.contains("missing"),
            "{}: {:?}",
            now.fsck,
            manifest.partial_reasons
        );
        // What only a log names may be gone by the time it is asked for, and the save says that
        // git did not hold still.
        let tolerated = |line: &str| manifest.partial && line.contains("invalid reflog entry");
        let wrong = now.fsck.lines().filter(|line| line.contains("error") && !tolerated(line));
        let wrong: Vec<_> = wrong.collect();
        assert!(lost || wrong.is_empty(), "{wrong:?}: {:?}", manifest.partial_reasons);
    }
}
