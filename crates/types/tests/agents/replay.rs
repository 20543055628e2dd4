//! A past as steps.

use rappel_types::agents::replay::{FilesChanged, Step, steps};

use crate::journal::{Journal, moment};

fn change(event: u64, added: &[&str], deleted: &[&str]) -> FilesChanged {
    let own = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    FilesChanged {
        checkpoint: "chk_20261115_143022_k7f3".parse().unwrap(),
        at: moment(500),
        event,
        added: own(added),
        modified: Vec::new(),
        deleted: own(deleted),
    }
}

fn titles(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.title.as_str()).collect()
}

#[test]
fn everything_that_happened_is_a_step_that_says_so() {
    let mut journal = Journal::begun();
    for line in [
        r#"{"kind":"prompt","text":"Mend\nlogin"}"#,
        r#"{"kind":"thought","text":"look at the cookie","confidence":0.8}"#,
        r#"{"kind":"tool","tool":"Bash","input":{"command":"cargo test"},"started":true}"#,
        r#"{"kind":"tokens","message":"m","input":5,"output":6}"#,
        r#"{"kind":"tool","id":"x3","finished":true,"error":"exit 101"}"#,
        r#"{"kind":"tool","tool":"Edit","input":{"file_path":"src/a.rs"},"output":{"ok":true}}"#,
        r#"{"kind":"hypothesis","text":"the clock is wrong"}"#,
        r#"{"kind":"evidence","text":"it is right","for":"h5","refutes":true,"weight":0.9}"#,
        r#"{"kind":"hypothesis","id":"h5","status":"rejected","confidence":0.1}"#,
        r#"{"kind":"verification","text":"logged in","passed":true,"output":"200"}"#,
        r#"{"kind":"command","command":"ls","exit_code":0,"stdout":"a\nb"}"#,
        r#"{"kind":"context","key":"PORT","value":8080}"#,
        r#"{"kind":"branch","name":"retry","switch":true}"#,
    ] {
        journal.say(line);
    }
    let all = steps(&journal.events, &[]);
    assert_eq!(
        titles(&all),
        [
            "session started by an agent",
            "prompt: Mend login",
            "thought (reasoning): look at the cookie",
            "Bash started: cargo test",
            "Bash failed: exit 101",
            "Edit: src/a.rs",
            "hypothesis (open): the clock is wrong",
            "evidence against h5 (0.9): it is right",
            "h5: rejected, confidence 0.1",
            "verification passed: logged in",
            "[0] ls",
            "PORT = 8080",
            "approach retry",
        ]
    );
    assert_eq!(all[1].detail, "Mend\nlogin");
    assert_eq!(all[10].detail, "ls\n\na\nb");
    assert!(all.iter().map(|step| step.number).eq(1..=13));
    assert_eq!(all[4].event, 6, "tokens are counted, not stepped through");
}

#[test]
fn changes_of_files_stand_behind_the_last_event_that_their_checkpoint_holds() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"note","text":"one"}"#);
    journal.say(r#"{"kind":"note","text":"two"}"#);
    let changes = [change(0, &["a"], &[]), change(2, &["b", "c"], &["d"]), change(9, &["e"], &[])];
    let all = steps(&journal.events, &changes);
    let expected = [
        "files: 1 new",
        "session started by an agent",
        "note: one",
        "files: 2 new, 1 deleted",
        "note: two",
        "files: 1 new",
    ];
    assert_eq!(titles(&all), expected);
    assert_eq!(all[3].detail, "Seen by chk_20261115_143022_k7f3\n+ b\n+ c\n- d");
    let many: Vec<String> = (0..500).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(steps(&[], &[change(0, &many, &[])])[0].detail.ends_with("\n… and 300 more"));
}

#[test]
fn long_texts_have_short_titles() {
    let mut journal = Journal::begun();
    let text = "ключ ".repeat(100_000);
    journal.say(&serde_json::json!({"kind": "note", "text": text}).to_string());
    let all = steps(&journal.events, &[]);
    assert_eq!(all[1].title.chars().count(), 121);
    assert_eq!(all[1].detail, text);
}
