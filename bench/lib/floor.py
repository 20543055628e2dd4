"""What the machine itself needs, from the small program in bench/floor."""
import json
import os

from process import Cost, run


def measure(program, tree, scratch, plan):
    """Rows of the floor, named like those of the tools. Each holds a process start and the bare work, timed inside."""
    made = []

    def probe(kind, warm):
        """The last of several runs in one process: its first pays for threads and memory that are not the floor."""
        folder = scratch / f"{kind}.{len(made)}"
        folder.mkdir()
        start = run([program, "start"], scratch, os.environ)[0].ms
        made.append(json.loads(run([program, kind, tree, folder, str(1 + warm)], scratch, os.environ)[1]))
        return Cost(start + made[-1]["ms"][-1])

    rows = {"first": times((yield from plan.repeat("first", lambda _: probe("pack", warm=1))))}
    rows["size_first"] = [made[-1]["packed"], made[-1]["packed"]]
    rows["noop"] = times((yield from plan.repeat("noop", lambda _: probe("stat", warm=2))))
    rows["full"] = times((yield from plan.repeat("full", lambda _: probe("write", warm=0))))
    return rows


def times(costs):
    return {"ms": [round(cost.ms, 3) for cost in costs]}
