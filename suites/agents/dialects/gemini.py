"""The Gemini API, as Gemini CLI uses it."""

import re
import uuid

from dialects import Dialect, event

EXIT_CODE = re.compile(r"^Exit Code: (\d+)", re.M)


class Gemini(Dialect):
    summary_request = "<state_snapshot>"
    needless = frozenset({"await-subagent", "find-mcp-tools"})

    def is_chat(self, path):
        return path.endswith(":streamGenerateContent") or path.endswith(":generateContent")

    def streams(self, path, body):
        return path.endswith(":streamGenerateContent")

    def is_loop(self, body):
        return bool(self.offered(body))

    def offered(self, body):
        tools = [tool.get("functionDeclarations", []) for tool in body.get("tools", [])]
        return {declared["name"] for declarations in tools for declared in declarations}

    def user_texts(self, body):
        for content in body.get("contents", []):
            if content.get("role", "user") == "user":
                yield from (part["text"] for part in content["parts"] if "text" in part)

    def results(self, body):
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                answer = part.get("functionResponse")
                if answer:
                    said = answer["response"]
                    text = str(said.get("output", said))
                    code = EXIT_CODE.search(text)
                    failed = "error" in said or (code and code.group(1) != "0")
                    yield answer["id"], not failed, text

    def tool(self, action, *arguments):
        match action:
            case "write":
                place = {"file_path": self.absolute(arguments[0])}
                return "write_file", place | {"content": arguments[1]}
            case "edit":
                path, old, new = arguments
                return "replace", {
                    "file_path": self.absolute(path), "instruction": "Make the change",
                    "old_string": old, "new_string": new,
                }
            case "read":
                return "read_file", {"file_path": self.absolute(arguments[0])}
            case "shell" | "failing":
                return "run_shell_command", {"command": arguments[0], "description": "Run it"}
            case "subagent":
                return "invoke_agent", {"agent_name": "generalist", "prompt": arguments[0]}
            case "mcp":
                return f"mcp_rappel_{arguments[0]}", arguments[1]
        return super().tool(action)

    def message(self, body, turn, calls):
        parts = [{"text": turn["say"]}] if turn.get("say") else []
        if not calls and "complete_task" in self.offered(body):
            # So a subagent says that it is done.
            result = {"result": {"response": turn.get("say", "")}}
            calls = [(f"done_{uuid.uuid4().hex}", "complete_task", result)]
        parts += [
            {"functionCall": {"id": call_id, "name": tool, "args": value}}
            for call_id, tool, value in calls
        ]
        given = 985_000 if turn.get("full") else 1_000
        return {
            "candidates": [{
                "content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0,
            }],
            "usageMetadata": {
                "promptTokenCount": given, "candidatesTokenCount": 50,
                "totalTokenCount": given + 50,
            },
            "modelVersion": "scripted",
            "responseId": uuid.uuid4().hex,
        }

    def stream(self, message):
        yield event(message)
