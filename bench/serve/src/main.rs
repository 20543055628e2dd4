//! What a process that lives costs: a home with many checkpoints, read through one handle and over
//! HTTP. Prints one JSON document. It talks to this machine alone, and every part of it has an end.
//!
//!     rappel-bench-serve FOLDER RAPPEL [CHECKPOINTS] [REQUESTS]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rappel::{DiffOptions, Home, ListFilter, OpenOptions, SaveOptions, Workspace};
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Connections that ask at once.
const CONNECTIONS: usize = 8;
/// Requests a second while latency is measured.
const PACE: f64 = 500.0;
/// How long one part may take.
const LIMIT: Duration = Duration::from_secs(1_800);
/// How long readers run beside a writer, and at a steady pace.
const STRETCH: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let program = PathBuf::from(arguments.next().ok_or("which program?")?);
    let checkpoints: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let requests: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let (project, home) = (folder.join("project"), folder.join("home"));
    std::fs::create_dir_all(&project)?;
    // So that it is a project of its own.
    std::fs::write(project.join("rappel.toml"), "")?;
    let workspace = Home::new(OpenOptions::new(&project, &home)).here();
    let ids = make(&workspace, &project, checkpoints)?;
    let list = list(&workspace)?;
    let mixed = mixed(&workspace, &project, &ids)?;
    let server = Server::start(&program, &project, &home)?;
    let paced = server.paced(&ids)?;
    let load = server.load(&ids, requests)?;
    println!(
        "{}",
        json!({"checkpoints": checkpoints, "requests": requests, "list": list, "mixed": mixed,
               "paced": paced, "load": load})
    );
    Ok(())
}

/// Checkpoints of a tiny project, each with a change.
fn make(workspace: &Workspace, project: &Path, count: usize) -> Result<Vec<String>> {
    let mut ids = Vec::with_capacity(count);
    for number in 0..10 {
        let text = format!("file {number}\n").repeat(40);
        std::fs::write(project.join(format!("file{number}.txt")), text)?;
    }
    for number in 0..count {
        ids.push(save(workspace, project, number)?);
    }
    Ok(ids)
}

fn save(workspace: &Workspace, project: &Path, number: usize) -> Result<String> {
    let path = project.join(format!("file{}.txt", number % 10));
    std::fs::write(path, format!("line of checkpoint {number}\n"))?;
    let message = Some(format!("checkpoint {number}"));
    let saved = workspace.now()?.save(&SaveOptions { message, ..SaveOptions::default() })?;
    Ok(saved.checkpoint.manifest.id.to_string())
}

/// Milliseconds for the newest twenty: with a look at the world as every operation has it, and
/// without.
fn list(workspace: &Workspace) -> Result<Value> {
    let filter = ListFilter { limit: Some(20), ..ListFilter::default() };
    let (mut whole, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let start = Instant::now();
        let rappel = workspace.now()?;
        let opened = Instant::now();
        assert_eq!(rappel.list(&filter)?.checkpoints.len(), 20);
        alone.push(opened.elapsed());
        whole.push(start.elapsed());
    }
    Ok(json!({"ms": quantile(&mut alone, 0.5), "p99_ms": quantile(&mut alone, 0.99),
              "with_open_ms": quantile(&mut whole, 0.5)}))
}

/// Reads a second by two threads, while another saves without a pause.
fn mixed(workspace: &Workspace, project: &Path, ids: &[String]) -> Result<Value> {
    let (reads, saves, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            while !ended.load(Ordering::Relaxed) {
                let number = saves.fetch_add(1, Ordering::Relaxed) as usize;
                save(workspace, project, 1_000_000 + number)?;
            }
            Ok(())
        });
        let read = |seed: usize| -> Result<()> {
            let mut number = seed;
            while start.elapsed() < STRETCH {
                let rappel = workspace.now()?;
                let (id, next) =
                    (&ids[number * 7_919 % ids.len()], &ids[number * 104_729 % ids.len()]);
                let (id, next) = (id.parse()?, next.parse()?);
                match number % 5 {
                    0 | 1 => drop(rappel.show(&id)?),
                    2 => drop(
                        rappel.list(&ListFilter { limit: Some(20), ..ListFilter::default() })?,
                    ),
                    3 => rappel.cat(&id, &"file1.txt".parse()?, &mut std::io::sink())?,
                    _ => drop(rappel.diff(&id, Some(&next), &DiffOptions::default())?),
                }
                reads.fetch_add(1, Ordering::Relaxed);
                number += 1;
            }
            Ok(())
        };
        let readers = [scope.spawn(move || read(0)), scope.spawn(move || read(500_000))];
        let done: Vec<_> =
            readers.into_iter().map(|one| one.join().expect("it does not panic")).collect();
        ended.store(true, Ordering::Relaxed);
        writer.join().expect("it does not panic")?;
        done.into_iter().collect()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    Ok(json!({"reads_per_s": rate(&reads), "saves_per_s": rate(&saves)}))
}

/// A running server.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &Path, project: &Path, home: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["serve", "--port", "0"])
            .current_dir(project)
            .env("RAPPEL_HOME", home)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").ok_or("no URL")?.to_owned();
        Ok(Self { child, address })
    }

    /// Latency at a steady pace.
    fn paced(&self, ids: &[String]) -> Result<Value> {
        let each = (PACE * STRETCH.as_secs_f64()) as u64 / CONNECTIONS as u64;
        let gap = Duration::from_secs_f64(CONNECTIONS as f64 / PACE);
        let start = Instant::now();
        let mut took = self.ask(ids, each, Some(gap))?;
        let count = took.len() as f64;
        Ok(
            json!({"per_s": count / start.elapsed().as_secs_f64(), "p50_ms": quantile(&mut took, 0.5),
                  "p99_ms": quantile(&mut took, 0.99)}),
        )
    }

    /// As many requests as it answers, and what memory it takes in each tenth of them.
    fn load(&self, ids: &[String], requests: u64) -> Result<Value> {
        let (mut took, mut memory) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for _ in 0..10 {
            took.extend(self.ask(ids, requests / 10 / CONNECTIONS as u64, None)?);
            memory.push(self.memory()?);
            if start.elapsed() > LIMIT {
                break;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({"requests": took.len(), "per_s": took.len() as f64 / seconds, "seconds": seconds,
                  "p50_ms": quantile(&mut took, 0.5), "p99_ms": quantile(&mut took, 0.99),
                  "memory": memory}))
    }

    /// Asks in turns for the list and for one checkpoint, on every connection. With `gap`, a request
    /// is due at its time, and waiting for the one before counts.
    fn ask(&self, ids: &[String], each: u64, gap: Option<Duration>) -> Result<Vec<Duration>> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|client| {
                    scope.spawn(move || -> Result<Vec<Duration>> {
                        let mut connection = Connection::open(&self.address)?;
                        let mut took = Vec::with_capacity(each as usize);
                        let begun = Instant::now();
                        for number in 0..each {
                            let mut start = Instant::now();
                            if let Some(gap) = gap {
                                let due = begun
                                    + gap * number as u32
                                    + gap * client as u32 / CONNECTIONS as u32;
                                std::thread::sleep(due.saturating_duration_since(start));
                                start = due.max(begun);
                            }
                            match number % 2 {
                                0 => connection.get("/api/checkpoints")?,
                                _ => {
                                    let id = &ids[(number as usize * 7_919 + client) % ids.len()];
                                    connection.get(&format!("/api/checkpoints/{id}"))?;
                                }
                            }
                            took.push(start.elapsed());
                        }
                        Ok(took)
                    })
                })
                .collect();
            let mut all = Vec::new();
            for client in clients {
                all.extend(client.join().expect("it does not panic")?);
            }
            Ok(all)
        })
    }

    /// Bytes in memory.
    fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that stays open.
struct Connection {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream: BufReader::new(stream), body: Vec::new() })
    }

    fn get(&mut self, path: &str) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut length, mut is_fine) = (String::new(), 0, false);
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the server hung up".into());
            }
            let text = line.trim_end().to_ascii_lowercase();
            is_fine |= text.starts_with("http/1.1 200");
            if let Some(number) = text.strip_prefix("content-length:") {
                length = number.trim().parse()?;
            }
            if text.is_empty() {
                break;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        match is_fine && length > 0 {
            true => Ok(()),
            false => Err(format!("{path}: {}", String::from_utf8_lossy(&self.body)).into()),
        }
    }
}

/// In milliseconds.
fn quantile(took: &mut [Duration], part: f64) -> f64 {
    took.sort();
    let place = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
    took.get(place).map_or(0.0, |one| one.as_secs_f64() * 1000.0)
}
