"""What agents' sessions cost: through the library (bench/session), and on the command line with 100,000 events."""
import json
import os
import subprocess
from pathlib import Path

from process import run

EVENTS = 100_000
PROMPTS = 500
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
    rows |= night(rappel, root, runs)
    say(f"report: {PROMPTS} prompts")
    if langgraph:
        folder = root / "langgraph"
        folder.mkdir()
        saver = Path(__file__).with_name("langgraph_saver.py")
        rows["langgraph"] = json.loads(run([langgraph, saver, folder, "1000"], root, os.environ)[1])
        say(f"LangGraph: {rows['langgraph']['saves_per_s']:.0f} saves a second")
    return rows


def night(rappel, root, runs):
    """`report` of a session with `PROMPTS` prompts, each with calls, a failure, tokens, three edits and a checkpoint."""
    project = root / "night"
    for number in range(200):
        path = project / f"src/{number // 20}/{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {line} of {number}\n" for line in range(200)))
    (project / "rappel.toml").write_text("")  # so that it is a project of its own
    environment = {**os.environ, "RAPPEL_HOME": str(root / "night-home"), "HOME": str(root)}
    environment.pop("RAPPEL_SESSION", None)

    def call(*words, told=None):
        subprocess.run([rappel, *words], cwd=project, env=environment, input=told, stdout=subprocess.DEVNULL, check=True)

    call("session", "start", "--session", "night")
    for prompt in range(PROMPTS):
        events = [{"kind": "prompt", "text": f"Do the thing number {prompt}"}]
        for tool in range(20):
            events.append({"kind": "tool", "tool": "Bash", "input": {"command": f"make {tool}"}, "output": "x" * 500})
        events += [{"kind": "command", "command": "make test", "exit_code": 2},
                   {"kind": "verification", "text": "the tests", "passed": prompt % 3 == 0},
                   {"kind": "tokens", "message": f"m{prompt}", "input": 1000, "output": 100}]
        call("record", "--stdin", "--session", "night", told="".join(json.dumps(event) + "\n" for event in events).encode())
        for edit in range(3):
            number = (prompt * 3 + edit) % 200
            path = project / f"src/{number // 20}/{number}.py"
            path.write_text(path.read_text().replace(f"line {edit} ", f"line {edit} again "))
        call("save", f"after {prompt}")
    costs = [run([rappel, "report", "night", "--json"], project, environment)[0] for _ in range(max(3, runs))]
    return {"report": {"ms": [cost.ms for cost in costs]}, "report_prompts": PROMPTS}
