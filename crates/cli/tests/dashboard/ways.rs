//! What is rarely met: conflicts, histories from elsewhere, PostgreSQL, a browser of another user.

use std::path::PathBuf;

use rappel_testing::Postgres;
use serde_json::json;

use super::browser::Browser;
use super::http::Server;
use super::support::World;

#[test]
fn a_conflict_in_a_plan_blocks_the_restore_until_it_is_gone() {
    let world = World::new();
    world.write("thing", "a file\n");
    world.write("a.txt", "before\n");
    let first = world.save("first");
    world.write("a.txt", "after\n");
    world.remove("thing");
    // No checkpoint holds what lies in folders of dependencies.
    world.write("thing/node_modules/left.js", "only here\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.until_text(".note.bad", "Conflict: thing");
    browser.until_text(".rs-go", "Something is in the way");
    let disabled = "document.querySelector('.rs-go button').disabled";
    assert_eq!(browser.value(disabled), true);

    // Without the file that is in the way, the rest can be restored.
    browser.click("input[data-focus='path thing']");
    browser.until("nothing is in the way", "!document.querySelector('.note.bad')");
    assert_eq!(browser.value(disabled), false);
    browser.click_on("button", "All");
    browser.until_text(".note.bad", "Conflict: thing");

    // Or it goes away.
    std::fs::remove_dir_all(world.project.path("thing")).unwrap();
    browser.click_on(".rs-go button", "Look again");
    browser.until("nothing is in the way", "!document.querySelector('.note.bad')");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("thing"), "a file\n");
    assert_eq!(world.read("a.txt"), "before\n");
    browser.assert_calm("restore");
}

#[test]
fn an_undo_that_kept_edits_can_overwrite_them() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "spoilt\n");
    world.write("docs/notes.md", "spoilt too\n");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("restore/{first}"));
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    world.write("a.txt", "edited since\n");
    browser.click_on("button", "Undo this restore");
    browser.until_text("main h2", "Undone in part");
    browser.until_text(".note.warn", "a.txt");
    assert_eq!(world.read("a.txt"), "edited since\n");
    assert_eq!(world.read("docs/notes.md"), "spoilt too\n");
    browser.click_on("button", "Undo 1 edited path too");
    browser
        .until("everything is undone", "document.querySelector('main h2').innerText === 'Undone'");
    assert_eq!(world.read("a.txt"), "spoilt\n");
    browser.assert_calm("restore");
}

/// A checkpoint of another project, exported there and imported here.
#[test]
fn an_imported_history_stands_beside_the_own_one() {
    let other = World::new();
    other.write("a.txt", "theirs\n");
    other.save("made elsewhere");
    let file: PathBuf = other.home.join("theirs.rappel");
    let exported = other.run(&["export", "latest", "--output", file.to_str().unwrap()]);
    assert!(exported.status.success(), "{exported:?}");
    let world = World::new();
    world.save("own");
    let imported = world.run(&["import", file.to_str().unwrap()]);
    assert!(imported.status.success(), "{imported:?}");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open("timeline");
    browser.until_text(".tl-row", "made elsewhere");
    browser.until_text(".tl-row .badge.warn", "from");
    // Two histories without a common point: no line joins them.
    let joined = browser.value(
        "[...document.querySelectorAll('.tl-row:not(.now)')].filter((row) => \
            row.querySelectorAll('.tl-graph path[d*=\"C\"]').length).length",
    );
    assert_eq!(joined, 0);
    // It is never where the workspace goes on from.
    let here = browser.value(
        "[...document.querySelectorAll('.tl-row')].find((row) => \
            row.innerText.includes('you are here')).innerText",
    );
    assert!(here.as_str().unwrap().contains("own"), "{here}");
    browser.click_on(".tl-row .tl-title a", "made elsewhere");
    browser.click_on(".tl-panel a", "Open");
    browser.until_view("checkpoint");
    browser.until_text("main", "Came from");
    browser.click_on("button", "Restore this");
    browser.until_view("restore");
    browser.until_text("main", "overwrite 1 file");
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "theirs\n");
    browser.assert_calm("lineages");
}

#[test]
fn tables_of_postgresql_show_then_and_now_and_come_back() {
    let postgres = Postgres::start();
    postgres.create("shop");
    postgres.run(
        "shop",
        "CREATE TABLE orders (id serial PRIMARY KEY, what text);
         INSERT INTO orders (what) SELECT 'order ' || n FROM generate_series(1, 12) n;",
    );
    let world = World::new();
    world.write(
        "rappel.toml",
        &format!("[[database]]\nname = \"shop\"\nurl = \"{}\"\n", postgres.url("shop")),
    );
    let first = world.save("twelve orders");
    postgres.run("shop", "DELETE FROM orders WHERE id > 5");
    let server = Server::start(&world);
    let Some(browser) = Browser::start(&server.address) else { return };
    browser.open(&format!("checkpoint/{first}"));
    browser.until("rows then and now", "/orders\\s+12\\s+5\\s+−7/.test(document.body.innerText)");
    browser.open(&format!("restore/{first}"));
    browser.until_text("main", "orders: 12 (now 5)");
    let name = browser.text("label[for=rs-name] strong");
    browser.type_into("#rs-name", &name);
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    let count = postgres.run("shop", "SELECT count(*) FROM orders");
    assert_eq!(count.trim(), "12");
    browser.assert_calm("databases");
}

/// The kernel knows who opens a connection: a browser of another user is as good as one of another
/// machine, and has to show the token.
#[test]
fn a_browser_of_another_user_needs_the_address_with_the_token() {
    if !rustix::process::geteuid().is_root() {
        rappel_testing::cannot_run("only root can become another user");
        return;
    }
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "spoilt\n");
    let server = Server::with(&world, &["serve", "--port", "0", "--host", "0.0.0.0"]);
    let token = std::fs::read_to_string(world.home.join("token")).unwrap();
    let token = token.trim();
    let port = server.address.rsplit(':').next().unwrap();
    let Some(browser) = Browser::start_as_other(&format!("127.0.0.2:{port}")) else { return };
    browser.visit("/#/timeline");
    browser.until_text("main .failure", "#token=");
    // Each call without the token is an error in the log.
    assert!(browser.log().iter().all(|line| line.contains("401")));

    browser.visit(&format!("/#token={token}"));
    browser.until_view("timeline");
    browser.until_text(".tl-row", "first");
    browser.until_text("#live", "Live");
    let address = browser.value("location.href");
    assert!(!address.as_str().unwrap().contains(token), "{address}");
    browser.reload();
    browser.until_text(".tl-row", "first");
    // Live events, a job and a download carry the token too.
    world.json(&["save", "second"]);
    browser.until_text(".tl-row", "second");
    browser.open(&format!("restore/{first}"));
    browser.click_on(".rs-go button", "Restore");
    browser.until_text("main h2", "Restored");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    let file = browser.promised(&format!(
        "import('/web/api.js').then((api) => api.text('/api/checkpoints/{first}/files/a.txt'))"
    ));
    assert_eq!(file, json!("one\ntwo\nthree\n"));
    browser.assert_calm("with a token");
}
