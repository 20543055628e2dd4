//! Everything that an agent can write is shown as text. The page can restore without a token, so
//! nothing of it may run.

use rappel_testing::git::git;
use serde_json::{Value, json};

use super::browser::Browser;
use super::demo::record;
use super::http::Server;
use super::support::World;
use super::support::agent::{Agent, SESSION};

const IMAGE: &str = "<img src=x onerror=ran.push(1)>";
const SCRIPT: &str = "<script>ran.push(2)</script>";
const LINK: &str = "[click](javascript:ran.push(3)) <a href=\"javascript:ran.push(3)\">click</a>";
const ESCAPE: &str = "\u{1b}[31mred\u{1b}]8;;http://evil.example\u{7}link\u{202e}\u{61c}txt";
/// Names of tags and branches have no spaces.
const NAME: &str = "<img/src=x/onerror=ran.push(4)>";

/// All of it in one text.
fn all() -> String {
    format!("{IMAGE} {SCRIPT} {LINK} {ESCAPE}")
}

/// Writes hostile text wherever an agent can.
fn build() -> (Agent, String, String) {
    let agent = Agent::new();
    let world = &agent.world;
    let first = world.save("first");
    git(world.project.root(), &["checkout", "-q", "-b", "<img-src=x-onerror=ran.push(5)>"]);
    let tell = |event: &str, more: Value| agent.tell(&agent.payload(event, more));
    tell("SessionStart", json!({"source": "startup"}));
    tell("UserPromptSubmit", json!({"prompt": all(), "prompt_id": "1"}));
    let call = json!({"tool_name": IMAGE, "tool_use_id": "t1", "tool_input": {"command": all()}});
    tell("PreToolUse", call.clone());
    let mut done = call;
    done["tool_response"] = json!({"stdout": all(), "stderr": all()});
    tell("PostToolUse", done);
    agent.rest();

    let session = "hostile";
    let start = ["session", "start", "--session", session, "--task", &all(), "--provider", IMAGE];
    let started = world.run(&start);
    assert!(started.status.success(), "{started:?}");
    let text = all();
    record(
        world,
        session,
        &[
            json!({"kind": "prompt", "text": text}),
            json!({"kind": "thought", "text": text, "type": IMAGE}),
            json!({"kind": "hypothesis", "id": "h1", "text": text, "confidence": 0.5}),
            json!({"kind": "hypothesis", "id": "h1", "status": "rejected", "confidence": 0.1, "reason": text}),
            json!({"kind": "evidence", "for": "h1", "refutes": true, "text": text}),
            json!({"kind": "belief", "id": "b1", "text": text, "confidence": 0.9}),
            json!({"kind": "belief", "id": "b2", "text": text, "confidence": 0.9}),
            json!({"kind": "belief", "id": "b2", "depends_on": "b1", "as": "contradicts"}),
            json!({"kind": "gap", "id": "g1", "text": text}),
            json!({"kind": "gap", "id": "g1", "filled": text}),
            json!({"kind": "verification", "failed": true, "text": text, "output": text}),
            json!({"kind": "note", "text": text}),
            json!({"kind": "command", "command": text, "exit_code": 1, "stdout": text, "stderr": text}),
            json!({"kind": "tool", "tool": IMAGE, "input": {"command": text}, "output": text}),
            json!({"kind": "tool", "tool": IMAGE, "input": text, "error": text}),
            json!({"kind": "branch", "name": IMAGE}),
            json!({"kind": "context", "key": IMAGE, "value": text}),
            json!({"kind": "progress", "step": 1, "text": text}),
            json!({"kind": "tool", "tool": "Bash", "started": true, "input": {"command": text}}),
        ],
    );
    for name in [IMAGE, "javascript:ran.push(6)", "a\"onmouseover=ran.push(7) b.txt", ESCAPE] {
        // A path has no slash in its name.
        world.write(&name.replace('/', "|"), &format!("{}\n", all()));
    }
    world.write("page.html", &format!("<!doctype html>{}\n", all()));
    let connection = rusqlite::Connection::open(world.project.path("app.db")).unwrap();
    connection.execute_batch(&format!("CREATE TABLE \"{IMAGE}\" (\"{IMAGE}\" TEXT)")).unwrap();
    drop(connection);
    let meta = format!("key={IMAGE}");
    let words = ["save", &text, "--tag", NAME, "--meta", &meta, "--session", session, "--json"];
    let saved = world.run(&words);
    assert!(saved.status.success(), "{saved:?}");
    let saved: Value = serde_json::from_slice(&saved.stdout).unwrap();
    let second = saved["id"].as_str().unwrap().to_owned();
    (agent, first, second)
}

/// Nothing ran, and nothing of it became an element.
#[track_caller]
fn assert_text_only(browser: &Browser, place: &str) {
    let elements = browser.value(
        "[...document.querySelectorAll('img, script, a, iframe, [onerror], [onmouseover]')]
            .filter((one) => one.matches('[onerror], [onmouseover], iframe')
                || !/^(#|\\/(?!\\/))/.test(one.getAttribute('href') ?? '#')
                || (one.tagName === 'IMG' && one.getAttribute('src') !== '/web/icon.svg')
                || (one.tagName === 'SCRIPT' && !one.getAttribute('src')?.startsWith('/web/')))
            .map((one) => one.outerHTML)",
    );
    assert_eq!(elements, json!([]), "{place}");
    let raw = browser.value(
        "[document.title, document.body.textContent,
            ...[...document.querySelectorAll('[title], [aria-label]')]
                .map((one) => `${one.title} ${one.getAttribute('aria-label')}`)]
            .some((text) => /[\\u001b\\u0007\\u061c\\u202e]/.test(text))",
    );
    assert_eq!(raw, false, "a control character is shown as it is: {place}");
    browser.assert_calm(place);
}

#[test]
fn what_agents_write_is_text_in_every_view() {
    let (agent, first, second) = build();
    let world: &World = &agent.world;
    let server = Server::start(world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let shown = |place: &str| {
        browser.until_text("body", IMAGE);
        assert_text_only(&browser, place);
    };

    browser.open("timeline");
    browser.until_text(".tl-row", IMAGE);
    browser.until_text(".tl-row .badge", NAME);
    browser.click_on(".tl-row .tl-title a", IMAGE);
    browser.until_text(".tl-panel", "ran.push");
    shown("timeline");
    browser.type_into("input[type=search]", SCRIPT);
    browser.until_text("main .sub", " of ");
    shown("filtered timeline");

    browser.open(&format!("checkpoint/{second}"));
    browser.until_text(".diff", IMAGE);
    for words in [NAME, "<img-src=x-onerror=ran.push(5)>", SCRIPT, "javascript:ran.push(6)"] {
        browser.until_text("main", words);
    }
    shown("checkpoint");
    browser.click(".cp-browse summary");
    browser.click_on(".cp-tree button", IMAGE);
    browser.until_text("dialog pre", SCRIPT);
    shown("a file");

    browser.open(&format!("compare?from={first}&to={second}"));
    browser.until_text(".diff", IMAGE);
    browser.script("for (const one of document.querySelectorAll('details')) one.open = true");
    shown("compare");

    browser.open(&format!("restore/{first}"));
    browser.until_text(".rs-files", IMAGE);
    shown("restore");

    browser.open("runs?session=hostile");
    browser.script("for (const one of document.querySelectorAll('details')) one.open = true");
    shown("runs");

    browser.open("sessions");
    shown("sessions");

    for session in ["hostile".to_owned(), format!("claude:{SESSION}")] {
        browser.open(&format!("session/{session}"));
        browser.until_text(".work", IMAGE);
        browser.script("for (const one of document.querySelectorAll('.line')) one.click()");
        shown("session");
        browser.press("l");
        browser.until_text("pre.log", IMAGE);
        shown("log");
        browser.open(&format!("replay/{session}"));
        browser.press("End");
        browser.until_text(".panes", IMAGE);
        shown("replay");
    }

    browser.open("health");
    browser.until_text("main", "Health");
    assert_text_only(&browser, "health");
}

/// An address that an agent made a user open.
#[test]
fn hostile_addresses_are_text_too() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let coded = "%3Cimg%20src%3Dx%20onerror%3Dran.push(1)%3E";
    for route in [
        format!("checkpoint/{coded}"),
        format!("restore/{coded}"),
        format!("session/{coded}"),
        format!("replay/{coded}"),
        format!("compare?from={coded}&to=now"),
        format!("timeline?text={coded}&tag={coded}&session={coded}&trigger={coded}&at={coded}"),
        "checkpoint/javascript:ran.push(3)".to_owned(),
        "session/..%2F..%2Fetc%2Fpasswd".to_owned(),
    ] {
        browser.open(&route);
        browser.until("something is shown", "document.querySelector('main h1') !== null");
        assert_eq!(browser.value("window.ran"), json!([]), "{route}");
        assert_eq!(browser.count("main img, main a[href^='javascript']"), 0, "{route}");
    }
}
