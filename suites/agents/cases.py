"""What the agents are asked to do, and what Rappel has to hold afterwards.

Each case is a function with a script. It gets a `Stage` and asserts; nothing in it knows which
agent plays. `needs` names what an agent may lack.
"""

import checks
from model import SUMMARY
from postgres import Postgres, programs
from terminal import Terminal

CASES = []


def case(needs=(), **steps):
    """Registers a case with its script: the turns of each step, by name."""

    def register(play):
        play.steps = {name.replace("_", "-"): turns for name, turns in steps.items()}
        play.needs = frozenset(needs)
        CASES.append(play)
        return play

    return register


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
    assert "It is better now." not in told, "the conversation was not set back"
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
    agent.kill(running)
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


@case(
    one=[
        {"do": [("shell", "echo 1 >> one.txt; sleep 1")]},
        {"do": [("shell", "echo 2 >> one.txt; sleep 1")]},
        {"do": [("write", "one-more.txt", "one\n")]},
        {"say": "One is done."},
    ],
    two=[
        {"do": [("shell", "echo 1 >> two.txt; sleep 1")]},
        {"do": [("shell", "echo 2 >> two.txt; sleep 1")]},
        {"do": [("failing", "false")]},
        {"say": "Two is done."},
    ],
)
def two_agents_in_one_folder(stage):
    world, agent = stage.world, stage.agent
    running = [agent.start(f"Work as {name}. (script: {name})") for name in ("one", "two")]
    one, two = (agent.end(process) for process in running)
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
        {"do": [("shell", "rm docs/notes.txt; sleep 1")]},
        {"say": "One is done."},
    ],
    two=[
        {"do": [("shell", "echo 1 >> two.txt; sleep 1")]},
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
    states = {one["agent"]: one["state"] for one in world.json("status")["integrations"]}
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
    first=[
        {"do": [("shell", "echo one > one.txt")]},
        {"say": "One is there."},
    ],
    second=[
        {"do": [("shell", "echo two > two.txt")]},
        {"say": "Two is there."},
    ],
)
def recall_reaches_the_model_after_a_compaction_that_the_user_asks_for(stage):
    world, model = stage.world, stage.model
    with Terminal(stage.agent) as terminal:
        terminal.type("Make the first. (script: first)")
        terminal.shows("One is there.")
        terminal.settle()
        terminal.type(stage.agent.compact)
        terminal.wait(lambda: model.summaries, "the agent asks for a summary")
        terminal.settle()
        terminal.type("Make the second. (script: second)")
        terminal.shows("Two is there.")
        terminal.settle()
        terminal.leave()
    assert world.checkpoints("context-compaction"), world.checkpoints()
    told = [one for one in model.requests if one.step == "second"][0].text
    (run,) = world.all_sessions()
    for words in (SUMMARY, f"Session {run['id']} ", "echo one > one.txt", "Make the first."):
        assert words in told, f"{words!r} did not reach the model"
    checks.prompts_are_checkpoints(stage, ["Make the first.", "Make the second."])


@case(
    build=[
        {"do": [("write", "app.txt", "version 1\n")]},
        {"say": "Version 1 is there."},
    ],
    spoil=[
        {"do": [("shell", "rm -r src docs; echo spoilt > app.txt")]},
        {"say": "Everything is tidy now."},
    ],
    look=[
        {"do": [("shell", "ls")]},
        {"say": "I see the files again."},
    ],
    slow=[
        {"do": [("shell", "touch slow.txt; sleep 600")]},
    ],
    last=[
        {"say": "Goodbye."},
    ],
)
def undo_is_typed_into_the_agents_terminal(stage):
    world, model = stage.world, stage.model
    with Terminal(stage.agent) as terminal:
        terminal.type("Build it. (script: build)")
        terminal.shows("Version 1 is there.")
        terminal.settle()
        built = world.tree()
        terminal.type("Tidy up. (script: spoil)")
        terminal.shows("Everything is tidy now.")
        terminal.settle()
        assert not (world.project / "src").exists()
        asked = len(model.requests)
        terminal.type("rappel undo --prompt")
        terminal.shows("Tidy up. (script: spoil)")
        terminal.wait(lambda: world.tree() == built, "the prompt is undone")
        terminal.settle()
        assert len(model.requests) == asked, "the model was asked"
        # The way forward, and back again with the agent's own command, where it has one.
        terminal.clear()
        terminal.type("rappel redo")
        terminal.wait(lambda: not (world.project / "src").exists(), "the undo is taken back")
        terminal.settle()
        terminal.clear()
        terminal.type(stage.agent.undo)
        terminal.wait(lambda: world.tree() == built, "the prompt is undone again")
        terminal.settle()
        assert len(model.requests) == asked, "the model was asked"
        # The conversation goes on, and the model is told what happened.
        terminal.type("Look again. (script: look)")
        terminal.shows("I see the files again.")
        assert model.saw("Files that changed", "look"), "the truth did not reach the model"
        terminal.settle()
        # An interrupted call has no later event of its own.
        terminal.type("Do something slow. (script: slow)")
        terminal.wait(lambda: (world.project / "slow.txt").exists(), "the command runs")
        terminal.key("Escape")
        terminal.settle()
        terminal.clear()
        terminal.type("Goodbye. (script: last)")
        terminal.settle()
        terminal.wait(lambda: model.is_done("last"), "the model says goodbye")
        terminal.settle()
        terminal.leave()
    titles = ["Build it.", "Tidy up.", "Look again.", "Do something slow.", "Goodbye."]
    checks.prompts_are_checkpoints(stage, titles)
    (session,) = world.all_sessions()
    assert session["status"] == "completed", session
    (end,) = world.checkpoints("session-end")
    assert end["description"] == "session end (iterations=5)", end
    calls = world.state(session["id"])["tool_state"]["calls"]
    assert all(call["completed_at"] for call in calls), calls


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
    (state,) = [one["state"] for one in world.json("status")["integrations"]]
    assert state == "working"
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
    world.rappel("integrate", agent.name, "--user")
    world.rappel("integrate", agent.name, "--shared")
    made = len(world.checkpoints())
    session = agent.ask("Write it. (script: both)")
    checks.prompts_are_checkpoints(stage, ["Write it."])
    checks.journal_is_what_happened(stage, session, "both")
    triggers = [one["trigger"] for one in world.checkpoints()[made:]]
    assert triggers.count("session-start") == triggers.count("session-end") == 1, triggers


@case(
    wipe=[{"do": [("shell", "rm -rf secret")]}, {"say": "It is gone."}],
    reset=[{"do": [("shell", "git reset --quiet --hard HEAD~1")]}, {"say": "It is reset."}],
    leave=[{"do": [("shell", "git worktree remove --force ../side")]}, {"say": "It is left."}],
    go=[{"do": [("shell", "git checkout --quiet --force tracked")]}, {"say": "It is there."}],
    clean=[{"do": [("shell", "git clean -fdxq")]}, {"say": "It is clean."}],
)
def what_a_command_destroys_comes_back(stage):
    world, agent = stage.world, stage.agent
    side = world.project.parent / "side"
    (world.project / ".gitignore").write_text("secret/\n*.local\n")
    world.git("add", ".gitignore")
    world.git("commit", "--quiet", "--message=second")
    world.git("worktree", "add", "--quiet", "-b", "side", str(side))
    # A branch that tracks what is ignored here: git overwrites that without a word.
    world.git("checkout", "--quiet", "-b", "tracked")
    (world.project / "mine.local").write_text("tracked\n")
    world.git("add", "--force", "mine.local")
    world.git("commit", "--quiet", "--message=tracked")
    world.git("checkout", "--quiet", "main")
    (side / "only-here.txt").write_text("kept\n")
    (world.project / "secret").mkdir()
    for path in ("secret/.env", "mine.local", "untracked.txt", "src/main.py"):
        (world.project / path).write_text("not committed\n")
    world.rappel("save")
    for step in ("wipe", "reset", "leave", "go", "clean"):
        before = world.tree(), side.joinpath("only-here.txt").read_text()
        agent.ask(f"Clear it away. (script: {step})")
        last = world.checkpoints("pre-operation")[-1]
        world.rappel("restore", last["id"], "--confirm")
        assert (world.tree(), side.joinpath("only-here.txt").read_text()) == before, step


#: Does to the database what Prisma does, without Prisma: the schema goes, and empty tables come.
PRISMA = """\
#!/bin/sh
set -eu
. ./.env
exec "{psql}" -XAtq -v ON_ERROR_STOP=1 "$DATABASE_URL" -c 'DROP SCHEMA public CASCADE' \\
    -c 'CREATE SCHEMA public' -c 'CREATE TABLE people (id int PRIMARY KEY, name text)'
"""


@case(
    migrate=[{"do": [("shell", "./bin/prisma migrate reset --force")]}, {"say": "It is reset."}],
    push=[{"do": [("shell", "./bin/prisma db push --force-reset")]}, {"say": "It is pushed."}],
)
def the_rows_that_a_reset_of_a_database_takes_come_back(stage):
    world, agent = stage.world, stage.agent
    rows = "SELECT * FROM people ORDER BY id"
    with Postgres() as server:
        server.sql("CREATE TABLE people (id int PRIMARY KEY, name text); CREATE TABLE other (n int)")
        server.sql("INSERT INTO people VALUES (1, 'one'); INSERT INTO other VALUES (7)")
        (world.project / ".env").write_text(f"DATABASE_URL={server.url}\n")
        toml = '[[database]]\nname = "app"\nurl = "env:DATABASE_URL"\n'
        (world.project / "rappel.toml").write_text(toml)
        prisma = world.project / "bin/prisma"
        prisma.parent.mkdir()
        prisma.write_text(PRISMA.format(psql=programs() / "psql"))
        prisma.chmod(0o755)
        world.rappel("save")
        for number, step in enumerate(("migrate", "push"), start=2):
            # What was never saved comes back as well.
            server.sql(f"INSERT INTO people VALUES ({number}, '{step}')")
            before = world.tree(), server.sql(rows), server.sql("SELECT * FROM other")
            agent.ask(f"Make the database new. (script: {step})")
            assert server.sql(rows) == "", step
            last = world.checkpoints("pre-operation")[-1]
            assert last["description"].startswith("Before ./bin/prisma "), last
            world.rappel("restore", last["id"], "--confirm")
            after = world.tree(), server.sql(rows), server.sql("SELECT * FROM other")
            assert after == before, (step, before, after)


@case(
    build=[
        {"do": [("find-mcp-tools", "save", "record", "restore", "recall")]},
        {"do": [("mcp", "record", {"kind": "hypothesis", "text": "src is not needed"})]},
        {"do": [("mcp", "save", {"message": "it works", "tags": ["green"]})]},
        {"do": [("shell", "rm -r src && echo broken > README.md")]},
        {"do": [("mcp", "restore", {"checkpoint": "$saved"})]},
        {"do": [("mcp", "restore", {"checkpoint": "$saved", "plan": "$plan"})]},
        {"do": [("mcp", "recall", {})]},
        {"say": "It works again."},
    ],
)
def an_agent_goes_back_by_tools_alone(stage):
    world, model = stage.world, stage.model
    world.rappel("integrate", stage.agent.name, "--mcp")
    before = world.tree()
    session = stage.agent.ask("Try without src. (script: build)")
    assert world.tree() == before
    calls = [call for call in model.happened("build") if call.action == "mcp"]
    assert [call.succeeded for call in calls] == [True] * 5, calls
    _, _, plan, restore, recall = (call.result for call in calls)
    assert "Nothing was changed yet" in plan, plan
    assert "read these again" in restore and "src/words.py" in restore, restore
    assert "src is not needed" in recall, recall
    # A restore does not end the session that asks for it.
    (run,) = world.sessions(session)
    assert run["status"] == "completed", run
    registered = world.home / stage.agent.registered
    assert str(world.program) in registered.read_text()
    world.rappel("integrate", stage.agent.name, "--remove")
    assert str(world.program) not in registered.read_text()


@case(
    needs={"MCP calls that name their session"},
    think=[
        {"do": [("find-mcp-tools", "record", "recall")]},
        {"do": [("mcp", "record", {"kind": "hypothesis", "text": "src is not needed"})]},
        {"say": "I will see."},
    ],
)
def what_an_agent_records_by_tools_is_in_its_own_session(stage):
    world = stage.world
    world.rappel("integrate", stage.agent.name, "--mcp")
    session = stage.agent.ask("Think of src. (script: think)")
    (run,) = world.sessions(session)
    assert [one["text"] for one in run["state"]["hypotheses"]] == ["src is not needed"], run
    assert [one["id"] for one in world.all_sessions()] == [run["id"]]
