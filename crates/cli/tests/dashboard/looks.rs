//! How the page looks: on a phone, in both themes, to a screen reader. And how large it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::browser::Browser;
use super::demo::{self, Demo, LOGIN, NIGHT};
use super::http::Server;
use super::support::World;
use super::support::agent::SESSION;

/// `target`, where the pictures go and `scripts/test` puts axe-core.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// Every view of the demo: a name, its route, and what shows that it is complete.
fn views(demo: &Demo) -> Vec<(&'static str, String, &'static str)> {
    let all = demo.server.json("/api/timeline?limit=1000&all=true");
    let all = all["checkpoints"].as_array().unwrap();
    let id = |place: usize| all[place]["id"].as_str().unwrap();
    let with = |text: &str| {
        let found = all.iter().find(|one| one["description"] == text);
        found.unwrap_or_else(|| panic!("no {text}"))["id"].as_str().unwrap()
    };
    let query = with("The query is quicker");
    let early = id(all.len() - 60);
    vec![
        ("runs", "runs".into(), "It crashed"),
        ("timeline", "timeline".into(), "The query is quicker"),
        ("timeline-selected", format!("timeline?at={query}"), "Changed since its parent"),
        ("timeline-filtered", "timeline?tag=green".into(), "All tests pass"),
        ("timeline-failures", "timeline?failed=yes".into(), "✗"),
        ("checkpoint", format!("checkpoint/{query}"), "src/query.rs"),
        ("compare", format!("compare?from={early}&to={query}"), "Reasoning"),
        ("restore", format!("restore/{early}"), "The plan"),
        ("sessions", "sessions".into(), "Make the login survive a restart"),
        ("session", format!("session/{LOGIN}"), "97 %"),
        ("session-log", format!("session/{LOGIN}?show=log"), "FAILED"),
        ("session-night", format!("session/{NIGHT}"), "not finished"),
        ("replay", format!("replay/claude:{SESSION}.2?step=9"), "Tool calls"),
        ("health", "health".into(), "Space"),
    ]
}

/// What is wider than the window, from the outermost element on.
const TOO_WIDE: &str = "
    document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
    [...document.querySelectorAll('body *')]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .slice(0, 12).map((one) => `${one.tagName}.${one.className} ${one.getBoundingClientRect().right}`)";

/// Nothing is on its way any more.
const QUIET: &str = "document.querySelector('#bar').hidden
    && !/Looking …|Loading …|Comparing …/.test(document.body.innerText)";

#[test]
fn every_view_fits_a_phone_logs_no_error_and_has_its_pictures() {
    let demo = demo::build();
    let Some(browser) = Browser::start(&demo.server.address) else { return };
    let folder = target().join("screenshots");
    let mut faults = Vec::new();
    for (name, route, words) in views(&demo) {
        for (width, height) in [(1440, 900), (390, 844)] {
            browser.size(width, height);
            browser.prefer("light");
            browser.open(&route);
            // A phone has no place for the panel beside the timeline.
            if !(width < 500 && name == "timeline-selected") {
                browser.until_text("main", words);
            }
            browser.until("nothing loads any more", QUIET);
            let wide = browser.value(TOO_WIDE);
            if wide != Value::Array(Vec::new()) {
                faults.push(format!("{name} is too wide at {width}: {wide}"));
            }
            let whole = browser.value("document.documentElement.scrollHeight").as_u64().unwrap();
            browser.size(width, whole.clamp(height, if width < 500 { 2400 } else { 1800 }));
            browser.script("scrollTo(0, 0)");
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                browser.promised("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
                browser.picture(&folder.join(format!("{name}-{width}-{scheme}.png")));
            }
            let log = browser.log();
            if !log.is_empty() || browser.value("window.ran.length") != 0 {
                faults.push(format!("{name} at {width}: {log:?} {}", browser.value("window.ran")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // The pictures of docs/guide/dashboard.md: small enough to be kept in the repository.
    browser.size(1280, 680);
    browser.prefer("light");
    for (name, route, words) in views(&demo) {
        if ["runs", "timeline-selected", "restore", "session"].contains(&name) {
            browser.open(&route);
            browser.until_text("main", words);
            browser.until("nothing loads any more", QUIET);
            let path = folder.join(format!("guide/{name}.png"));
            browser.picture(&path);
            let size = path.metadata().unwrap().len();
            assert!(size < 150_000, "{name}: {size} bytes");
        }
    }
    browser.open("timeline");
    browser.until_text(".failing", "make check");
    browser.picture_of(".failing", &folder.join("guide/failing.png"));
}

/// Empty views show the first command to type, and nothing is wrong with them either.
#[test]
fn an_empty_workspace_says_what_to_type() {
    let world = World::new();
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let folder = target().join("screenshots");
    for (view, command) in [
        ("timeline", "rappel save"),
        ("runs", "rappel run --"),
        ("sessions", "rappel integrate claude"),
        ("health", "rappel"),
    ] {
        for width in [1440, 390] {
            browser.size(width, 900);
            browser.open(view);
            browser.until_text("main", command);
            assert_eq!(browser.value(TOO_WIDE), Value::Array(Vec::new()), "{view} at {width}");
            browser.picture(&folder.join(format!("empty-{view}-{width}.png")));
            browser.assert_calm(view);
        }
    }
}

/// Between a phone and a wide screen, the panel takes its room from the list.
#[test]
fn titles_are_whole_beside_the_panel_and_each_row_has_its_way_back() {
    let title = "Make the error say which file could not be read.";
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    world.save(title);
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    for width in [1100, 1180, 1250, 1321, 1440] {
        browser.size(width, 800);
        browser.open("timeline");
        browser.until_text(".tl-row", title);
        let cut = browser.value(
            "[...document.querySelectorAll('.tl-title a')]
                .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)",
        );
        assert_eq!(cut, Value::Array(Vec::new()), "at {width}");
        browser.click_on(".tl-row .tl-title a", title);
        browser.until(
            "the selected row shows its button",
            "getComputedStyle(document.querySelector('.tl-row[aria-current] .tl-act')).opacity === '1'",
        );
        browser.click_on(".tl-row[aria-current] .tl-act button", "Back to before this");
        browser.until_view("restore");
    }
    browser.assert_calm("timeline");
}

/// The source of axe-core; none where it was not fetched.
#[track_caller]
fn axe() -> Option<String> {
    let packed = target().join("npm/axe-core-4.10.3.tgz");
    if !packed.exists() {
        rappel_testing::cannot_run("axe-core is not in target/npm; scripts/test fetches it");
        return None;
    }
    let output = Command::new("tar")
        .args(["-xzOf", packed.to_str().unwrap(), "package/axe.min.js"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn axe_finds_nothing_serious() {
    let Some(axe) = axe() else { return };
    let demo = demo::build();
    let Some(browser) = Browser::start(&demo.server.address) else { return };
    let mut faults = Vec::new();
    for (name, route, words) in views(&demo) {
        for (width, scheme) in [(1440, "light"), (1440, "dark"), (390, "light")] {
            browser.size(width, 900);
            browser.prefer(scheme);
            browser.open(&route);
            if !(width < 500 && name == "timeline-selected") {
                browser.until_text("main", words);
            }
            browser.script(&axe);
            let found = browser.promised(
                "axe.run(document, {resultTypes: ['violations'], preload: false}).then(({violations}) =>
                    violations.filter((one) => ['serious', 'critical'].includes(one.impact))
                        .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join(' | ')}`))",
            );
            for fault in found.as_array().unwrap_or(&vec![found.clone()]) {
                faults.push(format!("{name} at {width}, {scheme}: {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_pages_files_together_are_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/web");
    let size = rappel_testing::size_of(&folder);
    assert!(size < 250_000, "{size} bytes");
}
