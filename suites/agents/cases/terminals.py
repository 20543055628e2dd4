"""Cases: a person types into the terminal of an agent."""

import checks
from cases import case
from model import SUMMARY
from terminal import Terminal


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
        assert len(model.requests) == asked or stage.agent.repeats, "the model was asked"
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
    needs={"a review of hooks"},
    unseen=[{"do": [("write", "unseen.txt", "unseen\n")]}, {"say": "It is written."}],
    seen=[{"do": [("write", "seen.txt", "seen\n")]}, {"say": "It is there."}],
    later=[{"say": "I am here."}],
)
def hooks_run_once_a_person_has_trusted_them(stage):
    world, agent = stage.world, stage.agent
    agent.forget_trust()
    agent.ask("Write one. (script: unseen)")
    assert not world.checkpoints("prompt")
    assert world.integrations() == {agent.name: "unconfirmed"}
    with Terminal(agent) as terminal:
        terminal.shows(agent.review)
        for key in agent.trust:
            terminal.key(key)
            terminal.settle()
        terminal.type("Write another. (script: seen)")
        terminal.shows("It is there.")
        terminal.settle()
        terminal.leave()
    checks.prompts_are_checkpoints(stage, ["Write another."])
    # Nothing has to be trusted again.
    world.rappel("integrate", agent.name)
    agent.ask("Are you there? (script: later)")
    checks.prompts_are_checkpoints(stage, ["Write another.", "Are you there?"])
    assert world.integrations() == {agent.name: "working"}
