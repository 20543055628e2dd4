"""What agents' hooks cost: whole processes that are told one event, each beside a run of git's status in the same state of
the same tree. The tree has 8,000 files. It is measured alone, with a database of 200 MB configured, and with a transcript of
200 MB that grows between two events beside 2,000 old ones; with each agent.
"""
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import disk
import limits
import vendors
from measure import place, series
from process import Failed, run

FILES = 8_000
CHANGED = 12
OLD = 2_000                 # transcripts of earlier sessions
TRANSCRIPT = 200_000_000    # bytes
OUTPUT = 40_000             # characters that a call gave
GREW = 5                    # calls between two events
AGENTS = tuple(vendors.ALL)
SURROUNDINGS = ("files", "postgres", "transcripts")
STATUS = ["git", "--no-optional-locks", "status", "--porcelain"]
# What a user of an agent has set is none of ours.
FOREIGN = ("XDG_", "GIT_", "RAPPEL_", "CLAUDE", "CODEX", "GEMINI", "OPENCODE")


class Agent:
    """A project under an agent's hooks. The agent's process is this one."""

    def __init__(self, vendor, rappel, root, source, repository):
        self.rappel, self.number = rappel, itertools.count()
        self.tree = place(source, repository, root, True)
        self.fill()
        home, self.store = root / "home", root / "store"
        home.mkdir()
        self.vendor = vendors.ALL[vendor](self.tree, home)
        keep = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        self.env = {**keep, "HOME": str(home), "RAPPEL_HOME": str(self.store), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
                    **self.vendor.env()}
        self.files = sorted(path for path in self.tree.glob("more/*.txt"))[:CHANGED]

    def fill(self):
        """Up to the number of files; what is new is committed."""
        there = sum(len(files) for folder, _, files in os.walk(self.tree) if ".git" not in Path(folder).parts)
        more = self.tree / "more"
        more.mkdir()
        for number in range(FILES - there):
            (more / f"{number}.txt").write_text(f"file {number}\n" * 30)
        for words in (["add", "-A"], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "more"]):
            subprocess.run(["git", *words], cwd=self.tree, check=True, capture_output=True)

    def call(self, *words):
        return run([self.rappel, *words], self.tree, self.env)

    def checkpoints(self):
        return json.loads(self.call("status", "--json")[1])["checkpoints"]

    def tell(self, payload):
        """Tells one event; the time is that of the hook's process, which ends when the event is durable."""
        file = self.tree.parent / "payload.json"
        file.write_text(json.dumps(payload))
        command = ["sh", "-c", 'exec "$0" hook "$2" < "$1"', self.rappel, file, self.vendor.name]
        cost, said = run(command, self.tree, self.env)
        # One that did not wait for its worker missed its limit anyway; the next one must not meet that worker.
        working = self.store / "hooks" / "working"
        while working.exists() and any(working.iterdir()):
            time.sleep(0.01)
        if "systemMessage" in said or '"warning"' in said:
            raise Failed(f"{payload}: {said}")
        return cost

    def start(self):
        return self.tell(self.vendor.start())

    def post(self):
        return self.tell(self.vendor.after(next(self.number)))

    def pre(self):
        return self.tell(self.vendor.before(next(self.number)))

    def prompt(self):
        return self.tell(self.vendor.prompt(next(self.number)))

    def git(self):
        return run(STATUS, self.tree, self.env)[0]

    def change(self):
        number = next(self.number)
        for path in self.files:
            with open(path, "a") as file:
                file.write(f"changed {number}\n")

    def write_transcripts(self):
        for number in range(OLD):
            self.vendor.old(number)
        size, number = 0, 0
        while size < TRANSCRIPT:
            size = self.vendor.calls((f"w{number + more}", os.urandom(OUTPUT // 2).hex()) for more in range(100))
            number += 100

    def grow(self):
        self.vendor.calls((f"g{next(self.number)}", "what a call gave\n" * 20) for _ in range(GREW))


def settle(agent):
    """First events, and a wait for what the clock of the file system needs to be believed."""
    agent.call("save", "-q", "first")
    agent.start()
    for _ in range(2):
        agent.prompt()
        agent.post()
    said = json.loads(agent.call("show", "latest", "--json")[1])
    if said["partial"]:
        raise Failed(f"the checkpoint is partial: {said['partial_reasons']}")
    disk.sync()


def measure(agent, runs, grow=lambda: None):
    """Rows by name. Git and the hook take turns; each finds the state that the other found."""
    rows = {name: [] for name in ("git", "post", "pre", "prompt", "git_changed", "post_changed", "pre_changed", "status_short")}

    def turn(name, git, hook, before, makes):
        before()
        rows[git].append(agent.git())
        made = agent.checkpoints()
        rows[name].append(hook())
        made = agent.checkpoints() - made
        if made != makes:
            raise Failed(f"{name} made {made} checkpoints")

    for number in range(runs + 1):
        if number == 1:
            # The first round warms up.
            rows = {name: [] for name in rows}
        turn("post", "git", agent.post, grow, 0)
        turn("pre", "git", agent.pre, grow, 0)
        turn("prompt", "git", agent.prompt, grow, 1)
        turn("post_changed", "git_changed", agent.post, lambda: (agent.change(), grow()), 1)
        turn("pre_changed", "git_changed", agent.pre, lambda: (agent.change(), grow()), 1)
        rows["status_short"].append(agent.call("status", "--short")[0])
    return {name: series(costs) for name, costs in rows.items()}


def all(agents, rappel, root, source, repository, postgres, runs, say):
    """What was measured with each agent, in each of the three surroundings."""
    found = {}
    postgres.pgbench("hooks", 13)
    for vendor in agents:
        found[vendor] = {}
        for name in SURROUNDINGS:
            folder = root / name
            folder.mkdir()
            agent = Agent(vendor, rappel, folder, source, repository)
            grow = lambda: None
            if name == "postgres":
                (agent.tree / "rappel.toml").write_text(f'[[database]]\nname = "db"\nurl = "{postgres.url("hooks")}"\n')
            if name == "transcripts":
                agent.write_transcripts()
                grow = agent.grow
            settle(agent)
            rows = found[vendor][name] = measure(agent, runs, grow)
            times = {row: limits.value(costs) for row, costs in rows.items()}
            say(f"hooks of {vendor}, {name}: " + ", ".join(f"{row} {ms:.1f}" for row, ms in times.items()))
            agent.vendor.close()
            shutil.rmtree(folder)
    return found
