"""Fifty saves of one workspace at once, against one save and fifty times `rappel show` in the same run."""
import json
import os
import subprocess
import time

from process import run

FILES, SAVES = 8_000, 50


class Workspace:
    def __init__(self, rappel, folder):
        self.rappel = rappel
        self.home = folder / "home"
        self.project = folder / "project"
        self.environment = {**os.environ, "RAPPEL_HOME": str(self.home), "HOME": str(folder)}
        for number in range(FILES):
            path = self.project / f"d{number % 80}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" * (number % 50 + 1))
        # It lies within this repository and is a workspace of its own.
        (self.project / "rappel.toml").write_text("")
        self.edits = 0
        self.call("save", "-q")

    def call(self, *words):
        return run([self.rappel, *words], self.project, self.environment)[0]

    def edit(self):
        self.edits += 1
        for number in range(12):
            (self.project / f"d{number}" / f"f{number}.txt").write_text(f"edit {self.edits}\n")

    def captures(self):
        """How many captures the queue has counted."""
        (queue,) = (self.home / "saving").iterdir()
        return json.loads(queue.read_text().splitlines()[0])["begun"]

    def save(self):
        self.edit()
        return self.call("save", "one", "-q").ms

    def show(self):
        return self.call("show", "latest", "-q").ms

    def at_once(self):
        """Milliseconds until all are acknowledged, and how many captures that took."""
        self.edit()
        before, start = self.captures(), time.monotonic()
        saves = [subprocess.Popen([self.rappel, "save", f"save {number}", "-q"], cwd=self.project, env=self.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for number in range(SAVES)]
        codes = [save.wait() for save in saves]
        took = (time.monotonic() - start) * 1e3
        if any(codes):
            raise SystemExit(f"saves at once failed: {codes}")
        return took, self.captures() - before


def measure(rappel, root, runs, say):
    """Rows by name: `ms` of each run; `captures` is the most that a run took."""
    workspace = Workspace(rappel, root)
    rows = {name: {"ms": []} for name in ("save", "fifty_shows", "at_once")}
    captures = []
    for number in range(runs + 1):
        save, show = workspace.save(), workspace.show()
        took, made = workspace.at_once()
        # The first one warms up.
        if number:
            rows["save"]["ms"].append(save)
            rows["fifty_shows"]["ms"].append(SAVES * show)
            rows["at_once"]["ms"].append(took)
            captures.append(made)
    say(f"at once: {SAVES} saves, {captures} captures")
    return {**rows, "captures": [max(captures)]}
