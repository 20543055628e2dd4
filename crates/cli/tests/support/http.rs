//! A server of the real binary, and a client that sends exactly what it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::World;

/// The longest that a test waits for something that has to happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A running `rappel serve`.
pub struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

impl Server {
    /// Serves the world's project on a free port.
    pub fn start(world: &World) -> Self {
        Self::with(world, &["serve", "--port", "0"])
    }

    pub fn with(world: &World, arguments: &[&str]) -> Self {
        Self::spawn(world.command(arguments))
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}"));
        let address = url.split('/').next().unwrap().to_owned();
        Self { child, _stdout: stdout, address }
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends these very bytes, and reads the answer to its end.
    pub fn send_raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        parse(&bytes)
    }

    /// A request with these headers besides `Host`.
    pub fn send(&self, line: &str, headers: &[&str], body: Option<&str>) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        if let Some(body) = body {
            let length = body.len();
            request.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n"
            ));
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        self.send_raw(request.as_bytes())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], None)
    }

    /// The JSON of a `GET` that works.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), &[], Some(&body.to_string()))
    }

    /// Posts, expects a job, and waits for its end.
    pub fn job(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        self.end_of(&id)
    }

    /// Waits for the end of a job.
    pub fn end_of(&self, id: &str) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.json(&format!("/api/jobs/{id}"));
            if job["ended_at"].is_string() {
                return job;
            }
            assert!(begun.elapsed() < LIMIT, "{job}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Opens the stream of events.
    pub fn events(&self, since: Option<&str>) -> Events {
        let mut stream = self.connect();
        let since = since.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n{since}\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Events { reader }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits for its exit code.
    pub fn stop(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of events.
pub struct Events {
    reader: BufReader<TcpStream>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Events {
    /// The next event; none when the server has closed the stream.
    pub fn next(&mut self) -> Option<Event> {
        let mut event = Event { name: String::new(), id: None, data: Value::Null };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            match line.split_once(':') {
                Some(("event", name)) => event.name = name.trim().into(),
                Some(("id", id)) => event.id = Some(id.trim().into()),
                Some(("data", data)) => event.data = serde_json::from_str(data.trim()).unwrap(),
                // Chunks have their length on a line of its own, and end with an empty one.
                _ if line.is_empty() && !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// The next event of this name.
    pub fn next_named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("no {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = bytes.get(end + 4..).unwrap_or_default().to_vec();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    Answer { status, head, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&bytes[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            break;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
    body
}
