"""LangGraph's SQLite checkpointer on a session that grows by about 1 KB a step, each step durable. Runs in an
environment of its own (`programs.langgraph`); prints one JSON document.

    langgraph_saver.py FOLDER STEPS
"""
import json
import random
import sqlite3
import statistics
import sys
import time
from pathlib import Path

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

THREAD = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}


def timed(call):
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1000, result


def main(folder, steps):
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randrange(2, 10))) for _ in range(4000)]
    connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous = FULL")
    config, messages, took = THREAD, [], []
    for step in range(1, steps + 1):
        messages.append({"role": "assistant", "content": " ".join(chance.choices(words, k=150))})
        checkpoint = {**empty_checkpoint(), "channel_values": {"messages": messages}, "channel_versions": {"messages": step}}
        about = {"source": "loop", "step": step}
        ms, config = timed(lambda: saver.put(config, checkpoint, about, {"messages": step}))
        took.append(ms)
    latest = statistics.median(timed(lambda: saver.get_tuple(THREAD))[0] for _ in range(50))
    assert len(saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]) == steps
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(json.dumps({"saves_per_s": 1000 * steps / sum(took), "latest_ms": latest, "bytes": size}))


main(Path(sys.argv[1]), int(sys.argv[2]))
