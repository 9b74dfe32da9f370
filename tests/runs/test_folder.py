"""A run folder belongs to one process at a time, and is never lost to another one or to a failure."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import calql
import corridor
from calql.runs import folder as folders
from calql.runs import life as training
from calql.runs import lock
from calql.runs.folder import discard, make_folder
from calql.runs.life import resume
from calql.runs.lock import owned
from calql.system.errors import UserError

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {
    "seeds": 1, "offline_updates": 6, "online_steps": 40, "evaluate_offline_every": 6, "evaluate_online_every": 20,
    "evaluation_episodes": 2, "policy_widths": (8,), "critic_widths": (8,), "batch_size": 8, "sampled_actions": 2,
    "backup_actions": 2,
}  # fmt: skip


def train(out: Path | None, data: Path, **changes: Any) -> calql.Outcome:
    return calql.train(dataset=data, env="corridor:Corridor-v0", out=out, **{**TINY, **changes})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corridor.write_demonstrations(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def done(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "done", data).folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- making it ------------------------------------------------------------------------------------------------


def test_another_process_that_made_the_folder_meanwhile_keeps_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both had found that it was not there."""
    out, check = tmp_path / "run", training.preparation.prepare

    def slow(*words: Any, **names: Any) -> Any:
        made = check(*words, **names)
        out.mkdir()
        (out / "metrics.jsonl").write_text('{"of": "the other one"}\n')
        return made

    monkeypatch.setattr(training.preparation, "prepare", slow)
    with pytest.raises(UserError, match="exists already"):
        train(out, data)
    assert contents(out) == {"metrics.jsonl": b'{"of": "the other one"}\n'}


def test_default_names_of_one_second_do_not_collide(tmp_path: Path) -> None:
    default = tmp_path / "runs" / "maze-cal-ql-20260101-000000"
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(make_folder(None, default))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in made) == sorted(
        [default.name, *(f"{default.name}-{number}" for number in range(2, 9))]
    )


def test_default_names_are_plain() -> None:
    assert folders.default_folder("my pkg:$\\frac{[/x]\x1b[31m", "cal-ql").name.startswith("my-pkg-frac-x-31m-cal-ql-")


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "run", tmp_path / "file" / "deeper" / "run", Path("/proc/run")):
        with pytest.raises(UserError, match="cannot be made"):
            make_folder(out, out)


def test_only_what_has_not_begun_is_removed(tmp_path: Path) -> None:
    for name in ("empty", "begun", "foreign"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        for file in ("config.json", "status.json", ".lock", f".status.json.{'0' * 32}"):
            (tmp_path / name / file).write_text("{}")
    (tmp_path / "begun" / "checkpoints" / "0.npz").write_text("")
    (tmp_path / "foreign" / "notes.txt").write_text("")
    before = {name: contents(tmp_path / name) for name in ("begun", "foreign")}
    for name in ("empty", *before):
        discard(tmp_path / name)
    assert not (tmp_path / "empty").exists()
    assert before == {name: contents(tmp_path / name) for name in before}


def test_a_run_that_cannot_begin_leaves_no_folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise UserError("no")

    monkeypatch.setattr(training.preparation, "plan", refuse)
    with pytest.raises(UserError, match="no"):
        train(tmp_path / "run", data)
    assert not (tmp_path / "run").exists()


# -- owning it ------------------------------------------------------------------------------------------------


def hold(folder: Path, ready: Any) -> None:
    with owned(folder):
        ready.set()
        time.sleep(120)


def test_a_second_process_is_refused_until_the_first_is_dead(done: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(done, ready))
    process.start()
    try:
        assert ready.wait(60)
        before = contents(done)
        with pytest.raises(UserError, match=f"process {process.pid} on {socket.gethostname()}.*is at work") as raised:
            resume(done)
        assert "\n" not in str(raised.value)
        assert contents(done) == before
    finally:
        process.kill()
        process.join()
    assert (done / lock.LOCK).exists()  # left over
    assert resume(done).finished
    assert not (done / lock.LOCK).exists()


def test_one_of_two_resumes_goes_on(done: Path, data: Path, tmp_path: Path) -> None:
    """As commands, at the same time: the rows are those of one."""
    out = tmp_path / "run"
    train(out, data, online_steps=0)
    words = [sys.executable, "-m", "calql", "train", "--resume", str(out), "--online-steps", "40"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(corridor.__file__).parent), *sys.path])}
    both = [subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "12"]
    told = [(process.communicate(timeout=300)[1], process.returncode) for process in both]
    assert sorted(code for _, code in told) in ([0, 2], [0, 0]), told  # the second may come when the first has ended
    for text, code in told:
        assert ("is at work" in text) == (code == 2)
    assert (out / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


def note(folder: Path, age_s: float, **changes: Any) -> None:
    (folder / lock.LOCK).write_text(json.dumps({"host": "elsewhere", "pid": 7, "since": "noon", **changes}))
    then = time.time() - age_s
    os.utime(folder / lock.LOCK, (then, then))


def test_a_fresh_note_of_another_machine_is_believed(tmp_path: Path) -> None:
    note(tmp_path, 1.0)
    with pytest.raises(UserError, match="process 7 on elsewhere since noon"), owned(tmp_path):
        pass
    note(tmp_path, 2 * lock.BELIEVED_S)
    with owned(tmp_path):
        assert json.loads((tmp_path / lock.LOCK).read_text())["pid"] == os.getpid()


def test_without_locks_of_the_system_the_note_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "taken", lambda _: None)
    with owned(tmp_path), pytest.raises(UserError, match="is at work"), owned(tmp_path):
        pass
    note(tmp_path, 0.0, host=socket.gethostname(), pid=2**22 + 1)  # nobody has that number
    with owned(tmp_path):
        pass


def test_a_lock_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / lock.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot be written to"), owned(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


# -- failing in it --------------------------------------------------------------------------------------------


def test_a_failure_before_the_first_checkpoint_keeps_the_folder(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(UserError, match="only one connection"):
        calql.train(dataset=data, env=_OneConnection, out=out, episode_limit=20, **TINY)
    status = json.loads((out / "status.json").read_text())
    assert not status["finished"]
    assert "only one connection" in status["reason"]
    assert (out / "config.json").exists()


class _OneConnection(corridor.Corridor):
    open = 0

    def __init__(self) -> None:
        if _OneConnection.open:
            raise RuntimeError("only one connection")
        _OneConnection.open += 1

    def close(self) -> None:
        _OneConnection.open -= 1


def test_a_second_interrupt_keeps_the_folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Run, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", data)
    assert "KeyboardInterrupt" in json.loads((tmp_path / "run" / "status.json").read_text())["reason"]
    monkeypatch.undo()
    assert resume(tmp_path / "run").finished


def test_a_folder_whose_run_never_began_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / f".config.json.{'a' * 32}").write_text("{")
    (tmp_path / lock.LOCK).write_text("")
    with pytest.raises(UserError, match="before it had begun, nothing is lost; remove the folder and give"):
        resume(tmp_path)


def test_what_a_kill_left_of_files_goes(done: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(out, data, online_steps=0)
    left = [out / f".metrics.jsonl.{'0a' * 16}", out / "checkpoints" / "9.partial"]
    for path in left:
        path.write_text("half")
    mine = out / ".notes.txt"
    mine.write_text("of the user")
    resume(out, online_steps=40)
    assert not any(path.exists() for path in left)
    assert mine.exists()
    assert (out / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


# -- finished, and further ------------------------------------------------------------------------------------


def test_a_finished_run_is_left_as_it_is(done: Path) -> None:
    before = contents(done)
    assert resume(done).finished
    assert contents(done) == before


def test_a_finished_run_without_checkpoints_is_left_as_it_is(data: Path, tmp_path: Path) -> None:
    out = train(tmp_path / "run", data).folder
    for path in (out / "checkpoints").iterdir():
        path.unlink()
    (out / "checkpoints").rmdir()
    before = contents(out)
    assert resume(out).finished
    with pytest.raises(UserError, match="its checkpoints are gone, so it cannot be extended"):
        resume(out, online_steps=80)
    assert contents(out) == before


def test_an_unfinished_run_without_checkpoints_keeps_its_results(data: Path, tmp_path: Path) -> None:
    out = train(tmp_path / "run", data).folder
    (out / "status.json").unlink()
    for path in (out / "checkpoints").iterdir():
        path.unlink()
    rows = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="its checkpoints are gone"):
        resume(out)
    assert (out / "metrics.jsonl").read_bytes() == rows


@pytest.mark.parametrize("schedule", ["trajectory", "step"])
def test_an_extended_run_is_the_longer_one(schedule: str, data: Path, tmp_path: Path) -> None:
    """Where its old end is also a moment of evaluation."""
    long = train(tmp_path / "long", data, online_steps=80, seeds=2, update_schedule=schedule)
    short = train(tmp_path / "short", data, seeds=2, update_schedule=schedule)
    extended = resume(short.folder, online_steps=80)
    assert extended.finished
    for seed in (0, 1):  # a seed that ended early had fewer rows, so that those of both may be in another order
        rows = [[row for row in one.rows if row["seed"] == seed] for one in (long, extended)]
        assert rows[0] == rows[1]
    config = json.loads((short.folder / "config.json").read_text())
    assert config["run"]["online_steps"] == 80
    assert config["resumed"][-1]["changed"] == {"online_steps": [40, 80]}


def test_pre_training_can_be_followed_by_fine_tuning(done: Path, data: Path, tmp_path: Path) -> None:
    offline = train(tmp_path / "run", data, online_steps=0)
    assert resume(offline.folder, online_steps=40).finished
    assert (offline.folder / "metrics.jsonl").read_bytes() == (done / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"online_steps": 20}, "can only grow"),
        ({"seeds": 3}, "--seeds 3 would make another run of this one .it is 1."),
        ({"mixing": 0.1}, "--mixing 0.1 would make another run"),
        ({"batch_size": 9}, "--batch-size 9 would make another run"),
        ({"offline_updates": 9}, "more --offline-updates come too late"),
    ],
)
def test_what_would_be_another_run_is_refused(done: Path, changes: dict[str, Any], said: str) -> None:
    before = contents(done)
    with pytest.raises(UserError, match=said):
        resume(done, **changes)
    assert contents(done) == before
