//! Measures how long a database of SQLite takes to be captured, and what it costs.
//!
//! `cargo run --release -p rappel-capture --example sqlite -- FILE HOME`: captures FILE into a store
//! at HOME, again unchanged, and again after 1 % of the rows of its table `t` changed (its column
//! `x`, scattered and together). FILE is written to.

#![allow(clippy::disallowed_methods, reason = "it plays the program that uses the database")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rappel_capture::databases::sqlite::Database;
use rappel_store::Cancel;
use rappel_store::{Options, Store};
use rappel_types::database::DatabasePart;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [file, home] = &paths[..] else { return Err("FILE HOME".into()) };
    let store = Store::open(home, Options::default())?;
    let first = save(&store, file, None, "first")?;
    let second = save(&store, file, Some(&first), "unchanged")?;
    change(file, "id % 100 = 7")?;
    let third = save(&store, file, Some(&second), "1 % scattered")?;
    change(file, "id <= (SELECT max(id) / 100 FROM t)")?;
    save(&store, file, Some(&third), "1 % together")?;
    Ok(())
}

fn change(file: &Path, which: &str) -> Result<()> {
    let open = rusqlite::Connection::open(file)?;
    let size: u64 = open.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let before = std::fs::read(file)?;
    open.execute(&format!("UPDATE t SET x = hex(randomblob(length(x) / 2)) WHERE {which}"), [])?;
    drop(open);
    let after = std::fs::read(file)?;
    let pages = before.chunks(size as usize).zip(after.chunks(size as usize));
    let changed = pages.filter(|(a, b)| a != b).count() as u64;
    println!("changed pages: {:.1} MB", (changed * size) as f64 / 1e6);
    Ok(())
}

fn save(
    store: &Store,
    file: &Path,
    prior: Option<&DatabasePart>,
    what: &str,
) -> Result<DatabasePart> {
    let database = Database {
        name: "x".into(),
        path: file.to_owned(),
        location: None,
        patience: Duration::from_secs(5),
    };
    let start = Instant::now();
    let run = store.begin()?;
    let part = database.capture(&run, prior, &Cancel::default())?.part;
    let captured = start.elapsed();
    let bytes = run.commit(|_| Ok(Vec::new()))?.new_bytes;
    let rows: u64 = part.row_counts.values().sum();
    let all = start.elapsed();
    println!(
        "{what}: captured in {captured:.0?}, committed after {all:.0?}, {bytes} bytes, {rows} rows"
    );
    Ok(part)
}
