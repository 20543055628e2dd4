//! Every kind of file in git's folder, spoilt in every way, as a power loss or a stray command does it:
//! a save is honest about it, a restore makes the repository whole or says what it leaves, undo brings
//! the spoilt bytes back, and a restore that was cut short can be ended either way.

use std::path::{Path, PathBuf};

use rappel::{Health, Rappel, RecoverOptions, RestoreOptions};
use rappel_testing::project::Snapshot;
use rappel_testing::{Fault, FaultDisk, Loss, snapshot};

use crate::bench::{Bench, arg, assert_same, attempt};
use crate::support::reference;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Empty,
    Zeros,
    Garbage,
    Cut,
    Missing,
    Folder,
    FullFolder,
}

const WAYS: [Way; 7] =
    [Way::Empty, Way::Zeros, Way::Garbage, Way::Cut, Way::Missing, Way::Folder, Way::FullFolder];

/// What is spoilt of it, in one way.
fn spoil(path: &Path, way: Way) {
    let bytes = std::fs::read(path).unwrap_or_else(|_| b"a folder, before".to_vec());
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
    let bytes = match way {
        Way::Empty => Vec::new(),
        Way::Zeros => vec![0; bytes.len()],
        Way::Garbage => (0..bytes.len()).map(|at| (at * 89 + 131) as u8 | 0x80).collect(),
        // Never at a line's end.
        Way::Cut => {
            bytes[..bytes.len() / 2 - usize::from(bytes[bytes.len() / 2 - 1] == b'\n')].to_vec()
        }
        Way::Missing => return,
        Way::Folder | Way::FullFolder => {
            std::fs::create_dir(path).unwrap();
            if way == Way::FullFolder {
                std::fs::write(path.join("inner"), "what is this\n").unwrap();
            }
            return;
        }
    };
    std::fs::write(path, bytes).unwrap();
}

/// What stands at a path, whatever it is.
fn at(path: &Path) -> (Option<Vec<u8>>, Snapshot) {
    let inside = if path.is_dir() { snapshot(path) } else { Snapshot::new() };
    (std::fs::read(path).ok(), inside)
}

/// What git says, in words: of a repository that it cannot read too.
fn said(bench: &Bench) -> Vec<(bool, String)> {
    let questions: [&[&str]; 5] = [
        &["for-each-ref"],
        &["rev-parse", "HEAD"],
        &["status", "--porcelain=v2"],
        &["ls-files", "--stage"],
        &["fsck", "--no-dangling", "--no-progress"],
    ];
    let ask = |question: &&[&str]| {
        let arguments = [&["--no-optional-locks"], *question].concat();
        let answer = attempt(bench.root(), &arguments);
        let words = [answer.stdout, answer.stderr].concat();
        (answer.status.success(), String::from_utf8_lossy(&words).into_owned())
    };
    questions.iter().map(ask).collect()
}

/// A restore to `id` that stops for good when so many operations were done.
fn interrupt(bench: &Bench, id: &str, after: u64) -> u64 {
    interrupt_this(bench, after, |rappel| {
        drop(rappel.restore(&reference(id), &RestoreOptions::default()));
    })
}

fn interrupt_this(bench: &Bench, after: u64, what: impl FnOnce(&Rappel)) -> u64 {
    let disk = FaultDisk::in_memory(Fault::Crash { at: after });
    let mut options = bench.world.options();
    options.disk = disk.clone();
    bench.world.clock.advance(1000);
    if let Ok(rappel) = Rappel::open(options) {
        what(&rappel);
    }
    let count = disk.count();
    disk.lose(Loss::all()[0]);
    count
}

fn each_way(kind: &str, prepare: impl Fn(&Bench)) {
    each_of(kind, &WAYS, prepare);
}

fn each_of(kind: &str, ways: &[Way], prepare: impl Fn(&Bench)) {
    let bench = Bench::new();
    prepare(&bench);
    let place: PathBuf = bench.git_dir().join(kind);
    let (before, good) = (bench.portrait(), at(&place));
    let saved = bench.save();
    for way in ways.iter().copied() {
        let when = format!("{kind}, {way:?}");
        spoil(&place, way);
        let (spoilt, words) = (at(&place), said(&bench));
        // That HEAD has no commit is no reason: so it is on a new branch.
        let readable = words.iter().enumerate().all(|(at, (success, _))| *success || at == 1);

        // A save says so.
        let made = bench.manifest();
        if !readable {
            assert!(
                made.partial,
                "{when}: git cannot read it, and the save says nothing: {words:?}"
            );
            let status = bench.world.open().status().unwrap();
            assert_ne!(status.state, Health::Protected, "{when}");
        }
        let is_here = || {
            assert_eq!(at(&place), spoilt, "{when}");
            assert_eq!(said(&bench), words, "{when}");
        };
        is_here();

        // The plan says what will be, and what it leaves.
        let options = RestoreOptions::default();
        let plan = bench.world.open().plan_restore(&reference(&saved), &options).unwrap();
        assert_eq!(plan.conflicts, [], "{when}");
        let warnings = plan.warnings.iter().map(ToString::to_string);
        let told = plan.details.iter().cloned().chain(warnings).collect::<Vec<_>>().join("\n");
        is_here();
        let is_whole = |then: &str| {
            let when = format!("{when}, {then}: {told}");
            if told.contains(&format!("{kind}: set-up, stays as it is now")) {
                assert_eq!(at(&place), spoilt, "{when}");
                assert!(said(&bench)[..4].iter().all(|(success, _)| *success), "{when}");
                return;
            }
            assert_same(&bench.portrait(), &before, &when);
            if kind != "packed-refs" && !kind.starts_with("refs") {
                assert_eq!(at(&place), good, "{when}");
            }
        };
        bench.restore(&saved);
        is_whole("restored");
        if at(&place) == spoilt {
            // It stayed, and there is nothing to take back.
            let _ = std::fs::remove_dir_all(&place);
            std::fs::write(&place, good.0.as_ref().unwrap()).unwrap();
            continue;
        }
        bench.undo();
        assert_eq!(at(&place), spoilt, "{when}, undone");
        let again = said(&bench);
        // What an index remembers of the files is looked at anew.
        let but_status =
            |words: &[(bool, String)]| [words[0].clone(), words[1].clone(), words[3].clone()];
        assert_eq!(but_status(&again), but_status(&words), "{when}, undone");
        bench.redo();
        is_whole("redone");

        // Cut short, and ended either way.
        spoil_again(&place, way, &good);
        let all = interrupt(&bench, &saved, u64::MAX);
        is_whole("restored again");
        let mut ended = 0;
        for (number, part) in [62, 78, 88, 95].into_iter().enumerate() {
            spoil_again(&place, way, &good);
            let words = said(&bench);
            interrupt(&bench, &saved, all * part / 100);
            let finish = number % 2 == 0;
            let unfinished = bench.world.open().unfinished().unwrap().restores.len();
            if unfinished > 0 {
                let options = match finish {
                    true => RecoverOptions::finish(),
                    false => RecoverOptions::rollback(),
                };
                let recovered = bench.world.open().recover(&options);
                let recovered = recovered.unwrap_or_else(|error| panic!("{when}, {part}: {error}"));
                assert_eq!(recovered.conflicts, [], "{when}, {part}");
                ended += 1;
                if finish {
                    is_whole("finished");
                } else {
                    assert_eq!(at(&place), spoilt, "{when}, rolled back at {part}");
                    let now = said(&bench);
                    assert_eq!(
                        but_status(&now),
                        but_status(&words),
                        "{when}, rolled back at {part}"
                    );
                }
            }
            bench.world.clock.advance(1000);
            bench.restore(&saved);
            is_whole("restored at last");
        }
        assert!(ended > 1, "{when}: {ended} restores were cut short");
    }
}

/// Puts the good content there and spoils it.
fn spoil_again(place: &Path, way: Way, good: &(Option<Vec<u8>>, Snapshot)) {
    if let Some(bytes) = &good.0
        && !place.exists()
    {
        // It is packed by now, or was never alone.
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }
    spoil(place, way);
}

/// The refs move first, their logs are cleared of our moves, and the spoilt files follow.
#[test]
fn an_undo_that_is_cut_short_is_ended_either_way() {
    for kind in ["packed-refs", "logs/HEAD", "config"] {
        let bench = Bench::new();
        bench.git(&["pack-refs", "--all"]);
        let saved = bench.save();
        bench.commit("later", "later\n");
        let place = bench.git_dir().join(kind);
        spoil(&place, Way::FullFolder);
        let spoilt = at(&place);
        bench.restore(&saved);
        let whole = bench.portrait();
        let undo = |rappel: &Rappel| {
            let step = rappel.next_undo().unwrap();
            drop(rappel.step(&step, false, &RestoreOptions::default()));
        };
        let all = interrupt_this(&bench, u64::MAX, undo);
        assert_eq!(at(&place), spoilt, "{kind}");
        bench.redo();
        assert_same(&bench.portrait(), &whole, kind);
        let mut ended = 0;
        for part in [55, 62, 68, 74, 80, 86, 92, 97] {
            let when = format!("{kind}, {part}");
            interrupt_this(&bench, all * part / 100, undo);
            if bench.world.open().unfinished().unwrap().restores.is_empty() {
                if at(&place) == spoilt {
                    bench.restore(&saved);
                }
                assert_same(&bench.portrait(), &whole, &when);
                continue;
            }
            ended += 1;
            let finish = part % 2 == 0;
            let options = match finish {
                true => RecoverOptions::finish(),
                false => RecoverOptions::rollback(),
            };
            let recovered = bench.world.open().recover(&options).unwrap();
            assert_eq!(recovered.conflicts, [], "{when}");
            if finish {
                assert_eq!(at(&place), spoilt, "{when}");
                bench.restore(&saved);
            }
            assert_same(&bench.portrait(), &whole, &when);
        }
        assert!(ended > 2, "{kind}: {ended} were cut short");
    }
}

#[test]
fn head() {
    each_way("HEAD", |_| ());
}

#[test]
fn the_branch_that_is_checked_out() {
    each_way("refs/heads/main", |_| ());
}

#[test]
fn another_branch() {
    each_way("refs/heads/feature/x", |_| ());
}

#[test]
fn a_branch_that_is_packed_too() {
    each_way("refs/heads/main", |bench| {
        bench.git(&["pack-refs", "--all", "--no-prune"]);
        assert!(bench.git_dir().join("refs/heads/main").exists());
    });
}

#[test]
fn packed_refs() {
    each_way("packed-refs", |bench| drop(bench.git(&["pack-refs", "--all"])));
}

#[test]
fn all_refs() {
    each_of("refs", &[Way::Empty, Way::Garbage, Way::Missing], |_| ());
}

#[test]
fn the_index() {
    each_way("index", |_| ());
}

#[test]
fn the_configuration() {
    each_way("config", |_| ());
}

#[test]
fn the_log_of_head() {
    each_way("logs/HEAD", |_| ());
}

#[test]
fn the_log_of_a_branch() {
    each_way("logs/refs/heads/main", |_| ());
}

#[test]
fn the_log_of_the_stash() {
    each_way("logs/refs/stash", |_| ());
}

#[test]
fn what_is_ignored() {
    each_way("info/exclude", |_| ());
}

fn with_other(bench: &Bench) {
    let other = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&other)]);
}

#[test]
fn the_head_of_a_linked_work_tree() {
    each_way("worktrees/other/HEAD", with_other);
}

#[test]
fn the_links_of_a_linked_work_tree() {
    each_way("worktrees/other/commondir", with_other);
    each_way("worktrees/other/gitdir", with_other);
}

#[test]
fn the_index_of_a_linked_work_tree() {
    each_way("worktrees/other/index", with_other);
}

#[test]
fn git_s_folder_of_a_linked_work_tree() {
    for kind in ["worktrees", "worktrees/other"] {
        each_of(kind, &[Way::Empty, Way::Garbage, Way::Missing], with_other);
    }
}

/// Objects that a checkpoint holds are brought back, whatever became of the file they were in.
fn object(bench: &Bench, place: &Path, way: Way) {
    let when = format!("{}, {way:?}", place.display());
    let (before, saved) = (bench.portrait(), bench.save());
    spoil(place, way);
    assert!(!said(bench)[4].0, "{when}: {:?}", said(bench));
    let options = RestoreOptions::default();
    let plan = bench.world.open().plan_restore(&reference(&saved), &options).unwrap();
    assert!(plan.details.join("\n").contains("that git lacks"), "{when}: {:?}", plan.details);
    let spoilt = at(place);
    let report = bench.restore(&saved);
    // The spoilt bytes are kept, and where is said.
    let kept = report.warnings.iter().find_map(|one| Some(one.split_once("are kept in ")?.1));
    match kept {
        Some(folder) => {
            let name = place.file_name().unwrap().to_str().unwrap();
            let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(name);
            assert!(way == Way::Missing || at(&all.into_iter().find(is_it).unwrap()) == spoilt);
            std::fs::remove_dir_all(folder).unwrap();
        }
        None => assert_eq!(way, Way::Missing, "{when}: {:?}", report.warnings),
    }
    assert_same(&bench.portrait(), &before, &when);
    // Nothing is left to do, and nothing that this did keeps an undo from going on.
    let plan = bench.world.open().plan_restore(&reference(&saved), &options).unwrap();
    assert_eq!(plan.details, Vec::<String>::new(), "{when}");
}

#[test]
fn a_loose_object() {
    for name in ["HEAD", ":staged"] {
        for way in WAYS {
            let bench = Bench::new();
            let id = bench.text(&["rev-parse", name]);
            let place = bench.git_dir().join("objects").join(&id[..2]).join(&id[2..]);
            object(&bench, &place, way);
        }
    }
}

#[test]
fn a_pack_and_its_index() {
    for end in ["pack", "idx"] {
        for way in WAYS {
            let bench = Bench::new();
            bench.git(&["gc", "-q"]);
            let packs = std::fs::read_dir(bench.git_dir().join("objects/pack")).unwrap();
            let mut packs = packs.map(|entry| entry.unwrap().path());
            let place = packs.find(|path| path.extension().is_some_and(|is| is == end)).unwrap();
            // What is missing without its index is there for nobody, and in nobody's way.
            object(&bench, &place, way);
        }
    }
}
