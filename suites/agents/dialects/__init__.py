"""How agents talk to their models: one class for each protocol, in a module of its own.

A dialect translates the neutral actions of scripts into the tools of its agent:

    ("write", PATH, TEXT)         ("edit", PATH, OLD, NEW)      ("read", PATH)
    ("shell", COMMAND)            ("failing", COMMAND): a command that fails
    ("background", COMMAND)       ("subagent", PROMPT)          ("await-subagent", ID)
    ("find-mcp-tools", NAME…)     ("mcp", NAME, INPUT)
    ("find-worktree-tools",)      ("enter-worktree", NAME)      ("leave-worktree",)

An agent that has no need of an action names it in `needless`: the script goes on without it.

Another agent is another dialect here and another class in `agents.py`; scripts and checks stay.
"""

import json
import uuid

# An agent refuses a call id that it has seen before, and a resumed session has seen some.
RUN = uuid.uuid4().hex[:6]


class Dialect:
    """What the protocols have in common."""

    #: Words of the request for a summary, in the last text of the user.
    summary_request = ""
    needless = frozenset()

    def __init__(self, project):
        self.project = project

    def absolute(self, path):
        return str(self.project / path)

    def asks_for_summary(self, body):
        return any(self.summary_request in text for text in list(self.user_texts(body))[-1:])

    def is_loop(self, body):
        """Whether the agent's loop asks, and not one of its helpers (for a title, say)."""
        return bool(body.get("tools"))

    def streams(self, path, body):
        return bool(body.get("stream"))

    def call_id(self, name):
        return f"call_{RUN}_{name}".replace("-", "_")

    def tool(self, action, *arguments):
        raise ValueError(f"no such action: {action}")


def event(value, kind=None):
    """A server-sent event."""
    name = f"event: {kind}\n" if kind else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()
