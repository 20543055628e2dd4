"""Cases: an agent works, and what Rappel holds is what happened."""

import agents
import checks
from cases import case
from model import SUMMARY


@case(
    write=[
        {"say": "I write it.", "do": [("write", "greeting.txt", "hello world\n")]},
        {"do": [("edit", "greeting.txt", "world", "everyone")]},
        {"do": [("shell", "sed -i s/two/three/ src/words.py")]},
        {"say": "Done."},
    ],
    delete=[
        {"do": [("failing", "cat no-such-file"), ("read", "README.md")]},
        {"do": [("shell", "rm -rf src greeting.txt && git add -A && git commit -qm gone")]},
        {"say": "Everything is tidy."},
    ],
)
def edits_and_a_command_that_deletes(stage):
    world, agent = stage.world, stage.agent
    session = agent.ask("Make a greeting. (script: write)")
    before = world.tree()
    agent.ask("Tidy up. (script: delete)", resume=session)
    checks.prompts_are_checkpoints(stage, ["Make a greeting.", "Tidy up."])
    checks.journal_is_what_happened(stage, session, "write", "delete")
    # What the command deleted is in the checkpoint before it.
    assert not (world.project / "src").exists()
    held = [one for one in world.checkpoints() if world.holds(one, "src/words.py")]
    assert world.holds(held[-1], "src/words.py") == "WORDS = ['one', 'three']\n", held[-1]
    assert world.holds(held[-1], "greeting.txt") == "hello everyone\n"
    undone = world.rappel("undo", "--prompt", "--session", world.sessions(session)[-1]["id"])
    assert "Tidy up. (script: delete)" in undone.stdout, undone.stdout
    assert world.tree() == before


DELEGATED = {
    "delegate": [
        {"do": [("subagent", "Write the note. (script: note)")]},
        {"do": [("await-subagent", "$subagent")]},
        {"say": "I wait for it."},
        {"say": "It is written."},
    ],
    "note": [
        {"do": [("write", "note.txt", "a note\n")]},
        {"do": [("shell", "rm docs/notes.txt")]},
        {"say": "The note is written."},
    ],
}


@case(**DELEGATED)
def what_a_subagent_deletes_is_saved(stage):
    world = stage.world
    stage.agent.ask("Let another one write it. (script: delegate)")
    checks.prompts_are_checkpoints(stage, ["Let another one write it."])
    assert not (world.project / "docs/notes.txt").exists()
    held = [one for one in world.checkpoints() if world.holds(one, "docs/notes.txt")]
    assert world.holds(held[-1], "note.txt") == "a note\n"


@case(needs={"sessions of subagents"}, **DELEGATED)
def a_subagent_is_a_session_of_its_own(stage):
    world = stage.world
    session = stage.agent.ask("Let another one write it. (script: delegate)")
    (main,) = world.sessions(session)
    children = [one for one in world.all_sessions() if one["parent"] == main["id"]]
    assert [one["status"] for one in children] == ["completed"], children
    checks.calls_are_told(stage, stage.model.happened("note"), [children[0]["id"]])
    checks.calls_are_told(stage, stage.model.happened("delegate"), [main["id"]])


@case(
    needs={"compaction in a turn"},
    full=[
        {"do": [("shell", "echo one > one.txt")]},
        {"do": [("shell", "echo two > two.txt")], "full": True},
        {"do": [("shell", "echo three > three.txt")]},
        {"say": "Done after the compaction."},
    ],
)
def recall_reaches_the_model_after_a_compaction(stage):
    session = stage.agent.ask("Work until the context is full. (script: full)")
    world = stage.world
    assert world.read("three.txt") == "three\n"
    assert world.checkpoints("context-compaction"), world.checkpoints()
    # The summary knows nothing of the commands; the brief does.
    assert not stage.model.requests[0].text.count(SUMMARY)
    last = stage.model.requests[-1].text
    (run,) = world.sessions(session)
    for words in (SUMMARY, f"Session {run['id']} ", "echo one > one.txt", "Work until the context"):
        assert words in last, f"{words!r} did not reach the model"
    checks.prompts_are_checkpoints(stage, ["Work until the context is full."])
    checks.journal_is_what_happened(stage, session, "full")


@case(
    build=[
        {"do": [("write", "app.txt", "version 1\n")]},
        {"say": "Version 1 is there."},
    ],
    spoil=[
        {"do": [("shell", "echo spoilt > app.txt; rm src/main.py")]},
        {"say": "It is better now."},
    ],
    mend=[
        {"do": [("read", "app.txt")]},
        {"do": [("edit", "app.txt", "version 1", "version 2")]},
        {"say": "Version 2 is there."},
    ],
)
def an_agent_resumes_after_a_restore_and_knows_of_it(stage):
    world, agent, model = stage.world, stage.agent, stage.model
    session = agent.ask("Build it. (script: build)")
    built = world.tree()
    agent.ask("Make it better. (script: spoil)", resume=session)
    assert world.tree() != built
    last = world.sessions(session)[-1]["id"]
    words = world.rappel("undo", "--prompt", "--session", last).stdout
    assert "Make it better. (script: spoil)" in words, words
    assert world.tree() == built
    agent.ask("Make version 2. (script: mend)", resume=session)
    assert not model.saw("Files that changed", "build", "spoil")
    told = [one for one in model.requests if one.step == "mend"][0].text
    for words in ("Files that changed", "app.txt", "src/main.py", "was not set back"):
        assert words in told, words
    # A resumed agent is given what Rappel knows, too.
    assert f"Session {last} " in told, "the brief did not reach the model"
    # It is told once.
    assert told.count("Files that changed") == 1
    assert world.read("app.txt") == "version 2\n"
    checks.journal_is_what_happened(stage, session, "build", "spoil", "mend")


@case(
    needs={"conversations that go back"},
    build=[
        {"do": [("write", "app.txt", "version 1\n")]},
        {"say": "Version 1 is there."},
    ],
    spoil=[
        {"do": [("shell", "rm -r src docs")]},
        {"say": "It is better now."},
    ],
    go_on=[
        {"do": [("shell", "echo more >> app.txt")]},
        {"say": "Done."},
    ],
)
def a_conversation_goes_back_with_its_prompt(stage):
    world, agent, model = stage.world, stage.agent, stage.model
    session = agent.ask("Build it. (script: build)")
    built = world.tree()
    agent.ask("Make it better. (script: spoil)", resume=session)
    last = world.sessions(session)[-1]["id"]
    words = world.rappel("undo", "--prompt", "--conversation", "--session", last).stdout
    assert session in words, words
    assert world.tree() == built
    agent.ask("Go on. (script: go-on)", resume=session)
    told = [one for one in model.requests if one.step == "go-on"][0].text
    assert "Version 1 is there." in told, "the conversation before it is gone"
    assert "It is better now." not in told, f"the conversation was not set back: {words}"
    assert world.read("app.txt") == "version 1\nmore\n"
    # The longer conversation is in the safety checkpoint.
    assert world.checkpoints("pre-restore")


@case(
    slow=[
        {"do": [("write", "half.txt", "half\n")]},
        {"do": [("shell", "rm README.md; touch begun; sleep 600")]},
        {"say": "Never said."},
    ],
    after=[
        {"do": [("shell", "cat half.txt")]},
        {"say": "Done."},
    ],
)
def an_agent_that_is_killed(stage):
    world, agent = stage.world, stage.agent
    running = agent.start("Do something slow. (script: slow)")
    stage.until(lambda: (world.project / "begun").exists(), "the command has begun")
    agents.kill(running)
    checks.prompts_are_checkpoints(stage, ["Do something slow."])
    held = world.checkpoints()[-1]
    assert world.holds(held, "README.md") and world.holds(held, "half.txt") == "half\n", held
    session = agent.ask("Go on. (script: after)")
    killed = [one for one in world.all_sessions() if one["assistant_session_id"] != session]
    assert [one["status"] for one in killed] == ["failed"], killed
    assert killed[0]["end_reason"] == "its agent's process is gone", killed
    # The same session can be resumed: it is another run, with the killed one as its parent.
    name = killed[0]["assistant_session_id"]
    agent.ask("Go on. (script: after)", resume=name)
    first, second = world.sessions(name)
    assert second["parent"] == first["id"] and first["status"] == "failed"


# Each waits for the other: they are at work at the same time.
AFTER_ONE = "until [ -e one.txt ]; do sleep 0.1; done"
AFTER_TWO = "until [ -e two.txt ]; do sleep 0.1; done"


@case(
    one=[
        {"do": [("shell", f"{AFTER_TWO}; echo 1 >> one.txt")]},
        {"do": [("write", "one-more.txt", "one\n")]},
        {"say": "One is done."},
    ],
    two=[
        {"do": [("shell", "echo 1 >> two.txt")]},
        {"do": [("shell", f"{AFTER_ONE}; echo 2 >> two.txt")]},
        {"do": [("failing", "false")]},
        {"say": "Two is done."},
    ],
)
def two_agents_in_one_folder(stage):
    world, agent = stage.world, stage.agent
    first = agent.start("Work as one. (script: one)")
    # In a new home, an agent does not bear another one beside it before it has set itself up.
    stage.until(lambda: stage.model.played.get("one"), "the first one is at work")
    second = agent.start("Work as two. (script: two)")
    one, two = agent.end(first), agent.end(second)
    assert len(world.checkpoints("prompt")) == 2
    checks.journal_is_what_happened(stage, one, "one")
    checks.journal_is_what_happened(stage, two, "two")
    # Each worked since the other's prompt: the plan is shown, and nothing is done unasked.
    before = world.tree()
    first = [s for s in world.all_sessions() if s["assistant_session_id"] == one][0]
    refused = world.rappel("undo", "--prompt", "--session", first["id"], check=False)
    assert refused.returncode == 4, refused
    assert world.tree() == before


@case(
    one=[
        {"do": [("write", "one.txt", "one\n")]},
        {"do": [("shell", f"rm docs/notes.txt; {AFTER_TWO}")]},
        {"say": "One is done."},
    ],
    two=[
        {"do": [("shell", f"{AFTER_ONE}; echo 1 >> two.txt")]},
        {"do": [("failing", "false")]},
        {"do": [("shell", "rm README.md")]},
        {"say": "Two is done."},
    ],
)
def two_different_agents_in_one_folder(stage):
    world, other = stage.world, stage.beside()
    first = stage.agent.start("Work as one. (script: one)")
    second = other.agent.start("Work as two. (script: two)")
    one, two = stage.agent.end(first), other.agent.end(second)
    assert len(world.checkpoints("prompt")) == 2
    checks.journal_is_what_happened(stage, one, "one")
    checks.journal_is_what_happened(other, two, "two")
    assert [one["provider"] for one in world.sessions(one)] == [stage.agent.name]
    assert [one["provider"] for one in world.sessions(two)] == [other.agent.name]
    for path in ("docs/notes.txt", "README.md"):
        assert not (world.project / path).exists()
        assert [one for one in world.checkpoints() if world.holds(one, path)], path
    states = world.integrations()
    assert states == {stage.agent.name: "working", other.agent.name: "working"}, states


@case(
    needs={"worktrees"},
    tree=[
        {"do": [("find-worktree-tools",)]},
        {"do": [("enter-worktree", "side")]},
        {"do": [("shell", "echo kept > only-here.txt")]},
        {"do": [("leave-worktree",)]},
        {"say": "Back."},
    ],
)
def a_work_tree_that_the_agent_removes(stage):
    world = stage.world
    session = stage.agent.ask("Work in a work tree. (script: tree)")
    checks.prompts_are_checkpoints(stage, ["Work in a work tree."])
    checks.journal_is_what_happened(stage, session, "tree")
    assert not list((world.project / ".claude/worktrees").glob("*/only-here.txt"))
    (before,) = world.checkpoints("pre-operation")
    trees = world.json("show", before["id"])
    assert "side" in str(trees), trees
    world.rappel("restore", before["id"], "--confirm")
    (kept,) = (world.project / ".claude/worktrees").glob("*/only-here.txt")
    assert kept.read_text() == "kept\n"


@case(
    needs={"background"},
    server=[
        {"do": [("background", "for n in 1 2 3 4; do date >> log.txt; sleep 1; done")]},
        {"do": [("shell", "echo work > work.txt")]},
        {"say": "The server runs."},
        {"say": "The server has ended."},
    ],
)
def a_command_that_is_left_running(stage):
    world = stage.world
    session = stage.agent.ask("Start the server. (script: server)")
    checks.prompts_are_checkpoints(stage, ["Start the server."])
    # Nothing is complete while it runs; it is when it has ended.
    (done,) = world.checkpoints("task-completed")
    assert world.holds(done, "log.txt").count("\n") == 4, done
    (run,) = world.sessions(session)
    prompts = [one["text"] for one in run["state"]["prompts"]]
    assert prompts == ["Start the server. (script: server)"], prompts


@case(
    look=[
        {"do": [("read", "README.md"), ("shell", "ls; git status --short")]},
        {"do": [("read", "src/main.py")]},
        {"say": "It is a small project."},
    ],
    answer=[
        {"say": "It prints a greeting."},
    ],
)
def work_that_changes_nothing(stage):
    world, agent = stage.world, stage.agent
    session = agent.ask("What is this? (script: look)")
    agent.ask("What does it do? (script: answer)", resume=session)
    checks.prompts_are_checkpoints(stage, ["What is this?", "What does it do?"])
    assert not world.checkpoints("code-modified")
    prompts = [one for run in world.sessions(session) for one in run["state"]["prompts"]]
    assert len(prompts) == 2, prompts
    checks.calls_are_told(
        stage, stage.model.happened("look"), [run["id"] for run in world.sessions(session)]
    )
    assert world.integrations() == {agent.name: "working"}
    assert world.mentions("rappel")
    world.rappel("integrate", agent.name, "--remove", "--all")
    assert not world.mentions("rappel")


@case(
    both=[
        {"do": [("write", "once.txt", "once\n")]},
        {"say": "Done."},
    ],
)
def two_scopes_tell_an_event_once(stage):
    world, agent = stage.world, stage.agent
    stage.integrate("--user")
    stage.integrate("--shared")
    made = len(world.checkpoints())
    session = agent.ask("Write it. (script: both)")
    checks.prompts_are_checkpoints(stage, ["Write it."])
    checks.journal_is_what_happened(stage, session, "both")
    triggers = [one["trigger"] for one in world.checkpoints()[made:]]
    assert triggers.count("session-start") == triggers.count("session-end") == 1, triggers
