//! Times storing a dump and its changes, and says what they add.
//!
//! `cargo run --release -p rappel-capture --example dump -- [MEGABYTES]`
//!
//! The dump comes through a pipe, as from `pg_dump`. Times are wall and processor, in ms.

#[path = "../tests/dump_support/mod.rs"]
mod dump_support;

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Instant;

use dump_support::{Change, Heap};
use rappel_capture::databases::dump::{self, Stored};
use rappel_capture::databases::sql::Watch;
use rappel_store::{Options, Store};

type Failure = Box<dyn std::error::Error>;

fn used() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e3 + used.tv_nsec as f64 / 1e6
}

fn save(
    store: &Store,
    what: &str,
    text: &[u8],
    changed: u64,
    prior: Option<&Stored>,
) -> Result<Stored, Failure> {
    let (reader, writer) = std::io::pipe()?;
    let reader: OwnedFd = reader.into();
    let (start, cpu) = (Instant::now(), used());
    let (stored, added, rows) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = writer;
            let _ = writer.write_all(text);
        });
        let run = store.begin()?;
        let mut watch = Watch::new(std::fs::File::from(reader));
        let stored = dump::store(&run, &mut watch, prior)?;
        let added = run.commit(|_| Ok(Vec::new()))?.new_bytes;
        let rows: u64 = watch.tables().iter().map(|table| table.rows).sum();
        Ok::<_, Failure>((stored, added, rows))
    })?;
    let (wall, cpu) = (start.elapsed().as_secs_f64() * 1e3, used() - cpu);
    let share = added as f64 * 100.0 / changed.max(1) as f64;
    println!(
        "{what:24} {wall:7.0} {cpu:7.0} ms  {:5.0} MB/s  {added:10} bytes added  {share:6.1} % of {changed}  {rows} rows",
        text.len() as f64 / 1e3 / wall
    );
    Ok(stored)
}

fn main() -> Result<(), Failure> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(125), |text| text.parse())?;
    for (name, make, line) in
        [("accounts", Heap::accounts as fn(u64) -> Heap, 97), ("random", Heap::random, 91)]
    {
        let folder = tempfile::tempdir()?;
        let store = Store::open(folder.path(), Options::default())?;
        let count = megabytes * 1_000_000 / line;
        let text = make(count).dump();
        println!("{name}: {} bytes", text.len());
        let base = save(&store, "whole", &text, text.len() as u64, None)?;
        save(&store, "unchanged", &text, 0, Some(&base))?;
        for change in Change::ALL {
            let mut heap = make(count);
            let changed = heap.change(0.01, change);
            let text = heap.dump();
            let stored = save(&store, &format!("{change:?}"), &text, changed, Some(&base))?;
            let (start, cpu) = (Instant::now(), used());
            let mut length = 0;
            dump::pass_on(&store, &stored, &mut |bytes| {
                length += bytes.len();
                Ok(())
            })?;
            println!(
                "{:24} {:7.0} {:7.0} ms",
                "  read",
                start.elapsed().as_secs_f64() * 1e3,
                used() - cpu
            );
        }
    }
    Ok(())
}
