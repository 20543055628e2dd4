"""What holds after every case, whichever agent played."""


def prompts_are_checkpoints(stage, prompts):
    """Each prompt made one checkpoint, described by its first line, in this order."""
    made = [one["description"] for one in stage.world.checkpoints("prompt")]
    assert len(made) == len(prompts), (made, prompts)
    for title, prompt in zip(made, prompts):
        assert title.startswith(prompt), (made, prompts)


def journal_is_what_happened(stage, name, *steps):
    """The journals of an agent's session tell its prompts and the calls that the model made, each
    once, and how each ended.

    Every run of the agent is a session of its own with the one before as its parent.
    """
    runs = stage.world.sessions(name)
    prompts = [one["text"] for run in runs for one in run["state"]["prompts"]]
    asked = [text for text in prompts for step in steps if f"(script: {step})" in text]
    assert len(asked) == len(prompts) == len(steps), (prompts, steps)
    parents = [run["parent"] for run in runs]
    assert parents == [None, *(run["id"] for run in runs[:-1])], parents
    calls_are_told(stage, stage.model.happened(*steps), [run["id"] for run in runs])


def calls_are_told(stage, made, sessions):
    """The journals of these sessions tell exactly these calls."""
    told = {}
    for session in sessions:
        for call in stage.world.state(session)["tool_state"]["calls"]:
            assert call["id"] not in told, f"told twice: {call}"
            told[call["id"]] = call
    assert made, "the model made no call"
    for call in made:
        # Some agents give a call no id; what it was given tells which one it is.
        alike = [one["id"] for one in told.values() if one["arguments"] == call.given]
        found = told.pop(call.id if call.id in told else (alike or [None])[0], None)
        assert found, f"the journal lacks {call}, it has {told}"
        assert found["completed_at"], f"{call} is open: {found}"
        if call.succeeded is not None:
            assert found["success"] == call.succeeded, (call, found)
    assert not told, f"these calls were never made: {told}"
