"""A scripted model on localhost: it plays a script instead of thinking.

A script maps the name of a step to the model's turns. A prompt that says `(script: NAME)` is
answered with the next turn of that step; a subagent's prompt works the same way. A turn is a dict:

    say    the model's words
    do     calls, each a tuple of an action and its arguments; see `dialects` for the actions
    full   true: report a context that is nearly full, so that the agent compacts it

In the arguments of a call, `$saved` stands for the checkpoint, `$plan` for the plan and `$subagent`
for the subagent that an earlier answer named.

The model also keeps what it was sent. `happened` is the independent record that the checks hold
Rappel's journal against: every call that the model made, and what the agent said came of it.
"""

import html
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARKER = re.compile(r"\(script: ([a-z0-9-]+)\)")
# Hooks and the agent itself put text into the user's messages. It may quote older prompts.
ASIDE = re.compile(r"<(system-reminder|hook_context)>.*?</\1>", re.S)
SUMMARY = "The user asked for work."
ENDED = {"say": "There is nothing left to do."}


@dataclass
class Call:
    """A call that the model made."""

    id: str
    step: str
    action: str
    arguments: tuple
    #: What the agent's tool was given.
    given: object
    #: None until the agent sent a result; then whether it was one of success.
    succeeded: bool | None = None
    result: str = ""

    def end(self, succeeded, result):
        """Where the agent does not tell the model what came of it, the script does."""
        self.succeeded = self.action != "failing" if succeeded is None else succeeded
        self.result = result


@dataclass
class Request:
    """A request of an agent's loop."""

    step: str
    #: Every text in it, system prompt included.
    text: str


@dataclass
class Model:
    """The script, how far it was played, and what the model saw."""

    steps: dict
    dialect: object
    played: dict = field(default_factory=dict)
    calls: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    #: How often the agent asked for a summary.
    summaries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body):
        """The turn that answers a request, and its calls in the agent's own words."""
        step = step_of([ASIDE.sub("", text).strip() for text in self.dialect.user_texts(body)])
        with self.lock:
            if self.dialect.asks_for_summary(body):
                self.summaries += 1
                # The marker lives on in the summary: the agent goes on with the same step.
                return {"say": f"<summary>{SUMMARY} (script: {step})</summary>"}, []
            if not self.dialect.is_loop(body) or step is None:
                return {"say": "A scripted session"}, []
            for call_id, succeeded, result in self.dialect.results(body):
                if call_id in self.calls:
                    self.calls[call_id].end(succeeded, result)
            # Some agents escape what hooks tell them.
            self.requests.append(Request(step, html.unescape("\n".join(strings(body)))))
            place = self.played.get(step, 0)
            self.played[step] = place + 1
            turns = self.turns(step)
            turn = self.filled_in(turns[place] if place < len(turns) else ENDED)
            calls = []
            for number, (action, *arguments) in enumerate(turn.get("do", [])):
                call_id = self.dialect.call_id(f"{step}_{place}_{number}")
                tool, given = self.dialect.tool(action, *arguments)
                self.calls[call_id] = Call(call_id, step, action, tuple(arguments), given)
                calls.append((call_id, tool, given))
            return turn, calls

    def turns(self, step):
        """The turns of a step, without what this agent has no need of."""
        found = []
        for turn in self.steps.get(step, []):
            calls = [call for call in turn.get("do", []) if call[0] not in self.dialect.needless]
            if calls or "say" in turn:
                found.append(turn | {"do": calls})
        return found

    def filled_in(self, turn):
        """A turn with what earlier answers named."""

        def last(pattern):
            found = [re.search(pattern, call.result) for call in self.calls.values()]
            found = [one.group(1) for one in found if one]
            return found[-1] if found else None

        named = {
            "$saved": last(r"(?:Saved: |\bid\W+)(chk_\w+)"),
            "$plan": last(r"\bplan\b\W+(\w+)"),
            "$subagent": last(r'"agent_id":"([^"]+)"'),
        }

        def fill(value):
            if isinstance(value, dict):
                return {name: fill(one) for name, one in value.items()}
            return named.get(value, value) if isinstance(value, str) else value

        calls = [tuple(fill(one) for one in call) for call in turn.get("do", [])]
        return turn | {"do": calls}

    def happened(self, *steps):
        """The calls of these steps, in the order in which the model made them."""
        return [call for call in self.calls.values() if call.step in steps]

    def saw(self, words, *steps):
        """Whether a request of these steps held these words."""
        return any(words in one.text for one in self.requests if one.step in steps)

    def is_done(self, step):
        """Whether every turn of a step was asked for."""
        return self.played.get(step, 0) >= len(self.turns(step))

    def serve(self):
        """Listens on a free port; returns the address."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"


def step_of(texts):
    """The step of the newest prompt. A prompt ends with its marker; what only quotes one counts
    where no prompt is left, after a compaction."""
    named = [found for text in texts for found in MARKER.finditer(text)]
    prompts = [found for found in named if found.end() == len(found.string)]
    newest = (prompts or named or [None])[-1]
    return newest and newest.group(1)


def strings(value):
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def handler_of(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.reply({})

        def do_GET(self):
            self.reply({"data": [], "models": []})

        def do_POST(self):
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            path = self.path.split("?")[0]
            if not model.dialect.is_chat(path):
                return self.reply({"input_tokens": 1000, "totalTokens": 1000})
            turn, calls = model.answer(body)
            message = model.dialect.message(body, turn, calls)
            if not model.dialect.streams(path, body):
                return self.reply(message)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for chunk in model.dialect.stream(message):
                    self.wfile.write(chunk)
            except BrokenPipeError:
                pass  # The case killed the agent.

        def reply(self, value):
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler
