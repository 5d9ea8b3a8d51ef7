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
