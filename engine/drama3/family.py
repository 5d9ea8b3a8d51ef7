"""Drama 3 as a family: a checkpoint folder becomes something that performs pieces.

Everything comes from the folder: sizes, candidate ids, sample rate, hop, limits. Which checkpoint it is - the
41 GB release or one of a few megabytes - no line here knows.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer

from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.host import HostStep, host_weights
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.rows import count_rows, layout_rows
from engine.drama3.weights import load_model
from engine.family import Capabilities, Piece, PromptSize
from engine.noise import NoiseBlocks
from engine.prefix import PrefixCache
from engine.sampling import TakeKnobs
from engine.stepping import FrameState, Prompt, Speech, history_room, prompt_limit, speak_frames
from engine.take import Character, RequestError, Spoken
from engine.vocoder import EARLY_SCHEDULE, SCHEDULE, ThreadVocoder, Vocoder
from prompts import text as words
from prompts.drama3 import Described, Layout, directed, layout
from prompts.text import PromptError

if TYPE_CHECKING:
    from engine.drama3.graphs import Desks

ROOT = Path(__file__).resolve().parents[2]
MAX_PROMPT_ROWS = 8192
MAX_PIECE_FRAMES = 1200
# A snapshot of Drama 3 takes about 80 MB after 300 rows, 63 of them recurrent state, and 450 after 8,192; one
# of a small model 1 or 2. Behind all the history that it reads a character of the understudy holds 35 MB in
# four states: eight of them must fit.
PREFIX_BYTES = {"cuda": 1 << 30, "cpu": 512 << 20}
PREFIX_HOST_BYTES = 16 << 30  # of a GPU's snapshots, if a quarter of the machine's memory is as much
NAMELESS = "Speaker"  # a described character needs some name in the layout


class Drama3Family:
    """One loaded Drama 3 checkpoint. Takes keep their own state; of prompts only `prefixes` remembers
    anything.
    """

    def __init__(
        self,
        name: str,
        revision: str,
        config: Drama3Config,
        model: Drama3Model,
        codec: Codec,
        tokenizer: Tokenizer,
        folder: Path | None = None,
    ) -> None:
        self.name, self.revision = name, revision
        self.config, self.model, self.codec, self.tokenizer = config, model, codec, tokenizer
        self.capabilities = Capabilities(
            clone=True,
            describe=True,
            direct=config.performs_cues,
            history=True,
            seeds=True,
            languages=config.languages,
            characters=config.characters,
            sounds=config.sounds,
        )
        self.host = host_weights(model, codec)
        self.sample_rate, self.hop = codec.sample_rate, codec.hop
        self.num_codebooks, self.codebook_size = config.tower.num_codebooks, config.tower.vocab_size
        self.max_rows = model.max_rows
        self.max_prompt_rows = min(MAX_PROMPT_ROWS, model.max_rows)
        self.max_piece_frames = min(MAX_PIECE_FRAMES, model.max_rows // 2)
        self.history_rows, self.longest_piece_s = config.history_rows, config.longest_piece_s
        host = min(PREFIX_HOST_BYTES, _host_memory() // 4) if model.device.type == "cuda" else 0
        self.prefixes = PrefixCache(PREFIX_BYTES[model.device.type], host)
        self.lookahead = 1 if model.device.type == "cuda" else 0
        self._desks: Desks | None = None
        self._desks_lock = threading.Lock()
        self.folder = folder
        # A long scene's lines are counted anew at each of them.
        self._num_tokens = functools.lru_cache(4096)(lambda text: len(self._encode_text(text)))
        self.specials = tuple(
            token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special
        )

    @classmethod
    def load(cls, folder: Path, name: str, revision: str, device: torch.device) -> Drama3Family:
        """Read a checkpoint folder onto `device`: float32 on a CPU, bfloat16 on a GPU (codec float32).

        Raises RequestError naming the file, key or tensor that doesn't fit.
        """
        try:
            config, codec = Drama3Config.from_folder(folder), Codec.load(folder, device)
        except ValueError as problem:
            raise RequestError(f"The checkpoint {folder.name} can't be used: {problem}") from None
        tokenizer = load_tokenizer(folder, config)
        if codec.num_codebooks != config.tower.num_codebooks:
            raise RequestError(
                f"The codec of {folder.name} has {codec.num_codebooks} codebooks, its config.json says "
                f"{config.tower.num_codebooks}; the files don't belong together."
            )
        largest = max(codec.codebook_sizes)
        if largest > config.tower.vocab_size:
            raise RequestError(
                f"The codec of {folder.name} has {largest} codes in a book, its config.json "
                f"{config.tower.vocab_size}; the files don't belong together."
            )
        dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        torch.backends.cudnn.allow_tf32 = False  # ten bits are too few for a waveform
        model = load_model(folder, config, device, dtype)
        return cls(name, revision, config, model, codec, tokenizer, folder)

    def prepare(self, major: int, minor: int) -> None:
        if self.folder and importlib.util.find_spec("triton"):
            module = "engine.drama3.ahead"
            script = [sys.executable, "-m", module, str(self.folder.resolve()), f"{major}{minor}"]
            subprocess.Popen(script, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def warm(self) -> None:
        if self.on_gpu:
            for desk in self.desks():
                desk.warm()

    def check(self, text: str, character: Character, history: tuple[Spoken, ...]) -> None:
        """Raise PromptError for words that can't be performed."""
        words.check_line(text, self.specials)
        if not words.has_something_to_say(
            text if self.config.performs_cues_alone else words.without_cues(text)
        ):
            cue = words.cues(text)[0]
            raise PromptError(f"{self.name} can't perform a cue alone, such as {cue}; add words to the line.")
        for number, reference in enumerate(character.voice or (), 1):
            words.check_transcript(reference.transcript, number, self.specials)
        if character.name:
            words.check_character_field(character.name, "name", self.specials)
        if character.description is not None:
            words.check_character_field(character.description, "description", self.specials)
        if character.scene is not None:
            words.check_character_field(character.scene, "scene", self.specials)
        for number, turn in enumerate(history, 1):
            words.check_line(turn.text, self.specials, f"History turn {number}")

    def performed(self, text: str) -> str:
        if not self.config.performs_cues:
            return words.without_cues(text)
        if self.config.sounds is None:
            return text
        first = next(iter(words.cues(text)), "")
        front = text.find(first) + len(first) if words.strip(text).startswith(first) else 0
        rest = words.without_cues(text[front:], self.config.sounds)
        return text[:front] + (" " if front and rest and rest[0] != " " else "") + rest

    def directed(self, text: str, direction: str) -> str:
        return directed(text, direction)

    def encode(self, samples: np.ndarray) -> np.ndarray:
        return self.desks().encoder.encode(samples) if self.on_gpu else self.codec.encode(samples).numpy()

    def forget(self) -> int:
        self._num_tokens.cache_clear()
        return self.prefixes.clear()

    def measure(self, piece: Piece) -> PromptSize:
        rows, borders = count_rows(self._layout(piece), self._num_tokens)
        turns = tuple(np.diff(borders).tolist())
        room = history_room(self, borders[0])
        return PromptSize(rows - sum(turns), turns, prompt_limit(self, piece), room)

    def speak(self, piece: Piece) -> Speech:
        return speak_frames(self, piece)

    def prompt(self, piece: Piece) -> Prompt:
        """The rows of a piece, with the borders at which a prefix could be kept."""
        start = self.config.semantic_start_token_id
        return Prompt(
            *layout_rows(
                self._layout(piece), self._encode_text, start, self.num_codebooks, self.codebook_size
            )
        )

    def _layout(self, piece: Piece) -> Layout:
        who = piece.character
        described = None
        if who.description is not None:
            described = Described(who.name or NAMELESS, who.description, who.scene)
        references = [(reference.transcript, reference.audio) for reference in who.voice or ()]
        return layout(piece.text, references, described, [(turn.text, turn.codes) for turn in piece.history])

    def _encode_text(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @property
    def on_gpu(self) -> bool:
        """Whether there is a card to work on; weights alone may lie on "cuda" before a hosted GPU is lent."""
        return self.model.device.type == "cuda" and torch.cuda.is_available()

    def desks(self) -> Desks:
        """What a GPU keeps ready. Made at the first take: on a hosted GPU only a worker has a card."""
        from engine.drama3 import graphs  # late: a CPU needs no graphs

        with self._desks_lock:
            if self._desks is None:
                fused = graphs.fusible(self.model.device)
                self._desks = graphs.Desks(
                    graphs.FrameDesk(self.model, self.max_piece_frames, fused),
                    graphs.CodecDesk(self.codec, EARLY_SCHEDULE if fused else SCHEDULE),
                    graphs.EncoderDesk(self.codec),
                )
            return self._desks

    def open(self, piece: Piece, num_rows: int) -> FrameState:
        """The piece's state: at the desk if there is one and it is free, else in buffers of its own."""
        if self.on_gpu and (take := self.desks().frames.sit(piece)):
            return take
        sampling, device = piece.sampling, self.model.device
        knobs = TakeKnobs.of(sampling.temperature, sampling.top_k, sampling.top_p, device)
        state = TakeState.open(self.model, num_rows, piece.max_frames, knobs, self._noise(piece))
        if self.host is not None:
            state.chain = HostStep(self.host, state)
        return state

    def _noise(self, piece: Piece) -> NoiseBlocks:
        if self.host is not None:
            return self.host.noise(piece.seed, piece.index)
        candidates = len(self.config.candidate_ids)
        return NoiseBlocks(piece.seed, piece.index, self.num_codebooks + 1, candidates, self.model.device)

    def vocoder(self) -> Vocoder:
        return (self.on_gpu and self.desks().codec.sit()) or ThreadVocoder(self.codec.stream())


def load_tokenizer(folder: Path, config: Drama3Config) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise RequestError(f"The checkpoint {folder.name} misses the file tokenizer.json; fetch it again.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception:  # tokenizers raises bare Exception for every kind of broken file
        raise RequestError(f"tokenizer.json of {folder.name} can't be read; fetch it again.") from None
    first = tokenizer.token_to_id("<|semantic:0|>")
    if first != config.semantic_start_token_id:
        raise RequestError(
            f"tokenizer.json of {folder.name} gives <|semantic:0|> the id {first}, config.json "
            f"semantic_start_token_id says {config.semantic_start_token_id}; the files don't belong together."
        )
    return tokenizer


def _host_memory() -> int:
    """Bytes of memory that this process may have: the machine's, or its container's where that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return found
    return min(found, int(allowed)) if allowed.isdigit() else found
