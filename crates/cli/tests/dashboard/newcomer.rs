//! What a stranger stumbled over: names, ways back that stay in sight, and lists that tell the truth.

use serde_json::json;

use super::browser::Browser;
use super::demo::{database, record};
use super::http::Server;
use super::support::World;

const SESSION: &str = "night-shift";

/// A session whose prompts are recorded and make no checkpoints, with two files of each prompt.
fn recorded_night() -> World {
    let world = World::new();
    world.save("Before I go home");
    world.json(&["session", "start", "--session", SESSION, "--task", "Tidy up over night"]);
    for (prompt, name, passed) in
        [("Sort the list", "sorted", true), ("Rename the module", "renamed", false)]
    {
        record(&world, SESSION, &[json!({"kind": "prompt", "text": prompt})]);
        for part in ["one", "two", "three"] {
            world.write(&format!("{name}.txt"), part);
            world.json(&["save", "--trigger", "code-modified", "--session", SESSION]);
        }
        let mut check = json!({"kind": "verification", "text": "unit tests", "output":
            "F..\n======\nFAIL: the list is wrong\n------\n\n\n------"});
        check[if passed { "passed" } else { "failed" }] = json!(true);
        let code = i32::from(!passed);
        let run = json!({"kind": "command", "command": "python3 -m unittest", "exit_code": code,
            "stderr": "FAILED (failures=1)"});
        record(&world, SESSION, &[run, check]);
    }
    let missing = json!({"kind": "command", "command": "ruff check .", "exit_code": 127,
        "stderr": "ruff: command not found"});
    record(&world, SESSION, &[missing]);
    world
}

#[test]
fn recorded_prompts_are_headings_whose_panel_names_their_own_files() {
    let world = recorded_night();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "Rename the module");
    let row = |title: &str| {
        let found = browser.value(&format!(
            "[...document.querySelectorAll('.tl-row')].find((row) => \
                row.innerText.includes({}))?.innerText ?? ''",
            json!(title)
        ));
        found.as_str().unwrap().to_owned()
    };
    // A folded group shows what failed in it, and how often files changed, not how many did.
    assert!(row("Rename the module").contains("failed"), "{}", row("Rename the module"));
    assert!(row("Sort the list").contains("✓ passed"), "{}", row("Sort the list"));
    assert!(row("Sort the list").contains("3 edits"), "{}", row("Sort the list"));
    // The session is called by its task.
    assert!(row("Sort the list").contains("Tidy up over night"), "{}", row("Sort the list"));

    // A click on the name unfolds the group; the panel tells of this group alone.
    let before = browser.count(".tl-row");
    browser.click_on(".tl-row .tl-title a", "Sort the list");
    browser.until_text(".tl-panel", "sorted.txt");
    assert!(!browser.text(".tl-panel").contains("renamed.txt"), "{}", browser.text(".tl-panel"));
    assert!(browser.count(".tl-row") > before, "it is unfolded");
    browser.click_on(".tl-panel a", "See the lines");
    browser.until_view("compare");
    browser.until_text("main", "sorted.txt");
    assert!(!browser.text("main").contains("renamed.txt"), "{}", browser.text("main"));
    browser.assert_calm("groups");
}

#[test]
fn one_failure_is_one_line_and_a_missing_program_is_no_failed_check() {
    let world = recorded_night();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    // The verification and the command that ran it are one failure.
    browser.until_text(".failing h2", "1 check fails now");
    let names = browser.texts(".failing > ul > li code.strong");
    assert_eq!(names, ["unit tests", "ruff check ."]);
    browser.until_text(".failing li:last-child", "its program is missing");
    assert_eq!(browser.count(".failing li:last-child .primary"), 0);
    let height = "document.querySelector('.failing').offsetHeight";
    assert!(browser.value(height).as_u64().unwrap() < 200, "{}", browser.value(height));
    // What it wrote is folded, without its rules and empty lines.
    assert!(!browser.text(".failing").contains("the list is wrong"));
    browser.click(".failing summary");
    browser.until_text(".failing .output", "FAIL: the list is wrong");
    let output = browser.text(".failing .output");
    assert!(!output.contains("---") && !output.contains("==="), "{output}");
    browser.until_text(".failing details", "python3 -m unittest");

    // Runs shows the output at once, counts the same, and tells when each check failed.
    browser.open(&format!("runs?session={SESSION}"));
    browser.until_text(".failing .output", "FAIL: the list is wrong");
    browser.until_text(".run-list .badge.bad", "✗ 1 check fails");
    browser.until_text("main h2", "✗ What failed (2)");
    browser
        .until("checks have a time", "document.querySelectorAll('ul.failing time').length === 2");
    browser.until_text("main", "Copy recall command");
    let calls = "[...document.querySelectorAll('.facts > div')].find((one) => \
        one.innerText.startsWith('Tool calls'))?.innerText";
    let told = browser.value(calls);
    browser.open(&format!("session/{SESSION}"));
    browser.until_text(".facts", "Tool calls");
    assert_eq!(browser.value(calls), told);
    browser.assert_calm("failures");
}

#[test]
fn an_undo_stays_in_sight_until_something_else_happens() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "spoilt\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row.now", "Discard these changes…");
    assert_eq!(browser.count(".undo-bar"), 0);
    browser.open(&format!("restore/{first}"));
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    browser.click_on("a", "To the timeline");
    browser.until_text(".undo-bar", "You went back to “first”");
    browser.open("runs");
    browser.until_view("runs");
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "There is nothing to do.");
    browser.until_text(".undo-bar", "You went back to “first”");
    browser.click_on("main a", "To the timeline");
    browser.until_view("timeline");

    // The save before the restore has one name everywhere.
    browser.click_on("label.tick", "Saves before restores");
    browser.click_on(".tl-row .tl-title a", "Before going back to “first”");
    browser.click_on(".tl-panel a", "Open");
    browser.until_view("checkpoint");
    browser.until_text("h1", "Before going back to “first”");
    browser.click_on("button", "Restore this");
    browser.until_view("restore");
    browser.until_text("h1", "Restore “Before going back to “first””");

    // An undo leaves alone what was edited since, and offers to take it along.
    world.write("a.txt", "edited since\n");
    browser.open("timeline");
    browser.click_on(".undo-bar button", "Undo");
    browser.until_text("dialog[open]", "a.txt");
    browser.click_on("dialog button", "Undo 1 edited path too");
    browser.until("the bar is gone", "!document.querySelector('.undo-bar')");
    assert_eq!(world.read("a.txt"), "spoilt\n");
    browser.assert_calm("undo");
}

#[test]
fn a_file_that_is_left_out_leaves_databases_in_and_stays_in_the_address() {
    let world = World::new();
    database(&world, 3);
    let first = world.save("first");
    database(&world, 8);
    for name in ["a.txt", "docs/notes.md", "src/main.rs"] {
        world.write(name, "spoilt\n");
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    let tick = |name: &str| browser.click(&format!("input[data-focus='{name}']"));
    let ticked = |name: &str| {
        browser.value(&format!("document.querySelector(\"input[data-focus='{name}']\").checked"))
    };
    browser.until_text("main", "Files (3 of 3)");
    tick("path a.txt");
    browser.until_text("main", "Files (2 of 3)");
    assert_eq!(ticked("facet databases"), true);
    browser.reload();
    browser.until_text("main", "Files (2 of 3)");
    assert_eq!((ticked("path a.txt"), ticked("facet databases")), (json!(false), json!(true)));

    // With a few files picked, only these are restored.
    tick("path docs/notes.md");
    browser.until_text("main", "only these files are restored");
    assert_eq!(ticked("facet databases"), false);
    browser.reload();
    browser.until_text("main", "Files (1 of 3)");
    browser.click_on("button", "None");
    browser.until_text("main", "Nothing is chosen.");
    browser.until_text(".rs-go", "Cancel");
    browser.click_on("button", "All");
    browser.until_text("main", "Files (3 of 3)");

    tick("path a.txt");
    browser.until_text("main", "Files (2 of 3)");
    browser.type_into("#rs-name", "project");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "spoilt\n");
    assert_ne!(world.read("docs/notes.md"), "spoilt\n");
    let connection = rusqlite::Connection::open(world.project.path("data/app.db")).unwrap();
    let count = "SELECT count(*) FROM users";
    let rows: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
    browser.assert_calm("restore");
}

#[test]
fn two_marked_checkpoints_are_compared_from_the_older_one_to_the_newer_one() {
    let world = World::new();
    world.json(&["session", "start", "--session", "s", "--task", "Check it"]);
    world.save("by hand");
    world.write("a.txt", "checked\n");
    record(&world, "s", &[json!({"kind": "verification", "text": "unit tests", "passed": true})]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.click_on(".tl-row .tl-title a", "unit tests");
    browser.press("m");
    browser.until_text(".toast", "Marked.");
    browser.click_on(".tl-row .tl-title a", "by hand");
    browser.press("c");
    browser.until_view("compare");
    // A check is called as on the timeline, with its sign.
    assert_eq!(browser.texts(".cmp-title"), ["by hand", "✓ unit tests"]);
    browser.until("the note is gone", "!document.querySelector('.toast')");

    // A save by hand offers its own state, too.
    browser.open("timeline");
    browser.click_on(".tl-row .tl-title a", "by hand");
    browser.click_on(".tl-row[aria-current] .tl-act a", "Restore this");
    browser.until_view("restore");
    browser.until_text("h1", "Restore “by hand”");
    browser.assert_calm("compare");
}

/// Whether these words of a box can be seen in it, and the box on the card around it.
fn in_sight(browser: &Browser, css: &str, words: &str) -> bool {
    let found = browser.script(&format!(
        "const box = document.querySelector({});
         const range = document.createRange();
         const at = box.firstChild.data.indexOf({1});
         range.setStart(box.firstChild, at);
         range.setEnd(box.firstChild, at + {1}.length);
         const [text, ...around] = [range, box, box.closest('.card')]
            .map((one) => one.getBoundingClientRect());
         return at > 0 && around.every((one) => text.top >= one.top && text.bottom <= one.bottom);",
        json!(css),
        json!(words)
    ));
    found == true
}

#[test]
fn the_line_that_says_what_broke_is_in_sight() {
    const BROKE: &str = "AssertionError: 4 != 3";
    let world = World::new();
    world.json(&["session", "start", "--session", SESSION, "--task", "Tidy up over night"]);
    let output = format!(
        "F..\n======\nFAIL: test_sum\n------\nTraceback (most recent call last):\n  \
         File \"tests.py\", line 8, in test_sum\n    self.assertEqual(add(1, 2), 3)\n{BROKE}\n\n\
         ------\nRan 3 tests in 0.001s\n\nFAILED (failures=1)"
    );
    let long = format!("{}{BROKE}", "collected another test\n".repeat(60));
    let prompt = json!({"kind": "prompt", "text": "Rename the module. ".repeat(20)});
    let call = json!({"kind": "tool", "tool": "Bash", "input": {"command": "make"}, "error": long});
    let check = json!({"kind": "verification", "text": "unit tests", "failed": true,
        "output": output});
    record(&world, SESSION, &[prompt, call, check]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    for width in [1440, 390] {
        browser.size(width, 844);
        browser.open("runs");
        browser.until_text(".failing .output", BROKE);
        assert!(in_sight(&browser, ".failing .output", BROKE), "runs at {width}");
        // A prompt that is cut says so.
        assert!(browser.text(".failing q").ends_with('…'), "{}", browser.text(".failing q"));
        browser.open(&format!("replay/{SESSION}"));
        browser.until_text(".where", "Step 1 ");
        browser.press("n");
        browser.until_text(".current-step", "collected another test");
        assert!(in_sight(&browser, ".current-step .output", BROKE), "replay at {width}");
    }
    browser.assert_calm("failures");
}

#[test]
fn a_save_by_hand_offers_its_own_state_without_a_mouse() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "second\n");
    world.save("second");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    for width in [1440, 900, 390] {
        browser.size(width, 844);
        browser.open("timeline");
        browser.until_text(".tl-row", "second");
        // Each way of a row can be seen, and nothing covers it.
        let seen = browser.value(
            "[...document.querySelectorAll('.tl-row.hand .tl-act > *')].map((one) => {
                const {left, top, width, height} = one.getBoundingClientRect();
                const shown = document.elementFromPoint(left + width / 2, top + height / 2);
                const row = one.closest('.tl-row');
                const time = row.querySelector('.tl-time').getBoundingClientRect();
                return shown === one && getComputedStyle(one).opacity === '1' && time.width > 40
                    && time.right <= left && left + width <= row.getBoundingClientRect().right;
            })",
        );
        assert_eq!(seen, json!([true, true, true]), "at {width}");
    }
    browser.click_on(".tl-row .tl-act a", "Restore this");
    browser.until_view("restore");
    browser.until_text("h1", "Restore “second”");
    browser.assert_calm("timeline");
}

#[test]
fn the_scale_of_a_session_ends_with_it_also_after_a_restore_and_its_undo() {
    let world = World::new();
    let first = world.save("first");
    world.json(&["session", "start", "--session", SESSION, "--task", "Tidy up over night"]);
    record(&world, SESSION, &[json!({"kind": "prompt", "text": "Sort the list"})]);
    world.write("a.txt", "sorted\n");
    let call = json!({"kind": "tool", "tool": "Read", "input": {"path": "a"}, "output": "x"});
    record(&world, SESSION, &[call]);
    world.json(&["session", "end", SESSION]);
    for words in [vec!["restore", &first, "--confirm"], vec!["undo", "--confirm"]] {
        let done = world.run(&words);
        assert!(done.status.success(), "{done:?}");
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let session = server.json(&format!("/api/sessions/{SESSION}"));
    let now = server.json(&format!("/api/at?session={SESSION}&when=now"));
    browser.open(&format!("session/{SESSION}"));
    browser.until_text(".work", "Read");
    // The call stands where it was between the beginning and the end.
    let time = |value: &serde_json::Value| {
        browser.value(&format!("new Date({value}).getTime()")).as_f64().unwrap()
    };
    let (begun, ended) = (time(&session["started_at"]), time(&session["ended_at"]));
    let called = time(&now["state"]["tool_state"]["calls"][0]["started_at"]);
    let wanted = ((called - begun) / (ended - begun) * 100.0).min(99.2);
    let left = browser.value("parseFloat(document.querySelector('.bar-of.of-tool').style.left)");
    assert!((left.as_f64().unwrap() - wanted).abs() < 0.5, "{left}, not {wanted}");
    browser.assert_calm("session");
}
