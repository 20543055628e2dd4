//! What the parsers make of transcripts that were written to the documented shapes, and of anything
//! else.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

use std::io::Write;

use proptest::prelude::*;
use rappel_capture::agents::Provider;
use rappel_capture::agents::follow;
use rappel_capture::agents::transcripts::{
    Batch, Found, Item, LINE_MAX, Reader, Resume, Session, TEXT_MAX, ThoughtKind, Tokens,
};
use rappel_types::RelPath;
use serde_json::{Value, json};

const CLAUDE: &str = include_str!("fixtures/transcripts/claude-session.jsonl");
const SUBAGENT: &str = include_str!("fixtures/transcripts/claude-subagent.jsonl");
const CODEX: &str = include_str!("fixtures/transcripts/codex-rollout.jsonl");
const GEMINI: &str = include_str!("fixtures/transcripts/gemini-session.jsonl");

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

fn reader(provider: Provider) -> Reader {
    Reader::new(provider, &path("tmp/shop/chats/session-1.jsonl"))
}

/// Takes a batch in as a consumer does.
fn take_in(story: &mut Vec<Found>, batch: Batch) {
    for mark in batch.marks {
        for found in story.iter_mut().filter(|found| mark.lines.contains(&found.line)) {
            found.abandoned = mark.abandoned && found.item.can_be_abandoned();
        }
    }
    story.extend(batch.found);
}

fn read(provider: Provider, text: &str) -> Vec<Found> {
    let mut reader = reader(provider);
    let batch = reader.feed(text.as_bytes());
    assert!(batch.marks.is_empty());
    batch.found
}

fn prompts(story: &[Found]) -> Vec<(&str, bool)> {
    let prompts = story.iter().filter_map(|found| match &found.item {
        Item::Prompt { text, .. } => Some((&**text, found.abandoned)),
        _ => None,
    });
    prompts.collect()
}

/// Id, kind, text, parent and whether it was abandoned.
fn thoughts(story: &[Found]) -> Vec<(&str, ThoughtKind, &str, Option<&str>, bool)> {
    let thoughts = story.iter().filter_map(|found| match &found.item {
        Item::Thought { id, kind, text, parent } => {
            Some((&**id, *kind, &**text, parent.as_deref(), found.abandoned))
        }
        _ => None,
    });
    thoughts.collect()
}

fn calls(story: &[Found]) -> Vec<(&str, &str, &Value, bool, bool)> {
    let calls = story.iter().filter_map(|found| match &found.item {
        Item::ToolStarted { id, tool, input, background } => {
            Some((&**id, &**tool, input, *background, found.abandoned))
        }
        _ => None,
    });
    calls.collect()
}

fn results(story: &[Found]) -> Vec<(&str, &str, Option<&str>, bool, bool)> {
    let results = story.iter().filter_map(|found| match &found.item {
        Item::ToolFinished { id, output, error, success } => {
            Some((&**id, &**output, error.as_deref(), *success, found.abandoned))
        }
        _ => None,
    });
    results.collect()
}

fn tokens(story: &[Found]) -> Vec<&Tokens> {
    let tokens = story.iter().filter_map(|found| match &found.item {
        Item::Tokens(tokens) => Some(tokens),
        _ => None,
    });
    tokens.collect()
}

fn session(story: &[Found]) -> &Session {
    let mut sessions = story.iter().filter_map(|found| match &found.item {
        Item::Session(session) => Some(session),
        _ => None,
    });
    sessions.next_back().unwrap()
}

fn titles(story: &[Found]) -> Vec<&str> {
    let titles = story.iter().filter_map(|found| match &found.item {
        Item::Title { text } => Some(&**text),
        _ => None,
    });
    titles.collect()
}

#[test]
fn claude_prompts_are_what_people_typed() {
    let story = read(Provider::Claude, CLAUDE);
    let expected = [
        ("Why does the basket lose items?", false),
        ("Try the cache", true),
        ("No, look at the store instead", false),
        ("and write a test", false),
    ];
    assert_eq!(prompts(&story), expected);
}

#[test]
fn claude_thoughts_follow_the_graph_and_not_the_file() {
    let story = read(Provider::Claude, CLAUDE);
    let (reasoning, text) = (ThoughtKind::Reasoning, ThoughtKind::Text);
    let expected = [
        ("a2", reasoning, "Maybe the session cookie expires.", None, false),
        ("a3", text, "I look at the basket first.", Some("a2"), false),
        ("a6", text, "The test fails, so it is the store.", Some("a3"), false),
        ("a7", reasoning, "The cache has a short life.", Some("a6"), true),
        ("a9", reasoning, "Then the store it is.", Some("a6"), false),
        ("a10", text, "It drops the last item.", Some("a9"), false),
        (
            "c2",
            ThoughtKind::Summary,
            "This session is being continued: the store drops the last item.",
            Some("a10"),
            false,
        ),
        ("a11", text, "I fix the store.", Some("c2"), false),
    ];
    assert_eq!(thoughts(&story), expected);
}

#[test]
fn claude_calls_that_ran_side_by_side_are_not_abandoned() {
    let story = read(Provider::Claude, CLAUDE);
    let read_file = json!({"file_path": "/home/dev/shop/basket.ts"});
    let test = json!({"command": "npm test", "run_in_background": true});
    let cache = json!({"command": "cat cache.ts"});
    let expected = [
        ("toolu_1", "Read", &read_file, false, false),
        ("toolu_2", "Bash", &test, true, false),
        ("toolu_3", "Bash", &cache, false, true),
    ];
    assert_eq!(calls(&story), expected);
    let failing = "1 failing\n[image]";
    let expected = [
        ("toolu_1", "export const basket = []", None, true, false),
        ("toolu_2", failing, Some(failing), false, false),
        ("toolu_3", "ttl = 1", None, true, true),
    ];
    assert_eq!(results(&story), expected);
}

#[test]
fn claude_answers_cost_once_and_the_highest_output_comes_last() {
    let story = read(Provider::Claude, CLAUDE);
    let all = tokens(&story);
    let outputs: Vec<(&str, u64)> = all.iter().map(|one| (&*one.message, one.output)).collect();
    let expected = [
        ("msg_1", 3),
        ("msg_1", 8),
        ("msg_1", 20),
        ("msg_1", 64),
        ("msg_2", 30),
        ("msg_3", 40),
        ("msg_3", 44),
        ("msg_4", 50),
        ("msg_4", 55),
        ("msg_5", 70),
    ];
    assert_eq!(outputs, expected);
    let last = all.last().unwrap();
    assert_eq!(
        (last.input, last.cache_read, last.cache_write, last.reasoning),
        (12, 4000, 300, 35)
    );
    assert_eq!(last.model.as_deref(), Some("claude-opus-5"));
}

#[test]
fn claude_sessions_titles_and_compactions_are_told() {
    let story = read(Provider::Claude, CLAUDE);
    let expected = Session {
        assistant_session_id: "7f3c1d52-0a4e-4b7e-9a55-3f2d8c1b0e01".into(),
        cwd: Some("/home/dev/shop".into()),
        parent: None,
        model: Some("claude-opus-5".into()),
        version: Some("2.1.240".into()),
        git_branch: Some("develop".into()),
    };
    assert_eq!(session(&story), &expected);
    assert_eq!(titles(&story), ["Basket loses items", "Basket bug"]);
    let compaction = Item::Compaction { trigger: Some("auto".into()), text: None };
    assert!(story.iter().any(|found| found.item == compaction));
    assert_eq!(story[0].at, Some("2026-10-05T09:00:01Z".parse().unwrap()));
}

#[test]
fn claude_subagents_are_sessions_of_their_own() {
    let story = read(Provider::Claude, SUBAGENT);
    assert_eq!(session(&story).assistant_session_id, "a1b2c3d");
    assert_eq!(session(&story).parent.as_deref(), Some("7f3c1d52-0a4e-4b7e-9a55-3f2d8c1b0e01"));
    assert_eq!(prompts(&story), [("Find where baskets are stored", false)]);
}

#[test]
fn a_branch_that_is_taken_up_again_is_not_abandoned() {
    let line = |uuid: &str, parent: &str| {
        let message = json!({"id": uuid, "content": [{"type": "text", "text": uuid}]});
        let line =
            json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message});
        format!("{line}\n")
    };
    let abandoned = |story: &[Found]| -> Vec<String> {
        let gone = thoughts(story).into_iter().filter(|thought| thought.4);
        gone.map(|thought| thought.0.to_owned()).collect()
    };
    let mut reader = reader(Provider::Claude);
    let mut story = Vec::new();
    let mut go = |text: &str, story: &mut Vec<Found>| take_in(story, reader.feed(text.as_bytes()));
    go(&[line("a", ""), line("b", "a"), line("c", "b")].concat(), &mut story);
    assert!(abandoned(&story).is_empty());
    go(&line("d", "a"), &mut story);
    assert_eq!(abandoned(&story), ["b", "c"]);
    go(&line("e", "b"), &mut story);
    assert_eq!(abandoned(&story), ["c", "d"]);
    go("{\"type\":\"last-prompt\",\"leafUuid\":\"c\"}\n", &mut story);
    assert_eq!(abandoned(&story), ["d", "e"]);
    // The way to where the conversation is anyway drops nothing.
    go("{\"type\":\"last-prompt\",\"leafUuid\":\"a\"}\n", &mut story);
    assert_eq!(abandoned(&story), ["d", "e"]);
}

/// Lines of Claude Code, each under the line before it unless it says otherwise.
fn claude_lines(lines: &[Value]) -> String {
    let mut before = Value::Null;
    let mut text = String::new();
    for line in lines {
        let mut line = line.clone();
        if line.get("parentUuid").is_none() {
            line["parentUuid"] = before;
        }
        before = line["uuid"].clone();
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn said(uuid: &str, message: &str, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "assistant", "uuid": uuid, "message": {"id": message, "content": content}})
}

#[test]
fn a_result_that_comes_late_drops_nothing() {
    let call = json!({"type": "assistant", "uuid": "call", "message": {"id": "m1", "content": [
        {"type": "tool_use", "id": "slow", "name": "Bash", "input": {}}]}});
    let result = json!({"type": "user", "uuid": "late", "parentUuid": "call", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "slow", "content": "done"}]}});
    let mut last = said("last", "m3", "still here");
    last["parentUuid"] = json!("later");
    let text = claude_lines(&[call, said("later", "m2", "meanwhile"), result, last]);
    let story = read(Provider::Claude, &text);
    assert!(story.iter().all(|found| !found.abandoned), "{story:?}");
    assert_eq!(thoughts(&story).len(), 2);
    assert_eq!(results(&story), [("slow", "done", None, true, false)]);
}

#[test]
fn a_line_that_is_there_twice_is_told_once() {
    let text = claude_lines(&[said("a", "m1", "once"), said("b", "m2", "more")]);
    assert_eq!(thoughts(&read(Provider::Claude, &text.repeat(2))).len(), 2);
}

#[test]
fn subagents_within_a_session_neither_ask_nor_lead() {
    let side = |mut line: Value, parent: Value| {
        line["isSidechain"] = json!(true);
        line["parentUuid"] = parent;
        line
    };
    let ask = json!({"type": "user", "uuid": "q", "message": {"content": "Fix it"}});
    let inner = json!({"type": "user", "uuid": "i1", "message": {"content": "Look for it"}});
    let mut last = said("b", "m3", "Fixed.");
    last["parentUuid"] = json!("a");
    let text = claude_lines(&[
        ask,
        said("a", "m1", "I ask another."),
        side(inner, Value::Null),
        side(said("i2", "m2", "Here it is."), json!("i1")),
        last,
    ]);
    let story = read(Provider::Claude, &text);
    assert_eq!(prompts(&story), [("Fix it", false)]);
    let told: Vec<_> = thoughts(&story).into_iter().map(|one| (one.0, one.3, one.4)).collect();
    assert_eq!(told, [("a", None, false), ("i2", None, false), ("b", Some("a"), false)]);
}

#[test]
fn what_a_reader_remembers_stays_small() {
    let mut reader = reader(Provider::Claude);
    for at in 0..5000 {
        let uuid = format!("00000000-0000-4000-8000-{at:012}");
        let text = claude_lines(&[said(&uuid, &format!("msg_{at}"), "x")]);
        reader.feed(text.as_bytes());
    }
    let kept = serde_json::to_vec(&reader).unwrap().len();
    assert!(kept < 100_000, "{kept}");
}

#[test]
fn codex_tells_prompts_once_and_without_the_context() {
    let story = read(Provider::Codex, CODEX);
    let expected =
        [("Why does the basket lose items?", false), ("Try the cache", true), ("Fix it", false)];
    assert_eq!(prompts(&story), expected);
    let expected = Session {
        assistant_session_id: "0199b2f0-1111-7222-8333-944455556666".into(),
        cwd: Some("/home/dev/shop".into()),
        parent: None,
        model: Some("gpt-6-codex".into()),
        version: Some("0.150.0".into()),
        git_branch: Some("develop".into()),
    };
    assert_eq!(session(&story), &expected);
    assert_eq!(titles(&story), ["Basket bug"]);
    let text = Some("The store drops the last item.".into());
    assert!(
        story
            .iter()
            .any(|found| found.item == Item::Compaction { trigger: None, text: text.clone() })
    );
}

#[test]
fn a_codex_prompt_that_is_given_twice_is_two_prompts() {
    let item = json!({"type": "response_item", "payload": {"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "go on"}]}});
    let event =
        json!({"type": "event_msg", "payload": {"type": "user_message", "message": "go on"}});
    let turn = format!("{item}\n{event}\n");
    assert_eq!(prompts(&read(Provider::Codex, &turn.repeat(2))).len(), 2);
    let turn = format!("{event}\n");
    assert_eq!(prompts(&read(Provider::Codex, &turn.repeat(2))).len(), 2);
}

#[test]
fn codex_thoughts_are_summaries_and_answers() {
    let story = read(Provider::Codex, CODEX);
    let told = thoughts(&story);
    let texts: Vec<_> = told.iter().map(|thought| (thought.1, thought.2, thought.4)).collect();
    let (reasoning, text) = (ThoughtKind::Reasoning, ThoughtKind::Text);
    let expected = [
        (reasoning, "Looking at the store", false),
        (text, "It drops the last item.", false),
        (text, "The cache is fine.", true),
        (text, "Fixed.", false),
    ];
    assert_eq!(texts, expected);
    assert_eq!(told[0].0, "rs_1");
    assert_eq!(told[1].3, Some("rs_1"));
    assert_eq!(told[2].3, Some(told[1].0));
    assert_eq!(told[3].3, Some(told[1].0), "the turn between was taken back");
}

#[test]
fn codex_calls_pair_by_call_id() {
    let story = read(Provider::Codex, CODEX);
    let (shell, patch) = (json!({"command": ["npm", "test"]}), json!("*** Begin Patch"));
    let list = json!({"type": "exec", "command": ["ls"]});
    let search = json!({"type": "search", "query": "basket"});
    let expected = [
        ("call_1", "shell", &shell, false, false),
        ("call_2", "apply_patch", &patch, false, false),
        ("call_3", "local_shell", &list, false, false),
        ("ws_1", "web_search", &search, false, false),
    ];
    assert_eq!(calls(&story), expected);
    let success = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess";
    let expected = [
        ("call_1", "1 failing", Some("exit code 1"), false, false),
        ("call_2", success, None, true, false),
        ("call_3", "store.ts", None, true, false),
        ("ws_1", "", None, true, false),
    ];
    assert_eq!(results(&story), expected);
}

#[test]
fn codex_tokens_are_those_of_the_last_answer_each_once() {
    let story = read(Provider::Codex, CODEX);
    let all = tokens(&story);
    let numbers: Vec<_> =
        all.iter().map(|one| (one.input, one.cache_read, one.output, one.reasoning)).collect();
    assert_eq!(numbers, [(100, 900, 40, 5), (300, 900, 60, 5)]);
    assert_ne!(all[0].message, all[1].message);
    assert_eq!(all[0].model.as_deref(), Some("gpt-6-codex"));
}

#[test]
fn gemini_gives_what_is_new_in_a_message_that_is_written_again() {
    let story = read(Provider::Gemini, GEMINI);
    let expected = [
        ("Why does the basket lose items? @basket.ts", false),
        ("Try the cache", true),
        ("Fix it", false),
    ];
    assert_eq!(prompts(&story), expected);
    let (reasoning, text) = (ThoughtKind::Reasoning, ThoughtKind::Text);
    let expected = [
        ("m2/thought-0", reasoning, "The basket\n\nI read it first.", None, false),
        ("m4", text, "It drops the last item.", Some("m2/thought-0"), false),
        ("m6", text, "The cache is fine.", Some("m4"), true),
        ("m8", text, "Fixed.", Some("m4"), false),
    ];
    assert_eq!(thoughts(&story), expected);
    let (file, test) =
        (json!({"file_path": "basket.ts"}), json!({"command": "npm test", "is_background": true}));
    let expected = [
        ("read_file-1", "read_file", &file, false, false),
        ("run-2", "run_shell_command", &test, true, false),
    ];
    assert_eq!(calls(&story), expected);
    let expected = [
        ("read_file-1", "export const basket = []", None, true, false),
        ("run-2", "exit 1", Some("exit 1"), false, false),
    ];
    assert_eq!(results(&story), expected);
    let numbers: Vec<_> = tokens(&story)
        .into_iter()
        .map(|one| (&*one.message, one.input, one.cache_read, one.output, one.reasoning))
        .collect();
    assert_eq!(numbers, [("m2", 605, 400, 50, 30), ("m4", 10, 0, 2, 0)]);
    assert_eq!(session(&story).assistant_session_id, "c0ffee00-1234-4567-89ab-0123456789ab");
    assert_eq!(session(&story).model.as_deref(), Some("gemini-4-pro"));
    assert_eq!(titles(&story), ["Fix the basket"]);
}

#[test]
fn a_gemini_subagent_is_known_by_its_folder() {
    let mut reader = Reader::new(Provider::Gemini, &path("tmp/shop/chats/parent-1/child-2.jsonl"));
    let story = reader.feed(GEMINI.as_bytes()).found;
    assert_eq!(session(&story).parent.as_deref(), Some("parent-1"));
    assert_eq!(session(&read(Provider::Gemini, GEMINI)).parent, None);
}

#[test]
fn unknown_lines_are_counted_and_nothing_else() {
    for (provider, text, skipped) in
        [(Provider::Claude, CLAUDE, 2), (Provider::Codex, CODEX, 1), (Provider::Gemini, GEMINI, 1)]
    {
        let mut reader = reader(provider);
        assert_eq!(reader.feed(text.as_bytes()).skipped, skipped, "{provider}");
        assert_eq!(reader.skipped(), skipped);
        assert_eq!(reader.offset(), text.len() as u64);
    }
}

#[test]
fn only_complete_lines_are_read() {
    let mut reader = reader(Provider::Claude);
    let cut = CLAUDE.len() - 1;
    let last = CLAUDE[..cut].rfind('\n').unwrap() + 1;
    reader.feed(&CLAUDE.as_bytes()[..cut]);
    assert_eq!(reader.offset(), last as u64);
    let again = reader.feed(&CLAUDE.as_bytes()[last..cut]);
    assert_eq!((again, reader.offset()), (Batch::default(), last as u64));
}

#[test]
fn long_texts_are_cut_and_counted() {
    let long = "ä".repeat(TEXT_MAX);
    let result = json!({"type": "user", "uuid": "r", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": long}]}});
    let write = json!({"type": "assistant", "uuid": "a", "message": {"content": [
        {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "x", "content": long}}]}});
    let many = json!({"type": "assistant", "uuid": "b", "message": {"content": [
        {"type": "tool_use", "id": "m", "name": "Many", "input": vec!["short"; 50_000]}]}});
    let story = read(Provider::Claude, &format!("{write}\n{result}\n{many}\n"));
    assert_eq!(
        (calls(&story)[0].2["content"].as_str().unwrap().len(), story[0].cut),
        (TEXT_MAX, TEXT_MAX as u64)
    );
    assert_eq!((results(&story)[0].1.len(), story[1].cut), (TEXT_MAX, TEXT_MAX as u64));
    assert_eq!(calls(&story)[1].2.as_str().unwrap().len(), TEXT_MAX);
    assert_eq!(story[2].cut, (50_000 * 8 + 1 - TEXT_MAX) as u64);
}

#[test]
fn a_line_too_long_is_passed_over_however_it_arrives() {
    let long = vec![b'x'; LINE_MAX + 10];
    let line = b"{\"type\":\"custom-title\",\"customTitle\":\"here\"}\n";
    let mut at_once = reader(Provider::Claude);
    let batch = at_once.feed(&[&long[..], b"\n", line].concat());
    assert_eq!((batch.skipped, titles(&batch.found)), (1, vec!["here"]));
    let mut in_pieces = reader(Provider::Claude);
    assert_eq!(in_pieces.feed(&long[..LINE_MAX]).skipped, 0);
    assert_eq!(in_pieces.offset(), 0);
    assert_eq!(in_pieces.feed(&long), Batch::default());
    assert_eq!(in_pieces.offset(), long.len() as u64);
    let batch = in_pieces.feed(&[&b"tail\n"[..], line].concat());
    assert_eq!((batch.skipped, titles(&batch.found)), (1, vec!["here"]));
}

#[test]
fn a_file_that_was_replaced_or_cut_is_read_anew() {
    let bytes = CODEX.as_bytes();
    let size = bytes.len() as u64;
    let place = path("sessions/x.jsonl");
    let mut reader = Reader::new(Provider::Codex, &place);
    let half = bytes.len() / 2;
    reader.feed(&bytes[..half]);
    let read = reader.offset();
    assert!(read > 0);
    assert_eq!(reader.resume(&place, &bytes[..4096], size), Resume::On);
    assert_eq!(reader.offset(), read);
    assert_eq!(reader.clone().resume(&place, &bytes[..4096], read - 1), Resume::Anew);
    let mut other = bytes[..4096].to_vec();
    other[100] ^= 1;
    assert_eq!(reader.resume(&place, &other, size), Resume::Anew);
    assert_eq!((reader.offset(), reader), (0, Reader::new(Provider::Codex, &place)));
}

#[test]
fn a_file_that_was_short_is_known_by_more_of_it_later() {
    let (first, rest) = CODEX.as_bytes().split_at(CODEX.find('\n').unwrap() + 1);
    let place = path("sessions/x.jsonl");
    let mut reader = Reader::new(Provider::Codex, &place);
    reader.feed(first);
    // Another file that begins with the same line, with as much behind it.
    let other: Vec<u8> = [first, &b" ".repeat(rest.len())].concat();
    assert_eq!(reader.clone().resume(&place, &other[..4096], other.len() as u64), Resume::On);
    reader.feed(rest);
    assert_eq!(reader.resume(&place, &CODEX.as_bytes()[..4096], CODEX.len() as u64), Resume::On);
    assert_eq!(reader.resume(&place, &other[..4096], other.len() as u64), Resume::Anew);
}

#[test]
fn a_reader_of_another_version_starts_over() {
    let place = path("sessions/x.jsonl");
    let mut reader = Reader::new(Provider::Codex, &place);
    reader.feed(CODEX.as_bytes());
    let mut kept = serde_json::to_value(&reader).unwrap();
    kept["version"] = json!(0);
    let mut kept: Reader = serde_json::from_value(kept).unwrap();
    assert_eq!(kept.resume(&place, &CODEX.as_bytes()[..4096], CODEX.len() as u64), Resume::Anew);
}

#[allow(clippy::unnecessary_wraps, reason = "what a reader gives its batches to may fail")]
fn keep(story: &mut Vec<Found>, batch: Batch) -> std::io::Result<()> {
    take_in(story, batch);
    Ok(())
}

/// A file with that content.
fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_transcript_on_disk_is_read_from_where_it_was_left() {
    let place = path("sessions/x.jsonl");
    let mut reader = Reader::new(Provider::Codex, &place);
    let mut story = Vec::new();
    let mut live = file(&CODEX.as_bytes()[..1000]);
    follow::read_on(&mut reader, &place, &live, &mut |batch| keep(&mut story, batch)).unwrap();
    assert!(!story.is_empty() && story.len() < 10);
    live.write_all(&CODEX.as_bytes()[1000..]).unwrap();
    follow::read_on(&mut reader, &place, &live, &mut |batch| keep(&mut story, batch)).unwrap();
    assert_eq!(story, read(Provider::Codex, CODEX));
    let mut again = |_: Batch| -> std::io::Result<()> { panic!("nothing is new") };
    follow::read_on(&mut reader, &place, &live, &mut again).unwrap();
}

#[test]
fn a_writer_that_is_faster_does_not_keep_a_reader_for_ever() {
    let place = path("sessions/x.jsonl");
    let mut reader = Reader::new(Provider::Codex, &place);
    let mut live = file(CODEX.as_bytes());
    let other = live.try_clone().unwrap();
    let mut batches = 0;
    follow::read_on(&mut reader, &place, &other, &mut |_| {
        batches += 1;
        live.write_all(CODEX.repeat(1000).as_bytes())
    })
    .unwrap();
    assert_eq!((batches, reader.offset()), (1, CODEX.len() as u64));
}

#[test]
fn a_rollout_that_went_cold_is_read_from_where_it_was_left() {
    let place = path("sessions/x.jsonl.zst");
    let half = CODEX.len() / 2;
    let mut reader = Reader::new(Provider::Codex, &place);
    let mut story = reader.feed(&CODEX.as_bytes()[..half]).found;
    let packed = file(&zstd::encode_all(CODEX.as_bytes(), 3).unwrap());
    let resumed =
        follow::read_on(&mut reader, &place, &packed, &mut |batch| keep(&mut story, batch));
    assert_eq!(resumed.unwrap(), Resume::On);
    assert_eq!(story, read(Provider::Codex, CODEX));
    // Shorter than what was read: another one.
    let packed = file(&zstd::encode_all(&CODEX.as_bytes()[..half], 3).unwrap());
    let mut less = Vec::new();
    let resumed =
        follow::read_on(&mut reader, &place, &packed, &mut |batch| keep(&mut less, batch));
    assert_eq!(resumed.unwrap(), Resume::Anew);
    assert!(!less.is_empty() && less.len() < story.len());
    let damaged = file(b"no zstd at all");
    assert!(follow::read_on(&mut reader, &place, &damaged, &mut |_| Ok(())).is_err());
}

fn any_provider() -> impl Strategy<Value = Provider> {
    prop::sample::select(Provider::ALL.to_vec())
}

/// A transcript out of fixture lines, shuffled, repeated and damaged.
fn any_transcript() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<Vec<u8>> = [CLAUDE, SUBAGENT, CODEX, GEMINI]
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| line.as_bytes().to_vec())
        .collect();
    let line = prop_oneof![
        8 => prop::sample::select(lines),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => any_json().prop_map(|value| value.to_string().into_bytes()),
    ];
    let broken = (line, prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>())))
        .prop_map(|(mut line, damage)| {
            if let Some((at, byte)) = damage
                && !line.is_empty()
            {
                let at = at.index(line.len());
                line[at] = byte;
            }
            line.push(b'\n');
            line
        });
    prop::collection::vec(broken, 0..60).prop_map(|lines| lines.concat())
}

/// JSON with the names that the parsers look for, and any values.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "type",
        "uuid",
        "parentUuid",
        "message",
        "content",
        "id",
        "payload",
        "call_id",
        "output",
        "toolCalls",
        "thoughts",
        "tokens",
        "$set",
        "$rewindTo",
        "info",
        "usage",
        "leafUuid",
        "num_turns",
        "timestamp",
        "output_tokens",
        "sessionId",
        "input",
    ]);
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "user",
            "assistant",
            "system",
            "gemini",
            "response_item",
            "event_msg",
            "message",
            "function_call",
            "token_count",
            "thread_rolled_back",
            "tool_use",
            "tool_result",
            "a",
            "b",
            "",
            "ä",
        ])
        .prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| {
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

/// Reads in pieces as a file that grows, the memory kept as JSON in between.
fn read_in_pieces(provider: Provider, bytes: &[u8], cuts: &[usize]) -> (Vec<Found>, u64) {
    let mut kept = serde_json::to_vec(&reader(provider)).unwrap();
    let mut story = Vec::new();
    let mut offset = 0;
    let mut skipped = 0;
    for end in cuts.iter().copied().chain([bytes.len()]) {
        let mut reader: Reader = serde_json::from_slice(&kept).unwrap();
        let place = path("tmp/shop/chats/session-1.jsonl");
        let resumed = reader.resume(&place, &bytes[..end.min(4096)], end as u64);
        assert_eq!((resumed, reader.offset()), (Resume::On, offset));
        take_in(&mut story, reader.feed(&bytes[offset as usize..end]));
        offset = reader.offset();
        skipped = reader.skipped();
        kept = serde_json::to_vec(&reader).unwrap();
    }
    (story, skipped)
}

proptest! {
    #[test]
    fn any_bytes_are_read(provider in any_provider(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let batch = reader(provider).feed(&bytes);
        prop_assert!(batch.found.len() <= bytes.len());
    }

    #[test]
    fn cuts_change_nothing(
        provider in any_provider(),
        bytes in any_transcript(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = read_in_pieces(provider, &bytes, &[]);
        prop_assert_eq!(read_in_pieces(provider, &bytes, &cuts), whole);
    }
}

#[test]
fn every_cut_of_the_fixtures_changes_nothing() {
    for (provider, text) in
        [(Provider::Claude, CLAUDE), (Provider::Codex, CODEX), (Provider::Gemini, GEMINI)]
    {
        let whole = read_in_pieces(provider, text.as_bytes(), &[]);
        for cut in (0..text.len()).step_by(7) {
            assert_eq!(
                read_in_pieces(provider, text.as_bytes(), &[cut]),
                whole,
                "{provider} {cut}"
            );
        }
    }
}
