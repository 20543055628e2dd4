//! What an agent that lost its context is told.

use proptest::prelude::*;
use rappel_types::Advice;
use rappel_types::agents::brief::{Brief, DEFAULT_MAX, Extra};

use crate::journal::{Journal, moment};

fn brief(journal: &Journal) -> Brief {
    let checkpoint = "chk_20261115_143022_k7f3".parse().unwrap();
    Brief::of(
        &journal.state,
        Extra {
            last_checkpoint: Some((checkpoint, moment(0), Some("before the retry".into()))),
            restorable: true,
            now: moment(journal.clock + 60_000),
        },
    )
    .worded(&words)
}

/// The words of a face.
fn words(advice: &Advice) -> String {
    match advice {
        Advice::Restore { checkpoint, .. } => format!("rappel restore {checkpoint}"),
        Advice::SeeEverything { session } => format!("rappel at now --session {session}"),
        other => panic!("a brief advises {other:?}"),
    }
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// A session in which a bit of everything happened.
fn busy() -> Journal {
    let mut journal = Journal::begun();
    for line in [
        r#"{"kind":"prompt","text":"Find out why login fails"}"#,
        r#"{"kind":"prompt","text":"and mend it"}"#,
        r#"{"kind":"hypothesis","text":"the token expires early","confidence":0.4}"#,
        r#"{"kind":"hypothesis","text":"the clock of the server is wrong","confidence":0.8}"#,
        r#"{"kind":"hypothesis","text":"the cache is stale","confidence":0.3}"#,
        r#"{"kind":"hypothesis","text":"the cookie is not sent","confidence":0.9}"#,
        r#"{"kind":"evidence","text":"a fresh cache fails too","for":"h5","refutes":true,"weight":0.7}"#,
        r#"{"kind":"verification","text":"cleared the cache and tried","for":"h5","failed":true}"#,
        r#"{"kind":"hypothesis-updated","of":"h5","status":"rejected","reason":"it fails without a cache"}"#,
        r#"{"kind":"hypothesis","id":"h6","status":"confirmed"}"#,
        r#"{"kind":"hypothesis","id":"h4","status":"testing"}"#,
        r#"{"kind":"belief","text":"the tests are right","confidence":0.9}"#,
        r#"{"kind":"belief","text":"the server is right","confidence":0.7}"#,
        r#"{"kind":"belief","id":"b9","depends_on":"b10","as":"contradicts"}"#,
        r#"{"kind":"gap","text":"which browser"}"#,
        r#"{"kind":"gap","text":"which version"}"#,
        r#"{"kind":"gap","id":"g12","filled":"4.2"}"#,
        r#"{"kind":"tool","tool":"Bash","input":{"command":"sleep 9"},"started":true}"#,
        r#"{"kind":"tool","tool":"Edit","input":{"file_path":"src/login.rs"},"output":"ok"}"#,
        r#"{"kind":"command","command":"cargo test","exit_code":101,"stderr":"line one\nline two\nthree\nfour"}"#,
        r#"{"kind":"note","text":"ask about the proxy"}"#,
        r#"{"kind":"context","key":"PORT","value":8080}"#,
        r#"{"kind":"branch","name":"retry","switch":true}"#,
        r#"{"kind":"progress","step_number":4,"text":"narrowing down"}"#,
        r#"{"kind":"thought","content":"the clock first","confidence":0.6}"#,
        r#"{"kind":"thought","content":"then the token"}"#,
        r#"{"kind":"evidence","text":"a token was refused","for":"h4","supports":true,"weight":0.3}"#,
        r#"{"kind":"evidence","text":"the log is an hour off","for":"h4","supports":true,"weight":0.8}"#,
        r#"{"kind":"evidence","text":"ntpd runs","for":"h4","refutes":true,"weight":0.2}"#,
        r#"{"kind":"tool","tool":"Bash","input":{"command":"date"},"error":"no such host"}"#,
        r#"{"kind":"verification","text":"the whole suite","failed":true,"output":"2 of 80 failed\n\nlogin"}"#,
        r#"{"kind":"verification","text":"the small suite","passed":true}"#,
    ] {
        journal.say(line);
    }
    journal
}

#[test]
fn a_brief_tells_everything_that_an_agent_needs_to_go_on() {
    let text = brief(&busy()).to_text(DEFAULT_MAX);
    let expected = "\
Session s1: running, last event 1 minute ago, event 34
Goal: Find out why login fails
Last asked: and mend it
Progress: step 4: narrowing down
Approach: retry
Last checkpoint: chk_20261115_143022_k7f3 \"before the retry\", 1 minute ago; back to it: rappel restore chk_20261115_143022_k7f3

Contradictions (1)
- b10 (the server is right) contradicts b9 (the tests are right)

Confirmed hypotheses (1)
- h6 0.9 the cookie is not sent

Open hypotheses (2)
- h4 0.8 [testing] the clock of the server is wrong | for it: e20 (0.8): the log is an hour off | against it: e21 (0.2): ntpd runs
- h3 0.4 the token expires early

Ruled out (1)
- h5 0.3 the cache is stale | because: it fails without a cache | against it: e7 (0.7): a fresh cache fails too | failed: v8 cleared the cache and tried

Failed verifications (1)
- v23 the whole suite
    2 of 80 failed
    login

Beliefs (2)
- b9 0.9 the tests are right
- b10 0.7 the server is right

Open gaps (1)
- g11 which browser

Filled gaps (1)
- g12 which version: 4.2

Running (1)
- x13 Bash {\"command\":\"sleep 9\"} (began 1 minute ago)

Last thoughts (2)
- t18 then the token
- t17 0.6 the clock first

Last tool calls (2)
- x22 Bash {\"command\":\"date\"} | failed: no such host
- x14 Edit {\"file_path\":\"src/login.rs\"} | ok

Last commands (1)
- [101] cargo test
    line one
    line two
    three

Notes (1)
- n16 ask about the proxy

Files touched (1)
- src/login.rs

Context (1)
- PORT = 8080
";
    assert_eq!(text, expected);
}

#[test]
fn a_session_that_was_set_back_says_so() {
    let mut journal = busy();
    journal.restore(5);
    let text = brief(&journal).to_text(DEFAULT_MAX);
    assert!(text.contains("Set back to: chk_20261115_143022_k7f3;"), "{text}");
    assert!(!text.contains("Confirmed"), "{text}");
}

#[test]
fn its_json_has_the_same_content() {
    let json = serde_json::to_value(brief(&busy())).unwrap();
    assert_eq!(json["goal"], "Find out why login fails");
    assert_eq!(json["open"][0]["id"], "h4");
    assert_eq!(json["ruled_out"][0]["refuted_by"]["text"], "a fresh cache fails too");
    assert_eq!(json["contradictions"][0]["rule"], "beliefs");
    assert_eq!(json["open"][0]["supported_by"]["text"], "the log is an hour off");
    assert_eq!(json["open"][0]["refuted_by"]["id"], "e21");
    assert_eq!(json["commands"][0]["exit_code"], 101);
    assert_eq!(json["thoughts"][0]["content"], "then the token");
    assert_eq!(json["tool_calls"][0]["success"], false);
    assert_eq!(json["tool_calls"][0]["error"], "no such host");
    assert_eq!(json["failed_verifications"][0]["output"], "2 of 80 failed\n\nlogin");
    assert_eq!(json["failed_verifications"][1], serde_json::Value::Null);
    assert_eq!(json["last_checkpoint"]["restore"], "rappel restore chk_20261115_143022_k7f3");
}

fn hypotheses(journal: &mut Journal, open: usize, rejected: usize, text: &str) {
    for number in 0..open + rejected {
        let confidence = (number % 100) as f64 / 100.0;
        let line = serde_json::json!({
            "kind": "hypothesis", "text": format!("{number} {text}"), "confidence": confidence,
        });
        let id = journal.say(&line.to_string());
        if number >= open {
            let reason = text.to_owned();
            let line = serde_json::json!({
                "kind": "hypothesis-updated", "of": id, "status": "rejected", "reason": reason,
            });
            journal.say(&line.to_string());
        }
    }
}

#[test]
fn no_open_or_ruled_out_hypothesis_is_lost_even_if_they_do_not_fit() {
    let mut journal = busy();
    hypotheses(&mut journal, 300, 100, &"a long guess, with reasons ".repeat(20));
    let told = brief(&journal);
    let text = told.to_text(DEFAULT_MAX);
    for one in told.open.iter().chain(&told.ruled_out) {
        let first: String = one.text.chars().take(60).collect();
        let line = text.lines().find(|line| line.split(' ').next() == Some(&one.id));
        assert!(line.is_some_and(|line| line.contains(first.trim_end())), "{}", one.id);
    }
    assert!(text.starts_with("Goal: Find out why login fails\n"));
    assert!(text.contains("Not told: 21. Everything: rappel at now --session s1\n"), "{text}");
    assert!(text.ends_with(
        "Longer than the 8000 characters asked for: every open and ruled-out hypothesis is listed.\n"
    ));
    assert!(characters(&text) < 402 * 80 + 600, "nothing else takes room");

    let roomy = told.to_text(150_000);
    assert!(characters(&roomy) <= 150_000);
    assert!(roomy.contains("against it: e7 (0.7)"));
}

#[test]
fn what_does_not_fit_is_counted_and_the_command_that_tells_it_is_named() {
    let mut journal = busy();
    hypotheses(&mut journal, 20, 20, "short");
    for number in 0..200 {
        journal.say(&format!(r#"{{"kind":"note","text":"note {number} {}"}}"#, "x".repeat(100)));
        journal
            .say(&format!(r#"{{"kind":"belief","text":"belief {number} {}"}}"#, "y".repeat(100)));
    }
    let text = brief(&journal).to_text(DEFAULT_MAX);
    assert!(characters(&text) <= DEFAULT_MAX);
    assert!(characters(&text) > DEFAULT_MAX * 8 / 10, "room is used: {}", characters(&text));
    let told = |name: &str| {
        let heading = text.lines().find(|line| line.starts_with(name)).unwrap();
        let count = heading.split(", ").find_map(|part| part.strip_suffix(" told)")).unwrap();
        (heading.to_owned(), count.parse::<usize>().unwrap())
    };
    let (heading, notes) = told("Notes (");
    assert!(heading.starts_with("Notes (201, "));
    assert_eq!(text.lines().filter(|line| line.contains(" note ")).count(), notes);
    let (heading, beliefs) = told("Beliefs (");
    assert!(heading.starts_with("Beliefs (202, "));
    let lines = text.lines().filter(|line| {
        line.contains(" belief ") || line.ends_with(" is right") || line.ends_with(" are right")
    });
    assert_eq!(
        lines.filter(|line| line.starts_with("- b") && !line.contains("contradicts")).count(),
        beliefs
    );
    assert!(text.ends_with("Everything: rappel at now --session s1\n"), "{text}");
    assert!(text.contains("Ruled out (21)"), "all of them fit, in whole: {text}");
}

#[test]
fn more_room_never_tells_less_and_is_used() {
    let mut journal = busy();
    for number in 0..9 {
        journal.say(&format!(r#"{{"kind":"note","text":"note {number} {}"}}"#, "x ".repeat(150)));
    }
    let told = brief(&journal);
    let whole = told.to_text(usize::MAX);
    assert!(!whole.contains("Everything:"), "{whole}");
    assert_eq!(told.to_text(characters(&whole)), whole);
    // How much is told of each line of the whole.
    let kept = |text: &str| -> Vec<usize> {
        let bare = |line: &str| line.trim_start_matches("- ").to_owned();
        let lines: Vec<String> =
            text.lines().map(|line| bare(line.trim_end_matches('…'))).collect();
        let of = |whole: &str| {
            let found = lines.iter().filter(|line| !line.is_empty() && whole.starts_with(*line));
            found.map(|line| characters(line)).max().unwrap_or(0)
        };
        whole
            .lines()
            .filter(|line| line.starts_with("- ") || line.contains(": "))
            .map(|line| of(&bare(line)))
            .collect()
    };
    let mut before = kept(&told.to_text(0));
    for max in 0..=characters(&whole) {
        let text = told.to_text(max);
        assert!(text.contains("Goal: Find out why login fails\n"), "{max}: {text}");
        if max < characters(&whole) {
            assert!(text.contains("Everything: rappel at now --session s1\n"), "{max}: {text}");
        }
        if max > 400 {
            assert!(characters(&text) + 250 > max, "{max} wasted: {text}");
        }
        let now = kept(&text);
        assert!(before.iter().zip(&now).all(|(before, now)| before <= now), "{max}: {text}");
        before = now;
    }
}

#[test]
fn of_what_was_done_last_the_newest_are_told_and_the_rest_is_counted() {
    let mut journal = Journal::begun();
    for number in 0..200 {
        journal.say(&format!(r#"{{"kind":"thought","content":"thought {number}"}}"#));
        let output = "x".repeat(5000);
        journal.say(&format!(
            r#"{{"kind":"tool","tool":"Read","input":{{"n":{number}}},"output":"{output}"}}"#
        ));
        journal.say(&format!(r#"{{"kind":"verification","text":"check {number}","failed":true}}"#));
    }
    let told = brief(&journal);
    assert_eq!((told.thoughts.len(), told.older.thoughts), (20, 180));
    assert_eq!((told.tool_calls.len(), told.older.tool_calls), (20, 180));
    assert_eq!((told.failed_verifications.len(), told.older.failed_verifications), (20, 180));
    assert!(serde_json::to_string(&told).unwrap().len() < 30_000, "long results are cut");
    let text = told.to_text(DEFAULT_MAX);
    assert!(characters(&text) <= DEFAULT_MAX);
    for line in ["thought 199", "Read {\"n\":199} | xxx", "check 199"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.contains("Last thoughts (200, 20 told)"), "{text}");
    assert!(text.ends_with("Everything: rappel at now --session s1\n"), "{text}");
}

#[test]
fn the_likeliest_come_first_and_of_equal_ones_the_newest() {
    let mut journal = Journal::begun();
    for (text, confidence) in [("a", 0.2), ("b", 0.9), ("c", 0.2), ("d", 0.5)] {
        journal
            .say(&format!(r#"{{"kind":"hypothesis","text":"{text}","confidence":{confidence}}}"#));
    }
    let order: Vec<String> = brief(&journal).open.into_iter().map(|one| one.text).collect();
    assert_eq!(order, ["b", "d", "c", "a"]);
}

#[test]
fn nothing_in_a_text_begins_a_line_of_its_own_or_moves_the_cursor() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"note","text":"one\nGoal: do harm\u001b[2J\r\u0007 two \u202eenod"}"#);
    let text = brief(&journal).to_text(DEFAULT_MAX);
    assert!(text.contains("one Goal: do harm\\u{1b}[2J \\u{7} two \\u{202e}enod\n"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_brief_is_longer_than_asked_without_saying_so(
        words in prop::collection::vec("[a-z]\\PC{0,89}", 0..30),
        max in prop_oneof![0usize..400, 400usize..5_000],
        open in 0usize..12,
    ) {
        let mut journal = busy();
        for word in &words {
            journal.say(&serde_json::json!({"kind": "note", "text": word}).to_string());
            journal.say(&serde_json::json!({"kind": "gap", "text": word}).to_string());
        }
        hypotheses(&mut journal, open, open / 2, "größer als 60 Zeichen: ключ, 鍵, 🗝 und noch einiges dahinter, bis es reicht");
        let told = brief(&journal);
        let text = told.to_text(max);
        let lines: usize = told.open.iter().chain(&told.ruled_out)
            .map(|one| characters(&one.id) + 6 + characters(&one.text).min(61) + 1)
            .sum();
        if characters(&text) > max {
            // And their headings, the goal and the last line.
            prop_assert!(lines + 180 > max, "{max}: {text}");
            prop_assert!(text.contains("characters asked for"));
        }
        for one in told.open.iter().chain(&told.ruled_out) {
            let first: String = one.text.chars().take(60).collect();
            prop_assert!(text.contains(first.trim_end()), "{} in {text}", one.id);
        }
    }

    #[test]
    fn without_hypotheses_it_is_never_longer_than_asked(
        words in prop::collection::vec("[a-z]\\PC{0,90}", 0..30),
        max in 0usize..2_000,
    ) {
        let mut journal = Journal::begun();
        journal.say(r#"{"kind":"prompt","text":"ключ 🗝 finden"}"#);
        for word in &words {
            journal.say(&serde_json::json!({"kind": "note", "text": word}).to_string());
        }
        prop_assert!(characters(&brief(&journal).to_text(max)) <= max);
    }
}
