//! The graph of checkpoints.

use rappel::{Timeline, TimelineOptions};
use rappel_testing::Project;

use crate::journal::{line, start};
use crate::support::{World, reference};

fn timeline(bench: &World, all: bool) -> Timeline {
    bench.open().timeline(&TimelineOptions { limit: None, all }).unwrap()
}

fn drawn(timeline: &Timeline) -> Vec<(u64, Option<u64>, usize)> {
    let number =
        |id: &String| timeline.checkpoints.iter().find(|one| one.id == *id).map(|one| one.sequence);
    let entry = |one: &rappel::TimelineEntry| {
        (one.sequence, one.parent.as_ref().and_then(number), one.lane)
    };
    timeline.checkpoints.iter().map(entry).collect()
}

#[test]
fn going_on_from_an_earlier_checkpoint_is_a_fork() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let first = bench.save("one");
    bench.write("a", "2");
    bench.save("two");
    bench.write("a", "3");
    bench.save("three");
    bench.restore(&first);
    bench.write("a", "4");
    let last = bench.save("four");
    let timeline = timeline(&bench, false);
    let graph = drawn(&timeline);
    let (newest, oldest) = (graph[0], graph[graph.len() - 1]);
    assert_eq!((newest.1, newest.2), (Some(1), 0), "{graph:?}");
    assert_eq!(oldest, (1, None, 0), "{graph:?}");
    // What came before the restore is a column of its own, which ends in the first checkpoint.
    assert!(graph[1..graph.len() - 1].iter().all(|one| one.2 == 1), "{graph:?}");
    let root = timeline.checkpoints.last().unwrap();
    assert_eq!(root.joins, [1]);
    let here: Vec<_> = timeline.checkpoints.iter().filter(|one| one.current).collect();
    assert_eq!(here.iter().map(|one| &*one.id).collect::<Vec<_>>(), [last]);
    assert_eq!(root.description.as_deref(), Some("one"));
}

#[test]
fn deleted_parents_are_passed_over() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let mut made = Vec::new();
    for number in 0..4 {
        bench.write("a", number.to_string());
        made.push(bench.save("x"));
    }
    let rappel = bench.open();
    for id in &made[1..3] {
        rappel.delete(&[reference(id)], false).unwrap();
    }
    assert_eq!(drawn(&timeline(&bench, false)), [(4, Some(1), 0), (1, None, 0)]);
}

#[test]
fn checkpoints_of_state_alone_are_folded_and_links_pass_over_them() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    for json in [
        r#"{"kind":"hypothesis","id":"h","text":"x"}"#,
        r#"{"kind":"hypothesis","id":"h","status":"testing"}"#,
        r#"{"kind":"hypothesis","id":"h","status":"confirmed"}"#,
    ] {
        rappel.record(&session, line(json)).unwrap();
    }
    bench.write("a", "2");
    bench.save("after");
    let folded = timeline(&bench, false);
    assert_eq!(drawn(&folded), [(4, Some(1), 0), (1, None, 0)]);
    assert_eq!((folded.total, folded.checkpoints[0].folded), (2, 2));
    assert_eq!(folded.checkpoints[1].session_id.as_deref(), Some("s1"));
    let all = timeline(&bench, true);
    assert_eq!((all.total, all.checkpoints[0].folded), (4, 0));
    let limited = bench.open().timeline(&TimelineOptions { limit: Some(1), all: false }).unwrap();
    assert_eq!((limited.total, limited.checkpoints.len()), (2, 1));
}
