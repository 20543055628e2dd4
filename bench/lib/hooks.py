"""What an agent's hooks cost: whole processes that are told one event, each beside a run of git's status in the same state of
the same tree. The tree has 8,000 files. It is measured alone, with a database of 200 MB configured, and with a transcript of
200 MB that grows between two events beside 2,000 old ones.
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
from measure import place, series
from process import Failed, run

FILES = 8_000
CHANGED = 12
OLD = 2_000                 # transcripts of earlier sessions
OLD_LINES = 5
OLD_DAYS = 30
TRANSCRIPT = 200_000_000    # bytes
OUTPUT = 40_000             # characters that a call gave
GREW = 5                    # calls between two events
SESSION = "00000000-0000-4000-8000-0000000000b1"
STATUS = ["git", "--no-optional-locks", "status", "--porcelain"]


class Agent:
    """A project under an agent's hooks. The agent's process is this one."""

    def __init__(self, rappel, root, source, repository):
        self.rappel, self.number = rappel, itertools.count()
        self.tree = place(source, repository, root, True)
        self.fill()
        home, self.store = root / "home", root / "store"
        home.mkdir()
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GIT_", "RAPPEL_", "CLAUDE"))}
        self.env = {**keep, "HOME": str(home), "RAPPEL_HOME": str(self.store), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
                    "CLAUDE_PROJECT_DIR": str(self.tree), "CLAUDE_PID": str(os.getpid())}
        name = "".join(c if c.isalnum() else "-" for c in str(self.tree.resolve()))
        self.transcripts = home / ".claude" / "projects" / name
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

    def tell(self, event, **more):
        """Tells one event; the time is that of the hook's process, which ends when the event is durable."""
        payload = {"hook_event_name": event, "session_id": SESSION, "cwd": str(self.tree), **more}
        file = self.tree.parent / "payload.json"
        file.write_text(json.dumps(payload))
        command = ["sh", "-c", 'exec "$0" hook claude < "$1"', self.rappel, file]
        cost, said = run(command, self.tree, self.env)
        # One that did not wait for its worker missed its limit anyway; the next one must not meet that worker.
        working = self.store / "hooks" / "working"
        while working.exists() and any(working.iterdir()):
            time.sleep(0.01)
        if "systemMessage" in said:
            raise Failed(f"{event}: {said}")
        return cost

    def bash(self):
        return {"tool_name": "Bash", "tool_use_id": f"call{next(self.number)}", "tool_input": {"command": "true"}}

    def post(self):
        return self.tell("PostToolUse", **self.bash(), tool_response={"stdout": "done", "stderr": ""})

    def pre(self):
        return self.tell("PreToolUse", **self.bash())

    def prompt(self):
        number = next(self.number)
        return self.tell("UserPromptSubmit", prompt=f"do it {number}", prompt_id=f"prompt{number}")

    def git(self):
        return run(STATUS, self.tree, self.env)[0]

    def change(self):
        number = next(self.number)
        for path in self.files:
            with open(path, "a") as file:
                file.write(f"changed {number}\n")

    def line(self, kind, number, content, at=None):
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
        return json.dumps({"type": kind, "sessionId": SESSION, "uuid": f"u{number}", "cwd": str(self.tree), "timestamp": at,
                           "message": {"role": kind, "content": content}}) + "\n"

    def lines(self, number, output):
        """A call and what it gave."""
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"make {number}"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output}
        return self.line("assistant", f"a{number}", [use]) + self.line("user", f"b{number}", [result])

    def write_transcripts(self):
        self.transcripts.mkdir(parents=True)
        for number in range(OLD):
            name = f"00000000-0000-4000-8000-{number:012x}"
            then = time.time() - OLD_DAYS * 86_400
            lines = [self.line("user", f"{number}-{at}", f"an old prompt, {at} of {number}", then) for at in range(OLD_LINES)]
            (self.transcripts / f"{name}.jsonl").write_text("".join(lines).replace(SESSION, name))
        with open(self.transcripts / f"{SESSION}.jsonl", "w") as file:
            for number in itertools.count():
                file.write(self.lines(f"w{number}", os.urandom(OUTPUT // 2).hex()))
                if number % 100 == 0 and file.tell() > TRANSCRIPT:
                    break

    def grow(self):
        with open(self.transcripts / f"{SESSION}.jsonl", "a") as file:
            for _ in range(GREW):
                file.write(self.lines(f"g{next(self.number)}", "what a call gave\n" * 20))


def settle(agent):
    """First events, and a wait for what the clock of the file system needs to be believed."""
    agent.call("save", "-q", "first")
    agent.tell("SessionStart", source="startup")
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


def all(rappel, root, source, repository, postgres, runs, say):
    """What was measured in each of the three surroundings."""
    found = {}
    for name in ("files", "postgres", "transcripts"):
        folder = root / name
        folder.mkdir()
        agent = Agent(rappel, folder, source, repository)
        grow = lambda: None
        if name == "postgres":
            postgres.pgbench("hooks", 13)
            (agent.tree / "rappel.toml").write_text(f'[[database]]\nname = "db"\nurl = "{postgres.url("hooks")}"\n')
        if name == "transcripts":
            agent.write_transcripts()
            grow = agent.grow
        settle(agent)
        found[name] = measure(agent, runs, grow)
        times = {row: limits.value(costs) for row, costs in found[name].items()}
        say(f"hooks, {name}: " + ", ".join(f"{row} {ms:.1f}" for row, ms in times.items()))
        shutil.rmtree(folder)
    return found
