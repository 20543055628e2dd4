"""Cases: an agent uses Rappel by MCP."""

from cases import case


@case(
    build=[
        {"do": [("find-mcp-tools", "save", "record", "restore", "recall")]},
        {"do": [("mcp", "save", {"message": "it works", "tags": ["green"]})]},
        {"do": [("mcp", "record", {"kind": "hypothesis", "text": "src is not needed"})]},
        {"do": [("shell", "rm -r src && echo broken > README.md")]},
        {"do": [("mcp", "restore", {"checkpoint": "$saved"})]},
        {"do": [("mcp", "restore", {"checkpoint": "$saved", "plan": "$plan"})]},
        {"do": [("mcp", "recall", {})]},
        {"say": "It works again."},
    ],
)
def an_agent_goes_back_by_tools_alone(stage):
    world, model = stage.world, stage.model
    stage.integrate("--mcp")
    before = world.tree()
    session = stage.agent.ask("Try without src. (script: build)")
    assert world.tree() == before
    calls = [call for call in model.happened("build") if call.action == "mcp"]
    assert [call.succeeded for call in calls] == [True] * 5, calls
    _, _, plan, restore, recall = (call.result for call in calls)
    assert "Nothing was changed yet" in plan, plan
    assert "read these again" in restore and "src/words.py" in restore, restore
    # What was learnt since the checkpoint is not forgotten.
    assert "src is not needed" in recall, recall
    # A restore does not end the session that asks for it.
    (run,) = world.sessions(session)
    assert run["status"] == "completed", run
    registered = world.project.parent / stage.agent.registered
    assert str(world.program) in registered.read_text()
    world.rappel("integrate", stage.agent.name, "--remove")
    assert not registered.exists() or str(world.program) not in registered.read_text()


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
    stage.integrate("--mcp")
    session = stage.agent.ask("Think of src. (script: think)")
    (run,) = world.sessions(session)
    assert [one["text"] for one in run["state"]["hypotheses"]] == ["src is not needed"], run
    assert [one["id"] for one in world.all_sessions()] == [run["id"]]
