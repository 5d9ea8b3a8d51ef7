"""The values cross text and process borders unharmed, and broken text is refused."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest

from engine.take import (
    Audio,
    Character,
    Clip,
    Done,
    Encoded,
    Reference,
    RequestError,
    Sampling,
    Spoken,
    Status,
    TakeRequest,
    Timings,
    Trouble,
    from_json,
    to_json,
)

CODES = np.arange(12).reshape(4, 3)
STEREO = Clip(np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5), 48_000)
CLONED = Character("Mara", (Reference(STEREO, "Who is there?"), Reference(CODES, "Café.")))
VALUES = [
    STEREO,
    Reference(CODES, "Who is there?"),
    CLONED,
    Character("Mara", None, "a weary lighthouse keeper", "A storm at night."),
    Spoken("I hear you.", CODES),
    Sampling(0.7, 0.8, 5),
    Sampling(),
    TakeRequest("Now.", CLONED, (Spoken("One.", CODES), Spoken("Two.", CODES + 1)), Sampling(0.0), 2**64 - 1),
    TakeRequest("Now.", max_frames=7, deadline=1.5),
    Status("prefill", ""),
    Encoded("3f", CODES, "was quiet"),
    Audio(np.array([-32767, 0, 32767], np.int16), 24_000, 6, 2),
    Timings(total_s=1.25, rtf=0.5),
    Done("stop", 3, 7, Timings(audio_s=2.0), CODES, ("split(2)", "ran_long")),
    Done("deadline", 3, 7, Timings(), None),
    Trouble("memory", "The GPU is full.", "t-1"),
]
every_value = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


def same(a, b) -> bool:
    """Equal all the way down, arrays in dtype and shape too."""
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@every_value
def test_a_value_comes_back_from_text_as_it_was(value):
    assert same(from_json(json.loads(json.dumps(to_json(value)))), value)


@every_value
def test_a_value_can_be_pickled(value):
    assert same(pickle.loads(pickle.dumps(value)), value)


@every_value
def test_a_value_is_frozen(value):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "uint16", "int64", "float32", ">i4"])
def test_an_array_keeps_its_dtype_its_shape_and_its_own_memory(dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)[:, ::-1]
    back = from_json(json.loads(json.dumps(to_json(array))))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    back[0] = 1  # the bytes of base64 would be read-only


def test_an_empty_array_keeps_its_shape():
    assert from_json(to_json(np.zeros((4, 0), np.int64))).shape == (4, 0)


def test_numpy_scalars_become_plain_numbers():
    written = to_json(TakeRequest("Now.", seed=np.int64(5), sampling=Sampling(np.float32(0.5))))
    assert (written["seed"], written["sampling"]["temperature"]) == (5, 0.5)
    assert type(written["seed"]) is int


@pytest.mark.parametrize(
    "data", [{"type": "Password"}, {"type": None}, {}, {"type": ["Status"]}, {"type": {}}]
)
def test_an_unknown_type_is_refused(data):
    with pytest.raises(RequestError, match="is not a type of value this program knows"):
        from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "Status"},
        {"type": "Status", "phase": "x", "more": 1},
        {"type": "Spoken", "text": "x"},
    ],
)
def test_fields_that_do_not_fit_are_refused_by_type(data):
    with pytest.raises(RequestError, match=f"The fields of this {data['type']} are .* which don't fit"):
        from_json(data)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "object"},
        {"dtype": "no such type"},
        {"dtype": "|V8"},
        {"dtype": "<U2"},
        {"dtype": None},
        {"dtype": "i4,("},  # E-17
        {"dtype": "i4,i4"},
        {"dtype": "(2,)i4"},
        {"dtype": ["i4"]},
        {"dtype": "f16"},
        {"shape": [10**30]},
        {"bytes": "AAAA"},
        {"bytes": "not base64!"},
        {"bytes": None},
        {"shape": [5, 3]},
        {"shape": "many"},
        {"shape": [2.5]},
    ],
)
def test_a_broken_array_is_refused(change):
    with pytest.raises(RequestError, match="An array needs bytes, shape and a numeric dtype"):
        from_json({**to_json(CODES), **change})


@pytest.mark.parametrize("missing", ["dtype", "bytes", "shape"])
def test_an_array_without_one_of_its_parts_is_refused(missing):
    data = to_json(CODES)
    del data[missing]
    with pytest.raises(RequestError, match="An array needs"):
        from_json({"type": "Spoken", "text": "Nested.", "codes": data})
