"""What a long past costs: the same commands in a home with few checkpoints and in one with very many, run by run."""
import os

from process import run

SHORT, LONG = 1_000, 100_000


class Past:
    """A workspace with so many checkpoints, and as many deleted ones."""

    def __init__(self, program, rappel, folder, count):
        folder.mkdir()
        self.rappel = rappel
        self.project = folder / "project"
        self.environment = {**os.environ, "RAPPEL_HOME": str(folder / "home"), "HOME": str(folder)}
        self.first = run([program, folder, str(count)], folder, os.environ)[1].strip()
        self.edits = 0

    def call(self, *words):
        return run([self.rappel, *words], self.project, self.environment)[0]

    def edit(self):
        self.edits += 1
        (self.project / "file0.txt").write_text(f"edit {self.edits}\n")

    def save(self):
        self.edit()
        return self.call("save", "-q")

    def undo(self):
        """Takes a restore back."""
        self.save()
        self.call("restore", self.first, "-y", "-q")
        return self.call("undo", "-q")

    def back(self):
        """Goes back to the last checkpoint that differs from now."""
        self.save()
        self.edit()
        return self.call("undo", "-y", "-q")

    def due(self):
        """The first save after a delete has to find out when gc has something to do."""
        self.save()
        self.call("delete", "latest", "-y", "-q")
        return self.save()

    def name(self):
        """A reference that is no id."""
        return self.call("show", "latest~3", "-q")


ROWS = ("save", "undo", "back", "due", "name")


def measure(program, rappel, root, runs, say):
    """Rows by name, `short_` and `long_` before it: `ms` of each run."""
    pasts = {}
    for name, count in (("short", SHORT), ("long", LONG)):
        say(f"past: {count:,} checkpoints and as many deleted ones")
        pasts[name] = Past(program, rappel, root / name, count)
    rows = {f"{name}_{row}": {"ms": []} for row in ROWS for name in pasts}
    for row in ROWS:
        for number in range(runs + 1):
            for name, past in pasts.items():
                cost = getattr(past, row)()
                # The first one warms up.
                if number:
                    rows[f"{name}_{row}"]["ms"].append(cost.ms)
        say(f"past: {row}")
    return {**rows, "checkpoints": LONG}
