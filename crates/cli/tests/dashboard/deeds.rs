//! What a user can do with a checkpoint and with the page: tags, pins, exports, workspaces, themes.

use serde_json::{Value, json};

use super::browser::Browser;
use super::http::Server;
use super::support::World;

#[test]
fn a_checkpoint_is_tagged_pinned_described_and_deleted_from_its_page() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "second\n");
    let second = world.save("second");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    let shown = || world.json(&["show", &second]);
    browser.open(&format!("checkpoint/{second}"));
    browser.click_on("button", "Tag");
    browser.type_into("#ask-field", "green, lunch");
    browser.press("Enter");
    browser.until_text(".cp-tags", "lunch");
    assert_eq!(shown()["tags"], json!(["green", "lunch"]));
    browser.click("button[aria-label='Remove the tag green']");
    browser.until("it is gone", "!document.querySelector('.cp-tags').innerText.includes('green')");
    assert_eq!(shown()["tags"], json!(["lunch"]));

    // Buttons have keys, and `?` tells them.
    browser.press("p");
    browser.until_text("main button", "Unpin");
    browser.press("?");
    browser.until_text("dialog .keys", "Unpin");
    browser.press("Escape");
    browser.until("the keys are closed", "!document.querySelector('dialog')");

    browser.click_on("button", "Describe");
    browser.script("document.querySelector('#ask-field').value = ''");
    browser.type_into("#ask-field", "The moment before lunch");
    browser.click_on("dialog button", "Save");
    browser.until_text("h1", "The moment before lunch");
    assert_eq!(shown()["description"], "The moment before lunch");

    browser.press("p");
    browser.until_text(".toast", "Unpinned.");
    browser.click_on("button", "Delete");
    browser.click_on("dialog button", "Delete");
    browser.until_view("timeline");
    browser.until_text("main .sub", "1 checkpoint");
    browser.click_on(".toast button", "Bring it back");
    browser.until_view("checkpoint");
    browser.until_text("h1", "The moment before lunch");
    browser.assert_calm("checkpoint");
}

#[test]
fn a_checkpoint_is_exported_and_a_file_downloaded() {
    let world = World::new();
    world.write("noise.bin", "\u{0}\u{1}");
    let first = world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("checkpoint/{first}"));
    // What a download would write.
    browser.script(
        "window.saved = []; let blob = null; const make = URL.createObjectURL;
         URL.createObjectURL = (one) => { blob = one; return make(one); };
         HTMLAnchorElement.prototype.click = function () {
            const {download} = this;
            blob.arrayBuffer().then((bytes) => saved.push([download, bytes.byteLength])); }",
    );
    browser.click_on("button", "Export");
    browser.click_on("dialog button", "Download");
    browser.until("it is saved", "saved.length === 1");
    let found = browser.value("saved[0]");
    let name = found[0].as_str().unwrap();
    assert!(name.contains(&first) && found[1].as_u64().unwrap() > 100, "{found}");
    browser.until("the dialog is closed", "!document.querySelector('dialog')");

    browser.click(".cp-browse summary");
    browser.click_on(".cp-tree button", "noise.bin");
    browser.until_text("dialog", "Binary, or over 1 MiB");
    let tree = server.json(&format!("/api/checkpoints/{first}/tree"));
    let entries = tree["entries"].as_array().unwrap();
    let entry = entries.iter().find(|one| one["path"] == "noise.bin").unwrap();
    browser.until_text("dialog code", entry["content"].as_str().unwrap());
    browser.click_on("dialog button", "Download");
    browser.until("it is saved", "saved.length === 2");
    assert_eq!(browser.value("saved[1]"), json!(["noise.bin", 2]));
    browser.assert_calm("export");
}

#[test]
fn many_deletions_ask_for_the_workspaces_name() {
    let world = World::new();
    let first = world.save("first");
    for number in 0..21 {
        world.write(&format!("new/{number}.txt"), "new\n");
    }
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text("#rs-why", "This deletes 21 files.");
    let disabled = "document.querySelector('.rs-go button').disabled";
    assert_eq!(browser.value(disabled), true);
    // Enter does nothing before the name is right.
    browser.type_into("#rs-name", "proj");
    browser.press("Enter");
    assert_eq!(browser.value(disabled), true);
    browser.type_into("#rs-name", "ect");
    browser.press("Enter");
    browser.until_text("main h2", "Restored");
    assert!(!world.project.path("new").exists());
    browser.assert_calm("restore");
}

#[test]
fn the_picker_leads_to_another_workspace_and_back() {
    let world = World::new();
    world.save("here");
    let other = world.project.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "b\n").unwrap();
    let mut save = world.command(&["save", "elsewhere"]);
    assert!(save.current_dir(&other).status().unwrap().success());
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "here");
    let choose = |name: &str| {
        browser.until(
            "it can be chosen",
            &format!(
                "(() => {{ const picker = document.querySelector('#workspace');
                    const found = [...picker.options].find((one) => one.text === {});
                    if (!found) return false;
                    picker.value = found.value;
                    picker.dispatchEvent(new Event('change'));
                    return true; }})()",
                json!(name)
            ),
        );
    };
    choose("other");
    browser.until_text(".tl-row", "elsewhere");
    assert!(browser.route().contains("workspace="), "{}", browser.route());
    // Every link of the page stays there.
    browser.press("g");
    browser.press("h");
    browser.until_view("health");
    browser.until_text("main", other.to_str().unwrap());
    choose("project");
    browser.until_text("main", world.project.root().to_str().unwrap());
    browser.assert_calm("workspaces");
}

#[test]
fn the_theme_is_kept_and_times_are_exact_on_hover() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.prefer("light");
    browser.open("timeline");
    browser.until_text(".tl-row", "first");
    let colour = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(colour);
    browser.click("#theme");
    let dark = browser.value(colour);
    assert_ne!(light, dark);
    browser.reload();
    browser.until_text(".tl-row", "first");
    assert_eq!(browser.value(colour), dark);
    browser.press("d");
    assert_eq!(browser.value(colour), light);
    let title = browser.value("document.querySelector('.tl-row:not(.now) time').title");
    let made = world.json(&["show", "latest"])["created_at"].clone();
    let exact = browser.value(&format!(
        "new Intl.DateTimeFormat(undefined, {{dateStyle: 'full', timeStyle: 'long'}}) \
            .format(new Date({made}))"
    ));
    assert_eq!(title, exact);
}

#[test]
fn health_frees_space_only_after_it_has_said_how_much() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.press("g");
    browser.press("h");
    browser.until_view("health");
    browser.press("f");
    browser.until_text("dialog", "There is nothing to free.");
    // A dialog belongs to its view.
    browser.script("history.back()");
    browser.until_view("timeline");
    assert_eq!(browser.count("dialog"), 0);
    browser.script("history.forward()");
    browser.until_view("health");
    browser.press("f");
    browser.until_text("dialog", "There is nothing to free.");
    assert_eq!(browser.value("document.querySelector('dialog .primary').disabled"), true);
    browser.press("Escape");
    browser.until("the dialog is closed", "!document.querySelector('dialog')");
    browser.press("x");
    browser.until_text("dialog", "Your rules delete nothing now.");
    browser.press("Escape");
    let facts = browser.texts(".facts > div");
    assert!(facts.iter().any(|fact| fact == "Checkpoints\n1"), "{facts:?}");
    browser.assert_calm("health");
}

#[test]
fn what_is_copied_is_one_line_without_control_characters() {
    let world = World::new();
    world.save("first");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    let copied = browser.promised(
        "(navigator.clipboard.writeText = async (text) => { window.copied = text; },
          import('/web/ui.js').then(({copyText}) => copyText('claude \\u001b[31m\\nrm -rf\\u202e'))
            .then(() => window.copied))",
    );
    assert_eq!(copied, Value::from("claude \\x1b[31m rm -rf\\u202e"));
}
