"""What the codec learns from, and what keeps its codebooks and its decoder well.

The sample with the number n of all speech has the value n + 1, so that a crop tells where it was taken.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

HOP, SLOT, PARTS = 1024, 600, 2


@pytest.fixture
def speech(tmp_path) -> list[tuple[int, int, np.ndarray, int]]:
    """Two files of speech, and of every line: first sample, length, labels, shift in its first slot."""
    rng = np.random.default_rng(0)
    lines, total = [], 0
    for name, lengths in (("000", (5000, 1500, 3000, 4200, 2500)), ("001", (6000, 2100))):
        shift = rng.integers(0, SLOT, len(lengths))
        labels = [
            rng.integers(0, 178, (length + gone) // SLOT + 1 - 3 * (i == 0))  # the first line's end too early
            for i, (length, gone) in enumerate(zip(lengths, shift, strict=True))
        ]
        starts = np.cumsum([0, *lengths])
        counts = np.array([len(each) for each in labels])
        file = dict(
            audio=torch.arange(total + 1, total + 1 + sum(lengths), dtype=torch.int16),
            start=starts[:-1],
            length=np.array(lengths),
            label=torch.from_numpy(np.concatenate(labels).astype(np.uint8)),
            label_start=np.cumsum([0, *counts[:-1]]),
            label_count=counts,
            label_shift=shift,
        )
        torch.save(file, tmp_path / f"{name}.pt")
        lines += zip((total + starts[:-1]).tolist(), lengths, labels, shift.tolist(), strict=True)
        total += sum(lengths)
    assert total < 32_767
    return lines


@pytest.fixture
def corpus(recipe, speech, tmp_path):
    made = recipe.train_codec.Corpus(str(tmp_path), "cpu", hours=1, beginnings=0.0)
    made.wait()
    assert made.look()
    assert not made.look()
    return made


def read_back(audio: torch.Tensor) -> np.ndarray:
    """The values of a crop as they stand in the files, 0 where there is none."""
    return (audio.double() * 32_768).round().long().numpy()


def owner(lines, first_value: int) -> int:
    return next(i for i, (start, length, *_) in enumerate(lines) if start < first_value <= start + length)


@pytest.mark.parametrize("frames", [1, 3])
def test_a_crop_is_a_piece_of_a_line_with_the_phonemes_in_the_middles_of_its_parts(corpus, speech, frames):
    torch.manual_seed(0)
    audio, labels = corpus.crops(40, frames, vary=False)
    assert audio.shape == (40, frames * HOP)
    assert labels.shape == (40, frames, PARTS)
    seen = set()
    for values, named in zip(read_back(audio), labels.flatten(1).tolist(), strict=True):
        line = owner(speech, values[0])
        start, length, wanted, shift = speech[line]
        at = values[0] - 1 - start
        assert at + frames * HOP <= max(length, frames * HOP)
        for n, value in enumerate(values.tolist()):
            assert value == (start + at + n + 1 if at + n < length else 0)
        for part, label in enumerate(named):
            middle = at + part * HOP // PARTS + HOP // PARTS // 2
            slot = (middle + shift) // SLOT
            known = middle < length and slot < len(wanted)
            assert label == (wanted[slot] if known else -100)
        seen.add(line)
    assert len(seen) > 3


def test_lines_set_aside_are_in_no_crop_but_the_exams(corpus, speech):
    torch.manual_seed(0)
    first = {owner(speech, values[0]) for values in read_back(corpus.crops(300, 1, vary=False)[0])}
    exam = corpus.crops(20, 1, corpus.aside, vary=False)[0]
    aside = {owner(speech, values[0]) for values in read_back(exam)}
    assert aside == {2}
    assert first == {0, 1, 3, 4, 5, 6}


def test_long_lines_are_heard_as_often_as_they_are_long(corpus, speech):
    torch.manual_seed(0)
    crops = read_back(corpus.crops(4000, 1, vary=False)[0])
    counts = np.bincount([owner(speech, values[0]) for values in crops], minlength=len(speech))
    lengths = np.array([0 if i == 2 else length for i, (_, length, *_) in enumerate(speech)])
    wanted = lengths / lengths.sum()
    assert np.abs(counts / 4000 - wanted).max() < 0.03  # four standard errors


def test_crops_may_be_made_to_begin_where_lines_do_and_may_be_quieter(corpus, speech):
    torch.manual_seed(0)
    corpus.beginnings = 1.0
    audio, _ = corpus.crops(60, 1)
    gains = set()
    for wave in audio.double().numpy():
        start, gain = min(
            ((start, wave[0] / ((start + 1) / 32_768)) for start, *_ in speech),
            key=lambda found: np.abs(np.diff(wave) - found[1] / 32_768).max(),
        )
        np.testing.assert_allclose(wave, gain * (start + 1 + np.arange(HOP)) / 32_768, rtol=1e-4)
        gains.add(round(float(gain), 3))
    assert 1.0 in gains
    assert len(gains) > 5
    assert 10 ** (-12 / 20) - 1e-3 <= min(gains) <= max(gains) <= 10 ** (3 / 20) + 1e-3


# The mean of the last steps


@pytest.fixture
def network() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 4)


def step(network, generator) -> list[torch.Tensor]:
    """Other weights, in place as an optimiser does it; returns copies."""
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    return [p.detach().clone() for p in network.parameters()]


def test_the_average_is_the_mean_of_all_steps_while_they_are_few(recipe, network):
    average, make = recipe.train_codec.Average(network.parameters()), torch.Generator().manual_seed(0)
    history = []
    for _ in range(9):
        history.append(step(network, make))
        average.add()
    for mean, values in zip(average.mean, zip(*history, strict=True), strict=True):
        torch.testing.assert_close(mean, torch.stack(values).mean(0))


def test_later_a_step_counts_as_one_of_the_last_few(recipe, network, monkeypatch):
    monkeypatch.setattr(recipe.train_codec.Average, "STEPS", 5)
    average, make = recipe.train_codec.Average(network.parameters()), torch.Generator().manual_seed(0)
    for _ in range(5):
        step(network, make)
        average.add()
    before = [p.clone() for p in average.mean]
    last = step(network, make)
    average.add()
    for mean, old, new in zip(average.mean, before, last, strict=True):
        torch.testing.assert_close(mean, 0.8 * old + 0.2 * new)


def test_average_and_network_are_exchanged_in_place(recipe, network):
    average, make = recipe.train_codec.Average(network.parameters()), torch.Generator().manual_seed(0)
    for _ in range(3):
        live = step(network, make)
        average.add()
    mean, where = [p.clone() for p in average.mean], [p.data_ptr() for p in network.parameters()]
    average.swap()
    assert all(torch.equal(p, m) for p, m in zip(network.parameters(), mean, strict=True))
    average.swap()
    assert all(torch.equal(p, v) for p, v in zip(network.parameters(), live, strict=True))
    assert all(torch.equal(a, m) for a, m in zip(average.mean, mean, strict=True))
    assert [p.data_ptr() for p in network.parameters()] == where


# Codebooks


CENTRES, CODES, WIDTH = 4, 32, 8


class Bottleneck:
    """Two levels of codes over sounds that lie near a few centres."""

    def __init__(self, recipe) -> None:
        torch.manual_seed(0)
        self.levels = [recipe.codec.ResidualVQ(WIDTH, 1, CODES, WIDTH).train() for _ in range(2)]
        self.quantizer = SimpleNamespace(semantic_quantizer=self.levels[0], quantizer=self.levels[1])
        self.centres = F.normalize(torch.randn(CENTRES, WIDTH), dim=-1)

    def sounds(self, positions: int) -> torch.Tensor:
        """[1, width, positions]"""
        pick = torch.randint(0, CENTRES, (positions,))
        return (self.centres[pick] + 0.01 * torch.randn(positions, WIDTH)).T[None]

    @torch.no_grad()
    def produce(self) -> None:
        z = self.sounds(64)
        self.levels[1](z - self.levels[0](z)[0][-1])

    def directions(self, level: int) -> torch.Tensor:
        """Unit vectors [centres, width] at which the level's codebook has to point."""
        z = self.centres.T[None]
        with torch.no_grad():
            if level:
                z = z - self.levels[0](z)[0][-1]
            return F.normalize(self.levels[level].quantizers[0].in_proj(z)[0].T, dim=-1)


@pytest.fixture
def bottleneck(recipe) -> Bottleneck:
    return Bottleneck(recipe)


def test_fitted_codes_lie_where_the_sounds_do_level_after_level(recipe, bottleneck):
    books = recipe.train_codec.Codebooks(bottleneck)
    books.fit(bottleneck.produce)
    for level, quantizer in enumerate(books.all):
        like = F.normalize(quantizer.codebook.weight.detach(), dim=-1) @ bottleneck.directions(level).T
        assert like.amax(0).min() > 0.999, level  # every centre has a code
        assert like.amax(1).min() > 0.99, level  # and there is no code elsewhere
        assert not quantizer.continuous


def test_the_uses_of_every_code_are_counted(recipe, bottleneck):
    books = recipe.train_codec.Codebooks(bottleneck)
    bottleneck.produce()
    books.observe()
    books.observe()
    for quantizer, count in zip(books.all, books.count, strict=True):
        seen = torch.bincount(quantizer.seen[1].flatten(), minlength=CODES)
        assert torch.equal(count, 2.0 * seen)


def test_codes_used_less_than_twice_are_put_where_sounds_are_and_others_stay(recipe, bottleneck):
    books = recipe.train_codec.Codebooks(bottleneck)
    bottleneck.produce()
    for count in books.count:
        count.copy_(torch.arange(CODES))
    before = [q.codebook.weight.detach().clone() for q in books.all]
    books.revive()
    for quantizer, old in zip(books.all, before, strict=True):
        now = quantizer.codebook.weight.detach()
        assert torch.equal(now[2:], old[2:])
        sounds = quantizer.seen[0].transpose(1, 2).flatten(0, 1)
        assert (now[:2, None] == sounds).all(-1).any(-1).all()
    assert all((count == 0).all() for count in books.count)
