"""What the machine itself needs, from the small program in bench/floor."""
import json
import os

import disk
from process import run


def measure(program, tree, scratch, runs):
    """Rows of the floor, named like those of the tools. Times are inside the process but for `start`."""
    def probe(kind):
        folder = scratch / kind
        folder.mkdir()
        disk.sync()
        return json.loads(run([program, kind, tree, folder, str(runs)], scratch, os.environ)[1])

    starts = [run([program, "start"], scratch, os.environ)[0].ms for _ in range(max(runs, 20))]
    start = sorted(starts)[len(starts) // 2]
    stat, pack, write = probe("stat"), probe("pack"), probe("write")

    def whole(times):
        return {"ms": [round(ms + start, 3) for ms in times]}

    return {
        "start": {"ms": [round(ms, 3) for ms in starts]},
        "first": whole(pack["ms"]),
        "noop": whole(stat["ms"]),
        "full": whole(write["ms"]),
        "size_first": [pack["packed"], pack["packed"]],
    }
