//! The dashboard of `rappel serve` in a real Chromium.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[path = "dashboard/browser.rs"]
mod browser;
#[path = "dashboard/deeds.rs"]
mod deeds;
#[path = "dashboard/demo.rs"]
mod demo;
#[path = "dashboard/failures.rs"]
mod failures;
#[path = "dashboard/hostile.rs"]
mod hostile;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "support/http.rs"]
mod http;
#[path = "dashboard/live.rs"]
mod live;
#[path = "dashboard/looks.rs"]
mod looks;
#[path = "dashboard/newcomer.rs"]
mod newcomer;
mod support;
#[path = "dashboard/ways.rs"]
mod ways;

use browser::Browser;
use demo::{LOGIN, NIGHT};
use http::Server;
use serde_json::json;
use support::World;
use support::agent::{Agent, SESSION};

/// The titles of the timeline's rows, without the row `Now`.
fn titles(browser: &Browser) -> Vec<String> {
    browser.texts(".tl-row:not(.now) .tl-title a")
}

#[test]
fn the_timeline_shows_a_save_of_another_process_without_a_reload() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "first");
    browser.until_text("#live", "Live");
    browser.script("window.same = 'page'");
    world.write("a.txt", "changed");
    world.save("made by another process");
    browser.until_text(".tl-row", "made by another process");
    browser.until_text("main .sub", "2 checkpoints");
    assert_eq!(titles(&browser), ["made by another process", "first"]);
    world.json(&["tag", "latest", "green"]);
    browser.until_text(".tl-row .badge", "green");
    assert_eq!(browser.value("window.same"), "page");
    browser.assert_calm("timeline");
}

#[test]
fn the_page_connects_again_after_the_server_was_away() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let address = server.address.clone();
    let port = address.split(':').nth(1).unwrap();
    let Some(browser) = Browser::start(&address) else { return };
    browser.open("timeline");
    browser.until_text("#live", "Live");
    assert_eq!(server.stop(), 0);
    browser.until_text("#live", "Reconnecting");
    world.write("a.txt", "changed");
    world.save("while nobody listened");
    let _server = Server::with(&world, &["serve", "--port", port]);
    browser.until_text("#live", "Live");
    browser.until_text(".tl-row", "while nobody listened");
}

/// A browser opens six connections to a server, and each visible page holds one for its events.
#[test]
fn many_tabs_can_be_open() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    for _ in 0..8 {
        browser.open("timeline");
        browser.until_text("#live", "Live");
        browser.new_tab();
    }
    browser.open("timeline");
    browser.until_text(".tl-row", "first");
}

#[test]
fn filters_narrow_the_timeline_and_stay_in_the_address() {
    let agent = Agent::new();
    agent.play("tour");
    agent.rest();
    let world = &agent.world;
    world.write("b.txt", "b");
    world.json(&["save", "A release", "--tag", "release"]);
    world.write("b.txt", "c");
    world.json(&["save", "Nothing special"]);
    let server = Server::start(world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "Nothing special");

    browser.click("select[data-filter=tag] option[value=release]");
    browser.until("one row is left", "document.querySelectorAll('.tl-row').length === 1");
    assert_eq!(titles(&browser), ["A release"]);
    assert!(browser.text("main .sub").starts_with("1 of "), "{}", browser.text("main .sub"));
    browser.until("the filter is in the address", "location.hash.includes('tag=release')");
    browser.reload();
    browser.until_view("timeline");
    browser.until("the filter is kept", "document.querySelectorAll('.tl-row').length === 1");
    browser.click_on("button", "Clear");
    browser.until_text(".tl-row", "Nothing special");
    browser.until("the address has no filter", "!location.hash.includes('tag=')");

    browser.click("select[data-filter=trigger] option[value=prompt]");
    browser.until_text("main .sub", " of ");
    let prompts = titles(&browser);
    assert!(prompts.iter().any(|title| title.contains("Make the greeting")), "{prompts:?}");
    assert!(!prompts.contains(&"A release".to_owned()), "{prompts:?}");
    let session = format!("claude:{SESSION}.2");
    browser.click(&format!("select[data-filter=session] option[value='{session}']"));
    browser.until("one prompt is left", "document.querySelectorAll('.tl-row').length === 1");
    assert!(titles(&browser)[0].contains("Clean the tree up"), "{:?}", titles(&browser));
    browser.click_on("button", "Clear");

    browser.type_into("input[type=search]", "nothing SPECIAL");
    browser.until("one row is left", "document.querySelectorAll('.tl-row').length === 1");
    assert_eq!(titles(&browser), ["Nothing special"]);
    browser.type_into("input[type=search]", " at all");
    browser.until_text(".tl-list", "No checkpoint matches these filters.");
    browser.assert_calm("filters");
}

#[test]
fn prompts_are_headings_and_unfold() {
    let agent = Agent::new();
    agent.play("tour");
    agent.rest();
    let server = Server::start(&agent.world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "Clean the tree up");
    let before = browser.count(".tl-row");
    browser.click(".tl-fold[aria-expanded=false]");
    browser.until(
        "more rows are shown",
        &format!("document.querySelectorAll('.tl-row').length > {before}"),
    );
    browser.click(".tl-fold[aria-expanded=true]");
    browser.until(
        "they are folded",
        &format!("document.querySelectorAll('.tl-row').length === {before}"),
    );
    browser.assert_calm("timeline");
}

#[test]
fn changed_lines_show_in_one_column_and_in_two() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "one\n2\nthree\n");
    let noise: Vec<u8> =
        (0..2 << 20u32).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(world.project.path("noise.bin"), noise).unwrap();
    let second = world.save("second");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("checkpoint/{second}"));
    browser.until_text(".diff.split td.code.del", "two");
    let row = browser.value(
        "[...document.querySelectorAll('.diff.split tr')]
            .map((row) => [...row.querySelectorAll('td.code')].map((cell) => cell.lastChild.textContent))
            .find((cells) => cells[0] === 'two')",
    );
    assert_eq!(row, json!(["two", "2"]), "both sides stand beside each other");
    browser.click_on("button", "Unified");
    browser.until_text(".diff.unified td.code.add", "2");
    assert_eq!(browser.count(".diff.split"), 0);
    // The choice is kept.
    browser.open(&format!(
        "compare?from={}&to={second}",
        world.json(&["show", &second])["parent"].as_str().unwrap()
    ));
    browser.until_text(".diff.unified td.code.del", "two");
    browser.until_text("details[data-path='noise.bin']", "no lines are shown");
    browser.until_text("details[data-path='noise.bin']", "2.0 MiB");
    browser.until_text("details[data-path='noise.bin']", "Download");
    browser.assert_calm("compare");
}

#[test]
fn a_restore_goes_from_a_click_to_the_changed_file_and_back() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "spoilt\n");
    world.write("new.txt", "new\n");
    world.save("second");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.click_on(".tl-row .tl-title a", "second");
    browser.until_text(".tl-panel", "a.txt");
    browser.click_on(".tl-panel button", "Back to before this");
    browser.until_view("restore");
    browser.until_text("main", "overwrite 1 file");
    browser.until_text("main", "delete 1 file");
    browser.until_text("main", "Nothing has changed yet");
    assert_eq!(world.read("a.txt"), "spoilt\n", "a plan changes nothing");

    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert!(!world.project.path("new.txt").exists());

    browser.click_on("button", "Undo this restore");
    browser.until_text("main h2", "Undone");
    assert_eq!(world.read("a.txt"), "spoilt\n");
    assert_eq!(world.read("new.txt"), "new\n");
    browser.assert_calm("restore");
}

#[test]
fn single_files_can_be_chosen_for_a_restore() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "spoilt\n");
    world.write("docs/notes.md", "spoilt\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "overwrite 2 files");
    browser.click("input[data-focus='path docs/notes.md']");
    browser.until_text("main", "overwrite 1 file");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(world.read("docs/notes.md"), "spoilt\n");
    browser.assert_calm("restore");
}

#[test]
fn a_restore_of_a_database_asks_for_the_workspaces_name() {
    let world = World::new();
    demo::database(&world, 3);
    let first = world.save("three users");
    demo::database(&world, 8);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("checkpoint/{first}"));
    browser.until_text("main", "users");
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "users: 3 (now 8)");
    let disabled = "document.querySelector('.rs-go button').disabled";
    assert_eq!(browser.value(disabled), true);
    browser.type_into("#rs-name", "projec");
    assert_eq!(browser.value(disabled), true);
    browser.type_into("#rs-name", "t");
    assert_eq!(browser.value(disabled), false);
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    let connection = rusqlite::Connection::open(world.project.path("data/app.db")).unwrap();
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM users", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
    browser.assert_calm("restore");
}

#[test]
fn a_plan_that_no_longer_holds_is_a_conflict_and_changes_nothing() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "spoilt\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "overwrite 1 file");
    world.write("docs/notes.md", "written while the user looked at the plan\n");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text(".note", "nothing was done");
    browser.until_text("main", "overwrite 2 files");
    assert_eq!(world.read("a.txt"), "spoilt\n");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");

    // What is edited after the restore is not lost to an undo.
    world.write("a.txt", "edited since\n");
    browser.click_on("button", "Undo this restore");
    browser.until("the conflict is named", "document.body.innerText.includes('a.txt')");
    browser.until_text("body", "edited since");
    assert_eq!(world.read("a.txt"), "edited since\n");
}

#[test]
fn the_scrubber_moves_the_whole_session_to_another_moment() {
    let world = World::new();
    world.json(&["session", "start", "--session", LOGIN, "--task", "Mend the login"]);
    for part in demo::reasoning() {
        demo::record(&world, LOGIN, &part);
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("session/{LOGIN}"));
    browser.until_text("main", "97 %");
    for words in
        ["confirmed", "ruled out", "A restart makes a new key", "Rotate the key once a year."]
    {
        browser.until_text("main", words);
    }
    browser.until_text(".where", "Now");
    // Before the first verification, the hypothesis was only being tested.
    let event = browser.promised(
        "fetch('/api/sessions/fix-login/course').then((answer) => answer.json()).then(({points}) =>
            points.find((one) => one.hypotheses.some((h) => h.confidence === 0.75)).event)",
    );
    let event = event.as_u64().unwrap();
    browser.script(&format!(
        "const slider = document.querySelector('.scrubber input'); slider.value = {event}; \
         slider.dispatchEvent(new Event('input'));"
    ));
    browser.until_text(".where", "As it was");
    browser.until_text("main", "being tested");
    let shown = browser.text("main");
    assert!(!shown.contains("97 %") && !shown.contains("Rotate the key"), "{shown}");
    browser
        .until("the moment is in the address", &format!("location.hash.includes('event={event}')"));
    browser.reload();
    browser.until_view("session");
    browser.until_text(".where", "As it was");
    browser.press("ArrowLeft");
    browser.until("one event back", &format!("location.hash.includes('event={}')", event - 1));
    browser.click_on(".scrubber button", "Now");
    browser.until_text("main", "97 %");
    browser.press("Home");
    browser.until_text("main", "None yet at this moment.");
    // Failures alone, and the log.
    browser.press("End");
    browser.until_text("main", "97 %");
    browser.press("f");
    browser.until_text(".work", "cargo test login");
    assert!(!browser.text(".work").contains("src/session.rs"), "{}", browser.text(".work"));
    browser.press("l");
    browser.until_text("pre.log", "FAILED");
    browser.assert_calm("session");
}

#[test]
fn a_replay_steps_plays_and_changes_nothing() {
    let agent = Agent::new();
    agent.play("tour");
    agent.rest();
    let server = Server::start(&agent.world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let before = (agent.world.project.snapshot(), agent.checkpoints().len());
    browser.open(&format!("replay/claude:{SESSION}.2"));
    browser.until_text("main", "read-only");
    browser.until_text(".where", "Step 1 ");
    browser.press("ArrowRight");
    browser.until_text(".where", "Step 2 ");
    browser.until("the step is in the address", "location.hash.includes('step=2')");
    browser.press("n");
    browser.until_text(".current-step", "No such file or directory");
    browser.until_text(".current-step .badge.bad", "✗");
    browser.press("End");
    browser.until_text(".panes", "rm two.txt");
    browser.press("Home");
    browser.until_text(".where", "Step 1 ");
    browser.press(" ");
    browser.until_text(".where", "Step 3 ");
    browser.press(" ");
    browser.until_text(".scrubber button", "▶ Play");
    assert_eq!((agent.world.project.snapshot(), agent.checkpoints().len()), before);
    browser.assert_calm("replay");
}

#[test]
fn the_keyboard_alone_leads_from_the_timeline_to_a_checkpoint_and_back() {
    let world = World::new();
    let first = world.save("first");
    for text in ["second", "third"] {
        world.write("a.txt", text);
        world.save(text);
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "third");
    browser.press("?");
    browser.until_text("dialog[open]", "To the parent");
    browser.until_text("dialog[open]", "Go to Sessions");
    browser.press("Escape");
    browser.until("the keys are closed", "!document.querySelector('dialog')");

    let selected = "document.querySelector('.tl-row[aria-current=true] .tl-title a')?.textContent";
    for title in ["Now", "third", "second", "first"] {
        browser.press("ArrowDown");
        browser.until(&format!("{title} is selected"), &format!("{selected} === '{title}'"));
    }
    browser.press("ArrowUp");
    browser.until("the way back", &format!("{selected} === 'second'"));
    browser.press("ArrowDown");
    browser.until("the way down", &format!("{selected} === 'first'"));
    browser.press("Enter");
    browser.until_view("checkpoint");
    assert!(browser.route().contains(&first), "{}", browser.route());
    browser.press("Escape");
    browser.until_view("timeline");
    browser.until("the row is still selected", &format!("{selected} === 'first'"));
    browser.press("/");
    browser.until("the filter has the focus", "document.activeElement.type === 'search'");
    browser.press("Escape");
    for (key, view) in [("s", "sessions"), ("h", "health"), ("r", "runs"), ("t", "timeline")] {
        browser.press("g");
        browser.press(key);
        browser.until_view(view);
    }
    browser.assert_calm("keys");
}

#[test]
fn after_a_crash_the_start_page_is_the_run() {
    let world = World::new();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.visit("/");
    browser.until_view("timeline");
    browser.until_text("main", "No checkpoint yet.");
    demo::crashed_run(&world);
    browser.visit("/");
    browser.until_view("runs");
    for words in ["It crashed", "1 tool call did not finish", "./import --all 2025", "import.log"] {
        browser.until_text("main", words);
    }
    let resume = format!("rappel run --session {NIGHT} -- ./import-all");
    browser.until_text(".command", &resume);
    assert_eq!(browser.text(".command code").matches("rappel run").count(), 1);
    browser.click_on(".actions a", "Restore");
    browser.until_view("restore");
    browser.assert_calm("runs");
}
