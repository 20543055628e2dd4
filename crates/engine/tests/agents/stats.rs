//! Figures over sessions.

use rappel_testing::Project;

use crate::journal::{line, start};
use crate::support::World;

#[test]
fn tokens_tools_and_checkpoints_are_counted() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let one = start(&rappel, "one");
    let two = start(&rappel, "two");
    start(&rappel, "idle");
    for (session, json) in [
        // Of two counts of one request the higher is taken.
        (&one, r#"{"kind":"tokens","message":"m1","input":10,"output":1}"#),
        (&one, r#"{"kind":"tokens","message":"m1","input":10,"output":30}"#),
        (&one, r#"{"kind":"tokens","input":5,"output":5,"cache_read":50}"#),
        (&two, r#"{"kind":"tokens","message":"m1","input":100,"output":100}"#),
        (&one, r#"{"kind":"tool","tool":"bash","success":true}"#),
        (&two, r#"{"kind":"tool","tool":"bash","error":"no"}"#),
        (&two, r#"{"kind":"tool","id":"x","tool":"edit","started":true}"#),
        (&two, r#"{"kind":"tool","id":"y","tool":"edit","started":true}"#),
        (&two, r#"{"kind":"tool","id":"y","finished":true,"error":"no"}"#),
    ] {
        rappel.record(session, line(json)).unwrap();
    }
    bench.clock.advance(3_600_000);
    bench.write("a", "1");
    bench.save("later");
    let stats = bench.open().stats().unwrap().agents;
    let totals: Vec<_> =
        stats.executions.iter().map(|one| (&*one.session, one.tokens_total)).collect();
    assert_eq!(totals, [("two", 200), ("one", 100), ("idle", 0)]);
    // The state of the session counts the same.
    let state = bench.open().state_now(&one, u64::MAX).unwrap().state;
    assert_eq!(state.progress.tokens, stats.executions[1].tokens);
    assert_eq!(stats.tokens_per_execution, Some(150.0));
    let tools: Vec<_> =
        stats.tools.iter().map(|tool| (&*tool.tool, tool.calls, tool.failed)).collect();
    // A call that still runs has not failed.
    assert_eq!(tools, [("bash", 2, 1), ("edit", 2, 1)]);
    assert_eq!(stats.hours.len(), 2);
    let made: u64 = stats.hours.values().sum();
    assert!((stats.checkpoints_per_hour - made as f64 / 2.0).abs() < 1e-9);
}
