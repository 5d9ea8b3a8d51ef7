"""The teacher says the first sound of a line, and what it spoke when is known to the frame.

Its networks are in a package that only a training needs; here small ones of random weights stand for them.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

WIDTH, SPACE = 8, 16


@pytest.fixture
def teacher(recipe):
    """A teacher whose tokens last 1 to 9 frames; `read` holds the tokens that its networks were given."""
    torch.manual_seed(0)
    made = recipe.teacher.Teacher.__new__(recipe.teacher.Teacher)
    nn.Module.__init__(made)
    made.embed, made.read = nn.Embedding(178, WIDTH), []

    def bert(tokens, attention_mask):
        made.read.append(tokens.masked_fill(attention_mask == 0, -1).tolist())
        return made.embed(tokens)

    def curve(y):
        return y[:, :1].repeat_interleave(2, dim=-1)

    made.bert, made.bert_encoder = bert, nn.Identity()
    made.text_encoder = lambda tokens, lengths, pad: made.embed(tokens).transpose(1, 2)
    made.decoder = lambda asr, f0, energy, timbre: torch.zeros(len(asr), 1, asr.shape[-1] * 600)
    made.predictor = SimpleNamespace(
        text_encoder=lambda hidden, *_: hidden.transpose(1, 2),
        lstm=nn.LSTM(WIDTH, WIDTH, batch_first=True),
        duration_proj=nn.Linear(WIDTH, 10),
        shared=nn.LSTM(WIDTH, WIDTH, batch_first=True),
        **dict(F0=[], N=[], F0_proj=curve, N_proj=curve),
    )
    return made.eval()


TOKENS = torch.tensor([[0, 43, 50, 16, 60, 0], [0, 70, 71, 0, 0, 0]])
LENGTHS = torch.tensor([6, 4])


@pytest.fixture
def performed(teacher):
    audio, valid = teacher(TOKENS, LENGTHS, torch.zeros(2, 256), torch.ones(2))
    return teacher, audio, valid


def test_a_space_keeps_the_first_sound_from_being_swallowed(performed):
    teacher, *_ = performed
    assert teacher.read == [[[0, SPACE, 43, 50, 16, 60, 0], [0, SPACE, 70, 71, 0, -1, -1]]]


def test_the_space_lasts_as_a_part_of_the_silence_in_front(performed):
    teacher, audio, valid = performed
    assert teacher.duration.shape == TOKENS.shape
    assert (teacher.duration[:, 0] >= 2).all()  # of the 0 and of the space, a frame at least each
    assert valid.tolist() == (600 * teacher.duration.sum(1)).tolist()
    assert audio.shape == (2, int(valid.max()))


def test_what_is_spoken_in_each_frame_follows_from_the_durations(performed):
    teacher, *_ = performed
    for tokens, duration, spoken in zip(TOKENS, teacher.duration, teacher.spoken, strict=True):
        wanted = tokens.repeat_interleave(duration)
        assert spoken[: len(wanted)].tolist() == wanted.tolist()
        assert not spoken[len(wanted) :].any()


@pytest.fixture
def curves(recipe):
    """Curves of a batch that change nothing but what is given."""

    def make(**changes) -> object:
        line, token = torch.ones(2), torch.ones(TOKENS.shape)
        plain = dict(pitch=line, melody=line, tremble=0 * line, stretch=token, bend=token, voice=token)
        plain |= dict(fixed=0 * token, push=0 * token)
        return recipe.teacher.Curves(**plain | changes)

    return make


def spoken_with(teacher, how):
    teacher(TOKENS, LENGTHS, torch.zeros(2, 256), torch.ones(2), how=how)
    return teacher.duration, teacher.f0


def test_curves_that_change_nothing_change_nothing(teacher, curves):
    duration, f0 = spoken_with(teacher, None)
    again, same = spoken_with(teacher, curves())
    assert torch.equal(duration, again)
    torch.testing.assert_close(f0, same)


def test_a_fixed_token_has_its_frames_and_a_stretched_one_more(teacher, curves):
    plain, _ = spoken_with(teacher, None)
    fixed, stretch = torch.zeros(TOKENS.shape), torch.ones(TOKENS.shape)
    fixed[0, 2], stretch[0, 3] = 17.0, 2.0
    duration, _ = spoken_with(teacher, curves(fixed=fixed, stretch=stretch))
    assert duration[0, 2] == 17
    assert abs(duration[0, 3] - 2 * plain[0, 3]) <= 1
    assert torch.equal(duration[1], plain[1])


def test_pitch_is_spread_around_its_mean_and_raised_and_a_token_can_lose_its_voice(recipe, curves):
    f0 = torch.tensor([[100.0, 200.0, 100.0, 200.0, 0.0, 0.0]]).repeat(2, 1)
    token = torch.tensor([[1, 1, 2, 2, 3, 3]]).repeat(2, 1)
    voice = torch.ones(TOKENS.shape)
    voice[1, 2] = 0.0
    how = curves(melody=torch.tensor([0.0, 1.0]), pitch=torch.tensor([1.5, 1.0]), voice=voice)
    bent, energy = how.bent(f0, torch.zeros_like(f0), token)
    torch.testing.assert_close(bent[0, :4], torch.full((4,), 1.5 * (100 * 200) ** 0.5))
    assert bent[1].tolist() == pytest.approx([100, 200, 0, 0, 0, 0])
    assert not energy.any()


def test_the_pitch_of_a_trembling_voice_swings(recipe, curves):
    f0 = torch.full((2, 80), 150.0)
    how = curves(tremble=torch.tensor([0.1, 0.0]))
    bent, energy = how.bent(f0, torch.zeros_like(f0), torch.ones(2, 80, dtype=torch.long))
    assert bent[0].max() == pytest.approx(165, rel=0.01)
    assert bent[0].min() == pytest.approx(135, rel=0.01)
    torch.testing.assert_close(bent[1], f0[1])
    assert energy[0].any()
    assert not energy[1].any()
