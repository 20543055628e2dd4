"""Plays every case with every agent, each in a world of its own; see `scripts/agents-suite`."""

import argparse
import pathlib
import sys
import time
import traceback
from dataclasses import dataclass

import agents
import cases
from model import Model
from world import World

#: Rappel makes at least so many checkpoints in an hour of an agent's work.
RATE = 10


@dataclass
class Stage:
    """What a case plays on."""

    world: World
    model: Model
    agent: object
    installed: pathlib.Path

    def beside(self):
        """Another agent at work in the same folder: the next one of the list."""
        kinds = agents.AGENTS
        kind = kinds[(kinds.index(type(self.agent)) + 1) % len(kinds)]
        return on_stage(self.world, self.model.steps, kind, self.installed)

    def integrate(self, *options):
        """Integrates the agent, and does what the user has to do in the agent afterwards."""
        self.world.rappel("integrate", self.agent.name, *options)
        self.agent.trust_hooks()

    def until(self, holds, what):
        end = time.monotonic() + agents.PATIENCE
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}"
            time.sleep(0.05)


def on_stage(world, steps, kind, installed):
    """An agent with its model, set up and integrated."""
    model = Model(steps, kind.dialect(world.project))
    agent = kind(installed / kind.name, world, model.serve())
    agent.set_up()
    stage = Stage(world, model, agent, installed)
    stage.integrate()
    return stage


def play(case, kind, options, folder):
    """Plays one case. Returns the checkpoints that it made, and the hours that it took."""
    world = World(folder, options.rappel)
    stage = on_stage(world, case.steps, kind, options.installed)
    first, began = len(world.checkpoints()), time.monotonic()
    try:
        case(stage)
    finally:
        agents.kill_all()
        seen = [f"== {one.step}\n{one.text}\n" for one in stage.model.requests]
        (folder / "requests.txt").write_text("\n".join(seen))
    world.rest()
    return len(world.checkpoints()) - first, (time.monotonic() - began) / 3600


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rappel", type=pathlib.Path, required=True, help="the installed program")
    parser.add_argument("--installed", type=pathlib.Path, required=True, help="agents go below it")
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="worlds go below it")
    parser.add_argument("--agent", action="append", help="only this agent")
    parser.add_argument("--case", action="append", help="only cases so named, in part")
    options = parser.parse_args()
    # The agents run in folders of their own.
    options.installed = options.installed.resolve()
    wanted = options.case or [""]
    chosen = [one for one in cases.CASES if any(part in one.__name__ for part in wanted)]
    failed, not_run, checkpoints, hours = [], [], 0, 0.0
    for kind in agents.AGENTS:
        if options.agent and kind.name not in options.agent:
            continue
        version = agents.install(kind, options.installed / kind.name)
        print(f"{kind.package}: {version}", flush=True)
        for case in chosen:
            name = f"{kind.name}: {case.__name__.replace('_', ' ')}"
            if case.needs & kind.lacks:
                not_run.append(name)
                continue
            began = time.monotonic()
            folder = options.scratch / kind.name / case.__name__
            try:
                made, took = play(case, kind, options, folder)
                checkpoints, hours = checkpoints + made, hours + took
                result = "ok  "
            except Exception:
                traceback.print_exc(file=sys.stdout)
                print(f"     its world is {folder}")
                failed.append(name)
                result = "FAIL"
            print(f"{result} {time.monotonic() - began:5.1f} s  {name}", flush=True)
    if hours:
        rate = checkpoints / hours
        print(f"{checkpoints} checkpoints in {hours * 60:.1f} minutes: {rate:.0f} an hour")
        if rate < RATE:
            failed.append(f"fewer than {RATE} checkpoints an hour")
    for name in not_run:
        print(f"not run: {name}")
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed or not hours else 0


if __name__ == "__main__":
    sys.exit(main())
