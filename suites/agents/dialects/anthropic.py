"""The Messages API, as Claude Code uses it."""

import json
import uuid

from dialects import RUN, Dialect, event


class Anthropic(Dialect):
    summary_request = "create a detailed summary of the conversation"
    needless = frozenset({"await-subagent"})

    def is_chat(self, path):
        return path.endswith("/v1/messages")

    def user_texts(self, body):
        for message in body.get("messages", []):
            if message["role"] == "user":
                content = message["content"]
                if isinstance(content, str):
                    content = [{"type": "text", "text": content}]
                yield from (block["text"] for block in content if block["type"] == "text")

    def results(self, body):
        for message in body.get("messages", []):
            if message["role"] != "user" or isinstance(message["content"], str):
                continue
            for block in message["content"]:
                if block["type"] == "tool_result":
                    text = json.dumps(block.get("content", ""))
                    yield block["tool_use_id"], not block.get("is_error", False), text

    def call_id(self, name):
        return f"toolu_{RUN}_{name}".replace("-", "_")

    def tool(self, action, *arguments):
        match action:
            case "write":
                return "Write", {"file_path": self.absolute(arguments[0]), "content": arguments[1]}
            case "edit":
                path, old, new = arguments
                return "Edit", {
                    "file_path": self.absolute(path), "old_string": old, "new_string": new,
                    "replace_all": False,
                }
            case "read":
                return "Read", {"file_path": self.absolute(arguments[0])}
            case "shell" | "failing":
                return "Bash", {"command": arguments[0], "description": "Run a command"}
            case "background":
                return "Bash", {
                    "command": arguments[0], "description": "Run it beside the work",
                    "run_in_background": True,
                }
            case "subagent":
                return "Agent", {
                    "prompt": arguments[0], "description": "A small task",
                    "subagent_type": "general-purpose",
                }
            case "find-mcp-tools":
                names = ",".join(f"mcp__rappel__{name}" for name in arguments)
                return "ToolSearch", {"query": f"select:{names}"}
            case "mcp":
                return f"mcp__rappel__{arguments[0]}", arguments[1]
            case "find-worktree-tools":
                return "ToolSearch", {"query": "select:EnterWorktree,ExitWorktree"}
            case "enter-worktree":
                return "EnterWorktree", {"name": arguments[0]}
            case "leave-worktree":
                return "ExitWorktree", {"action": "remove", "discard_changes": True}
        return super().tool(action)

    def message(self, body, turn, calls):
        blocks = [{"type": "text", "text": turn["say"]}] if turn.get("say") else []
        blocks += [
            {"type": "tool_use", "id": call_id, "name": tool, "input": value}
            for call_id, tool, value in calls
        ]
        return {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 985_000 if turn.get("full") else 1_000,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 50,
            },
        }

    def stream(self, message):
        opening = dict(message, content=[], stop_reason=None)
        yield told({"type": "message_start", "message": opening})
        for index, block in enumerate(message["content"]):
            if block["type"] == "text":
                start, delta = dict(block, text=""), {"type": "text_delta", "text": block["text"]}
            else:
                start = dict(block, input={})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield told({"type": "content_block_start", "index": index, "content_block": start})
            yield told({"type": "content_block_delta", "index": index, "delta": delta})
            yield told({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield told({"type": "message_delta", "delta": ending, "usage": message["usage"]})
        yield told({"type": "message_stop"})


def told(value):
    return event(value, value["type"])
