"""The real agents: how each is installed, set up, asked and resumed.

Nothing here knows a script or a check. An agent that lacks something says so in `lacks`, and the
cases that need it are listed as not run.
"""

import json
import os
import subprocess

from dialects import Anthropic


class Claude:
    """Claude Code from npm."""

    name = "claude"
    package = "@anthropic-ai/claude-code"
    version = "2.1.325"
    lacks = frozenset()
    dialect = Anthropic
    #: What the terminal shows when it takes prompts, and what it is told to do.
    ready = "❯"
    quit, compact, clear = "/exit", "/compact", "/clear"

    def __init__(self, install, world, url):
        self.program = install / "node_modules/.bin/claude"
        self.world = world
        self.url = url

    def environment(self):
        return self.world.environment() | {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            # It skips permissions as root only where it is told that it is in a sandbox.
            "IS_SANDBOX": "1",
        }

    def set_up(self):
        """Answers the questions that the agent asks at its first start."""
        answers = {
            "hasCompletedOnboarding": True,
            "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": ["scripted"], "rejected": []},
            "projects": {str(self.world.project): {"hasTrustDialogAccepted": True}},
        }
        (self.world.home / ".claude.json").write_text(json.dumps(answers))

    def command(self, resume=None):
        back = ["--resume", resume] if resume else []
        return [str(self.program), "--dangerously-skip-permissions", *back]

    def start(self, prompt, resume=None):
        """Starts an agent for one prompt; the caller waits for it, or kills it."""
        return subprocess.Popen(
            [*self.command(resume), "-p", prompt, "--output-format", "json"],
            cwd=self.world.project, env=self.environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def ask(self, prompt, resume=None):
        """Runs an agent for one prompt. Returns what it calls its session."""
        return self.end(self.start(prompt, resume))

    def end(self, agent):
        """Waits for an agent that was started. Returns what it calls its session."""
        try:
            out, err = agent.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            agent.kill()
            raise
        if agent.returncode != 0:
            raise RuntimeError(f"the agent failed with {agent.returncode}: {out}\n{err}")
        return json.loads(out)["session_id"]


AGENTS = [Claude]


def install(kind, folder):
    """Installs an agent from npm; raises where that does not work, or gives another version."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{kind.package}@{kind.version}"
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", folder, wanted]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, env=os.environ | {"CI": "1"})
    program = folder / "node_modules/.bin" / kind.name
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    if kind.version not in said.split():
        raise RuntimeError(f"{wanted} was asked for, and {said.strip()!r} is installed")
    return said.strip()
