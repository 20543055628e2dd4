//! What an agent is told that has lost its context, where its journal is long.

use rappel::types::agents::brief::DEFAULT_MAX;
use rappel_testing::Project;

use crate::journal::{line, note, start};
use crate::support::World;

#[test]
fn evidence_is_told_in_its_words_however_far_back_it_lies() {
    let bench = World::new(Project::in_memory());
    let mut rappel = bench.open();
    let session = start(&mut rappel, "s1");
    for json in [
        r#"{"kind":"hypothesis","id":"h1","text":"a race","confidence":0.9}"#,
        r#"{"kind":"hypothesis","id":"h2","text":"the disk","confidence":0.1}"#,
        r#"{"kind":"evidence","id":"e1","text":"one thread is fine","for":"h1","supports":true,"weight":0.9}"#,
        r#"{"kind":"evidence","id":"e2","text":"it fails in memory too","for":"h2","refutes":true,"weight":0.9}"#,
    ] {
        rappel.record(&session, line(json)).unwrap();
    }
    for number in 0..400 {
        let json = format!(
            r#"{{"kind":"evidence","text":"{number}","for":"h1","supports":true,"weight":0.1}}"#
        );
        rappel.record(&session, line(&json)).unwrap();
    }
    rappel.record(&session, note("and so on")).unwrap();
    let brief = bench.open().recall(&session).unwrap();
    let text = brief.to_text(DEFAULT_MAX);
    assert!(text.contains("- h1 0.9 a race | for it: e1 (0.9): one thread is fine"), "{text}");
    assert!(text.contains("| against it: e2 (0.9): it fails in memory too"), "{text}");
}
