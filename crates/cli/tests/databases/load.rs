//! A restore while others are at work.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::scene::{Scene, wait_until};

#[test]
fn no_row_that_was_committed_under_load_is_lost() {
    let scene = Scene::new();
    let made = scene.server.pgbench("app").args(["-i", "-q"]).status().unwrap();
    assert!(made.success());
    let id = scene.world.save("no history yet");
    let rows = || scene.server.run("app", "SELECT count(*) FROM pgbench_history");
    let rows = || rows().parse::<u64>().unwrap();
    let load = scene
        .server
        .pgbench("app")
        .args(["-n", "-c", "3", "-T", "6"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("there is some history", || rows() > 50);
    let restored = scene.world.json(&["restore", &id, "--confirm"]);
    let safety = restored["safety_checkpoint"].as_str().unwrap();
    let told = String::from_utf8(load.wait_with_output().unwrap().stdout).unwrap();
    let committed = told
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
        .and_then(|number| number.split('/').next())
        .and_then(|number| number.trim().parse::<u64>().ok());
    let held = &scene.world.json(&["show", safety])["databases"][0]["row_counts"];
    let held = held["pgbench_history"].as_u64().unwrap();
    assert!(held > 50, "{held}");
    assert_eq!(Some(held + rows()), committed, "{told}");

    scene.world.json(&["restore", safety, "--confirm"]);
    assert_eq!(rows(), held);
    let balances = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
                       AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)";
    assert_eq!(scene.server.run("app", balances), "t");
}

#[test]
fn of_two_restores_at_once_one_waits_for_the_other() {
    let scene = Scene::whole();
    let (one, as_one) = (scene.world.save("one"), scene.portrait());
    scene.damage();
    let (two, as_two) = (scene.world.save("two"), scene.portrait());
    let gate = scene.outside().join("gate");
    std::fs::write(&gate, "").unwrap();
    let first = scene.start(&["restore", &one, "--confirm"]);
    wait_until("the first stands at the gate", || scene.outside().join("reached").exists());

    let plan = scene.run(&["restore", &two, "--dry-run"]);
    assert_eq!(plan.code, Some(5), "{plan:?}");
    assert!(plan.words.contains("another restore of"), "{plan:?}");
    let mut second = scene.world.command(&["restore", &two, "--confirm"]).spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("another restore of")), "it waits, and says for whom");
    std::fs::remove_file(&gate).unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
    let words: Vec<String> = said.collect();
    assert!(second.wait_with_output().unwrap().status.success(), "{words:?}");

    // Each was whole, and so is what was saved between them.
    assert_eq!(scene.portrait(), as_two);
    scene.world.json(&["undo"]);
    assert_eq!(scene.portrait(), as_one);
}
