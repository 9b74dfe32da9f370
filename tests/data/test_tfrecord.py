"""TFRecord and tf.train.Example without TensorFlow, held to known checksums and to other people's encoders."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from format_samples import episodes, example, feature, messages, record, rlds_steps
from hypothesis import given
from hypothesis import strategies as st
from recordings import same_arrays

import corridor
from calql.data import load
from calql.data.tfrecord import Malformed, crc32c, masked, parse_example, records
from calql.system.errors import UserError

# RFC 3720, B.4
KNOWN = {
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
    b"123456789": 0xE3069283,
}


@pytest.mark.parametrize("content", KNOWN)
def test_known_checksums(content: bytes) -> None:
    assert crc32c(content) == KNOWN[content]


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 70_000, 262_144])
def test_long_contents_in_stripes(length: int) -> None:
    content = np.random.default_rng(length).bytes(length)
    assert crc32c(content) == google_crc32c.value(content)


def test_the_layout_of_a_record() -> None:
    """Length, its checksum, the bytes, their checksum; as another library's checksums give it."""
    content = (5).to_bytes(8, "little") + masked((5).to_bytes(8, "little")).to_bytes(4, "little") + b"hello"
    assert record(b"hello") == content + masked(b"hello").to_bytes(4, "little")


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(
            st.lists(st.binary(max_size=9), min_size=1, max_size=4),
            st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9),
        ),
        max_size=4,
    )
)
def test_examples_of_the_protobuf_library(features: dict[str, list]) -> None:
    arrays = {name: v if isinstance(v[0], bytes) else np.asarray(v) for name, v in features.items()}
    found, lists = parse_example(example(arrays))
    assert lists == {}
    assert found.keys() == features.keys()
    for name, values in features.items():
        assert list(found[name]) == values


def test_sequence_examples() -> None:
    made = messages()["SequenceExample"]()
    made.context.feature["id"].CopyFrom(feature([b"one"]))
    for values in ([1.0, 2.0], [3.0, 4.0]):
        made.feature_lists.list["action"].feature.append(feature(np.asarray(values, np.float32)))
    features, lists = parse_example(made.SerializeToString())
    assert features == {"id": [b"one"]}
    assert [list(values) for values in lists["action"]] == [[1.0, 2.0], [3.0, 4.0]]


def test_episodes_as_sequence_examples(tmp_path: Path) -> None:
    """A feature a step, and no description: what is what is known by the names."""
    walks, content = corridor.demonstrations(3), b""
    for columns in episodes(walks, closing=True):
        made = messages()["SequenceExample"]()
        for name, values in rlds_steps(columns).items():
            if name not in ("episode_id", "steps/language_instruction"):
                for value in values:
                    key = name.removeprefix("steps/").replace("observation/state", "observation")
                    made.feature_lists.list[key].feature.append(feature(np.asarray(value)))
        content += record(made.SerializeToString())
    (tmp_path / "walks.tfrecord").write_bytes(content)
    same_arrays(load(tmp_path / "walks.tfrecord"), walks)


def test_numbers_that_are_not_packed() -> None:
    """An older encoder writes each number as a field of its own."""
    floats = b"".join(b"\x0d" + np.float32(v).tobytes() for v in (1.5, -2.0))
    integers = b"\x08\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

    def nested(tag: int, content: bytes) -> bytes:
        return bytes([tag << 3 | 2, len(content)]) + content

    def entry(name: bytes, kind: int, content: bytes) -> bytes:
        return nested(1, nested(1, name) + nested(2, nested(kind, content)))

    found, _ = parse_example(nested(1, entry(b"f", 2, floats) + entry(b"i", 3, integers)))
    assert list(found["f"]) == [1.5, -2.0]
    assert list(found["i"]) == [7, -1]


@pytest.mark.parametrize("content", [b"\x0a\xff", b"\x0b\x00", b"\xff" * 12, b"\x0a\x05\x0a\x03\x12\x01\x1a"])
def test_what_is_no_example(content: bytes) -> None:
    with pytest.raises(Malformed):
        parse_example(content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c[:3] + b"\x01" + c[4:], "record 0, its length is damaged"),
        (lambda c: c[:14] + b"X" + c[15:], "record 0, its checksum differs"),
        (lambda c: c[:-2], "record 1, the file is cut short"),
        (lambda c: c[:30], "record 1, its length is damaged"),
    ],
)
def test_damage(change, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(change(record(b"hello") + record(b"world")))
    with pytest.raises(UserError, match=said):
        list(records(path))
