//! The morning after: the page leads to what fails, to what changed since it passed, and back.

use serde_json::{Value, json};

use super::browser::Browser;
use super::demo::record;
use super::http::Server;
use super::support::World;

const SESSION: &str = "night-shift";
const CHECK: &str = "cargo test";

/// A night: the tests pass after the first prompt, and fail in the second one.
fn night() -> World {
    let world = World::new();
    world.json(&["session", "start", "--session", SESSION, "--task", "Tidy up over night"]);
    let prompt = |text: &str| {
        let words = ["save", text, "--trigger", "prompt", "--session", SESSION];
        world.json(&words);
        record(&world, SESSION, &[json!({"kind": "prompt", "text": text})]);
    };
    let work = |text: &str| {
        world.write("a.txt", text);
        world.json(&["save", "--trigger", "code-modified", "--session", SESSION]);
    };
    let check = |passed: bool| {
        let mut event = json!({"kind": "verification", "text": CHECK, "output": "a.txt is wrong"});
        event[if passed { "passed" } else { "failed" }] = json!(true);
        record(&world, SESSION, &[event]);
    };
    prompt("Sort the list");
    work("sorted\n");
    check(true);
    prompt("Rename the module");
    work("renamed, and broken\n");
    let call = json!({"kind": "tool", "tool": "Bash", "input": {"command": "ls nowhere"},
        "error": "No such file or directory"});
    record(&world, SESSION, &[call]);
    check(false);
    world
}

/// The text of the row with this title.
fn row(browser: &Browser, title: &str) -> String {
    let found = browser.value(&format!(
        "[...document.querySelectorAll('.tl-row')].find((row) => \
            row.querySelector('.tl-title').innerText.includes({}))?.innerText ?? ''",
        json!(title)
    ));
    found.as_str().unwrap().to_owned()
}

#[test]
fn the_timeline_leads_to_what_broke_the_tests_and_back_to_before_it() {
    let world = night();
    world.json(&["session", "end", SESSION]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".failing h2", "1 check fails now");
    browser.click(".failing summary");
    for words in [CHECK, "last passed", "Rename the module", "a.txt is wrong"] {
        browser.until_text(".failing", words);
    }
    // The prompt says that something failed in it; the one before says that its check passed.
    browser.until("the prompt is marked", "document.querySelector('.tl-row .badge.bad') !== null");
    assert!(row(&browser, "Rename the module").contains("✗ 2 failed"));
    assert!(row(&browser, "Sort the list").contains("✓ passed"));

    // What changed since it passed.
    browser.click_on(".failing a", "What changed since it passed");
    browser.until_view("compare");
    browser.until_text(".diff", "renamed, and broken");
    browser.script("history.back()");
    browser.until_view("timeline");

    browser.click_on(".failing a", "Back to when it passed");
    browser.until_view("restore");
    browser.until_text(".note", "This is the state in which cargo test passed.");
    browser.script("history.back()");
    browser.until_view("timeline");

    browser.click_on(".failing a", "Back to before it failed");
    browser.until_view("restore");
    browser.until_text("h1", "Back to before “Rename the module”");
    browser.until_text(".note", "This is the state before cargo test failed.");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "sorted\n");

    // It fails no more: the workspace went back to before it.
    browser.click_on(".rs-done a", "To the timeline");
    browser.until_view("timeline");
    browser.until_text(".tl-row.now", "everything is saved");
    browser.until("nothing fails", "!document.querySelector('.failing')");
    // What happened stays visible on the way that was left.
    assert!(row(&browser, "Rename the module").contains("✗ 2 failed"));
    // The session had ended: it waits where it was set back to, and is not at work.
    assert!(!browser.text(".tl-row.now").contains("at work"), "{}", browser.text(".tl-row.now"));
    browser.open("sessions");
    browser.until_text(".session-row", "set back");
    browser.assert_calm("failures");
}

#[test]
fn only_failures_are_left_and_a_check_has_its_sign() {
    let world = night();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.click_on("label.tick", "Only failures");
    browser.until_text("main .sub", "2 of ");
    let titles = browser.texts(".tl-row .tl-title a");
    assert_eq!(titles, [CHECK, "Rename the module"]);
    browser.until_text(".tl-row .sign.bad", "✗");
    // Its page says so, too, and does not urge to go there.
    browser.click_on(".tl-row .tl-title a", CHECK);
    browser.click_on(".tl-panel a", "Open");
    browser.until_view("checkpoint");
    browser.until_text("h1 .sign.bad", "✗");
    browser.until_text("main button", "Restore this");
    assert_eq!(browser.count("main .primary"), 0);
    browser.script("history.back()");
    browser.until_view("timeline");
    browser.until("it is in the address", "location.hash.includes('failed=yes')");
    browser.reload();
    browser.until_view("timeline");
    browser.until_text("main .sub", "2 of ");
    // A check that passes shows up while the page is open.
    browser.click_on("button", "Clear");
    browser.until_text(".failing h2", "1 check fails now");
    browser.until_text("#live", "Live");
    record(&world, SESSION, &[json!({"kind": "verification", "passed": true, "text": CHECK})]);
    browser.until("nothing fails any more", "!document.querySelector('.failing')");
    browser.assert_calm("failures");
}

#[test]
fn the_start_page_after_a_bad_night_begins_with_what_fails() {
    let world = night();
    world.json(&["session", "end", SESSION]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.visit("/");
    browser.until_view("runs");
    browser.until_text(".failing h2", "1 check fails now");
    browser.until_text(".run-list .badge.bad", "✗ 1 check fails");
    browser.until_text("main h2", "✗ What failed (2)");
    // Each way back says where it goes.
    let buttons = browser.texts(".verdict .actions a");
    assert!(buttons.iter().any(|text| text.starts_with("Back to before this run")), "{buttons:?}");
    assert!(buttons.iter().any(|text| text.starts_with("Restore its last state")), "{buttons:?}");
    browser.click_on("main a", "Back to before this prompt");
    browser.until_view("restore");
    browser.until_text("h1", "Back to before “Rename the module”");
    browser.assert_calm("runs");
}

#[test]
fn a_prompt_without_words_has_its_time_and_a_save_before_a_restore_its_target() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "two\n");
    let words = ["save", "--trigger", "prompt", "--session", "s"];
    world.json(&["session", "start", "--session", "s"]);
    world.json(&words);
    world.write("a.txt", "three\n");
    assert!(world.run(&["restore", &first, "-y"]).status.success());
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until(
        "the prompt has its time",
        "/Prompt at \\d\\d:\\d\\d/.test(document.body.innerText)",
    );
    browser.click_on("label.tick", "Saves before restores");
    browser.until_text(".tl-row", "Before going back to “first”");
    browser.assert_calm("timeline");
}

/// The scale of the bars is that of the session, so the bar of a later prompt stands further right.
#[test]
fn the_bars_of_a_session_share_one_scale() {
    let world = World::new();
    world.json(&["session", "start", "--session", "s", "--task", "Two prompts"]);
    for text in ["one", "two"] {
        // Each event by a process of its own, so that no two have the same time.
        record(&world, "s", &[json!({"kind": "prompt", "text": text})]);
        let call = json!({"kind": "tool", "tool": "Read", "input": {"path": "a"}, "output": "x"});
        record(&world, "s", &[call]);
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("session/s");
    browser.until_text(".work", "Read");
    let left = browser.value(
        "[...document.querySelectorAll('.bar-of.of-tool')].map((bar) => parseFloat(bar.style.left))",
    );
    let left: Vec<f64> = serde_json::from_value(left).unwrap();
    assert!(left.len() == 2 && left[0] < left[1], "{left:?}");
    browser.assert_calm("session");
}

/// What the route answers, without a browser.
#[test]
fn the_outcomes_name_the_checkpoints_around_a_failure() {
    let world = night();
    let server = Server::start(&world);
    let found = server.json("/api/outcomes");
    let failing = found["failing"].as_array().unwrap();
    assert_eq!(failing.len(), 2, "{found}");
    let check = &failing[0];
    assert_eq!((&check["text"], &check["is_check"]), (&json!(CHECK), &json!(true)));
    assert_eq!((&check["times"], &check["taken_back"]), (&json!(1), &json!(false)));
    assert_eq!(check["since_prompt"], "Rename the module");
    assert_eq!(failing[1]["is_check"], false);
    let named = |key: &str| {
        let id = check[key].as_str().unwrap();
        let file = server.get(&format!("/api/checkpoints/{id}/files/a.txt"));
        String::from_utf8(file.body).unwrap()
    };
    assert_eq!(named("good"), "sorted\n");
    assert_eq!(named("before"), "sorted\n");
    assert_eq!(named("bad"), "renamed, and broken\n");
    let outcomes = found["outcomes"].as_array().unwrap();
    let told: Vec<&Value> = outcomes.iter().map(|one| &one["passed"]).collect();
    assert_eq!(told, [false, false, true]);
    assert_eq!(server.get("/api/outcomes?limit=0").status, 422);
}
