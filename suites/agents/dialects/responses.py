"""OpenAI's Responses API, as Codex uses it.

Codex edits by patches and reads by commands. Its rarer tools stand in namespaces behind a search.
"""

import json
import re
import uuid

from dialects import Dialect, event

# What Codex says of a command, and of a patch.
EXIT_CODE = re.compile(r"(?:Process exited with code|Exit code:) (\d+)")


class Responses(Dialect):
    summary_request = "CONTEXT CHECKPOINT COMPACTION"

    def is_chat(self, path):
        return path.endswith("/responses")

    def is_loop(self, body):
        return any(tool.get("name") == "exec_command" for tool in body.get("tools", []))

    def user_texts(self, body):
        for item in body.get("input", []):
            if item.get("type") == "message" and item["role"] == "user":
                yield from (part.get("text", "") for part in item["content"])

    def results(self, body):
        for item in body.get("input", []):
            if item.get("type", "").endswith("_output"):
                output = item.get("output", item.get("tools", ""))
                text = output if isinstance(output, str) else json.dumps(output)
                code = EXIT_CODE.search(text)
                refused = False if text.startswith("exec_command failed") else None
                yield item["call_id"], code.group(1) == "0" if code else refused, text

    def tool(self, action, *arguments):
        match action:
            case "write":
                path, text = arguments
                return patch(f"Add File: {path}", *(f"+{line}" for line in text.splitlines()))
            case "edit":
                path, old, new = arguments
                before = (self.project / path).read_text()
                lines = zip(before.splitlines(), before.replace(old, new).splitlines())
                changed = [pair for pair in lines if pair[0] != pair[1]]
                gone, come = [f"-{old}" for old, _ in changed], [f"+{new}" for _, new in changed]
                return patch(f"Update File: {path}", "@@", *gone, *come)
            case "read":
                return "exec_command", {"cmd": f"cat {arguments[0]}"}
            case "shell" | "failing":
                # It would answer after ten seconds, with the command still running.
                return "exec_command", {"cmd": arguments[0], "yield_time_ms": 30_000}
            case "subagent":
                return "multi_agent_v1/spawn_agent", {"message": arguments[0]}
            case "await-subagent":
                return "multi_agent_v1/wait_agent", {"targets": [arguments[0]], "timeout_ms": 60_000}
            case "find-mcp-tools":
                return "tool_search", {"query": " ".join(f"rappel {name}" for name in arguments)}
            case "mcp":
                return f"mcp__rappel/{arguments[0]}", arguments[1]
        return super().tool(action)

    def message(self, body, turn, calls):
        items = []
        if turn.get("say"):
            text = {"type": "output_text", "text": turn["say"], "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [text]})
        for call_id, tool, value in calls:
            namespace, _, tool = tool.rpartition("/")
            if tool == "tool_search":
                call = {"type": "tool_search_call", "execution": "client", "arguments": value}
            elif isinstance(value, str):
                call = {"type": "custom_tool_call", "name": tool, "input": value}
            else:
                call = {"type": "function_call", "name": tool, "arguments": json.dumps(value)}
                call |= {"namespace": namespace} if namespace else {}
            items.append(call | {"call_id": call_id})
        made = [{"id": f"item_{uuid.uuid4().hex}"} | item for item in items]
        given = 985_000 if turn.get("full") else 1_000
        return {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "status": "completed",
            "model": body.get("model", "scripted"),
            "output": made,
            "usage": {
                "input_tokens": given, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": given + 50,
            },
        }

    def stream(self, message):
        opening = dict(message, status="in_progress", output=[], usage=None)
        yield told({"type": "response.created", "response": opening})
        for index, item in enumerate(message["output"]):
            place = {"output_index": index, "item": item}
            yield told({"type": "response.output_item.added"} | place)
            yield told({"type": "response.output_item.done"} | place)
        yield told({"type": "response.completed", "response": message})


def patch(*lines):
    return "apply_patch", "\n".join(["*** Begin Patch", f"*** {lines[0]}", *lines[1:],
                                     "*** End Patch", ""])


def told(value):
    return event(value, value["type"])
