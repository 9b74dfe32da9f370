"""Bad input of every kind: one line, the exit code for it, nothing left behind, nothing lost.

To add a case, add a line to CASES: the command and a part of what it must say. Files, runs and environments that
commands name are made in bad_world.py, one line each. The commands run in that folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bad_world
import calql
import calql.system.files
import corridor
from calql.cli import main
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

SMALL = "--seeds 1 --offline-updates 4 --online-steps 20 --quiet"  # in case that it is not refused
OWN = f"train --dataset good.npz --env corridor:Corridor-v0 {SMALL} --out new"

ROUND = "round start new --dataset good.npz --env corridor:Corridor-v0 --seeds 1 --offline-updates 4 --quiet"
CHOICES = "train --dataset choices.npz --offline --seeds 1 --offline-updates 4 --quiet --out new"
LOGS = "train --dataset good.npz --offline --seeds 1 --offline-updates 4 --quiet --out new"


def data(name: str) -> str:
    return f"train --dataset {name} --env corridor:Corridor-v0 {SMALL} --out new"


def env(name: str) -> str:
    return f"train --dataset good.npz --env bad_world:{name}-v0 {SMALL} --out new"


def choose(name: str, made: str = "Discrete") -> str:
    return f"train --dataset {name} --env bad_world:{made}-v0 {SMALL} --out new"


CASES: list[tuple[str, str]] = [
    # commands and names
    ("trian", "did you mean 'train'"),
    ("data inspct good.npz", "did you mean 'inspect'"),
    ("train --task point-maze-narow --out new", "did you mean 'point-maze-narrow'"),
    (f"train --task '' {SMALL} --out new", "--task is ''"),
    (f"{OWN} --method calql", "did you mean 'cal-ql'"),
    (f"{OWN} --preset papr", "did you mean 'paper'"),
    (f"{OWN} --conservative-wieght 3", "did you mean 'conservative-weight'"),
    (f"{OWN} --task point-maze-narrow", "--task and --env exclude each other"),
    ("train --env corridor:Corridor-v0 --out new", "--dataset is missing"),
    ("train --dataset good.npz --out new", "--env is missing"),
    ("train --offline --out new", "--dataset is missing"),
    (f"{LOGS} --env corridor:Corridor-v0", "--offline and --env exclude each other"),
    (f"{LOGS} --method odt", "cannot be valued from logs alone"),
    (f"{LOGS} --online-steps 5", "0 with --offline"),
    (f"{CHOICES} --action-high 1", "logged actions go from 0 to 2, and choices from 0 to 1"),
    (f"{CHOICES} --action-low 0.5", "of discrete actions it is one whole number"),
    (f"{CHOICES} --method td3-bc", "cannot learn discrete actions"),
    (f"{LOGS} --hold-out 0", "is held out; raise --hold-out"),
    (f"{LOGS} --fqe-updates 0", "--fqe-updates is 0"),
    (f"{LOGS} --action-low -1 -2", "--action-low has 2 numbers"),
    (f"{LOGS} --action-low 5 --action-high 1", "the lower bound first"),
    (f"{LOGS} --action-low nan", "--action-low is nan"),
    (f"{OWN} --action-low -1", "are for logs alone"),
    ("evaluate", "run"),
    ("report", "run"),
    ("watch", "run"),
    # options
    (f"{OWN} --seeds none", "seeds"),
    (f"{OWN} --seeds", "seeds"),
    (f"{OWN} --seeds 0", "at least 1"),
    (f"{OWN} --seeds -3", "at least 1"),
    (f"{OWN} --seeds 2.5", "seeds"),
    (f"{OWN} --seeds 2000000", "needs at least"),
    (f"{OWN} --seeds 99999999999999999999", "at most 2147483647"),
    (f"{OWN} --batch-size 1000000000", "use a smaller --batch-size"),
    (f"{OWN} --batch-size 0", "at least 1"),
    (f"{OWN} --capacity 2000000000 --online-steps 2000000000", "use a smaller --capacity"),
    (f"{OWN} --policy-widths 0", "--policy-widths is 0; it must be at least 1"),
    (f"{OWN} --critic-widths 256 -3", "--critic-widths is -3"),
    (f"{OWN} --policy-widths 2000000000", "or smaller networks"),
    (f"{OWN} --policy-rate 0", "above 0"),
    (f"{OWN} --critic-rate -0.1", "above 0"),
    (f"{OWN} --target-rate 2", "above 0 and at most 1"),
    (f"{OWN} --discount nan", "--discount is nan"),
    (f"{OWN} --discount 1", "below 1"),
    (f"{OWN} --gap inf", "--gap is inf"),
    (f"{OWN} --mixing 1.5", "[0, 1], or -1"),
    (f"{OWN} --log-std-range 2 -20", "the lower bound first"),
    (f"{OWN} --difference-clip 3 1", "the lower bound first"),
    (f"{OWN} --conservative-weight -5", "at least 0"),
    (f"{OWN} --target-subset 3", "number of critics"),
    (f"{OWN} --reference montecarlo", "did you mean 'monte-carlo'"),
    (f"{OWN} --reference none --method bc --mixing 0.5 --reference sarsa", "takes no reference value"),
    (f"{OWN} --critic-loss maximum", "maximum"),
    (f"{OWN} --lag 2", "lag"),
    (f"{OWN} --lag 1 --update-schedule step", "0 with --update-schedule step"),
    (f"{OWN} --keep-episodes 5", "-1 with --keep-episodes"),
    (f"{OWN} --devices 64", "--devices is 64, and 1 device is there"),
    (f"{OWN} --devices -1", "--devices is -1"),
    (f"{OWN} --workers -2", "--workers is -2"),
    (f"{OWN} --stream maybe", "stream"),
    (f"{OWN} --workers 100000", "--workers is 100000"),
    (f"{OWN} --hold-out 1", "below 1"),
    (f"{OWN} --episode-limit -5", "--episode-limit is -5; it must be at least 1"),
    (f"{OWN} --episode-limit 0", "at least 1"),
    (f"{OWN} --episode-limit many", "not a number"),
    (f"{OWN} --reward-scale 0", "other than 0"),
    (f"{OWN} --reward-scale nan", "--reward-scale is nan"),
    (f"{OWN} --max-minutes -1", "--max-minutes is -1"),
    (f"{OWN} --max-minutes nan", "--max-minutes is nan"),
    ("export", "no run given"),
    ("export gone --to npz", "is not a run folder"),
    ("export run --to onyx", "did you mean 'onnx'"),
    ("export run --to npz --seed first", "--seed is 'first'"),
    ("export run --to npz --seed 9", "the run has no seed 9"),
    ("export run --to npz --arm x=1", "has no arm 'x=1'"),
    ("export run --to npz --out good.npz", "exists already"),
    ("evaluate run --episodes 0", "--episodes is 0"),
    ("evaluate run --start -1", "--start is -1"),
    ("watch run --port 65536", "--port is 65536"),
    ("watch run --port -1", "--port is -1"),
    ("bench --seconds 0", "--seconds is 0"),
    ("bench --camera 64", "--camera without --stream"),
    ("bench --stream --camera 2", "--camera is 2"),
    ("bench --stream --run 1", "exclude each other"),
    ("bench --dataset good.npz", "--dataset is for a whole run"),
    ("bench --seeds 0", "--seeds is 0"),
    ("data build point-maze-narrow --seed -1", "--seed is -1"),
    ("data build point-maze-narrow --size 0", "--size is 0"),
    ("data build point-maze-narow", "did you mean"),
    ("data download antmaze-umase", "did you mean 'antmaze-umaze'"),
    ("data certify antmaze-umaze good.npz", "is data of another task"),
    ("data difficulty point-maze-narow", "did you mean"),
    ("data difficulty point-maze-narrow --updates 0", "--updates is 0"),
    ("data difficulty point-maze-narrow --size 5", "'point-maze-narrow' has one size"),
    ("reproduce page gone", "is not there"),
    ("reproduce page folder.npz", "holds no runs and no tables of results"),
    ("reproduce fig-idea --dry-run --seeds 0", "--seeds is 0"),
    ("reproduce fig-idea --dry-run --max-minutes -1", "--max-minutes is -1"),
    ("reproduce fig-idea --dry-run --jobs 0", "--jobs is 0"),
    ("reproduce fig-idea --dry-run --set policy_rate=-1", "--policy-rate is -1"),
    ("reproduce fig-idea --dry-run --set policy_rate=fast", "it must be a number"),
    ("reproduce fig-idea --dry-run --set mixing=7", "--mixing is 7"),
    ("reproduce fig-idea --dry-run --set no_such=1", "no_such"),
    ("reproduce fig-ides --dry-run", "did you mean 'fig-idea'"),
    # data files
    (data("gone.npz"), "no such file"),
    (data("folder.npz"), "is a folder that no format knows"),
    (data("a-file"), "is a file that no format knows"),
    (data("minari:no/such-v0"), "minari:no/such-v0"),
    (data("empty.npz"), "is not a whole .npz archive"),
    (data("empty.hdf5"), "is not a whole HDF5 file"),
    (data("text.npz"), "is not a whole .npz archive"),
    (data("text.hdf5"), "is not a whole HDF5 file"),
    (data("no-rewards.npz"), "no 'rewards'"),
    (data("no-ends.npz"), "nothing says where episodes end"),
    (data("done.npz"), "or say which column it is, with --columns terminal=done"),
    (data("other-names.npz"), "or say what they are: --columns action=act observation=obs"),
    (data("short.npz"), "lengths disagree"),
    (data("nan.npz"), "'observations' holds"),
    (data("inf.npz"), "'actions' holds"),
    (data("huge-rewards.npz"), "'rewards' holds"),
    (data("flags.npz"), "flags must be 0 or 1"),
    (data("words.npz"), "not numbers"),
    (data("discrete.npz"), "actions are whole numbers and those of corridor:Corridor-v0 are Box"),
    (data("no-rows.npz"), "no rows"),
    (data("no-episode.npz"), "holds no episode"),
    (data("wide.npz"), "observations have shape (2,) and those of wide.npz (4,)"),
    (data("other-units.npz"), "different units"),
    (data("pickled.npz"), "never loaded"),
    (data("dictionary.npz"), "one array of shape (2,), and those of the data a dictionary of eye uint8"),
    (f"{data('dictionary.npz')} --observations arm ear", "no column is called 'ear'"),
    (f"{data('dictionary.npz')} --method odt", "cannot take images"),
    (data("colours-first.npz"), "'eye' has pictures of shape [3, 9, 9]"),
    (data("bomb.npz"), "unpacks from"),
    (data("hollow.hdf5"), "of memory"),
    (data("dangling.hdf5"), "'rewards' is a link"),
    (data("soft-link.hdf5"), "'rewards' is a link"),
    (data("external-link.hdf5"), "'rewards' is a link to good.hdf5, which is not followed"),
    (data("external-storage.hdf5"), "lie in another file"),
    (data("virtual.hdf5"), "is a view of other arrays"),
    (data("group.hdf5"), "'rewards' is a group"),
    (data("damaged.hdf5"), "is not a whole HDF5 file"),
    ("data inspect dangling.hdf5", "'rewards' is a link"),
    ("data inspect bomb.npz", "unpacks from"),
    ("data view bomb.npz", "unpacks from"),
    ("data view", "no file given"),
    ("data view good.npy", "did you mean 'good.npz'"),
    ("data view point-maze-narow", "did you mean 'point-maze-narrow'"),
    ("data view good.npz --out page.pdf", "ends in .html"),
    ("data view good.npz --dims 0", "name two"),
    ("data view good.npz --dims 0 speed", "no feature is called 'speed'"),
    ("data view good.npz --films 3", "no environment is known to film with"),
    ("data view good.npz --films -1", "in [0, 12]"),
    ("data view good.npz --films 1 --env corridor:Corridor-v0", "show_observation"),
    ("data view good.npz --task no-such-task", "no-such-task"),
    ("data view good.npz --serve --port 70000", "in [0, 65535]"),
    # columns, observations, rewards
    (data("log.csv"), "cmd, name); for example --columns observation=joint_0,joint_1,name action=cmd episode=run"),
    (f"{data('log.csv')} --columns observation=joint_* action=cmd", "no column says that it is the episode"),
    (f"{data('log.csv')} --columns observation=joint_* action=cmd episode=run", "nothing says what the reward is"),
    (f"{data('log.csv')} --columns observation=joint_* action=cmd episode=run reward=name", "not numbers"),
    (f"{OWN} --columns observation", "give ROLE=NAME"),
    (f"{OWN} --columns observaton=observations", "did you mean 'observation'"),
    (f"{OWN} --columns observation=observatons", "did you mean 'observations'"),
    (f"{OWN} --columns observation=observations --observations actions", "say the same"),
    (f"{OWN} --observations no_such", "no column is called 'no_such'"),
    (f"{OWN} --reward nowhere:function", "the reward function cannot be imported"),
    (f"{OWN} --reward bad_world:TINY", "the reward function is a dict"),
    (f"{OWN} --reward success", "no column says that it is the success flag"),
    (f"{OWN} --reward rewrds", "did you mean 'rewards'"),
    (f"{OWN} --reward ''", "--reward is ''"),
    (f"train --task point-maze-narrow --drop-bad-episodes {SMALL} --out new", "for a file or folder of your own"),
    ("data convert good.npz", "no to given"),
    ("data convert good.npz new.zip", "end it in .columns, .npz"),
    ("data convert good.npz good.hdf5", "exists already"),
    ("data convert nan.npz new.npz", "'observations' holds"),
    ("data inspect not-a-run", "is a folder that no format knows"),
    # environments
    ("train --dataset good.npz --env nowhere:Nothing-v0 --out new", "package:Name-v0"),
    ("train --dataset good.npz --env NoSuchEnv-v0 --out new", "cannot be made"),
    ("train --dataset good.npz --env '' --out new", "--env is ''"),
    (env("Unmade"), "the motor is off"),
    (env("NoReset"), "the motor is off"),
    (env("NoStep"), "the motor is off"),
    (env("OldReset"), "OldReset-v0"),
    (env("OldStep"), "OldStep-v0"),
    (env("NaNReset"), "NaN"),
    (env("NaNReward"), "NaN"),
    (env("OtherShape"), "(3,)"),
    (env("Wide"), "observations have shape (5,)"),
    (env("TwoActions"), "actions have shape (2,)"),
    (env("Discrete"), "store one whole number per row"),
    (env("ManyChoices"), "wrap it so that one number stands for each combination, as Discrete(12)"),
    (choose("one-column.npz"), "store one whole number per row: actions as an integer array [row], here actions[:, 0]"),
    (choose("one-hot.npz"), "here actions.argmax(axis=1)"),
    (choose("out-of-range.npz"), "1 action outside 0 to 2, the first is 7 in row 3"),
    (choose("forbids-logged.npz"), "'action_masks' forbids the logged action in"),
    (choose("forbids-all.npz"), "'action_masks' forbids every action in 1 row, the first is row 5"),
    (choose("narrow-masks.npz"), "'action_masks' has 2 columns and the environment 3 actions"),
    (choose("masked.npz"), "gives no 'action_mask' and masked.npz has 'action_masks'"),
    (choose("choices.npz", "OtherMask"), "its action_mask has shape (2,), not (3,)"),
    (choose("choices.npz", "NoChoice"), "its action_mask forbids every action"),
    (f"{choose('choices.npz')} --method td3-bc", "cannot learn discrete actions; these can, with --method: cal-ql,"),
    (f"{choose('choices.npz')} --method iql --ascent-weight 1", "it must be 0 with discrete actions"),
    (f"{choose('choices.npz')} --method bc --objective squared", "it must be likelihood with discrete actions"),
    (f"{choose('choices.npz')} --actor categorical", "with a Discrete action space there is no other"),
    (f"{OWN} --method dqn", "the method 'dqn' cannot learn continuous actions"),
    (env("Dictionary"), "FlattenObservation(gymnasium.make('bad_world:Dictionary-v0'))); then --env"),
    (env("Unbounded"), "not finite ranges"),
    (env("Images"), "observations"),
    (env("Endless"), "give one, for example --episode-limit"),
    # rounds
    ("round strt new", "did you mean 'start'"),
    ("round start", "no project given"),
    ("round start new", "--dataset is missing"),
    (f"{ROUND} --online-steps 5", "steps come with the episodes that are added"),
    (f"{ROUND} --trajectories 2", "1 where episodes are handed in"),
    (f"{ROUND} --preset corl --update-schedule step", "trajectory where episodes are handed in"),
    (f"{ROUND} --vary gap=1,2", "--vary is for calql train"),
    (f"{ROUND} --out there", "--out is for calql train"),
    (f"{ROUND} --seeds 0", "at least 1"),
    (ROUND.replace("new", "project", 1), "go on with calql round train project"),
    (ROUND.replace("new", "run", 1), "exists already"),
    (ROUND.replace("good.npz", "nan.npz"), "'observations' holds"),
    ("round add project", "no files given"),
    ("round add project gone.npz", "no such file"),
    ("round add project nan.npz", "'observations' holds"),
    ("round add project wide.npz", "of shape (4,), and those of the project float32 of shape (2,)"),
    ("round add project other-units.npz", "different units"),
    ("round add project discrete.npz", "those of the project Box"),
    ("round add project good.npz --round 3", "there is no round 3 that has ended"),
    ("round add project good.npz --round -1", "there is no round -1"),
    ("round add project claims.npz", "'policy_actions' are not the actions"),
    ("round add project torn-note.npz", "'collected' cannot be read"),
    ("round add run good.npz", "is no project of rounds"),
    ("round train project", "no new episode waits"),
    ("train --resume project/rounds/000 --online-steps 40", "is a round of a project"),
    ("round train gone", "is no project of rounds"),
    ("round train project-torn", "is not valid JSON"),
    ("round train project-later", "use the version of calql that wrote it"),
    ("round status project-strange", "is not as it was written"),
    ("round back project", "no round is named"),
    ("round back project 5", "its rounds are 0"),
    ("round collect project --episodes 0", "at least 1"),
    ("round collect project --seed 9", "the project has no seed 9"),
    ("round collect project --env bad_world:Wide-v0", "those of the project are of shape (2,)"),
    # folders
    (f"{OWN[:-3]}run", "exists already"),
    (f"{OWN[:-3]}a-file", "exists already"),
    (f"{OWN[:-3]}a-file/new", "a part of its path is a file"),
    (f"{OWN[:-3]}/proc/new", "/proc/new"),
    (f"{OWN[:-3]}{'x' * 300}", "cannot be made: File name too long"),
    ("train --resume gone", "not a run folder"),
    ("train --resume a-file", "is not a run folder"),
    ("train --resume not-a-run", "was ended before it had begun"),
    ("evaluate gone", "not a run folder"),
    ("report gone", "no such run folder"),
    ("watch gone", "no such run folder"),
    ("watch not-a-run", "config.json"),
    ("watch run", "every run has ended"),
    ("report not-a-run", "config.json"),
    ("report run --out page.pdf", "ends in .html"),
    ("report run --out a-file/page.html", "a-file"),
    ("render no-such-task", "no-such-task"),
    ("render run", "Corridor-v0: the environment draws no pictures; let it take render_mode='rgb_array'"),
    *(
        (f"{command} {run}{more}", said)
        for command, more in (("train --resume", " --online-steps 40"), ("evaluate", ""))  # a finished run is extended
        for run, said in (
            ("run-empty-config", "has no 'choice'"),
            ("run-list-config", "is not a JSON object"),
            ("run-torn-config", "is not valid JSON"),
            ("run-deep-config", "is not valid JSON"),
            ("run-no-choice", "has no 'choice'"),
            ("run-choice-text", "has str as 'choice'"),
            ("run-seeds-text", "among its 'seeds'"),
            ("run-text-steps", "config.json: --online-steps is '20'; it must be a whole number"),
            ("run-null-batch", "--batch-size is None"),
            ("run-negative-rate", "config.json: --policy-rate is -1.0; it must be above 0"),
            ("run-later-version", "'run' has warp_factor, which this version does not know"),
            ("run-later-option", "'options' has warp_factor, which this version does not know"),
            ("run-unknown-method", "did you mean 'cal-ql'"),
            ("run-strangers", "imports the module 'strange_module', which only its config.json names"),
            ("run-no-data", "gone.npz: no such file"),
            ("run-other-data", "the data are not those the run was started with"),
            ("run-cut-checkpoint", "delete it: the run goes on from the one before it"),
        )
    ),
    ("train --resume run-linked", "speed.jsonl: is a symbolic link"),
    ("train --resume run-linked-checkpoints", "checkpoints: is a symbolic link"),
    ("evaluate run-linked", "speed.jsonl: is a symbolic link"),
    ("report run-linked", "speed.jsonl: is a symbolic link"),
    ("report run-linked-plots", "plots: is a symbolic link"),
    ("report run-list-config", "is not a JSON object"),
    ("report run-choice-text", "has str as 'choice'"),
    ("report run-seeds-text", "among its 'seeds'"),
    ("report run-torn-metrics", "line 2 is not a JSON object"),
]  # fmt: skip

PYTHON: list[tuple[dict[str, Any], str]] = [
    ({"seeds": "2"}, "seeds is '2'; it must be a whole number"),
    ({"batch_size": 2.5}, "batch_size is 2.5"),
    ({"batch_size": float("nan")}, "batch_size is nan"),
    ({"discount": "high"}, "discount is 'high'; it must be a number"),
    ({"critic_loss": "men"}, "did you mean 'mean'"),
    ({"update_schedule": "epoch"}, "update_schedule is 'epoch'; it must be trajectory or step"),
    ({"warmup_actions": None}, "warmup_actions is None"),
    ({"policy_widths": 256}, "several values in a row"),
    ({"episode_limit": -5}, "episode_limit is -5"),
    ({"reward_scale": "2"}, "reward_scale is '2'"),
    ({"dataset": {"observations": np.zeros((3, 2))}}, "the dataset is a dict"),
    ({"dataset": 3}, "the dataset is a int"),
    ({"env": 3}, "the environment is a int"),
    ({"env": corridor.Corridor()}, "the environment is a Corridor"),
    ({"env": lambda: corridor.Corridor(), "episode_limit": 20, "workers": 1}, "cannot be sent to worker processes"),
    ({"method": 3}, "method is 3"),
    ({"no_such_option": 3}, "no option is called 'no_such_option'"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    bad_world.build(folder)
    return folder


def content(folder: Path) -> dict[str, str]:
    """Everything in it, by name, with a checksum; a link by where it points."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        else:
            found[str(path)] = hashlib.md5(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return found


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    before = content(folder)
    yield
    assert content(folder) == before


def refused(command: str, capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """The one line of a command that must be refused."""
    try:
        ended = main(shlex.split(command))
    except SystemExit as end:  # as a shell would see it
        ended = int(end.code or 0)
    said = capsys.readouterr().err.strip()
    assert ended == code, said
    assert len(said.splitlines()) == 1, said
    assert said.startswith("calql: ")
    return said


@pytest.mark.parametrize(("command", "said"), CASES, ids=lambda value: value[:70] if isinstance(value, str) else None)
def test_commands(
    command: str, said: str, world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    with untouched(world):
        assert said in refused(command, capsys)


@pytest.mark.parametrize(
    ("change", "said"), PYTHON, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_from_python(change: dict[str, Any], said: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    given = {"dataset": "good.npz", "env": "corridor:Corridor-v0", "out": "new", **bad_world.TINY, **change}
    with untouched(world), pytest.raises(UserError) as raised:
        calql.train(**given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _broken(*_: Any) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("command", ["report run", "report run --out page.html", "report run run --out both.html"])
@pytest.mark.parametrize(("fault", "said"), [(_full, "the disk is full"), (_broken, "input/output error")])
def test_disks_that_fail_while_a_report_is_written(
    command: str,
    fault: Callable[..., None],
    said: str,
    world: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setattr(calql.system.files, "_to_disk", fault)
    before = content(world)
    assert said in refused(command, capsys)
    after = content(world)
    assert {name: after.get(name) for name in before} == before
    assert {kind for name, kind in after.items() if name not in before} <= {"folder"}


def test_the_page_says_how_many_cases_there_are() -> None:
    disks = 3 * 2
    page = (Path(__file__).parents[1] / "docs" / "reliability.md").read_text()
    assert f"harness of {len(CASES) + len(PYTHON) + disks} bad inputs" in page
    assert len({command for command, _ in CASES}) == len(CASES)
