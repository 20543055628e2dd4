"""A project, a user's home and an installed Rappel: what a case plays in."""

import hashlib
import json
import os
import subprocess
import time

FILES = {
    "README.md": "# A project\n",
    "src/main.py": "print('hello')\n",
    "src/words.py": "WORDS = ['one', 'two']\n",
    "docs/notes.txt": "first\nsecond\n",
}
#: Where agents keep their settings in a project.
SETTINGS = (".agents", ".claude", ".codex", ".gemini", ".opencode")


class World:
    def __init__(self, folder, rappel):
        self.home, self.project = folder / "home", folder / "project"
        self.program = rappel
        self.home.mkdir(parents=True)
        for path, text in FILES.items():
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            (self.project / path).write_text(text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message=base")

    def environment(self):
        """The whole environment of everything that runs here."""
        passed = {name: os.environ[name] for name in ("LANG", "USER") if name in os.environ}
        return passed | {
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TERM": "xterm-256color",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "suite", "GIT_AUTHOR_EMAIL": "suite@localhost",
            "GIT_COMMITTER_NAME": "suite", "GIT_COMMITTER_EMAIL": "suite@localhost",
        }

    def run(self, *command, more={}, check=True):
        done = subprocess.run(
            command, cwd=self.project, env=self.environment() | more, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} exits {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def git(self, *arguments):
        return self.run("git", *arguments).stdout

    def rappel(self, *arguments, **how):
        return self.run(str(self.program), *arguments, **how)

    def json(self, *arguments):
        return json.loads(self.rappel(*arguments, "--json").stdout)

    def integrations(self):
        """The states of the integrations by their agents. `status` exits 1 where one is not well."""
        said = self.rappel("status", "--json", check=False).stdout
        return {one["agent"]: one["state"] for one in json.loads(said)["integrations"]}

    def read(self, path):
        return (self.project / path).read_text()

    def tree(self):
        """Every file of the project with a hash of its bytes, and where git stands."""
        found = {}
        for path in sorted(self.project.rglob("*")):
            relative = path.relative_to(self.project)
            if path.is_file() and relative.parts[0] not in (".git", *SETTINGS):
                found[str(relative)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found, self.git("rev-parse", "HEAD")

    def mentions(self, word):
        """The settings of agents in the project that mention a word."""
        files = [path for folder in SETTINGS for path in (self.project / folder).rglob("*")]
        return [path for path in files if path.is_file() and word.encode() in path.read_bytes()]

    def rest(self):
        """Waits until no worker of a hook is at work."""
        working = self.home / ".local/share/rappel/hooks/working"
        until = time.monotonic() + 60
        while working.is_dir() and any(working.iterdir()):
            assert time.monotonic() < until, "a worker does not end"
            time.sleep(0.02)

    def checkpoints(self, trigger=None):
        """All checkpoints, oldest first."""
        self.rest()
        found = self.json("list", "1000", "--all")["checkpoints"][::-1]
        return [one for one in found if trigger in (None, one["trigger"])]

    def holds(self, checkpoint, path):
        """What a checkpoint holds at a path; nothing if it holds nothing."""
        done = self.rappel("cat", f"{checkpoint['id']}:{path}", check=False)
        return done.stdout if done.returncode == 0 else None

    def all_sessions(self):
        """All sessions, oldest first."""
        self.rest()
        found = self.json("session", "list")["sessions"]
        return sorted(found, key=lambda one: one["started_at"])

    def sessions(self, name):
        """The runs of what the agent calls one session, oldest first, with their states."""
        ours = [one for one in self.all_sessions() if one["assistant_session_id"] == name]
        return [one | {"state": self.state(one["id"])} for one in ours]

    def state(self, session):
        """What the journal of a session comes to."""
        return self.json("at", "now", "--session", session)["state"]
