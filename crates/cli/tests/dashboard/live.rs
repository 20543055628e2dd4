//! What happens while the page is open: it follows, and takes nothing out of the user's hands.

use serde_json::{Value, json};

use super::browser::Browser;
use super::demo::{self, database, record};
use super::http::Server;
use super::support::World;
use super::support::agent::{Agent, SESSION};
use super::support::scene::Scene;

/// Stands between the page and the server: `window.hold` and `window.replace` decide for a part of
/// an address what happens to its calls.
const BETWEEN: &str = "
    const real = window.fetch;
    window.fetch = async (address, options) => {
        const held = window.hold && String(address).includes(window.hold);
        if (held) await new Promise((done) => { window.release = done; });
        for (const [part, answer] of Object.entries(window.replace ?? {})) {
            if (String(address).includes(part)) {
                return new Response(JSON.stringify(answer.body), {status: answer.status});
            }
        }
        return real(address, options).finally(() => { if (held) window.released = true; });
    };";

/// Has the calls to a part of the API fail.
fn fail(browser: &Browser, part: &str) {
    let failure = json!({"status": 500, "body": {"error": {"message": "the disk is on fire"}}});
    browser.script(BETWEEN);
    browser.script(&format!("window.replace = {{{}: {failure}}}", json!(part)));
}

/// Opens a route in the page as it is.
fn go(browser: &Browser, route: &str) {
    browser.script(&format!("location.hash = {}", json!(format!("#/{route}"))));
    browser.until_view(route.split(['/', '?']).next().unwrap());
}

#[test]
fn an_undo_takes_back_a_restore_and_never_more() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "second\n");
    world.save("second");
    assert!(world.run(&["restore", &first, "--confirm"]).status.success());
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "There is nothing to do.");
    browser.until_text(".undo-bar", "You went back to “first”");
    browser.until_text("#live", "Live");
    // An agent saves: now the last thing is no restore.
    world.write("a.txt", "third\n");
    world.save("third");
    browser.until("the bar is gone", "!document.querySelector('.undo-bar')");
    // A click that was on its way is refused, although the server would offer to go further back.
    let told = browser.promised(
        "import('/web/undo.js').then(({undo}) => undo())
            .then(() => 'undone', (error) => error.message)",
    );
    assert_eq!(told, "There is no restore to take back any more.");
    assert_eq!(world.read("a.txt"), "third\n");
    browser.assert_calm("undo");
}

#[test]
fn the_result_of_a_check_stays_while_others_save() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("health");
    browser.until_text("#live", "Live");
    browser.click_on("button", "Check everything");
    browser.until_text(".upkeep-result", "✓ Everything is as it was written");
    world.write("a.txt", "second\n");
    world.save("second");
    browser.until_text(".facts > div", "Checkpoints\n2");
    assert!(browser.text(".upkeep-result").contains("✓ Everything is as it was written"));
    // What was freed is told, too, beside the new numbers.
    fail(&browser, "/api/prune");
    browser.press("x");
    browser.until_text(".toast.bad", "The disk is on fire");
    assert!(!browser.text("#toasts").contains("deleted"));
}

#[test]
fn a_restore_that_fails_is_told_wherever_the_user_is() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "second\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "overwrite 1 file");
    browser.script(BETWEEN);
    browser.script(
        "window.hold = '/api/jobs/';
         window.replace = {'/api/jobs/': {status: 200, body: {id: 'job', state: 'failed',
            error: {message: 'the disk is full'}}}, '/restore': {status: 202, body: {id: 'job',
            state: 'running'}}}",
    );
    browser.click_on(".rs-go button", "Restore");
    browser.until("the job is asked for", "window.release !== undefined");
    browser.press("g");
    browser.press("t");
    browser.until_view("timeline");
    browser.script("window.release()");
    browser.until_text(".toast.bad", "The disk is full");
}

#[test]
fn what_cannot_be_found_out_is_not_told_as_if_it_were_known() {
    let world = World::new();
    database(&world, 3);
    let first = world.save("three users");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    // How many rows there are now.
    browser.open("sessions");
    fail(&browser, "only=databases");
    go(&browser, &format!("checkpoint/{first}"));
    browser.until_text("main .failure", "The disk is on fire");
    let cells = browser.texts("td.number");
    assert!(!cells.contains(&"none".to_owned()), "{cells:?}");
    // Which checks fail.
    browser.script("window.replace = {'/api/outcomes': window.replace['only=databases']}");
    go(&browser, "timeline");
    browser.until_text(".tl-above .failure", "The disk is on fire");
    browser.until_text(".tl-row", "three users");
    // A checkpoint to compare with.
    browser.script("window.replace = {}");
    go(&browser, &format!("compare?from={first}"));
    fail(&browser, "/api/timeline");
    browser.click_on("button", "Choose another");
    browser.until_text(".cmp-list .failure", "The disk is on fire");
    assert!(!browser.text(".cmp-list").contains("Loading"));
}

#[test]
fn a_tab_that_was_in_the_background_catches_up() {
    let world = World::new();
    world.save("first");
    world.json(&["session", "start", "--session", "s", "--task", "Mend it"]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("sessions");
    browser.until_text("#live", "Live");
    browser.until_text(".session-row", "running");
    // It has seen no event, so it has no place to go on from.
    let tab = browser.tab();
    browser.new_tab();
    world.json(&["session", "end", "s"]);
    browser.go_to_tab(&tab);
    browser.until_text(".session-row", "finished");
}

#[test]
fn a_view_hears_what_happened_while_it_loaded() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("sessions");
    browser.until_text("#live", "Live");
    browser.script(BETWEEN);
    // The first page of the timeline is there; the view waits for what stands above it.
    browser.script("window.hold = '/api/outcomes'");
    browser.script("location.hash = '#/timeline'");
    browser.until("the timeline loads", "window.release !== undefined");
    browser.script("window.hold = null");
    world.write("a.txt", "second\n");
    world.save("while it loaded");
    browser.script("window.release()");
    browser.until_text(".tl-row", "while it loaded");
}

/// With several agents at work there is no pause between their events.
#[test]
fn the_timeline_keeps_up_with_events_that_never_pause() {
    let world = World::new();
    world.json(&["session", "start", "--session", "s", "--task", "Mend it"]);
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text("#live", "Live");
    browser.until_text(".tl-row.now", "everything is saved");
    world.write("a.txt", "second\n");
    let call = json!({"kind": "tool", "tool": "Read", "input": {"path": "a"}, "output": "x"});
    let told = (0..300).any(|_| {
        record(&world, "s", std::slice::from_ref(&call));
        browser.text(".tl-row.now").contains("1 file not saved yet")
    });
    assert!(told, "{}", browser.text(".tl-row.now"));
}

#[test]
fn a_killed_run_shows_as_crashed_although_no_event_tells() {
    let world = World::new();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let mut run = demo::begin(&world, "night", "echo begun; read line");
    browser.open("runs?session=night");
    browser.until_text(".verdict-text", "It is running");
    let input = run.stdin.take();
    run.kill().unwrap();
    run.wait().unwrap();
    drop(input);
    browser.until_text(".verdict-text", "It crashed");
}

#[test]
fn an_opened_tool_call_stays_open_while_the_session_goes_on() {
    let world = World::new();
    world.json(&["session", "start", "--session", "s", "--task", "Mend it"]);
    let call = |name: &str| {
        let input = json!({"command": name});
        json!({"kind": "tool", "tool": "Bash", "input": input, "output": "it is done"})
    };
    let check = json!({"kind": "verification", "text": "unit tests", "passed": true,
        "output": "all of them"});
    let older = json!({"kind": "verification", "text": "lints", "passed": true, "output": "none"});
    let prompt = json!({"kind": "prompt", "text": "Do it"});
    record(&world, "s", &[prompt, call("make one"), older, check]);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("session/s");
    browser.until_text("#live", "Live");
    browser.click("button.line[aria-label*='make one']");
    browser.until_text(".work pre.output", "it is done");
    browser.click("main details:not([open]) summary");
    let open = "document.querySelectorAll('main details[open]').length";
    assert_eq!(browser.value(open), 2);
    browser.click("input[type=search]");
    record(&world, "s", &[call("make two")]);
    browser.until_text(".work", "make two");
    assert!(browser.texts(".work pre.output").iter().any(|text| text.contains("it is done")));
    assert_eq!(browser.value(open), 2);
    assert_eq!(browser.value("document.activeElement.type"), "search");
    browser.assert_calm("session");
}

#[test]
fn a_comparison_with_now_is_left_as_it_is_and_says_that_it_is_old() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "second\n");
    // Another workspace of the same home.
    let other = world.project.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "b\n").unwrap();
    let save = |text: &str| {
        let mut command = world.command(&["save", text]);
        assert!(command.current_dir(&other).status().unwrap().success());
    };
    save("elsewhere");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("compare?from={first}"));
    browser.until_text("#live", "Live");
    browser.until_text(".diff", "second");
    browser.until("all is known", "document.querySelectorAll('#workspace option').length === 2");
    browser.click(".file-diff summary");
    let closed = "document.querySelectorAll('.file-diff[open]').length === 0";
    browser.until("it is closed", closed);
    std::fs::write(other.join("b.txt"), "c\n").unwrap();
    save("elsewhere again");
    world.write("a.txt", "third\n");
    world.save("third");
    browser.until_text(".note", "The workspace has changed since.");
    assert_eq!(browser.value(closed), true);
    browser.click_on("button", "Compare again");
    browser.until("it is as it was", closed);
    browser.click(".file-diff summary");
    browser.until_text(".diff", "third");
    browser.assert_calm("compare");
}

#[test]
fn events_of_other_workspaces_do_not_reload_a_view() {
    let world = World::new();
    world.save("first");
    let other = world.project.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    let save = |text: &str| {
        std::fs::write(other.join("b.txt"), text).unwrap();
        let mut command = world.command(&["save", text]);
        assert!(command.current_dir(&other).status().unwrap().success());
    };
    save("elsewhere");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text("#live", "Live");
    browser.until("all is known", "document.querySelectorAll('#workspace option').length === 2");
    browser.script(
        "window.waits = []; const real = window.setTimeout;
         window.setTimeout = (act, wait) => { waits.push(wait); return real(act, wait); }",
    );
    save("elsewhere again");
    // Events come in their order: once this one is shown, the other one was there.
    world.json(&["tag", "latest", "green"]);
    browser.until_text(".tl-row .badge", "green");
    let refreshes = browser.value("waits.filter((wait) => wait === 250 || wait === 1000).length");
    assert_eq!(refreshes, 0);
}

#[test]
fn the_timeline_s_filters_say_what_they_do() {
    let world = World::new();
    world.json(&["save", "A release", "--tag", "release"]);
    world.write("a.txt", "second\n");
    world.save("second");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let hidden = |text: &str| {
        browser.value(&format!(
            "[...document.querySelectorAll('.tl-filters button, .tl-filters label')] \
                .find((one) => one.textContent.startsWith({})).hidden",
            json!(text)
        ))
    };
    browser.open("timeline");
    browser.until_text(".tl-row", "second");
    assert_eq!((hidden("Clear"), hidden("Saves before")), (json!(true), json!(false)));
    browser.click_on("label.tick", "Only failures");
    browser.until_text("main .sub", "0 of 2");
    assert_eq!((hidden("Clear"), hidden("Saves before")), (json!(false), json!(true)));
    browser.click("select[data-filter=tag] option[value=release]");
    browser.click_on("button", "Clear");
    browser.until_text(".tl-row", "second");
    let state = browser.value(
        "[document.querySelector('[data-filter=tag]').value, \
          document.querySelector('.tl-filters input[type=checkbox]').checked, \
          document.activeElement.type]",
    );
    assert_eq!(state, json!(["", false, "search"]));
    assert_eq!((hidden("Clear"), hidden("Saves before")), (json!(true), json!(false)));
    browser.assert_calm("filters");
}

#[test]
fn after_a_restore_far_back_the_timeline_knows_where_it_stands() {
    let world = World::new();
    let first = world.save("the oldest");
    let server = Server::start(&world);
    for number in 0..105 {
        world.write("a.txt", &format!("{number}\n"));
        let made = server.post("/api/checkpoints", &json!({"message": format!("save {number}")}));
        assert_eq!(made.status, 201);
    }
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row .badge", "you are here");
    browser.until_text("#live", "Live");
    let back = world.run(&["restore", &first, "--confirm"]);
    assert!(back.status.success(), "{back:?}");
    browser.until_text(".undo-bar", "You went back to “the oldest”");
    world.write("a.txt", "unsaved\n");
    browser.until_text(".tl-row.now", "1 file not saved yet");
    browser.type_into("input[type=search]", "the oldest");
    browser.until_text(".tl-row .badge", "you are here");
    browser.click_on("button", "Clear");
    browser.click_on(".tl-row.now button", "Discard these changes…");
    browser.until_view("restore");
    browser.until_text("h1", "Restore “the oldest”");
    browser.assert_calm("timeline");
}

#[test]
fn a_late_answer_does_not_replace_the_files_of_another_step() {
    let agent = Agent::new();
    agent.play("tour");
    agent.rest();
    let server = Server::start(&agent.world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("replay/claude:{SESSION}.2"));
    browser.until_text(".where", "Step 1 ");
    let files = || browser.text(".pane[aria-label=Files] .pane-body");
    browser.until(
        "the files are there",
        "document.querySelector('.pane[aria-label=Files] .sub, \
        .pane[aria-label=Files] .muted') !== null",
    );
    let before = files();
    browser.script(BETWEEN);
    browser.script("window.hold = '/replay/'");
    browser.press("End");
    browser.until("the last step's files are asked for", "window.release !== undefined");
    browser.press("Home");
    browser.until_text(".where", "Step 1 ");
    browser.script("window.release()");
    browser.until("the answer is there", "window.released === true");
    let drawn = "requestAnimationFrame(() => requestAnimationFrame(done))";
    browser.promised(&format!("new Promise((done) => {drawn})"));
    assert_eq!(files(), before);
}

#[test]
fn health_says_why_hooks_do_not_run_and_what_to_do() {
    let scene = Scene::new();
    scene.world.save("first");
    scene.json(&["integrate", "claude"]);
    scene.world.write(".claude/settings.json", "{\"disableAllHooks\": true}\n");
    let server = Server::spawn(scene.command(&["serve", "--port", "0"]));
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("health");
    for words in ["✗ switched off", "By disableAllHooks", "Take disableAllHooks"] {
        browser.until_text("main", words);
    }
    assert!(!browser.text("main").contains("/api/"), "{}", browser.text("main"));
    // Every piece of advice that health can get has words.
    let said = browser.promised(
        "import('/web/advice.js').then(({advice}) => [
            {kind: 'confirm-hooks', agent: 'codex'}, {kind: 'trust-folder', agent: 'codex'},
            {kind: 'switch-hooks-on', setting: 'hooks', file: 'x'},
            {kind: 'start-agent-again', agent: 'gemini'},
            {kind: 'forget-integration', agent: 'claude', scope: 'user'},
            {kind: 'integrate', agent: 'claude', scope: 'shared'},
            {kind: 'choose-home'}, {kind: 'make-home-writable'}, {kind: 'plan-latest'},
            {kind: 'show-latest'}].map((one) => advice(one)?.typed ?? Boolean(advice(one))))",
    );
    let typed = "rappel integrate claude --user --remove";
    let again = "rappel integrate claude --shared";
    let yes = Value::Bool(true);
    assert_eq!(said, json!([yes, yes, yes, yes, typed, again, yes, yes, yes, yes]));
    browser.assert_calm("health");
}
