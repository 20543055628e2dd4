//! Something stands where a repository or a work tree has to be.

use rappel::{ErrorKind, Rappel, RestoreOptions};
use rappel_store::disk::Op;
use rappel_testing::{Fault, FaultDisk, Loss};

use crate::bench::{Bench, arg, assert_same, files, git, portrait, text};
use crate::support::reference;

#[test]
fn a_file_or_a_link_in_the_place_of_a_repository_is_a_conflict() {
    let elsewhere = tempfile::tempdir().unwrap();
    for (name, submodule) in [("nested", false), ("deep/nested", false), ("module", true)] {
        for link in [false, true] {
            let bench = Bench::new();
            let inner = bench.root().join(name);
            let source = bench.outside("source");
            std::fs::create_dir_all(&source).unwrap();
            git(&source, &["init", "-q"]);
            std::fs::write(source.join("i"), "i\n").unwrap();
            git(&source, &["add", "i"]);
            git(&source, &["commit", "-q", "-m", "i"]);
            let from = arg(&source);
            match submodule {
                true => drop(bench.git(&["submodule", "--quiet", "add", from, name])),
                false => drop(bench.git(&["clone", "-q", from, name])),
            }
            let before = bench.portrait();
            let saved = bench.save();
            let first = bench.root().join(name.split('/').next().unwrap());
            std::fs::remove_dir_all(&first).unwrap();
            match link {
                true => std::os::unix::fs::symlink(elsewhere.path(), &first).unwrap(),
                false => std::fs::write(&first, "in the way\n").unwrap(),
            }
            let options = RestoreOptions::default();
            let plan = bench.world.open().plan_restore(&reference(&saved), &options).unwrap();
            assert_eq!(plan.conflicts.len(), 1, "{name}: {:?}", plan.conflicts);
            assert!(plan.conflicts[0].reason.contains("move it aside"), "{:?}", plan.conflicts);
            let error = bench.restore_with(&saved, &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(bench.world.open().unfinished().unwrap().restores.is_empty());
            assert!(first.symlink_metadata().is_ok_and(|meta| !meta.is_dir()));
            assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
            std::fs::remove_file(&first).unwrap();
            bench.restore(&saved);
            assert_same(&bench.portrait(), &before, name);
            assert!(!portrait(&inner).fsck.contains("error"));
        }
    }
}

/// Somebody puts a file there while the restore is under way.
#[test]
fn what_appears_in_the_place_of_a_repository_stops_no_recovery() {
    for finish in [true, false] {
        let bench = Bench::on_disk();
        let nested = bench.root().join("nested");
        std::fs::create_dir(&nested).unwrap();
        git(&nested, &["init", "-q"]);
        std::fs::write(nested.join("i"), "i\n").unwrap();
        git(&nested, &["add", "i"]);
        git(&nested, &["commit", "-q", "-m", "i"]);
        let saved = bench.save();
        std::fs::remove_dir_all(&nested).unwrap();
        bench.world.write("c", "changed\n");
        // The power fails when the plan is written down, and a file is there afterwards.
        let disk = FaultDisk::new();
        let inner = disk.clone();
        let is_building = |op: &Op<'_>| format!("{op:?}").contains("-0.new");
        disk.before(is_building, move || inner.set(Fault::Crash { at: 1 }));
        let options = rappel::OpenOptions { disk: disk.clone(), ..bench.world.options() };
        let rappel = Rappel::open(options).unwrap();
        rappel.restore(&reference(&saved), &RestoreOptions::default()).unwrap_err();
        drop(rappel);
        disk.lose(Loss::all()[0]);
        let _ = std::fs::remove_dir_all(&nested);
        std::fs::write(&nested, "in the way\n").unwrap();
        let options = match finish {
            true => rappel::RecoverOptions::finish(),
            false => rappel::RecoverOptions::rollback(),
        };
        let recovered = bench.world.open().recover(&options).unwrap();
        if finish {
            assert!(!recovered.conflicts.is_empty(), "{recovered:?}");
        }
        assert_eq!(std::fs::read_to_string(&nested).unwrap(), "in the way\n");
        let expected = if finish { "dirty\n" } else { "changed\n" };
        assert_eq!(bench.world.read("c"), expected);
        assert!(bench.world.open().unfinished().unwrap().restores.is_empty());
    }
}

#[test]
fn a_work_tree_that_lost_its_link_gets_it_back() {
    let bench = Bench::new();
    let other = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&other)]);
    std::fs::write(other.join("dirty"), "dirty\n").unwrap();
    let saved = bench.save();
    let there = portrait(&other);
    std::fs::remove_file(other.join(".git")).unwrap();
    std::fs::write(other.join("a"), "since then\n").unwrap();
    let edited = files(&other);
    let report = bench.restore(&saved);
    let line = format!("work tree other in {}: linked again to its repository", other.display());
    assert!(report.details.contains(&line), "{:?}", report.details);
    assert_eq!(text(&other, &["symbolic-ref", "HEAD"]), "refs/heads/other");
    // Its files were not asked for.
    assert_eq!(files(&other), edited);
    bench.undo();
    assert!(!other.join(".git").exists());
    assert_eq!(files(&other), edited);
    bench.redo();
    assert_eq!(text(&other, &["symbolic-ref", "HEAD"]), "refs/heads/other");
    std::fs::remove_file(other.join(".git")).unwrap();
    let worktrees = vec!["other".to_owned()];
    let options = RestoreOptions { worktrees, ..RestoreOptions::default() };
    let report = bench.restore_with(&saved, &options).unwrap();
    assert_eq!(report.conflicts, []);
    assert!(report.details.contains(&"  a: changed".to_owned()), "{:?}", report.details);
    assert_same(&portrait(&other), &there, "asked for");
}

#[test]
fn what_stands_in_the_place_of_a_work_tree_is_told_and_stays() {
    for kind in ["file", "link", "folder"] {
        let bench = Bench::new();
        let other = bench.outside("other");
        bench.git(&["worktree", "add", "-q", "-b", "other", arg(&other)]);
        let saved = bench.save();
        bench.git(&["worktree", "remove", arg(&other)]);
        match kind {
            "file" => std::fs::write(&other, "mine\n").unwrap(),
            "link" => std::os::unix::fs::symlink("/nonexistent", &other).unwrap(),
            _ => {
                std::fs::create_dir(&other).unwrap();
                std::fs::write(other.join("mine"), "mine\n").unwrap();
            }
        }
        let report = bench.restore(&saved);
        let told = report.warnings.iter().find(|one| one.contains("the work tree other"));
        assert!(told.is_some(), "{kind}: {:?}", report.warnings);
        match kind {
            "folder" => assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1),
            "file" => assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine\n"),
            _ => assert!(other.symlink_metadata().unwrap().is_symlink()),
        }
        let worktrees = vec!["other".to_owned()];
        let options = RestoreOptions { worktrees, ..RestoreOptions::default() };
        match bench.restore_with(&saved, &options) {
            Err(error) => assert_eq!((kind != "folder", error.kind()), (true, ErrorKind::Conflict)),
            Ok(report) => assert!(kind == "folder" && !report.warnings.is_empty(), "{report:?}"),
        }
    }
}

#[test]
fn a_spoilt_link_to_a_submodule_is_told_with_the_way_out() {
    let bench = Bench::new();
    let source = bench.outside("source");
    std::fs::create_dir_all(&source).unwrap();
    git(&source, &["init", "-q"]);
    std::fs::write(source.join("i"), "i\n").unwrap();
    git(&source, &["add", "i"]);
    git(&source, &["commit", "-q", "-m", "i"]);
    bench.git(&["submodule", "--quiet", "add", arg(&source), "module"]);
    let (before, saved) = (bench.portrait(), bench.save());
    let link = bench.root().join("module/.git");
    std::fs::write(&link, "garbage\n").unwrap();
    let report = bench.restore(&saved);
    let told = format!("move {} aside", link.display());
    assert!(report.warnings.iter().any(|one| one.contains(&told)), "{:?}", report.warnings);
    std::fs::rename(&link, bench.outside("aside")).unwrap();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "linked again");
    assert!(!portrait(&bench.root().join("module")).fsck.contains("error"));
}
