"""What agents' sessions cost: through the library (bench/session), and on the command line with 100,000 events."""
import json
import os
from pathlib import Path

from process import run

EVENTS = 100_000
COMMANDS = {
    "at": ["at", "now"],
    "recall": ["recall"],
    "find_text": ["find", "--text", "nothing says this"],
    "find_tool": ["find", "--tool", "Bash"],
}


def measure(program, rappel, langgraph, root, runs, say):
    """Rows by name: `ms` of each run, or one number. `langgraph` is a Python that has it, or `None`."""
    found = []
    for number in range(max(1, runs // 3)):
        folder = root / f"session.{number}"
        folder.mkdir()
        # The many events are the same every time: once is enough.
        events = EVENTS if number == 0 else 10
        found.append(json.loads(run([program, folder, "1000", str(events)], root, os.environ)[1]))
        say(f"session: {found[-1]['grow']['saves_per_s']:.0f} saves a second")
    grown = [one["grow"] for one in found]
    many = found[0]["many"]

    def times(name):
        return {"ms": [one[name] for one in grown]}

    rows = {
        "save": {"ms": [1000 / one["saves_per_s"] for one in grown]},
        "append": times("floor_ms"), "latest": times("latest_ms"), "earlier": times("earlier_ms"),
        "line": {"ms": [one["lines_ms"] for one in found]}, "line_dense": {"ms": [one["dense_lines_ms"] for one in found]},
        "growth": max(one["growth"] for one in grown), "size": max(one["bytes"] for one in grown),
        "memory_recording": many["peak_mb"] * 2**20, "events_per_s": many["events_per_s"], "events": found[0]["events"],
        "events_size": many["bytes"],
    }
    environment = {**os.environ, "RAPPEL_HOME": many["home"], "HOME": str(root)}
    peaks = []
    for name, words in COMMANDS.items():
        costs = [run([rappel, *words], Path(many["project"]), environment)[0] for _ in range(max(3, runs))]
        rows[name] = {"ms": [cost.ms for cost in costs]}
        peaks += [cost.peak_kb for cost in costs]
    rows["memory"] = max(peaks) * 1024
    if langgraph:
        folder = root / "langgraph"
        folder.mkdir()
        saver = Path(__file__).with_name("langgraph_saver.py")
        rows["langgraph"] = json.loads(run([langgraph, saver, folder, "1000"], root, os.environ)[1])
        say(f"LangGraph: {rows['langgraph']['saves_per_s']:.0f} saves a second")
    return rows
