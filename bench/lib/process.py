"""Running one program and saying what it cost."""
import os
import subprocess
import time
from dataclasses import dataclass


@dataclass
class Cost:
    """What one or several programs in a row took."""
    ms: float = 0.0
    cpu_ms: float = 0.0
    peak_kb: int = 0

    def __add__(self, other):
        return Cost(self.ms + other.ms, self.cpu_ms + other.cpu_ms, max(self.peak_kb, other.peak_kb))


class Failed(Exception):
    """A program ended with a code that its caller does not accept."""


def run(command, cwd, env, ok=(0,)):
    """Runs it to its end; gives (cost, stdout). The time holds the start of the process, nothing of what we do after it."""
    # Files in memory, not pipes: nothing to drain while the clock runs, and a detached child cannot hold us up.
    with open(os.memfd_create("stdout"), "w+b") as out, open(os.memfd_create("stderr"), "w+b") as err:
        start = time.perf_counter()
        child = subprocess.Popen([os.fspath(word) for word in command], cwd=cwd, env=env, close_fds=False,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        ms = (time.perf_counter() - start) * 1e3
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
        if child.returncode not in ok:
            err.seek(0)
            last = err.read().decode(errors="replace").strip()[-600:]
            raise Failed(f"{' '.join(map(str, command))}: exit {child.returncode}: {last}")
    return Cost(ms, (used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss), text
