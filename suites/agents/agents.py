"""The real agents: how each is installed, set up, asked and resumed.

Nothing here knows a script or a check. An agent that lacks something says so in `lacks`, and the
cases that need it are listed as not run.
"""

import hashlib
import json
import os
import re
import signal
import subprocess

from dialects.anthropic import Anthropic
from dialects.chat import Chat
from dialects.gemini import Gemini as GeminiApi
from dialects.responses import Responses

#: So many seconds an agent may take for a prompt, on a machine with much else to do.
PATIENCE = 400
STARTED = []
#: What follows in Codex's settings was trusted by the suite.
TRUSTED = "# Hooks that are trusted"


class Agent:
    """What all agents have in common: one process for one prompt, or a terminal for many."""

    #: What the agent does not have, of the names in `needs` of cases.
    lacks = frozenset({"a review of hooks"})
    #: What is typed into its terminal to end it, to compact its context and to undo a prompt.
    quit, compact, undo = "/quit", "/compact", "rappel undo --prompt"
    #: Whether commands of its own always reach the model, which then repeats Rappel's answer.
    repeats = False

    def __init__(self, install, world, url):
        self.install = install
        self.program = str(install / "node_modules/.bin" / self.name)
        self.world = world
        self.url = url

    def environment(self):
        return self.world.environment() | self.variables()

    def write(self, path, value):
        """Writes a file below the user's home."""
        file = self.world.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value))

    def trust_hooks(self):
        """Does what a user has to do before hooks run."""

    def start(self, prompt, resume=None):
        """Starts an agent for one prompt; the caller waits for it, or kills it."""
        agent = subprocess.Popen(
            self.once(prompt, resume), cwd=self.world.project, env=self.environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )
        STARTED.append(agent)
        return agent

    def ask(self, prompt, resume=None):
        """Runs an agent for one prompt. Returns what it calls its session."""
        return self.end(self.start(prompt, resume))

    def end(self, agent):
        """Waits for an agent that was started. Returns what it calls its session."""
        try:
            out, err = agent.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            kill(agent)
            raise
        if agent.returncode != 0:
            raise RuntimeError(f"the agent failed with {agent.returncode}: {out}\n{err}")
        return self.session(out)

    def session(self, out):
        """What the agent calls its session, from what it printed: JSON, or a line of it for each
        event."""
        for line in out.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and self.session_key in value:
                return value[self.session_key]
        raise RuntimeError(f"the agent does not name its session: {out}")


class Claude(Agent):
    """Claude Code."""

    name = "claude"
    #: The file that names the MCP server, from the folder of the world.
    registered = "home/.claude.json"
    package = "@anthropic-ai/claude-code"
    version = "2.1.325"
    dialect = Anthropic
    session_key = "session_id"
    #: What the terminal shows when it takes prompts.
    ready = "❯"
    quit, undo = "/exit", "/rappel:undo --prompt"

    def variables(self):
        return {
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
        self.write(".claude.json", {
            "hasCompletedOnboarding": True,
            "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": ["scripted"], "rejected": []},
            "projects": {str(self.world.project): {"hasTrustDialogAccepted": True}},
        })

    def command(self, resume=None):
        back = ["--resume", resume] if resume else []
        return [self.program, "--dangerously-skip-permissions", *back]

    def once(self, prompt, resume=None):
        return [*self.command(resume), "-p", prompt, "--output-format", "json"]


class Codex(Agent):
    """Codex."""

    name = "codex"
    registered = "project/.codex/config.toml"
    package = "@openai/codex"
    version = "0.166.0"
    lacks = frozenset({"background", "worktrees"})
    dialect = Responses
    session_key = "thread_id"
    ready = "›"
    #: The question of its terminal about new hooks, and the keys that trust them.
    review, trust = "Hooks need review", ("Down", "Enter")

    def variables(self):
        return {"SCRIPTED_KEY": "scripted"}

    def set_up(self):
        project = json.dumps(str(self.world.project))
        self.write(".codex/config.toml", f"""\
model = "gpt-5.5-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{self.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[projects.{project}]
trust_level = "trusted"
""")
        # It refuses `rm -rf` where nobody is asked, unless a rule of the user's allows it.
        rule = 'prefix_rule(pattern = ["rm"], decision = "allow")\n'
        self.write(".codex/rules/default.rules", rule)

    def trust_hooks(self):
        """Trusts all hooks, as a person does in the terminal: by a hash of each."""
        lines = []
        for folder in (self.world.home, self.world.project):
            file = folder / ".codex/hooks.json"
            hooks = json.loads(file.read_text())["hooks"] if file.exists() else {}
            for event, groups in hooks.items():
                name = re.sub("(?<!^)(?=[A-Z])", "_", event).lower()
                for place, group in enumerate(groups):
                    ((number, hook),) = enumerate(group["hooks"])
                    key = json.dumps(f"{file}:{name}:{place}:{number}")
                    known = {"event_name": name, "hooks": [{"async": False} | hook]}
                    known |= {"matcher": group["matcher"]} if "matcher" in group else {}
                    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                    seen = hashlib.sha256(text.encode()).hexdigest()
                    lines += [f"[hooks.state.{key}]", f'trusted_hash = "sha256:{seen}"']
        self.forget_trust()
        with open(self.world.home / ".codex/config.toml", "a") as config:
            config.write("\n".join([TRUSTED, *lines, ""]))

    def forget_trust(self):
        config = self.world.home / ".codex/config.toml"
        config.write_text(config.read_text().split(TRUSTED)[0])

    def command(self, resume=None):
        back = ["resume", resume] if resume else []
        # Its terminal would leave a server running.
        return [self.program, *back, "--dangerously-bypass-approvals-and-sandbox", "--no-daemon"]

    def once(self, prompt, resume=None):
        back = ["resume", resume] if resume else []
        free = "--dangerously-bypass-approvals-and-sandbox"
        return [self.program, "exec", "--json", free, *back, prompt]


class Gemini(Agent):
    """Gemini CLI."""

    name = "gemini"
    registered = "project/.gemini/settings.json"
    package = "@google/gemini-cli"
    version = "0.61.0"
    lacks = Agent.lacks | {
        "background", "compaction in a turn", "MCP calls that name their session",
        "sessions of subagents", "worktrees",
    }
    dialect = GeminiApi
    session_key = "session_id"
    ready = "Type your message"
    compact, undo = "/compress", "/rappel:undo --prompt"
    repeats = True

    def variables(self):
        return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": self.url}

    def set_up(self):
        self.write(".gemini/settings.json", {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
        })
        self.write(".gemini/trustedFolders.json", {str(self.world.project): "TRUST_FOLDER"})

    def command(self, resume=None):
        back = ["--resume", resume] if resume else []
        return [self.program, "--yolo", "--model", "gemini-2.5-pro", *back]

    def once(self, prompt, resume=None):
        # In this form the first line names the session, also where the agent is killed later.
        return [*self.command(resume), "--output-format", "stream-json", "--prompt", prompt]


class Opencode(Agent):
    """opencode."""

    name = "opencode"
    registered = "project/.opencode/opencode.json"
    package = "opencode-ai"
    version = "1.18.33"
    lacks = Agent.lacks | {
        "background", "conversations that go back", "MCP calls that name their session",
        "worktrees",
    }
    dialect = Chat
    session_key = "sessionID"
    ready = "Ask anything"
    quit, undo = "/exit", "/rappel/undo --prompt"

    def variables(self):
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
            # Beside a plugin, it installs a package of its own.
            "npm_config_cache": str(self.install / "npm-cache"),
        }

    def set_up(self):
        model = {"name": "scripted", "limit": {"context": 200_000, "output": 8_000}}
        self.write(".config/opencode/opencode.json", {
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "autoupdate": False,
            "permission": "allow",
            "provider": {"scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{self.url}/v1", "apiKey": "scripted"},
                "models": {"scripted": model | {"tool_call": True}},
            }},
        })

    def command(self, resume=None):
        back = ["--session", resume] if resume else []
        return [self.program, *back]

    def once(self, prompt, resume=None):
        # It puts quotes around an argument with spaces, and then they are part of the prompt.
        back = ["--session", resume] if resume else []
        return [self.program, "run", "--format", "json", *back, *prompt.split()]


def kill(agent):
    """Ends an agent without a word: the program that npm installs, and what it started."""
    os.killpg(agent.pid, signal.SIGKILL)
    agent.communicate()


def kill_all():
    """Ends the agents that a case started and did not wait for."""
    while STARTED:
        agent = STARTED.pop()
        if agent.poll() is None:
            kill(agent)


AGENTS = [Claude, Codex, Gemini, Opencode]


def install(kind, folder):
    """Installs an agent from npm, unless it is there. Raises where another version comes."""
    said = version_of(kind, folder)
    if kind.version not in said.split():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{kind.package}@{kind.version}"
        quiet = ["--no-audit", "--no-fund", "--silent"]
        command = ["npm", "install", *quiet, "--prefix", folder, wanted]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, env=os.environ | {"CI": "1"})
        said = version_of(kind, folder)
        if kind.version not in said.split():
            raise RuntimeError(f"{wanted} was asked for, and {said!r} is installed")
    return said


def version_of(kind, folder):
    """What an installed agent says of its version; nothing where it is not installed."""
    program = folder / "node_modules/.bin" / kind.name
    if not program.exists():
        return ""
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return said.stdout.strip()
