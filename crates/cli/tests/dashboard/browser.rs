//! Chromium behind chromedriver: what a test does in the page and sees of it.
//!
//! The client speaks WebDriver itself. The crates for it bring fifty others along, and they cover
//! neither the browser's log nor the size of a phone, which need commands of Chromium's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest that a test waits for something that has to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(25);
/// A user who owns nothing.
const NOBODY: u32 = 65534;
/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Runs in every page before its own scripts. Code that an agent wrote would add to `ran`; so does
/// each violation of the page's policy.
const CANARY: &str = "
    window.ran = [];
    window.alert = () => ran.push('alert');
    addEventListener('securitypolicyviolation', (event) =>
        ran.push(`policy ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
";

/// A browser that shows the pages of one server.
pub struct Browser {
    driver: Driver,
    session: String,
    /// The server's address, `127.0.0.1:PORT`.
    origin: String,
}

/// A running chromedriver. Dropping it also ends the Chromium that it has started.
struct Driver {
    child: Child,
    address: String,
    profile: TempDir,
    _stdout: BufReader<ChildStdout>,
}

impl Browser {
    /// A browser for the server at `origin`; none where Chromium is missing, and then the test
    /// says that it cannot run.
    #[track_caller]
    pub fn start(origin: &str) -> Option<Self> {
        Self::start_as(origin, None)
    }

    /// The same; the browser belongs to another user. Only root can do that.
    #[track_caller]
    pub fn start_as_other(origin: &str) -> Option<Self> {
        Self::start_as(origin, Some(NOBODY))
    }

    #[track_caller]
    fn start_as(origin: &str, user: Option<u32>) -> Option<Self> {
        let (Some(chromium), Some(_)) = (installed("chromium"), installed("chromedriver")) else {
            rappel_testing::cannot_run("chromium and chromedriver are not installed");
            return None;
        };
        let driver = Driver::start(user);
        let profile = format!("--user-data-dir={}", driver.profile.path().display());
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": chromium, "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--hide-scrollbars", "--lang=en-GB", profile,
            ]},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 60_000, "pageLoad": 60_000},
        }}});
        let made = driver.call("POST", "/session", &wanted).unwrap();
        let session = made["sessionId"].as_str().unwrap().to_owned();
        let browser = Self { driver, session, origin: origin.to_owned() };
        browser.chromium("Page.addScriptToEvaluateOnNewDocument", &json!({"source": CANARY}));
        browser.size(1440, 900);
        Some(browser)
    }

    /// Loads the page anew at a route such as `timeline?tag=x`, and waits until its view is shown.
    pub fn open(&self, route: &str) {
        self.visit(&format!("/#/{route}"));
        let view = route.split(['/', '?']).next().unwrap();
        self.until_view(view);
    }

    /// Loads an address of the server anew.
    pub fn visit(&self, path: &str) {
        self.send("url", &json!({"url": "about:blank"}));
        self.send("url", &json!({"url": format!("http://{}{path}", self.origin)}));
    }

    /// Loads the same address again.
    pub fn reload(&self) {
        self.send("refresh", &json!({}));
    }

    /// Opens another tab in front of the others, and goes on in it.
    pub fn new_tab(&self) {
        let made = self.send("window/new", &json!({"type": "tab"}));
        self.send("window", &json!({"handle": made["handle"]}));
        self.chromium("Page.bringToFront", &json!({}));
    }

    /// The tab in front.
    pub fn tab(&self) -> Value {
        self.driver.call("GET", &format!("/session/{}/window", self.session), &Value::Null).unwrap()
    }

    /// Goes back to a tab.
    pub fn go_to_tab(&self, tab: &Value) {
        self.send("window", &json!({"handle": tab}));
        self.chromium("Page.bringToFront", &json!({}));
    }

    /// Waits until a view is shown.
    pub fn until_view(&self, view: &str) {
        let script = format!("document.querySelector('main').dataset.view === '{view}'");
        self.until(&format!("the view {view} is shown"), &script);
    }

    /// The value of a JavaScript expression.
    pub fn value(&self, expression: &str) -> Value {
        self.script(&format!("return ({expression});"))
    }

    /// What a script returns.
    pub fn script(&self, script: &str) -> Value {
        self.send("execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a promise becomes.
    pub fn promised(&self, promise: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; \
             Promise.resolve({promise}).then(done, (error) => done(`failed: ${{error}}`));"
        );
        self.send("execute/async", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true; fails with what the page shows.
    #[track_caller]
    pub fn until(&self, what: &str, expression: &str) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.value(expression);
            if !matches!(found, Value::Null | Value::Bool(false)) {
                return found;
            }
            let (late, log) = (begun.elapsed() > LIMIT, || (self.text("body"), self.log()));
            assert!(!late, "not so: {what}\n{:?}", log());
            std::thread::sleep(PERIOD);
        }
    }

    /// Waits until an element's text holds these words.
    #[track_caller]
    pub fn until_text(&self, css: &str, words: &str) {
        let (css, words) = (json!(css), json!(words));
        let what = format!("{css} says {words}");
        let found = format!(
            "[...document.querySelectorAll({css})].some((one) => one.innerText.includes({words}))"
        );
        self.until(&what, &found);
    }

    /// The visible text of the first match; empty if there is none.
    pub fn text(&self, css: &str) -> String {
        let found = self.value(&format!("document.querySelector({})?.innerText ?? ''", json!(css)));
        found.as_str().unwrap().to_owned()
    }

    /// The visible texts of all matches.
    pub fn texts(&self, css: &str) -> Vec<String> {
        let css = json!(css);
        let found = self
            .value(&format!("[...document.querySelectorAll({css})].map((one) => one.innerText)"));
        serde_json::from_value(found).unwrap()
    }

    /// How many elements match.
    pub fn count(&self, css: &str) -> u64 {
        self.value(&format!("document.querySelectorAll({}).length", json!(css))).as_u64().unwrap()
    }

    /// The address after `#`.
    pub fn route(&self) -> String {
        self.value("location.hash").as_str().unwrap().to_owned()
    }

    /// Clicks the first visible match, as a mouse does.
    #[track_caller]
    pub fn click(&self, css: &str) {
        self.click_on(css, "");
    }

    /// Clicks the first visible match whose text begins so.
    #[track_caller]
    pub fn click_on(&self, css: &str, text: &str) {
        self.with(css, text, |element| {
            self.try_send(&format!("element/{element}/click"), &json!({}))
        });
    }

    /// Types into the first visible match.
    #[track_caller]
    pub fn type_into(&self, css: &str, text: &str) {
        self.with(css, "", |element| {
            self.try_send(&format!("element/{element}/value"), &json!({"text": text}))
        });
    }

    /// Does something with an element. The page may draw it anew meanwhile: then once more.
    #[track_caller]
    fn with(&self, css: &str, text: &str, act: impl Fn(&str) -> Result<Value, String>) {
        let begun = Instant::now();
        let find = format!(
            "const found = [...document.querySelectorAll({})].find((one) => \
                one.textContent.trim().startsWith({}) \
                && (one.tagName === 'OPTION' || one.getClientRects().length)); \
             found?.scrollIntoView({{block: 'center'}}); return found ?? null;",
            json!(css),
            json!(text)
        );
        loop {
            let found = self.script(&find);
            let error = match found[ELEMENT].as_str() {
                Some(element) => match act(element) {
                    Ok(_) => return,
                    Err(error) => error,
                },
                None => "there is none".to_owned(),
            };
            assert!(begun.elapsed() < LIMIT, "{css} {text:?}: {error}\n{}", self.text("body"));
            std::thread::sleep(PERIOD);
        }
    }

    /// Presses a key; a name such as `ArrowDown` or a character.
    pub fn press(&self, key: &str) {
        let value = match key {
            "Enter" => "\u{e007}",
            "Escape" => "\u{e00c}",
            "End" => "\u{e010}",
            "Home" => "\u{e011}",
            "ArrowLeft" => "\u{e012}",
            "ArrowUp" => "\u{e013}",
            "ArrowRight" => "\u{e014}",
            "ArrowDown" => "\u{e015}",
            other => other,
        };
        self.send(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keyboard", "actions": [
                {"type": "keyDown", "value": value}, {"type": "keyUp", "value": value},
            ]}]}),
        );
    }

    /// The size of what is visible of the page.
    pub fn size(&self, width: u64, height: u64) {
        self.chromium(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// What the system prefers: `dark` or `light`.
    pub fn prefer(&self, scheme: &str) {
        self.chromium(
            "Emulation.setEmulatedMedia",
            &json!({"features": [
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ]}),
        );
    }

    /// Writes what is visible as a PNG.
    pub fn picture(&self, path: &Path) {
        self.capture(path, &json!({"format": "png"}));
    }

    /// Writes the first match as a PNG, with a little around it.
    pub fn picture_of(&self, css: &str, path: &Path) {
        let clip = self.value(&format!(
            "(({{x, y, width, height}}) => ({{x: x - 16, y: y + scrollY - 16, width: width + 32, \
                height: height + 32, scale: 1}}))(document.querySelector({}).getBoundingClientRect())",
            json!(css)
        ));
        self.capture(path, &json!({"format": "png", "clip": clip}));
    }

    fn capture(&self, path: &Path, parameters: &Value) {
        let made = self.chromium("Page.captureScreenshot", parameters);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, from_base64(made["data"].as_str().unwrap())).unwrap();
    }

    /// The errors in the browser's log since the last call.
    pub fn log(&self) -> Vec<String> {
        let entries = self.send("se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().unwrap();
        let errors = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The page has logged no error, and nothing ran in it that is not its own.
    #[track_caller]
    pub fn assert_calm(&self, place: &str) {
        assert_eq!(self.log(), [""; 0], "errors in the log: {place}");
        assert_eq!(self.value("window.ran"), json!([]), "{place}");
    }

    /// A command of Chromium's own.
    fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.send("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn send(&self, command: &str, body: &Value) -> Value {
        self.try_send(command, body).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    fn try_send(&self, command: &str, body: &Value) -> Result<Value, String> {
        self.driver.call("POST", &format!("/session/{}/{command}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
    }
}

impl Driver {
    fn start(user: Option<u32>) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        if let Some(user) = user {
            std::os::unix::fs::chown(profile.path(), Some(user), Some(user)).unwrap();
            command.uid(user).gid(user).current_dir("/");
        }
        let mut child = command
            .arg("--port=0")
            // Chromium keeps some of its files there, whatever its profile is.
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let port: u16 = loop {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "chromedriver does not start");
            let found = line.split_once("on port ").map(|(_, rest)| rest.trim_end_matches(".\n"));
            if let Some(port) = found.and_then(|port| port.parse().ok()) {
                break port;
            }
        };
        Self { child, address: format!("127.0.0.1:{port}"), profile, _stdout: stdout }
    }

    /// One call; its `value`.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(&self.address).map_err(text)?;
        stream.set_read_timeout(Some(2 * LIMIT)).map_err(text)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(text)?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).map_err(text)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        answer.read_exact(&mut bytes).map_err(text)?;
        let mut answer: Value =
            serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(kind) => Err(format!("{kind}: {}", value["message"].as_str().unwrap_or(""))),
            None => Ok(value),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in processes_of(self.profile.path()) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The processes whose command line names this profile: only those of this test's Chromium do.
fn processes_of(profile: &Path) -> Vec<Pid> {
    let named = profile.to_str().unwrap();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let ours = String::from_utf8_lossy(&line).contains(named);
        if ours { Pid::from_raw(process) } else { None }
    })
    .collect()
}

/// Where a program is installed.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}
