"""What each agent tells its hooks, and where it writes what it did. One class per agent; `hooks.py` knows none of them."""
import json
import os
import sqlite3
import time

OLD_LINES = 5
OLD_DAYS = 30


def stamp(at=None):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))


class Vendor:
    """`say` makes a payload; `old`, `calls` and `close` write what the agent itself keeps."""

    name = ""
    session = "00000000-0000-4000-8000-b00000000000"

    def __init__(self, tree, home):
        self.tree, self.home = tree, home

    def env(self):
        return {}

    def close(self):
        pass

    def start(self):
        return self.say("SessionStart", source="startup")

    def say(self, event, **more):
        return {"hook_event_name": event, "session_id": self.session, "cwd": str(self.tree), **more}


class Lines(Vendor):
    """An agent that keeps a session as a file of lines."""

    def file(self, session, at):
        raise NotImplementedError

    def head(self, session, at):
        return ""

    def old(self, number):
        session, then = f"00000000-0000-4000-8000-{number:012x}", time.time() - OLD_DAYS * 86_400
        file = self.file(session, then)
        file.parent.mkdir(parents=True, exist_ok=True)
        prompts = "".join(self.prompted(session, f"{number}-{at}", f"an old prompt, {at} of {number}", then)
                          for at in range(OLD_LINES))
        file.write_text(self.head(session, then) + prompts)

    def calls(self, calls):
        """Appends calls with what they gave; the file's size."""
        file = self.file(self.session, None)
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a") as out:
            if not out.tell():
                out.write(self.head(self.session, None))
            for number, output in calls:
                out.write(self.called(number, output))
            return out.tell()


class Claude(Lines):
    name = "claude"

    def env(self):
        return {"CLAUDE_PROJECT_DIR": str(self.tree), "CLAUDE_PID": str(os.getpid())}

    def bash(self, number):
        return {"tool_name": "Bash", "tool_use_id": f"call{number}", "tool_input": {"command": "true"}}

    def before(self, number):
        return self.say("PreToolUse", **self.bash(number))

    def after(self, number):
        return self.say("PostToolUse", **self.bash(number), tool_response={"stdout": "done", "stderr": ""})

    def prompt(self, number):
        return self.say("UserPromptSubmit", prompt=f"do it {number}", prompt_id=f"prompt{number}")

    def file(self, session, at):
        name = "".join(c if c.isalnum() else "-" for c in str(self.tree.resolve()))
        return self.home / ".claude" / "projects" / name / f"{session}.jsonl"

    def line(self, session, kind, number, content, at=None):
        return json.dumps({"type": kind, "sessionId": session, "uuid": f"u{number}", "cwd": str(self.tree),
                           "timestamp": stamp(at), "message": {"role": kind, "content": content}}) + "\n"

    def prompted(self, session, number, text, at):
        return self.line(session, "user", number, text, at)

    def called(self, number, output):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"make {number}"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output}
        return (self.line(self.session, "assistant", f"a{number}", [use])
                + self.line(self.session, "user", f"b{number}", [result]))


class Codex(Lines):
    name = "codex"

    def say(self, event, **more):
        return super().say(event, transcript_path=str(self.file(self.session, None)), model="gpt-5.5-codex",
                           permission_mode="default", **more)

    def bash(self, number):
        return {"turn_id": "turn", "tool_name": "Bash", "tool_use_id": f"call{number}", "tool_input": {"command": "true"}}

    def before(self, number):
        return self.say("PreToolUse", **self.bash(number))

    def after(self, number):
        return self.say("PostToolUse", **self.bash(number), tool_response="done")

    def prompt(self, number):
        return self.say("UserPromptSubmit", turn_id=f"turn{number}", prompt=f"do it {number}")

    def file(self, session, at):
        day = time.strftime("%Y/%m/%d", time.gmtime(at))
        return self.home / ".codex" / "sessions" / day / f"rollout-{day.replace('/', '-')}T00-00-00-{session}.jsonl"

    def line(self, kind, payload, at=None):
        return json.dumps({"timestamp": stamp(at), "type": kind, "payload": payload}) + "\n"

    def head(self, session, at):
        return self.line("session_meta", {"id": session, "timestamp": stamp(at), "cwd": str(self.tree), "originator": "codex_exec",
                                          "cli_version": "0.166.0", "source": "exec", "model_provider": "fake"}, at)

    def prompted(self, session, number, text, at):
        return self.line("event_msg", {"type": "user_message", "message": text}, at)

    def called(self, number, output):
        call = {"type": "function_call", "id": f"fc{number}", "name": "exec_command", "call_id": f"t{number}",
                "arguments": json.dumps({"cmd": f"make {number}"})}
        result = {"type": "function_call_output", "id": f"fo{number}", "call_id": f"t{number}", "output": output}
        return self.line("response_item", call) + self.line("response_item", result)


class Gemini(Lines):
    name = "gemini"

    def env(self):
        return {"GEMINI_PROJECT_DIR": str(self.tree), "CLAUDE_PROJECT_DIR": str(self.tree)}

    def say(self, event, **more):
        return super().say(event, transcript_path=str(self.file(self.session, None)), timestamp=stamp(), **more)

    def bash(self, number):
        return {"tool_name": "run_shell_command", "tool_input": {"command": "true", "description": f"{number}"}}

    def before(self, number):
        return self.say("BeforeTool", **self.bash(number))

    def after(self, number):
        said = "<untrusted_context>\nOutput: done\nProcess Group PGID: 1000\n</untrusted_context>"
        return self.say("AfterTool", **self.bash(number), tool_response={"llmContent": said, "returnDisplay": "done"})

    def prompt(self, number):
        return self.say("BeforeAgent", prompt=f"do it {number}")

    def file(self, session, at):
        project = self.home / ".gemini" / "tmp" / "project"
        project.mkdir(parents=True, exist_ok=True)
        (project / ".project_root").write_text(str(self.tree.resolve()))
        return project / "chats" / f"session-{time.strftime('%Y-%m-%d', time.gmtime(at))}T00-00-{session}.jsonl"

    def head(self, session, at):
        return json.dumps({"sessionId": session, "projectHash": "0", "startTime": stamp(at), "lastUpdated": stamp(at),
                           "kind": "main"}) + "\n"

    def prompted(self, session, number, text, at):
        return json.dumps({"id": f"u{number}", "timestamp": stamp(at), "type": "user", "content": [{"text": text}]}) + "\n"

    def called(self, number, output):
        answer = {"functionResponse": {"id": f"t{number}", "name": "run_shell_command", "response": {"output": output}}}
        call = {"id": f"t{number}", "name": "run_shell_command", "args": {"command": f"make {number}"}, "result": [answer],
                "status": "success", "timestamp": stamp()}
        return json.dumps({"id": f"a{number}", "timestamp": stamp(), "type": "gemini", "content": "", "toolCalls": [call],
                           "model": "gemini-2.5-pro"}) + "\n"


class Opencode(Vendor):
    """Keeps all sessions in one database, which it has open."""

    name, session = "opencode", "ses_b0000000000000000000000000"
    TABLES = """
        CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, version text NOT NULL);
        CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
                              time_updated integer NOT NULL, data text NOT NULL);
        CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
                           time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
    """

    def __init__(self, tree, home):
        super().__init__(tree, home)
        self.connection = None

    def env(self):
        return {"OPENCODE_PID": str(os.getpid())}

    def start(self):
        return self.say("event.session.created")

    def say(self, event, **more):
        return {"event": event, "cwd": str(self.tree), "session": self.session, **more}

    def call(self, number, **more):
        return {"tool": "bash", "sessionID": self.session, "callID": f"call{number}", **more}

    def before(self, number):
        return self.say("tool.execute.before", input=self.call(number), output={"args": {"command": "true"}})

    def after(self, number):
        return self.say("tool.execute.after", input=self.call(number, args={"command": "true"}),
                        output={"output": "done", "metadata": {"exit": 0}})

    def prompt(self, number):
        output = {"message": {"id": f"msg_p{number}"}, "parts": [{"type": "text", "text": f"do it {number}"}]}
        return self.say("chat.message", output=output)

    def database(self):
        if not self.connection:
            folder = self.home / ".local" / "share" / "opencode"
            folder.mkdir(parents=True)
            self.connection = sqlite3.connect(folder / "opencode.db")
            self.connection.execute("PRAGMA journal_mode = wal")
            self.connection.executescript(self.TABLES)
            self.begin(self.session)
        return self.connection

    def begin(self, session):
        self.connection.execute("INSERT INTO session VALUES (?, NULL, ?, '1.18.33')", (session, str(self.tree.resolve())))

    def tell(self, session, number, role, at, part):
        at = int((at or time.time()) * 1000)
        message = json.dumps({"role": role, "time": {"created": at}, "modelID": "scripted", "providerID": "fake"})
        self.connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (f"msg_{number}", session, at, at, message))
        self.connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
                                (f"prt_{number}", f"msg_{number}", session, at, at, json.dumps(part)))

    def old(self, number):
        session, then = f"ses_{number:026x}", time.time() - OLD_DAYS * 86_400
        self.database()
        self.begin(session)
        for at in range(OLD_LINES):
            part = {"type": "text", "text": f"an old prompt, {at} of {number}"}
            self.tell(session, f"o{number}-{at}", "user", then, part)
        if number % 100 == 0:
            self.connection.commit()

    def calls(self, calls):
        database = self.database()
        for number, output in calls:
            now = int(time.time() * 1000)
            state = {"status": "completed", "input": {"command": f"make {number}"}, "output": output, "metadata": {"exit": 0},
                     "time": {"start": now, "end": now}}
            part = {"type": "tool", "tool": "bash", "callID": f"t{number}", "state": state}
            self.tell(self.session, f"{number}", "assistant", None, part)
        database.commit()
        pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return pages * size

    def close(self):
        if self.connection:
            self.connection.close()


ALL = {vendor.name: vendor for vendor in (Claude, Codex, Gemini, Opencode)}
