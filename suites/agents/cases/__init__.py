"""What the agents are asked to do, and what Rappel has to hold afterwards.

Each case is a function with a script. It gets a `Stage` and asserts; nothing in it knows which
agent plays. `needs` names what an agent may lack.
"""

CASES = []


def case(needs=(), **steps):
    """Registers a case with its script: the turns of each step, by name."""

    def register(play):
        play.steps = {name.replace("_", "-"): turns for name, turns in steps.items()}
        play.needs = frozenset(needs)
        CASES.append(play)
        return play

    return register


# Each registers its cases.
from cases import work, terminals, losses, tools  # noqa: E402, F401
