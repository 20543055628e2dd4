"""How quick the dashboard is in a real Chromium, in a home with very many checkpoints.

Chromium is driven through chromedriver, as the browser tests do it, and the page measures itself: a script that runs
before the page's own one notes when the timeline answers a key, and how long the frames of a scroll take.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import time
from statistics import quantiles

CHECKPOINTS = 10_000
# A scroll of so many frames, each further by so many pixels.
FRAMES, STEP = 300, 400
PATIENCE = 120

# Notes when the first rows stand there, presses `j`, and notes when the page has drawn the answer.
WATCH = """
window.bench = {};
const look = () => {
  if (!document.querySelector('.tl-row:not(.now)')) { requestAnimationFrame(look); return; }
  bench.rows = performance.now();
  dispatchEvent(new KeyboardEvent('keydown', {key: 'j'}));
  const answered = () => {
    if (!document.querySelector('.tl-row[aria-current=true]')) {
      dispatchEvent(new KeyboardEvent('keydown', {key: 'j'}));
      requestAnimationFrame(answered);
    } else requestAnimationFrame(() => { bench.interactive = performance.now(); });
  };
  answered();
};
if (location.pathname === '/') requestAnimationFrame(look);
"""

SCROLL = """
const done = arguments[0];
const taken = [];
let last = performance.now();
let way = 1;
const next = (now) => {
  taken.push(now - last);
  last = now;
  if (taken.length > %d) { done(taken.slice(1)); return; }
  const end = document.documentElement.scrollHeight - innerHeight;
  if (scrollY >= end - 1) way = -1;
  if (scrollY <= 0) way = 1;
  scrollBy(0, way * %d);
  requestAnimationFrame(next);
};
requestAnimationFrame(next);
""" % (FRAMES, STEP)


def missing():
    """The first program that is needed and not installed."""
    return next((name for name in ("chromium", "chromedriver") if not shutil.which(name)), None)


class Served:
    """A `rappel serve` in a project of its own, and a connection to it."""

    def __init__(self, rappel, root):
        self.project = root / "project"
        self.project.mkdir()
        (self.project / "rappel.toml").write_text("")
        environment = {**os.environ, "HOME": str(root), "RAPPEL_HOME": str(root / "home")}
        self.child = subprocess.Popen([rappel, "serve", "--port", "0"], cwd=self.project, env=environment, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.child.stdout.readline()
        self.address = re.search(r"127\.0\.0\.1:\d+", line).group()
        self.connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        self.post("/api/sessions", {"session": "agent", "task": "Many small steps"})

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise SystemExit(f"{path}: {text.decode()}")

    def save(self, number):
        """One checkpoint with a change: prompts, their work, and saves by hand."""
        (self.project / f"file{number % 10}.txt").write_text(f"line of checkpoint {number}\n")
        body = {"message": f"checkpoint {number}"}
        if number % 20 == 0:
            body = {"message": f"prompt {number}", "trigger": "prompt", "session": "agent"}
        elif number % 20 < 6:
            body = {"trigger": "code-modified", "session": "agent"}
        self.post("/api/checkpoints", body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()


class Browser:
    """A Chromium without a window."""

    def __init__(self, root):
        self.profile = root / "profile"
        self.profile.mkdir()
        self.child = subprocess.Popen(["chromedriver", "--port=0"], env={**os.environ, "HOME": str(self.profile)}, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        port = None
        while not port:
            line = self.child.stdout.readline()
            if not line:
                raise SystemExit("chromedriver does not start")
            port = re.search(r"on port ([1-9]\d*)", line)
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port.group(1)), timeout=PATIENCE)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--window-size=1440,900", f"--user-data-dir={self.profile}"]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "timeouts": {"script": PATIENCE * 1000}}
        self.session = self.call("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self.chromium("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def call(self, path, body, method="POST"):
        self.connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise SystemExit(f"{path}: {answer['message']}")
        return answer

    def send(self, command, body):
        return self.call(f"/session/{self.session}/{command}", body)

    def chromium(self, command, parameters):
        return self.send("goog/cdp/execute", {"cmd": command, "params": parameters})

    def value(self, expression):
        return self.send("execute/sync", {"script": f"return ({expression});", "args": []})

    def until(self, expression):
        begun = time.monotonic()
        while not (found := self.value(expression)):
            if time.monotonic() - begun > PATIENCE:
                raise SystemExit(f"not so: {expression}")
            time.sleep(0.02)
        return found

    def frames(self):
        return self.send("execute/async", {"script": SCROLL, "args": []})

    def open(self, address):
        self.send("url", {"url": "about:blank"})
        self.chromium("Network.clearBrowserCache", {})
        self.send("url", {"url": address})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call(f"/session/{self.session}", {}, "DELETE")
        finally:
            self.child.terminate()
            self.child.wait()


def p95(frames):
    return quantiles(frames, n=20)[-1]


def measure(rappel, root, checkpoints, runs, say):
    """Rows by name; times in ms."""
    rows = {"checkpoints": checkpoints, "interactive": {"ms": []}, "rows_shown": {"ms": []},
            "frame_p95": {"ms": []}, "frame_p95_loading": {"ms": []}}
    with Served(rappel, root) as served:
        for number in range(checkpoints):
            served.save(number)
            if number % 1000 == 999:
                say(f"page: {number + 1:,} checkpoints")
        with Browser(root) as browser:
            for run in range(runs):
                browser.open(f"http://{served.address}/#/timeline")
                rows["interactive"]["ms"].append(browser.until("bench.interactive"))
                rows["rows_shown"]["ms"].append(browser.value("bench.rows"))
                rows["frame_p95_loading"]["ms"].append(p95(browser.frames()))
                browser.until("!document.querySelector('main .sub').textContent.includes('so far')")
                rows["frame_p95"]["ms"].append(p95(browser.frames()))
                last = {name: row["ms"][-1] for name, row in rows.items() if isinstance(row, dict)}
                say(f"page {run + 1}: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in last.items()))
    return rows
