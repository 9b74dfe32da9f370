"""Robot episodes in a LeRobot folder, and no environment: train on the logs alone, and hear what they say of it.

    python lerobot_logs.py            (needs the extra [formats])

An arm with two joints is moved to a target. The episodes lie in a LeRobot v3 folder, which this script writes first;
name your own in its place. Some episodes are held out, and policies are valued on these by fitted Q evaluation.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import calql

FPS, TARGET = 10, np.array([0.6, -0.4])
TYPES = {
    "observation.state": pa.list_(pa.float32()), "action": pa.list_(pa.float32()), "next.reward": pa.float32(),
    "next.done": pa.bool_(), "next.success": pa.bool_(), "timestamp": pa.float32(), "frame_index": pa.int64(),
    "episode_index": pa.int64(), "index": pa.int64(), "task_index": pa.int64(),
}  # fmt: skip


def episode(rng, number, first):
    """Somebody moves the arm to the target, not too steadily: rows as LeRobot records them."""
    joints, rows = rng.uniform(-1.0, 1.0, 2), []
    for frame in range(40):
        action = np.clip(2.0 * (TARGET - joints) + rng.normal(0.0, 0.3, 2), -1.0, 1.0)
        seen, joints = joints, joints + 0.1 * action
        there = bool(np.linalg.norm(TARGET - joints) < 0.12)
        rows.append(
            (seen, action, float(there), there or frame == 39, there, frame / FPS, frame, number, first + frame, 0)
        )
        if there:
            break
    return [tuple(value.tolist() if isinstance(value, np.ndarray) else value for value in row) for row in rows]


def write_folder(root, episodes=60):
    """Parquet tables and the `meta` beside them, as LeRobot 0.4 leaves them; cameras would be MP4 files."""
    rng, rows, lengths = np.random.default_rng(0), [], []
    for number in range(episodes):
        new = episode(rng, number, len(rows))
        rows += new
        lengths.append(len(new))
    frames = dict(zip(TYPES, zip(*rows)))
    ends = np.cumsum(lengths)
    about = {
        "episode_index": list(range(episodes)), "tasks": [["reach"]] * episodes, "length": lengths,
        "data/chunk_index": [0] * episodes, "data/file_index": [0] * episodes,
        "dataset_from_index": (ends - lengths).tolist(), "dataset_to_index": ends.tolist(),
    }  # fmt: skip
    features = {
        name: {
            "dtype": "float32" if "list" in str(kind) else str(kind),
            "shape": [2 if "list" in str(kind) else 1],
            "names": None,
        }
        for name, kind in TYPES.items()
    }
    info = {
        "codebase_version": "v3.0", "robot_type": "two_joints", "total_episodes": episodes, "total_frames": len(rows),
        "total_tasks": 1, "chunks_size": 1000, "fps": FPS, "splits": {"train": f"0:{episodes}"}, "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", "video_path": None,
    }  # fmt: skip
    for part in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / part).mkdir(parents=True)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    pq.write_table(pa.table({"task_index": [0], "task": ["reach"]}), root / "meta" / "tasks.parquet")
    pq.write_table(pa.table(about), root / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    pq.write_table(
        pa.table({name: pa.array(frames[name], kind) for name, kind in TYPES.items()}),
        root / "data" / "chunk-000" / "file-000.parquet",
    )


def main():
    folder = Path(tempfile.mkdtemp())
    write_folder(folder / "reach")
    # `offline=True`: there is no environment. What follows `action_high` only makes it quick.
    outcome = calql.train(
        dataset=folder / "reach", offline=True, action_low=(-1.0,), action_high=(1.0,),
        out=folder / "run", progress=False, hold_out=0.3, seeds=2, offline_updates=400, evaluate_offline_every=400,
        fqe_updates=300, policy_widths=(32, 32), critic_widths=(32, 32), batch_size=64,
    )  # fmt: skip
    for row in outcome.rows[-2:]:
        interval = f"{row['fqe_low']:.2f} to {row['fqe_high']:.2f}"
        print(f"seed {row['seed']}: value {row['fqe_value']:.2f} ({interval}), logged {row['behaviour_value']:.2f}")
        print(f"        squared distance of its actions to the logged ones {row['action_distance']:.2f}")
    best = max(outcome.rows[-2:], key=lambda row: row["fqe_low"])["seed"]  # the rule of docs/no-environment.md
    policy = calql.load_policy(outcome.folder, seed=best)
    moved = [round(float(push), 2) for push in policy(np.zeros(2, np.float32))]
    print(f"take seed {best}: with both joints at 0 it does {moved}; the target is {TARGET.tolist()}")
    print(f"run folder: {outcome.folder}")


if __name__ == "__main__":
    main()
