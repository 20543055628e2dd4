"""An agent in a terminal of its own: tmux, because agents draw with every feature of a terminal."""

import os
import shlex
import subprocess
import time
import uuid

PATIENCE = 300


class Terminal:
    """A tmux server with one window. Use it as a context: it is gone afterwards."""

    def __init__(self, agent, resume=None):
        self.agent = agent
        self.socket = f"rappel-suite-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        variables = [f"{name}={value}" for name, value in agent.environment().items()]
        line = shlex.join(["env", "-i", *variables, *agent.command(resume)])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "agent", "-x", "160", "-y", "50",
                  "-c", str(agent.world.project), line)
        self.tmux("set", "-g", "remain-on-exit", "on")

    def __enter__(self):
        try:
            self.wait(lambda: self.agent.ready in self.screen(), "the agent takes prompts")
        except AssertionError:
            self.__exit__()
            raise
        self.settle()
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def tmux(self, *arguments):
        command = ["tmux", "-L", self.socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-S", "-200", "-t", "agent")

    def process(self):
        """The agent's process."""
        return int(self.tmux("list-panes", "-t", "agent", "-F", "#{pane_pid}"))

    def is_gone(self):
        return self.tmux("list-panes", "-t", "agent", "-F", "#{pane_dead}").strip() != "0"

    def type(self, text):
        """Types a line. The input line is redrawn with every key, so Enter waits for that."""
        self.tmux("send-keys", "-t", "agent", "-l", text)
        self.wait(lambda: text[-20:] in self.screen(), f"{text!r} stands in the input line")
        self.settle(0.6)
        self.tmux("send-keys", "-t", "agent", "Enter")

    def key(self, name):
        self.tmux("send-keys", "-t", "agent", name)

    def clear(self):
        """Empties the input line: agents put a prompt back that was not sent to the model."""
        for key in ("C-e", "C-u"):
            self.key(key)
        self.settle(0.6)

    def shows(self, text):
        self.wait(lambda: text in self.screen(), f"the terminal shows {text!r}")

    def wait(self, holds, what):
        until = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise AssertionError(f"waited in vain until {what}:\n{self.screen()}")
            time.sleep(0.1)

    def settle(self, quiet=1.5):
        """Waits until the screen has not changed for a while."""
        until, last, since = time.monotonic() + PATIENCE, self.screen(), time.monotonic()
        while time.monotonic() - since < quiet and time.monotonic() < until:
            time.sleep(0.1)
            now = self.screen()
            if now != last:
                last, since = now, time.monotonic()

    def leave(self):
        self.type(self.agent.quit)
        self.wait(self.is_gone, "the agent has ended")
