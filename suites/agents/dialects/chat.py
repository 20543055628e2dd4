"""OpenAI's Chat Completions API, as opencode uses it."""

import json
import uuid

from dialects import Dialect, event


class Chat(Dialect):
    summary_request = "anchored summary"
    needless = frozenset({"await-subagent", "find-mcp-tools"})

    def is_chat(self, path):
        return path.endswith("/chat/completions")

    def user_texts(self, body):
        for message in body.get("messages", []):
            # After a compaction, the summary stands there as the agent's own words.
            if message["role"] in ("user", "assistant"):
                content = message.get("content") or ""
                parts = [{"text": content}] if isinstance(content, str) else content
                yield from (part.get("text", "") for part in parts)

    def results(self, body):
        """The protocol does not tell whether a call succeeded."""
        for message in body.get("messages", []):
            if message["role"] == "tool":
                content = message["content"]
                text = content if isinstance(content, str) else json.dumps(content)
                yield message["tool_call_id"], None, text

    def tool(self, action, *arguments):
        match action:
            case "write":
                return "write", {"filePath": self.absolute(arguments[0]), "content": arguments[1]}
            case "edit":
                path, old, new = arguments
                place = {"filePath": self.absolute(path)}
                return "edit", place | {"oldString": old, "newString": new}
            case "read":
                return "read", {"filePath": self.absolute(arguments[0])}
            case "shell" | "failing":
                return "bash", {"command": arguments[0], "description": "Run a command"}
            case "subagent":
                return "task", {
                    "prompt": arguments[0], "description": "A small task",
                    "subagent_type": "general",
                }
            case "mcp":
                return f"rappel_{arguments[0]}", arguments[1]
        return super().tool(action)

    def message(self, body, turn, calls):
        made = [
            {"index": number, "id": call_id, "type": "function",
             "function": {"name": tool, "arguments": json.dumps(value)}}
            for number, (call_id, tool, value) in enumerate(calls)
        ]
        given = 985_000 if turn.get("full") else 1_000
        answer = {"role": "assistant", "content": turn.get("say", "")}
        reason = "tool_calls" if made else "stop"
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", "scripted"),
            "choices": [{
                "index": 0, "finish_reason": reason,
                "message": answer | ({"tool_calls": made} if made else {}),
            }],
            "usage": {
                "prompt_tokens": given, "completion_tokens": 50, "total_tokens": given + 50,
            },
        }

    def stream(self, message):
        (choice,) = message["choices"]
        piece = dict(message, object="chat.completion.chunk")
        usage = piece.pop("usage")
        delta = {"index": 0, "delta": choice["message"], "finish_reason": None}
        ending = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield event(dict(piece, choices=[delta]))
        yield event(dict(piece, choices=[ending], usage=usage))
        yield b"data: [DONE]\n\n"
