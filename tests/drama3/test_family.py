"""A checkpoint folder becomes a family or one sentence says why not; words meet the tokenizer's own rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.drama3.family import Drama3Family
from engine.engine import Engine
from engine.family import Piece
from engine.models import fingerprint, load_family
from engine.take import Character, Reference, RequestError, Sampling, Spoken, TakeRequest
from prompts.text import PromptError

CASES = json.loads((Path(__file__).parents[1] / "data/drama3_tiny/prompts.json").read_text("utf-8"))["cases"]
CODES = np.zeros((4, 2), np.int64)


@pytest.fixture
def folder(drama3_tiny, tmp_path) -> Path:
    """A whole checkpoint folder of one's own to spoil."""
    return Path(shutil.copytree(drama3_tiny / "checkpoint", tmp_path / "mine"))


def load(folder: Path) -> Drama3Family:
    return Drama3Family.load(folder, "mine", "local", torch.device("cpu"))


def refusal(folder: Path) -> str:
    with pytest.raises(RequestError) as refused:
        load(folder)
    return str(refused.value)


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_sizes_rates_and_limits_come_from_the_folder(tiny_family):
    assert (tiny_family.sample_rate, tiny_family.hop) == (44_100, 2048)
    assert (tiny_family.num_codebooks, tiny_family.codebook_size) == (4, 64)
    # max_position_embeddings is 2,048: half of it may be frames.
    assert (tiny_family.max_rows, tiny_family.max_prompt_rows, tiny_family.max_piece_frames) == (
        2048,
        2048,
        1024,
    )


def test_another_context_length_moves_the_limits(folder):
    path = folder / "config.json"
    data = json.loads(path.read_text())
    data["text_config"]["max_position_embeddings"] = 40_000
    path.write_text(json.dumps(data))
    family = load(folder)
    # The release was served with 16,384 rows, prompts of 8,192 and pieces of 1,200 frames.
    assert (family.max_rows, family.max_prompt_rows, family.max_piece_frames) == (16_384, 8192, 1200)


def test_the_loader_by_name_gives_the_same_family(folder):
    family = load_family(str(folder), torch.device("cpu"))
    assert isinstance(family, Drama3Family)
    assert (family.name, family.revision) == ("mine", fingerprint(folder))


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("config.json", "config.json is missing"),
        ("tokenizer.json", "The checkpoint mine misses the file tokenizer.json; fetch it again."),
        ("codec.pth", "holds neither codec.safetensors nor codec.pth"),
        ("model.safetensors", "The checkpoint mine has no *.safetensors file; fetch it again."),
    ],
)
def test_a_missing_file_is_named(folder, file, told):
    (folder / file).unlink()
    assert told in refusal(folder)


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer.json", "codec.json", "codec.pth", "model.safetensors"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00"])
def test_a_broken_file_is_named_in_one_sentence(folder, file, content):
    (folder / file).write_bytes(content)
    said = refusal(folder)
    assert file in said
    assert said.endswith(".")
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["llama", "fish_qwen3_omni", None, 3])
def test_another_model_type_is_refused_by_that_key(folder, kind):
    edit(folder / "config.json", model_type=kind)
    with pytest.raises(RequestError, match=f"model_type {kind!r}; known: 'fish_omni'"):
        load_family(str(folder), torch.device("cpu"))
    assert f"model_type is {kind!r}" in refusal(folder)


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', "3"])
def test_a_config_without_a_model_type_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(RequestError, match=r"config\.json of mine names no model_type"):
        load_family(str(folder), torch.device("cpu"))


def test_a_bad_key_is_named_with_its_file(folder):
    path = folder / "config.json"
    data = json.loads(path.read_text())
    data["text_config"]["num_experts"] = 0
    path.write_text(json.dumps(data))
    assert "config.json: text_config.num_experts is 0; " in refusal(folder)


def test_a_codec_with_another_number_of_codebooks_is_refused(drama3_tiny, folder):
    for file in ("config.json", "tokenizer.json"):
        shutil.copy(drama3_tiny / "checkpoint_fp8" / file, folder)
    assert refusal(folder) == (
        "The codec of mine has 4 codebooks, its config.json says 3; the files don't belong together."
    )


def test_a_codec_with_more_codes_than_the_tower_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["audio_decoder_config"]["vocab_size"] = 32
    config["semantic_end_token_id"] = config["semantic_start_token_id"] + 31
    (folder / "config.json").write_text(json.dumps(config))
    assert refusal(folder) == (
        "The codec of mine has 64 codes in a book, its config.json 32; the files don't belong together."
    )


def test_a_tokenizer_with_another_band_is_refused(drama3_tiny, folder):
    edit(folder / "config.json", semantic_start_token_id=440, semantic_end_token_id=503)
    assert refusal(folder) == (
        "tokenizer.json of mine gives <|semantic:0|> the id 439, config.json "
        "semantic_start_token_id says 440; the files don't belong together."
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_prompt_of_a_piece_is_the_golden_one(tiny_family, drama3_tiny, case):
    arrays = np.load(drama3_tiny / "prompts.npz")
    voice = [Reference(arrays[f"codes_{each['codes']}"], each["transcript"]) for each in case["references"]]
    history = [Spoken(each["text"], arrays[f"codes_{each['codes']}"]) for each in case["history"]]
    character = Character(voice=tuple(voice) or None, **(case["character"] or {}))
    prompt = tiny_family.prompt(Piece(case["text"], 0, character, tuple(history), Sampling(), 7, 10))
    assert np.array_equal(prompt.rows, arrays[f"rows_{case['name']}"])
    assert len(prompt.borders) == 1 + len(history)


def test_a_described_voice_without_a_name_is_called_speaker(tiny_family):
    def rows(name: str) -> np.ndarray:
        return tiny_family.prompt(
            Piece("Now.", 0, Character(name, description="weary"), (), Sampling(), 7, 10)
        ).rows

    assert np.array_equal(rows(""), rows("Speaker"))
    assert not np.array_equal(rows(""), rows("Mara"))


def places(text: str):
    """`text` in every place that a request has for words: (line, character, history)."""
    return {
        "The line": (f"Now {text}", Character(), ()),
        "Transcript 2": ("Now.", Character(voice=(Reference(CODES, "Hello."), Reference(CODES, text))), ()),
        "The name": ("Now.", Character(text, description="weary"), ()),
        "The description": ("Now.", Character(description=text), ()),
        "The scene": ("Now.", Character(description="weary", scene=text), ()),
        "History turn 1": ("Now.", Character(), (Spoken(f"Now {text}", CODES),)),
    }


@pytest.mark.parametrize("place", places(""))
def test_every_special_token_is_refused_at_the_door_by_name(tiny_family, place):
    refused = [token for token in tiny_family.specials if token != "<|speaker:0|>"]
    assert {"<|audio_separator|>", "<|semantic:63|>", "<|speaker:15|>", "<|endoftext|>"} <= set(refused)
    for token in refused:
        with pytest.raises(PromptError, match=f"^{place} (contains|has a colon)"):
            tiny_family.check(*places(f"hear {token} this")[place])


@pytest.mark.parametrize("place", ["The line", "Transcript 2", "History turn 1"])
def test_the_tag_of_the_one_speaker_passes(tiny_family, place):
    tiny_family.check(*places("<|speaker:0|> hear this")[place])


@pytest.mark.parametrize("voice", [None, (Reference(CODES, "Hello."),)])
@pytest.mark.parametrize("name", ["Mara: old", "Mara\n"])
def test_a_name_is_checked_whoever_speaks(tiny_family, name, voice):
    with pytest.raises(PromptError, match=r"^The name has a "):
        tiny_family.check("Now.", Character(name, voice), ())


@pytest.mark.parametrize(
    ("place", "text", "told"),
    [
        ("Transcript 2", "  ", "is empty; write the words spoken in the clip"),
        ("Transcript 2", "a" * 2001, "has 2,001 characters, the limit is 2,000"),
        ("The description", "", "is empty; fill it in"),
        ("The description", "a" * 2001, "has 2,001 characters, the limit is 2,000"),
        ("The scene", "one\ntwo", "has a line break"),
        ("The line", "a" * 5001, "has 5,005 characters, the limit is 5,000"),
    ],
)
def test_limits_of_words_are_told_with_their_place(tiny_family, place, text, told):
    with pytest.raises(PromptError, match=f"^{place} {told}"):
        tiny_family.check(*places(text)[place])


def test_codes_of_a_clip_are_codes_that_a_prompt_takes(tiny_family, drama3_tiny):
    clip = np.load(drama3_tiny / "codec.npz")["clip1_wave"]
    codes = tiny_family.encode(clip)
    assert codes.dtype == np.int64
    assert codes.shape == (4, -(-len(clip) // 2048))
    tiny_family.prompt(Piece("Now.", 0, Character(voice=(Reference(codes, "Hi."),)), (), Sampling(), 7, 10))


@pytest.fixture(scope="module")
def reader(drama3_tiny, tmp_path_factory) -> Drama3Family:
    """A checkpoint that would read cues out, and says so."""
    folder = Path(shutil.copytree(drama3_tiny / "checkpoint", tmp_path_factory.mktemp("cues") / "mine"))
    edit(folder / "config.json", performs_cues=False)
    return load(folder)


class TestCues:
    def test_it_can_be_directed_only_if_it_performs_cues(self, reader, tiny_family):
        assert (reader.capabilities.direct, tiny_family.capabilities.direct) == (False, True)

    def test_cues_reach_the_model_only_if_it_performs_them(self, reader, tiny_family):
        line = "[softly] I know [sighs]. Go."
        assert (reader.performed(line), tiny_family.performed(line)) == ("I know. Go.", line)

    def test_a_line_with_cues_is_the_line_without_them(self, reader):
        def codes(text: str, **fields) -> np.ndarray:
            return list(Engine(reader).perform(TakeRequest(text, seed=2, max_frames=6, **fields)))[-1].codes

        earlier = Spoken("[laughs] Yes.", np.ones((4, 5), np.int64))
        bare = Spoken("Yes.", earlier.codes)
        assert np.array_equal(
            codes("[softly] I know.", history=(earlier,)), codes("I know.", history=(bare,))
        )

    def test_a_cue_alone_is_refused_and_named(self, reader, tiny_family):
        tiny_family.check("[sighs]", Character(), ())
        with pytest.raises(
            PromptError, match=r"^mine can't perform a cue alone, such as \[sighs\]; add words"
        ):
            reader.check("[sighs] ...", Character(), ())

    def test_a_family_may_perform_cues_beside_words_only(self, folder):
        edit(folder / "config.json", performs_cues_alone=False)
        family = load(folder)
        assert family.capabilities.direct
        assert family.performed("[sighs] I know.") == "[sighs] I know."
        family.check("[sighs] I know.", Character(), ())
        with pytest.raises(PromptError, match=r"can't perform a cue alone, such as \[sighs\]; add words"):
            family.check("[sighs]", Character(), ())

    @pytest.mark.parametrize(
        ("line", "performed"),
        [
            ("[softly] I know.", "[softly] I know."),
            ("[softly] I know [sighs]. Go.", "[softly] I know [sighs]. Go."),
            ("I know [Sighs]. [angry] Go.", "I know [Sighs]. Go."),
            ("[softly] I know. [angry] Go [winks].", "[softly] I know. Go."),
            ("I know.", "I know."),
        ],
    )
    def test_behind_the_first_word_a_family_may_know_sounds_only(self, folder, line, performed):
        edit(folder / "config.json", sounds=["sighs"])
        assert load(folder).performed(line) == performed

    def test_sounds_are_a_list_of_words(self, folder):
        edit(folder / "config.json", sounds="sighs")
        assert "sounds is 'sighs'; it must be a list" in refusal(folder)

    def test_the_key_is_true_or_false(self, folder):
        edit(folder / "config.json", performs_cues="no")
        assert "performs_cues is 'no'; it must be true or false" in refusal(folder)


def test_kernels_are_compiled_ahead_in_a_process_of_their_own(tiny_family, monkeypatch):
    started = []
    monkeypatch.setattr("engine.drama3.family.subprocess.Popen", lambda script, **_: started.append(script))
    monkeypatch.setattr("engine.drama3.family.importlib.util.find_spec", lambda name: None)
    tiny_family.prepare(12, 0)
    assert not started  # a torch without Triton has nothing to compile
    monkeypatch.setattr("engine.drama3.family.importlib.util.find_spec", lambda name: name)
    tiny_family.prepare(12, 0)
    ((_, *script),) = started
    assert script == ["-m", "engine.drama3.ahead", str(tiny_family.folder.resolve()), "120"]
