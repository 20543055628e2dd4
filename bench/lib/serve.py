"""What a process that lives costs: through one handle of the library, and over HTTP (bench/serve)."""
import json
import os

from process import run

CHECKPOINTS, REQUESTS = 10_000, 200_000


def measure(program, rappel, root, checkpoints, requests, say):
    """Rows by name. Rates are kept as ms a request, so that less is better in every row."""
    environment = {**os.environ, "HOME": str(root)}
    found = json.loads(run([program, root, rappel, str(checkpoints), str(requests)], root, environment)[1])
    load, paced, mixed = found["load"], found["paced"], found["mixed"]
    say(f"serve: {load['per_s']:.0f} requests a second, p99 {paced['p99_ms']:.1f} ms at 500 a second")
    first, last = load["memory"][0], load["memory"][-1]
    return {
        "checkpoints": found["checkpoints"], "requests": load["requests"], "seconds": load["seconds"],
        "list_in_process": found["list"]["ms"], "list_with_open": found["list"]["with_open_ms"],
        "mixed_read": 1000 / mixed["reads_per_s"], "mixed_saves_per_s": mixed["saves_per_s"],
        "request": 1000 / load["per_s"], "paced_p50": paced["p50_ms"], "paced_p99": paced["p99_ms"],
        "paced_per_s": paced["per_s"], "load_p99": load["p99_ms"],
        "memory": last, "memory_first": first, "memory_growth": max(0.0, last / first - 1),
    }
