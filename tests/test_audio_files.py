"""Clips from files and takes into files: every refusal, what is read, the card, no half file."""

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import audio_files
from engine.audio_files import check_target, read_card, read_clip, safe_name, write_take, write_wav
from engine.references import prepare
from engine.take import Clip, RequestError

CARD = {"model": "a/model", "seed": 2**64 - 1, "text": 'Grüße, 漢字 😀 "so"\n', "notice": "synthetic speech"}


def noise(seconds: float, rate: int = 24_000, channels: int = 1) -> np.ndarray:
    """White noise float64 [n, channels] at an RMS of 0.1."""
    return np.random.default_rng(0).standard_normal((round(seconds * rate), channels)) * 0.1


def sound_file(path: Path, seconds: float = 2.0, rate: int = 24_000, channels: int = 1, **how) -> Path:
    sf.write(path, noise(seconds, rate, channels), rate, **how)
    return path


def refusal(path, **limits) -> str:
    with pytest.raises(RequestError) as caught:
        read_clip(path, **limits)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


@pytest.fixture
def no_ffmpeg(monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.fixture
def fake_ffmpeg(monkeypatch, tmp_path):
    """Puts an `ffmpeg` on PATH that runs `body` (Python) with its arguments in `args`, and notes them."""

    def install(body: str) -> Path:
        folder, seen = tmp_path / "bin", tmp_path / "args.json"
        folder.mkdir()
        program = folder / "ffmpeg"
        lines = [
            "import json, sys",
            "args = sys.argv[1:]",
            f"json.dump(args, open({str(seen)!r}, 'w'))",
            body,
        ]
        program.write_text(f"#!{sys.executable}\n" + "\n".join(lines))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return seen

    return install


def streamed_wav(seconds: float, rate: int, channels: int) -> bytes:
    """A float32 WAV as ffmpeg writes it into a pipe: it can't come back to fill in the sizes."""
    whole = io.BytesIO()
    sf.write(whole, noise(seconds, rate, channels), rate, format="WAV", subtype="FLOAT")
    data = bytearray(whole.getvalue())
    data[4:8] = b"\xff" * 4
    at = data.index(b"data")
    data[at + 4 : at + 8] = b"\xff" * 4
    return bytes(data)


M4A = b"\0\0\0\x1cftypM4A \0\0\2\0" + bytes(100)


def test_a_mono_file_is_flat_and_a_stereo_file_is_channels_first(tmp_path):
    mono = read_clip(sound_file(tmp_path / "a.wav", subtype="FLOAT"))
    stereo = read_clip(sound_file(tmp_path / "b.wav", rate=48_000, channels=2))
    assert mono.samples.shape == (48_000,)
    assert mono.sample_rate == 24_000
    assert stereo.samples.shape == (2, 96_000)
    assert stereo.sample_rate == 48_000
    assert mono.samples.dtype == stereo.samples.dtype == np.float32
    assert np.array_equal(mono.samples, noise(2.0)[:, 0].astype(np.float32))


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        ("wav", {"subtype": "PCM_U8"}),
        ("wav", {"subtype": "PCM_24"}),
        ("wav", {"subtype": "ULAW"}),
        ("flac", {}),
        ("ogg", {"subtype": "VORBIS"}),
        ("ogg", {"subtype": "OPUS"}),
        ("mp3", {}),
        ("aiff", {}),
        ("au", {}),
        ("raw", {"format": "WAV"}),
        ("m4a", {"format": "FLAC"}),
    ],
)
def test_what_libsndfile_reads_is_read_whatever_the_suffix_says(tmp_path, no_ffmpeg, suffix, how):
    clip = read_clip(sound_file(tmp_path / f"clip.{suffix}", **how))
    assert clip.sample_rate in (24_000, 48_000)
    assert clip.samples.std() == pytest.approx(0.1, rel=0.25)  # Opus and Vorbis drop some treble
    # An encoder may pad by a few of its frames.
    assert len(clip.samples) / clip.sample_rate == pytest.approx(2.0, abs=0.1)


def test_a_24_bit_stereo_wav_with_a_silent_side_becomes_265_frames_of_2048(tmp_path):
    sound = noise(12.0, 48_000, 2)
    sound[:, 1] = 0
    sf.write(tmp_path / "clip.wav", sound, 48_000, subtype="PCM_24")
    sf.write(tmp_path / "mono.wav", sound[:, 0], 48_000, subtype="PCM_24")
    prepared = prepare(read_clip(tmp_path / "clip.wav"), 44_100)
    assert len(prepared.samples) == 529_200 + 13_230
    assert math.ceil(len(prepared.samples) / 2048) == 265
    again, mono = (prepare(read_clip(tmp_path / name), 44_100) for name in ("clip.wav", "mono.wav"))
    assert prepared.key == again.key == mono.key


def test_a_telephone_mp3_is_accepted_with_a_note(tmp_path):
    clip = read_clip(sound_file(tmp_path / "phone.mp3", 6.0, 8_000))
    prepared = prepare(clip, 44_100)
    assert any("narrow-band recording" in note for note in prepared.notes)
    assert len(prepared.samples) / 44_100 == pytest.approx(6.3, abs=0.1)


def test_nan_in_a_file_is_refused_when_it_is_prepared(tmp_path):
    sound = noise(2.0)
    sound[100] = np.nan
    sf.write(tmp_path / "nan.wav", sound, 24_000, subtype="FLOAT")
    with pytest.raises(RequestError, match="NaN"):
        prepare(read_clip(tmp_path / "nan.wav"), 24_000)


@pytest.mark.parametrize("folders", ["", "http://somewhere.example/", "file:///", "HTTPS://x.example/a/"])
def test_a_missing_file_or_a_web_address_is_refused_without_its_folders(tmp_path, folders):
    path = f"{folders}clip.wav" if folders else tmp_path / "deep" / "clip.wav"
    sentence = refusal(path)
    assert ("web address" if folders else "clip.wav does not exist") in sentence
    assert "deep" not in sentence
    assert "example" not in sentence


def test_a_folder_an_empty_path_and_a_device_are_refused(tmp_path):
    (tmp_path / "clips").mkdir()
    assert refusal(tmp_path / "clips") == "clips is a folder; give one audio file in it."
    assert refusal(f"{tmp_path}/clips/").startswith("clips is a folder")
    assert "empty" in refusal("")
    assert "does not exist" in refusal("a\0b.wav")
    assert "does not exist" in refusal(sound_file(tmp_path / "a.wav") / "b.wav")
    assert "cannot be read" in refusal("x" * 300 + ".wav")
    os.mkfifo(tmp_path / "pipe.wav")
    assert "not an ordinary file" in refusal(tmp_path / "pipe.wav")


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    path = sound_file(tmp_path / "secret.wav")
    monkeypatch.setattr("builtins.open", denied)  # an administrator's tests may read everything
    assert refusal(path) == "secret.wav cannot be read (Permission denied); check its permissions."


@pytest.mark.parametrize(
    "content",
    [
        b"RIFF",
        b"RIFF\0\0\0\0WAVEfmt ",
        b"hello " * 500,
        bytes(5000),
        b"fLaC" + bytes(10),
        b"OggS" + bytes(99),
    ],
)
def test_content_that_is_no_whole_header_of_sound_is_refused(tmp_path, fake_ffmpeg, content):
    fake_ffmpeg("sys.exit('ffmpeg must not see this')")
    (tmp_path / "clip.wav").write_bytes(content)
    assert refusal(tmp_path / "clip.wav").startswith("clip.wav is damaged or not an audio file")


def test_empty_files_are_refused(tmp_path):
    (tmp_path / "nothing.wav").touch()
    assert refusal(tmp_path / "nothing.wav") == "nothing.wav is empty; give an audio file."
    sf.write(tmp_path / "header.wav", np.zeros(0), 24_000)
    assert refusal(tmp_path / "header.wav").startswith("header.wav holds no sound")


def test_too_short_and_too_long_files_are_refused_from_the_header_alone(tmp_path, monkeypatch):
    short = sound_file(tmp_path / "short.wav", 0.4)
    long = sound_file(tmp_path / "long.flac", 95.0, 8_000)
    monkeypatch.setattr(sf.SoundFile, "read", lambda *_, **__: pytest.fail("decoded before it was judged"))
    assert refusal(short) == "short.wav is 0.4 s long; use 1 to 60 seconds of one voice."
    assert refusal(long) == "long.flac is longer than 60 s; use 1 to 60 seconds of one voice."


def test_the_limits_of_length_can_be_given(tmp_path):
    path = sound_file(tmp_path / "a.wav", 3.0)
    assert "longer than 2.5 s" in refusal(path, max_s=2.5)
    assert "use 4 to 60 seconds" in refusal(path, min_s=4.0)
    assert len(read_clip(path, min_s=3.0, max_s=3.0).samples) == 72_000


def test_a_file_over_20_mb_is_refused_unread(tmp_path, monkeypatch):
    with open(tmp_path / "big.wav", "wb") as file:
        file.truncate(20 * 2**20 + 1)
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("opened before it was judged"))
    assert refusal(tmp_path / "big.wav") == "big.wav is over 20 MB; cut or compress the clip."


def test_a_crowd_of_channels_and_an_odd_rate_are_refused(tmp_path):
    assert "12 channels" in refusal(sound_file(tmp_path / "a.wav", channels=12))
    assert "1000 Hz" in refusal(sound_file(tmp_path / "b.wav", rate=1_000))


def test_a_wav_that_breaks_off_gives_what_is_there(tmp_path):
    path = sound_file(tmp_path / "cut.wav", 4.0)
    path.write_bytes(path.read_bytes()[: 44 + 2 * 48_000])
    assert len(read_clip(path).samples) == 48_000


def test_an_mp3_that_breaks_off_says_so(tmp_path):
    path = sound_file(tmp_path / "cut.mp3", 6.0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    told = []
    clip = read_clip(path, tell=told.append)
    assert 48_000 < len(clip.samples) < 96_000
    assert told == [f"cut.mp3 breaks off: {len(clip.samples) / 24_000:.1f} of its 6.0 s are used."]


def test_a_streamed_flac_that_does_not_know_its_length_is_refused_in_words(tmp_path):
    path = sound_file(tmp_path / "live.flac")
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0  # STREAMINFO: the upper 4 of 36 bits of the sample count, then the lower 32
    data[22:26] = bytes(4)
    path.write_bytes(data)
    assert refusal(path) == "live.flac does not say how long it is; convert it to WAV."


def test_names_are_shown_short_and_printable(tmp_path):
    assert refusal(tmp_path / "a\nb\x1b[31m.wav").startswith("a?b?[31m.wav does not exist")
    assert len(refusal(tmp_path / ("long" * 40))) < 120


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_a_clip_or_a_sentence_and_nothing_else(tmp_path, no_ffmpeg, data):
    suffix = data.draw(st.sampled_from(["wav", "flac", "ogg", "mp3", "aiff"]))
    content = bytearray(sound_file(tmp_path / f"fuzz.{suffix}", 1.2, 8_000).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, min(200, len(content) - 1)))] = data.draw(st.integers(0, 255))
    path = tmp_path / "clip.bin"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        outcome = read_clip(path)
    except RequestError as error:
        outcome = str(error)
    assert isinstance(outcome, Clip) or "clip.bin" in outcome


def test_a_phone_recording_without_ffmpeg_gets_one_sentence_with_both_remedies(tmp_path, no_ffmpeg):
    (tmp_path / "memo.m4a").write_bytes(M4A)
    assert refusal(tmp_path / "memo.m4a") == (
        "memo.m4a needs ffmpeg to be read; install ffmpeg, or convert the clip to WAV, FLAC, OGG or MP3."
    )


@pytest.mark.parametrize(
    ("start", "container"),
    [(M4A, "mov"), (b"\x1a\x45\xdf\xa3" + bytes(50), "matroska"), (b"\x30\x26\xb2\x75" + bytes(50), "asf")],
)
def test_the_audio_track_comes_through_ffmpeg_and_the_caller_is_told(tmp_path, fake_ffmpeg, start, container):
    (tmp_path / "sound").write_bytes(streamed_wav(3.0, 48_000, 2))
    seen = fake_ffmpeg(f"sys.stdout.buffer.write(open({str(tmp_path / 'sound')!r}, 'rb').read())")
    (tmp_path / "-i clip.m4a").write_bytes(start)
    told = []
    clip = read_clip(tmp_path / "-i clip.m4a", tell=told.append)
    assert clip.samples.shape == (2, 144_000)
    assert clip.sample_rate == 48_000
    assert np.array_equal(clip.samples.T, noise(3.0, 48_000, 2).astype(np.float32))
    assert told == ["The audio track of -i clip.m4a is used."]
    args = json.loads(seen.read_text())
    assert args[:1] == ["-nostdin"]
    assert "-vn" in args
    assert "pcm_f32le" in args
    assert args[args.index("-f") + 1] == container
    assert args[args.index("-t") + 1] == "61"
    assert args[args.index("-i") + 1] == f"file:{tmp_path / '-i clip.m4a'}"


def test_a_long_recording_through_ffmpeg_meets_the_same_limit(tmp_path, fake_ffmpeg):
    (tmp_path / "sound").write_bytes(streamed_wav(61.0, 8_000, 1))
    fake_ffmpeg(f"sys.stdout.buffer.write(open({str(tmp_path / 'sound')!r}, 'rb').read())")
    (tmp_path / "talk.m4a").write_bytes(M4A)
    assert refusal(tmp_path / "talk.m4a").startswith("talk.m4a is longer than 60 s")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit('Output file #0 does not contain any stream')", "film.mp4 has no sound track"),
        ("sys.exit('moov atom not found')", "film.mp4 is damaged and ffmpeg cannot decode it"),
        ("sys.stdout.write('not sound')", "film.mp4 could not be decoded"),
        ("import time; time.sleep(30)", "film.mp4 took too long to decode"),
    ],
)
def test_what_ffmpeg_cannot_do_is_one_sentence(tmp_path, fake_ffmpeg, monkeypatch, body, reason):
    monkeypatch.setattr(audio_files, "FFMPEG_TIMEOUT_S", 5 if "time" not in body else 0.5)
    fake_ffmpeg(body)
    (tmp_path / "film.mp4").write_bytes(M4A)
    assert refusal(tmp_path / "film.mp4").startswith(reason)


def pcm(n: int = 7_200) -> np.ndarray:
    return np.random.default_rng(3).integers(-32768, 32768, n).astype(np.int16)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".WAV"])
@pytest.mark.parametrize("n", [1, 7_200, 7_201, 240_000])
def test_a_take_keeps_every_sample_and_its_card(tmp_path, suffix, n):
    path = tmp_path / f"take{suffix}"
    write_take(path, pcm(n), 24_000, CARD)
    samples, rate = sf.read(path, dtype="int16")
    assert rate == 24_000
    assert np.array_equal(samples, pcm(n))
    assert read_card(path) == CARD


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
@pytest.mark.parametrize("length", [0, 1, 2, 1_900, 2_100, 16_384, 100_000])
def test_a_card_of_any_length_survives_and_the_sound_beside_it(tmp_path, suffix, length):
    card = {**CARD, "text": ('é漢😀\\"\n' * length)[:length]}
    path = tmp_path / f"take{suffix}"
    write_take(path, pcm(), 44_100, card)
    assert read_card(path) == card
    assert np.array_equal(sf.read(path, dtype="int16")[0], pcm())


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_other_programs_find_the_notice_in_the_comment(tmp_path, suffix):
    path = tmp_path / f"take{suffix}"
    write_take(path, pcm(), 24_000, CARD)
    with sf.SoundFile(path) as file:
        assert json.loads(file.comment)["notice"] == "synthetic speech"


def test_a_wav_begins_with_the_plain_44_byte_header(tmp_path):
    write_take(tmp_path / "take.wav", pcm(), 24_000, CARD)
    data = (tmp_path / "take.wav").read_bytes()
    assert data[36:40] == b"data"
    assert data[44 : 44 + 14_400] == pcm().tobytes()
    assert int.from_bytes(data[4:8], "little") == len(data) - 8


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_the_same_take_gives_the_same_bytes(tmp_path, suffix):
    for name, card in (("a", CARD), ("b", dict(reversed(CARD.items())))):
        write_take(tmp_path / (name + suffix), pcm(), 24_000, card)
    first, second = ((tmp_path / (name + suffix)).read_bytes() for name in "ab")
    assert first == second


def test_a_written_take_can_be_a_reference(tmp_path):
    write_take(tmp_path / "take.wav", pcm(48_000), 24_000, {**CARD, "text": "x" * 9_000})
    assert np.array_equal(read_clip(tmp_path / "take.wav").samples * 32768, pcm(48_000))


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, interruption):
    path = tmp_path / "take.wav"
    write_take(path, pcm(), 24_000, CARD)
    before = path.read_bytes()

    def interrupt(_):
        raise interruption

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises((KeyboardInterrupt, RequestError)) as caught:
        write_take(path, pcm(9), 24_000, CARD)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["take.wav"]
    if caught.type is RequestError:
        assert str(caught.value).startswith("take.wav cannot be written (No space left on device)")


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "take.wav").symlink_to(tmp_path / "folder" / "real.wav")
    check_target(tmp_path / "take.wav")
    write_take(tmp_path / "take.wav", pcm(), 24_000, CARD)
    assert (tmp_path / "take.wav").is_symlink()
    assert read_card(tmp_path / "folder" / "real.wav") == CARD


def test_a_new_file_has_ordinary_permissions(tmp_path):
    write_take(tmp_path / "take.wav", pcm(), 24_000, CARD)
    (tmp_path / "plain").touch()
    assert (tmp_path / "take.wav").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_samples_of_another_type_are_a_fault_of_ours(tmp_path):
    for suffix in (".wav", ".flac"):
        with pytest.raises(TypeError):
            write_take(tmp_path / f"take{suffix}", np.zeros(100, np.float32), 24_000, CARD)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("take.mp3", "take.mp3 does not end in .wav or .flac"),
        ("take", "take does not end in .wav or .flac"),
        ("", "The target does not end in .wav or .flac"),
        ("missing/take.wav", "The folder for take.wav does not exist"),
        ("file.txt/take.wav", "The folder for take.wav does not exist"),
        ("folder.wav", "folder.wav is a folder"),
        ("ta\0ke.wav", "ta?ke.wav cannot be written (not a valid path)"),
        ("x" * 300 + ".wav", "cannot be written"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_and_nothing_is_made(tmp_path, target, reason):
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "file.txt").touch()
    with pytest.raises(RequestError) as caught:
        check_target(os.path.join(tmp_path, target) if target else "")
    assert reason in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["file.txt", "folder.wav"]


def test_a_folder_that_takes_no_files_is_refused(tmp_path, monkeypatch):
    def full(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", full)  # an administrator's tests may write everywhere
    with pytest.raises(RequestError, match=r"take.wav cannot be written \(Permission denied\)"):
        check_target(tmp_path / "take.wav")


def test_a_write_protected_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "take.wav").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RequestError, match="write-protected"):
        check_target(tmp_path / "take.wav")


def test_a_good_target_is_left_as_it_was(tmp_path):
    check_target(tmp_path / "new.flac")
    (tmp_path / "old.wav").write_bytes(b"kept")
    check_target(str(tmp_path / "old.wav"))
    assert os.listdir(tmp_path) == ["old.wav"]
    assert (tmp_path / "old.wav").read_bytes() == b"kept"


def test_a_relative_target_is_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_target("take.wav")
    write_take("take.wav", pcm(), 24_000, CARD)
    assert os.listdir(tmp_path) == ["take.wav"]


@pytest.mark.parametrize("cuts", [(), (1,), (0, 7, 7, 500)])
def test_blocks_written_while_they_come_are_the_take_written_whole(tmp_path, cuts):
    whole = pcm(900)
    write_take(tmp_path / "whole.wav", whole, 24_000, CARD)
    assert write_wav(tmp_path / "blocks.wav", np.split(whole, cuts), 24_000, CARD) == 900
    assert (tmp_path / "blocks.wav").read_bytes() == (tmp_path / "whole.wav").read_bytes()


def test_blocks_that_end_in_an_error_or_pass_4_gb_leave_no_file(tmp_path, monkeypatch):
    def blocks():
        yield pcm(9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_wav(tmp_path / "mix.wav", blocks(), 24_000, CARD)
    monkeypatch.setattr(audio_files, "MAX_WAV_BYTES", 1_000)
    with pytest.raises(RequestError, match=r"mix.wav would be over 4 GB"):
        write_wav(tmp_path / "mix.wav", [pcm(300)] * 2, 24_000, CARD)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MARA", "MARA"),
        ("Old Tom", "Old-Tom"),
        ("../../etc/passwd", "etc-passwd"),
        ("A\\B:C*D?", "A-B-C-D"),
        ("E\u0301MILE", "\u00c9MILE"),
        ("ラジオ", "ラジオ"),
        ("हिन्दी", "हिन्दी"),
        ("...", "unnamed"),
        ("🏃", "unnamed"),
        (". hidden.", "hidden"),
        ("x" * 500, "x" * 60),
        ("ジ" * 500, "ジ" * 20),
    ],
)
def test_any_text_becomes_a_part_of_a_file_name(text, name):
    assert safe_name(text) == name


def test_files_without_a_card_are_refused(tmp_path):
    plain = sound_file(tmp_path / "plain.wav")
    flac = sound_file(tmp_path / "plain.flac")
    (tmp_path / "words.wav").write_text("no sound at all")
    (tmp_path / "cut.wav").write_bytes(b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\xffINFOICMT")
    for comment in ("[" * 2_000, "a comment", '{"title": "a song"}', "[1]", '{"take_card": 99}'):
        with sf.SoundFile(tmp_path / f"{len(comment)}.wav", "w", 24_000, 1) as file:
            file.comment = comment
            file.write(noise(1.0))
    for path in (plain, flac, *tmp_path.glob("*.wav")):
        with pytest.raises(RequestError, match="holds no take card"):
            read_card(path)
    with pytest.raises(RequestError, match=r"gone.wav does not exist"):
        read_card(tmp_path / "gone.wav")


def test_the_rest_of_the_engine_does_not_need_soundfile():
    forbid = "import sys; sys.modules['soundfile'] = sys.modules['soxr'] = None; "
    subprocess.run([sys.executable, "-c", forbid + "import engine, engine.references"], check=True)
