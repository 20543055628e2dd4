//! Times storing a dump and its changes, and says what they add.
//!
//! `cargo run --release -p rappel-capture --example dump -- [MEGABYTES]`
//! `cargo run --release -p rappel-capture --example dump -- memory MEGABYTES`, for the most memory used
//!
//! The dump comes through a pipe, as from `pg_dump`. Times are wall and processor, in ms.

#[path = "../tests/dump_support/mod.rs"]
mod dump_support;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use dump_support::{Change, Heap, Numbers};
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

/// Rows that are made while they are read; every hundredth has this balance.
struct Rows {
    next: u64,
    count: u64,
    balance: i64,
    line: Vec<u8>,
    given: usize,
}

impl Read for Rows {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut written = 0;
        while written < out.len() {
            if self.given == self.line.len() {
                if self.next == self.count {
                    break;
                }
                self.next += 1;
                let text = Numbers(self.next).next();
                let balance = if self.next.is_multiple_of(100) { self.balance } else { 0 };
                let line = format!("{}\t{text:016x}\t{balance}\t{:70}\n", self.next, "");
                self.line = line.into_bytes();
                self.given = 0;
            }
            let count = (out.len() - written).min(self.line.len() - self.given);
            out[written..written + count]
                .copy_from_slice(&self.line[self.given..self.given + count]);
            written += count;
            self.given += count;
        }
        Ok(written)
    }
}

/// What the kernel says about the most memory this process has had.
fn memory() -> Result<String, Failure> {
    let status = rappel_store::held::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    Ok(line.unwrap_or("unknown").to_owned())
}

fn measure_memory(megabytes: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path(), Options::default())?;
    println!("at first: {}", memory()?);
    let mut prior = None;
    for balance in [0, 0, 1234, 98_765] {
        let run = store.begin()?;
        let count = megabytes * 10_000;
        let mut rows = Rows { next: 0, count, balance, line: Vec::new(), given: 0 };
        let stored = dump::store(&run, &mut rows, prior.as_ref())?;
        let added = run.commit(|_| Ok(Vec::new()))?.new_bytes;
        println!("{} bytes, {added} added: {}", stored.bytes, memory()?);
        prior = Some(stored);
    }
    let Some(prior) = prior else { return Ok(()) };
    dump::write_to(&store, &prior, &mut std::io::sink())?;
    println!("read: {}", memory()?);
    Ok(())
}

fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).is_some_and(|first| first == "memory") {
        return measure_memory(std::env::args().nth(2).ok_or("how many megabytes?")?.parse()?);
    }
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
