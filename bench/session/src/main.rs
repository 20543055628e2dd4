//! What an agent's state costs through the library: a session that grows by 1 KB a step, saved at
//! every step, as `langgraph_saver.py` measures it for LangGraph. Prints one JSON document.
//!
//!     rappel-bench-session FOLDER [STEPS] [EVENTS]

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rappel::types::agents::{Body, NewEvent, payload};
use rappel::{OpenOptions, Rappel, SessionStart, TemporalQuery};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let steps: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let events: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let folder = Path::new(&folder);
    let grown = grow(&folder.join("grow"), steps)?;
    let many = many(&folder.join("many"), events)?;
    let lines = lines();
    println!(
        "{}",
        serde_json::json!({
            "steps": steps, "grow": grown, "events": events, "many": many,
            "lines_ms": lines.0, "dense_lines_ms": lines.1,
        })
    );
    Ok(())
}

/// The longest line that the time to judge is promised for.
const LINE: usize = 10_000;

/// How long it takes to judge a command line of 10 KB, in milliseconds, the median of many: the
/// slowest kind of line that agents write, and the slowest that consists of nothing but hundreds of
/// commands.
fn lines() -> (f64, f64) {
    let filled = |one: &str| one.repeat(LINE / one.len());
    let dense = [
        format!("{}ls", filled("git status && ")),
        filled("rm -rf build/x; "),
        filled("echo \"$HOME/a b\" | grep -v 'x' > out.txt; "),
        filled("npm run build && docker compose exec db ls; python3 manage.py test\n"),
    ];
    let usual = [
        format!(
            "cat > notes.md <<'EOF'\n{}\nEOF",
            filled("some words of a file, and more of them\n")
        ),
        format!("python3 -c '{}'", filled("print(1); x = [y for y in z]\n")),
        format!("git commit -m \"{}\"", filled("words of a message ")),
    ];
    let folder = Path::new("/nonexistent");
    let judged = |line: &String| {
        let mut took: Vec<Duration> = (0..200)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(rappel_hooks::shell::verdict(
                    std::hint::black_box(line),
                    folder,
                ));
                start.elapsed()
            })
            .collect();
        took.sort();
        took[took.len() / 2].as_secs_f64() * 1000.0
    };
    let slowest = |kinds: &[String]| kinds.iter().map(judged).fold(0.0, f64::max);
    (slowest(&usual), slowest(&dense))
}

/// Words that compress like words.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn text(&mut self, count: usize) -> String {
        let word = |mut number: u64| {
            let mut word = String::new();
            for _ in 0..2 + number % 8 {
                number = number.wrapping_mul(48271) % 0x7fff_ffff;
                word.push(char::from(b'a' + (number % 26) as u8));
            }
            word
        };
        (0..count).map(|_| word(self.next() % 4000) + " ").collect()
    }
}

fn open(folder: &Path, config: &str) -> Result<Rappel, Box<dyn std::error::Error>> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("rappel.toml"), config)?;
    Ok(Rappel::open(OpenOptions::new(&project, folder.join("home")))?)
}

/// A step is a thought and the checkpoint that it makes, one durable commit.
fn grow(folder: &Path, steps: usize) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let rappel = open(
        folder,
        "[auto]\nthought-completed = true\ntime-passed = false\nsession-start = false\n",
    )?;
    let (session, _) = rappel.start_session(SessionStart::default())?;
    let mut words = Words(7);
    let mut took = Vec::with_capacity(steps);
    for step in 0..steps {
        let content = words.text(150);
        let body = Body::Thought(payload::Thought {
            kind: if step % 2 == 0 { "user" } else { "assistant" }.into(),
            content,
            confidence: None,
            parent: None,
        });
        let start = Instant::now();
        let recorded = rappel.record(&session, NewEvent::from(body))?;
        took.push(start.elapsed());
        assert_eq!(recorded.checkpoints.len(), 1);
    }
    let floor = floor(&folder.join("floor"), steps)?;
    let (first, last) = (&took[..steps / 10], &took[steps - steps / 10..]);
    let growth = median(last).as_secs_f64() / median(first).as_secs_f64();
    let latest = timed(50, || {
        rappel.state_now(&session, u64::MAX).map(|found| found.state.thought_chain.iter().len())
    })?;
    let mut at = 0;
    let earlier = timed(50, || {
        at = (at + 7919) % (2 * steps as u64 - 2) + 2;
        let query = TemporalQuery {
            event: Some(at),
            session: Some(session.clone()),
            ..TemporalQuery::default()
        };
        rappel.query_at(&query).map(|found| found.state.thought_chain.iter().len())
    })?;
    drop(rappel);
    let rappel = open(folder, "")?;
    let start = Instant::now();
    let cold = rappel.state_now(&session, u64::MAX)?;
    let cold_ms = ms(start.elapsed());
    assert_eq!(cold.state.thought_chain.iter().len(), steps);
    let total: Duration = took.iter().sum();
    Ok(serde_json::json!({
        "saves_per_s": (steps as f64 / total.as_secs_f64()).round(),
        "p50_ms": ms(median(&took)), "p99_ms": ms(percentile(&took, 99)),
        "floor_ms": ms(floor), "over_floor": median(&took).as_secs_f64() / floor.as_secs_f64(),
        "growth": growth, "bytes": size(&folder.join("home")),
        "latest_ms": ms(latest), "earlier_ms": ms(earlier), "first_read_of_a_process_ms": cold_ms,
    }))
}

/// One append with fdatasync each, of about what a step adds.
fn floor(path: &Path, steps: usize) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut file = std::fs::File::create(path)?;
    let mut took = Vec::new();
    for _ in 0..steps.min(500) {
        let start = Instant::now();
        file.write_all(&[7; 2000])?;
        file.sync_data()?;
        took.push(start.elapsed());
    }
    Ok(median(&took))
}

/// A session of many events, of all kinds.
fn many(folder: &Path, events: usize) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let rappel = open(folder, "[auto]\ntime-passed = false\nsession-start = false\n")?;
    let (session, _) = rappel.start_session(SessionStart::default())?;
    let mut words = Words(11);
    let start = Instant::now();
    for number in 0..events {
        let line = match number % 10 {
            0 => {
                serde_json::json!({"kind": "hypothesis", "text": words.text(8), "confidence": 0.5})
            }
            1 => serde_json::json!({"kind": "note", "text": words.text(12)}),
            2 | 5 => {
                serde_json::json!({
                    "kind": "tool", "tool": "Bash", "input": {"command": words.text(6)},
                    "started": true, "id": format!("c{number}"),
                })
            }
            3 | 6 => {
                serde_json::json!({
                    "kind": "tool", "id": format!("c{}", number - 1), "finished": true,
                    "output": words.text(15),
                })
            }
            4 => {
                serde_json::json!({
                    "kind": "command", "command": words.text(5), "exit_code": 0,
                    "stdout": words.text(10),
                })
            }
            _ => serde_json::json!({"kind": "thought", "text": words.text(20)}),
        };
        rappel.record(&session, NewEvent::parse(&line.to_string())?)?;
    }
    let recording = start.elapsed();
    let peak = peak_mb();
    let query = TemporalQuery {
        event: Some(events as u64 / 2),
        session: Some(session.clone()),
        ..TemporalQuery::default()
    };
    let at =
        timed(20, || rappel.query_at_most(&query, 10).map(|found| found.position.event as usize))?;
    let recall = timed(20, || rappel.recall(&session).map(|brief| brief.to_text(8000).len()))?;
    Ok(serde_json::json!({
        "events_per_s": (events as f64 / recording.as_secs_f64()).round(),
        "at_ms": ms(at), "recall_ms": ms(recall), "peak_mb": peak,
        "home": folder.join("home"), "project": folder.join("project"),
        "session": session, "bytes": size(&folder.join("home")),
    }))
}

fn timed<E>(times: usize, mut work: impl FnMut() -> Result<usize, E>) -> Result<Duration, E> {
    let mut took = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        std::hint::black_box(work()?);
        took.push(start.elapsed());
    }
    Ok(median(&took))
}

fn median(of: &[Duration]) -> Duration {
    percentile(of, 50)
}

fn percentile(of: &[Duration], percent: usize) -> Duration {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size(&entry.path()),
            _ => entry.metadata().map(|meta| meta.len()).unwrap_or(0),
        })
        .sum()
}
