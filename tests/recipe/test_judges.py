"""What listens while the codec learns hears what it should, and nothing else."""

from __future__ import annotations

import math

import pytest
import torch

RATE = 24_000


def tone(hz: float, seconds: float = 0.7) -> torch.Tensor:
    return 0.3 * torch.sin(2 * math.pi * hz * torch.arange(round(seconds * RATE)) / RATE)


def voice(hz: float, seconds: float = 0.7) -> torch.Tensor:
    """Harmonics up to 5 kHz, the n-th of them 1/n as strong as the first."""
    return sum(tone(k * hz, seconds) / k for k in range(1, int(5000 / hz))) / 2


def noise(seed: int = 0, seconds: float = 0.7) -> torch.Tensor:
    return 0.2 * torch.randn(round(seconds * RATE), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def periodicity(recipe):
    listen = recipe.judges.Periodicity(RATE)
    return lambda fake, real: float(listen(fake[None], real[None]))


def test_a_voice_repeats_itself_as_much_as_itself(periodicity):
    assert periodicity(voice(140), voice(140)) < 1e-4


def test_noise_in_place_of_a_voice_is_hoarse_and_some_noise_in_it_less_so(periodicity):
    clean = voice(140)
    breathy = clean + 0.5 * noise()
    assert periodicity(noise(), clean) > 1.5
    assert 0.1 < periodicity(breathy, clean) < periodicity(noise(), clean) - 0.3


def test_a_voice_a_little_off_the_pitch_is_heard_as_a_voice_and_one_far_from_it_is_not(periodicity):
    assert periodicity(voice(146), voice(140)) < 0.6
    assert periodicity(voice(170), voice(140)) > 2.0


def test_the_nearer_a_pitch_has_to_be_the_more_a_wrong_one_costs(recipe):
    listen, wide = recipe.judges.Periodicity(RATE), math.log(1.12)
    costs = []
    for near in (wide, math.log(1.04)):
        listen.near.fill_(near)
        costs.append(float(listen(voice(150)[None], voice(140)[None])))
    assert costs[1] > costs[0] + 0.3
    assert recipe.judges.Periodicity(RATE).near == pytest.approx(wide)


@pytest.mark.parametrize("hz", [80, 190, 300, 350])
def test_a_voice_has_a_pitch_and_silence_and_noise_have_none(recipe, hz):
    sound = torch.cat((voice(hz), torch.zeros(RATE // 2), noise(seconds=0.5)))
    pitch, voiced = recipe.judges.Periodicity(RATE).pitch(sound[None])
    middle = torch.arange(pitch.shape[1]) * 512 + 1024
    inside = middle < 0.7 * RATE - 1024
    assert voiced[0, inside].all()
    assert not voiced[0, middle > 0.7 * RATE + 1024].any()
    assert pitch[0, inside].tolist() == pytest.approx([hz] * int(inside.sum()), rel=0.02)


def test_the_name_of_a_pitch_is_that_in_the_middle_of_its_part_of_a_frame(recipe):
    names = recipe.judges.PitchNames(recipe.judges.Periodicity(RATE))
    at = torch.arange(20 * 1024) / RATE  # 110 Hz and an octave more a second
    phase = 2 * math.pi * 110 * (2**at - 1) / math.log(2)
    place, voiced = names(sum(0.2 / k * torch.sin(k * phase) for k in range(1, 8))[None])
    assert place.shape == voiced.shape == (1, 20, 2)
    middle = (torch.arange(40) * 512 + 256) / RATE
    wanted = 24 * (math.log2(110 / 60) + middle)
    assert voiced.all()
    assert (place.flatten() - wanted)[2:-2].abs().max() < 0.6  # quarter tones; the ends lack half a window


def test_naming_the_pitch_costs_nothing_but_the_width_of_the_bump_and_silence_costs_nothing(recipe):
    names = recipe.judges.PitchNames(recipe.judges.Periodicity(RATE))
    place, voiced = (
        torch.tensor([[[20.0, 31.0], [44.0, 50.0]]]),
        torch.tensor([[[True, True], [True, False]]]),
    )
    near = -((torch.arange(74.0) - place[..., None]) ** 2)
    bump = near.softmax(-1)[0, 0, 0]
    width = float(-(bump * bump.clamp(min=1e-30).log()).sum())
    assert float(names.loss(near, place, voiced)) == pytest.approx(width, rel=1e-4)
    assert float(names.loss(torch.zeros_like(near), place, voiced)) == pytest.approx(math.log(74), rel=1e-5)
    wrong = near.clone()
    wrong[0, 1, 1] = near[0, 0, 0]  # where there is no voice
    assert float(names.loss(wrong, place, voiced)) == pytest.approx(width, rel=1e-4)
    wrong[0, 1, 0] = near[0, 0, 0]
    assert float(names.loss(wrong, place, voiced)) > width + 10
    assert float(names.loss(wrong, place, voiced & False)) == 0.0


@pytest.mark.parametrize("hz", [70, 140, 200, 300, 350, 450])
def test_the_highest_peak_tells_the_pitch_and_is_near_one_whatever_that_is(recipe, hz):
    listen = recipe.judges.Periodicity(RATE)
    curve, _ = listen.curves(voice(hz)[None], 2048)
    place = listen.best(curve)
    assert listen.lags[place].flatten().tolist() == pytest.approx([RATE / hz] * place.numel(), abs=1.0)
    assert curve[:, :1].gather(-1, place).flatten().tolist() == pytest.approx([1.0] * place.numel(), abs=0.01)


def test_nothing_is_asked_for_where_the_real_sound_has_no_voice(periodicity):
    assert periodicity(noise(1), torch.zeros(len(noise()))) < 1e-6


def test_equal_sounds_have_no_distance_in_their_spectra(recipe):
    distance = recipe.judges.MelLoss(RATE)
    assert float(distance(voice(140)[None], voice(140)[None])) == 0.0
    # ten times as quiet is a decade less in each of the three spectra
    assert float(distance(noise()[None] / 10, noise()[None])) == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize("hz", [100, 200, 1000])
def test_low_judges_hear_what_is_below_their_limit_as_it_is(recipe, hz):
    assert abs(heard_db(recipe, hz)) < 0.5


@pytest.mark.parametrize("hz", [1700, 3000, 3200, 6000, 11_000])
def test_low_judges_hear_nothing_above_their_limit(recipe, hz):
    assert heard_db(recipe, hz) < -40


def heard_db(recipe, hz: float) -> float:
    """How loud a tone is for the low judges, against how loud it is."""
    sound = tone(hz)[None]
    low = recipe.judges.LowJudges().low(sound)
    assert low.shape[1] == pytest.approx(sound.shape[1] / 8, abs=33)  # less the filter's 257 samples
    return 10 * math.log10(low.square().mean() / sound.square().mean())


def test_a_high_tone_changes_nothing_that_low_judges_hear(recipe):
    low = recipe.judges.LowJudges().low
    change = low((voice(140) + tone(3000))[None]) - low(voice(140)[None])
    assert 10 * math.log10(change.square().mean() / tone(3000).square().mean()) < -40
