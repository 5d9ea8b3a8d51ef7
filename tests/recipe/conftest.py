"""The recipe's modules, which import each other by bare names because they are run from their own folder; the
embedded checkpoint as both sides read it; its published takes as rows."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.family import Piece
from engine.models import UNDERSTUDY, load_family
from tests.published import EXPECTED, request_of

RECIPE = UNDERSTUDY / "recipe"
MODULES = (
    *(
        "check_directions",
        "codec",
        "direct",
        "directions",
        "encode",
        "evaluate",
        "judges",
        "layouts",
        "measures",
    ),
    *("model", "muon", "perform", "shards"),
    *("teacher", "train_codec", "train_lm"),
)


@pytest.fixture(scope="session")
def recipe() -> SimpleNamespace:
    """The modules by name. No test finds them by an import, and no import finds their folder."""
    path, known = sys.path[:], set(sys.modules)
    sys.path.insert(0, str(RECIPE))
    try:
        return SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == RECIPE:
                del sys.modules[name]


@pytest.fixture(scope="session")
def family():
    """The embedded checkpoint as the engine reads it."""
    return load_family("understudy")


@pytest.fixture(scope="session")
def understudy(recipe):
    """The same checkpoint as the recipe reads it."""
    return recipe.model.Understudy.load(UNDERSTUDY)


@pytest.fixture(scope="session")
def expected() -> list[dict]:
    """The published takes: plain, plain, voice, voice and history, described, described with a scene."""
    return EXPECTED


@pytest.fixture(scope="session")
def prompt_of(family) -> Callable[..., torch.Tensor]:
    """The engine's prompt rows [rows, 1 + codebooks] int64 of a published take."""

    def prompt(case: dict) -> torch.Tensor:
        r = request_of(case)
        piece = Piece(r.text, 0, r.character, r.history, r.sampling, r.seed, r.max_frames)
        return torch.from_numpy(family.prompt(piece).rows)

    return prompt


@pytest.fixture(scope="session")
def rows_of(family, prompt_of) -> Callable[..., torch.Tensor]:
    """The rows of a published take: its prompt, its frames and the end of speech."""

    def rows(case: dict) -> torch.Tensor:
        codes = torch.tensor(case["codes"]).T
        frames = torch.cat((codes[:, :1] + family.config.semantic_start_token_id, codes), 1)
        end = torch.zeros(1, frames.shape[1], dtype=torch.int64)
        end[0, 0] = family.config.eos_token_id
        return torch.cat((prompt_of(case), frames, end))

    return rows
