"""Holds this program against a golden folder: tiny checkpoints and the exact arrays they must produce.

Every number is computed by the functions a take calls; intermediate values come out of the same forward path
through its `trace`. `arrays.json` lists the arrays with shape and dtype, `gates.json` says how each is
compared. What a gate calls an input is given to the computation; where the program can derive it too, it is
checked all the same, by the gate in `DERIVED`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from engine.drama3 import experts
from engine.drama3.codec import Codec
from engine.drama3.config import Drama3Config
from engine.drama3.family import load_tokenizer
from engine.drama3.json_section import ConfigError
from engine.drama3.layers import Trace
from engine.drama3.model import Drama3Model, TakeState
from engine.drama3.rows import layout_rows
from engine.drama3.weights import load_model
from engine.sampling import Knobs, TakeKnobs, draw, draw_main
from engine.take import RequestError
from prompts import text as words
from prompts.drama3 import Codes, Described, Layout, layout

Arrays = dict[str, np.ndarray]
EXACT = {"exact": True}
DERIVED = {
    "backbone.npz:linear_layers": EXACT,
    "backbone.npz:full_layers": EXACT,
    "fp8.npz:moe_input": {"abs": 5e-4},
    "fp8.npz:linear_input_bits": EXACT,
    "fp8.npz:linear_input_scale": {"abs": 1e-6},
}


@dataclass
class Tally:
    """Counts verdicts and prints a line for each."""

    tell: Callable[[str], object]
    passed: int = 0
    failed: int = 0

    def add(self, name: str, problem: str | None, detail: str = "") -> None:
        self.passed, self.failed = self.passed + (problem is None), self.failed + (problem is not None)
        self.tell(f"ok      {name}  {detail}" if problem is None else f"FAILED  {name}  {problem}")


@dataclass
class Folder:
    """A golden folder and the models in it, each loaded once."""

    path: Path
    models: dict[str, Drama3Model] = field(default_factory=dict)

    def json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise RequestError(f"{self.path.name} has no readable {name}; name a golden folder.") from None

    def arrays(self, name: str) -> Arrays:
        with np.load(self.path / name) as file:
            return {key: file[key] for key in file.files}

    def model(self, name: str = "checkpoint") -> Drama3Model:
        if name not in self.models:
            config = Drama3Config.from_folder(self.path / name)
            self.models[name] = load_model(self.path / name, config, torch.device("cpu"), torch.float32)
        return self.models[name]


def verify(path: Path, tell: Callable[[str], object] = print) -> bool:
    """Print a verdict for every array and case of the folder; True if all passed. Raises RequestError if it
    is no golden folder."""
    folder, tally = Folder(path), Tally(tell)
    listed, gates = folder.json("arrays.json"), folder.json("gates.json")["gates"]
    for name in sorted(listed):
        _verify_file(folder, name, listed[name], gates, tally)
    for gate in sorted(gates.keys() - {f"{file}:{array}" for file in listed for array in listed[file]}):
        tally.add(gate, "has a gate but is not in arrays.json")
    for case in (_config_cases, _validation, _speaker_tags, _segments):
        for name, problem in case(folder):
            tally.add(name, problem)
    tell(f"{tally.passed} passed, {tally.failed} failed")
    return not tally.failed


def _verify_file(folder: Folder, name: str, listed: dict, gates: dict, tally: Tally) -> None:
    stored, got, fault = {}, {}, None
    try:
        stored = folder.arrays(name)
        got = _computation(name)(folder, stored, name)
    except Exception as error:  # a spoilt array may break any computation: that is a verdict, not a crash
        place = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"the computation stopped: {type(error).__name__} in {place.name}: {error}"
    for array, (shape, dtype) in listed.items():
        key = f"{name}:{array}"
        gate = gates.get(key)
        if gate is not None and gate.get("input"):
            gate = DERIVED.get(key, gate)
        problem, detail = _verdict(array, stored, got, shape, dtype, gate, fault)
        tally.add(key, problem, detail)
    for array in sorted(stored.keys() - listed.keys()):
        tally.add(f"{name}:{array}", "is not in arrays.json")


def _verdict(
    array: str, stored: Arrays, got: Arrays, shape: list, dtype: str, gate: dict | None, fault: str | None
) -> tuple[str | None, str]:
    """(problem or None, detail) of one array."""
    if array not in stored:
        return fault or "is missing from its file", ""
    want = stored[array]
    if list(want.shape) != shape or str(want.dtype) != dtype:
        return f"is {want.dtype} {list(want.shape)}, arrays.json says {dtype} {shape}", ""
    if gate is None:
        return "has no gate", ""
    if fault:
        return fault, ""
    if gate.get("input"):
        return _input_problem(array, want), "input"
    if array not in got:
        return "has a gate but no computation", ""
    return _compare(want, np.asarray(got[array]), gate)


def _input_problem(array: str, given: np.ndarray) -> str | None:
    """Why an input can't be one. Noise must be Exp(1): at temperature 0 most of a run's noise touches no
    choice.
    """
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        return "is an input that is not finite"
    if array in ("first_noise", "ras_noise", "head_noise"):
        off = abs(float(given.mean()) - 1.0)
        if given.min() <= 0 or off > 5 / given.size**0.5:
            return f"is no Exp(1) noise: least {given.min():.2g}, mean {given.mean():.3f}"
    return None


def _compare(want: np.ndarray, have: np.ndarray, gate: dict) -> tuple[str | None, str]:
    if have.shape != want.shape:
        return f"has the shape {list(want.shape)}, computed {list(have.shape)}", ""
    if gate.get("exact"):
        wrong = int((have != want).sum())
        return (f"{wrong} of {want.size} values differ" if wrong else None), "exact"
    kind, limit = next(iter(gate.items()))
    distance = np.abs(have.astype(np.float64) - want.astype(np.float64))
    value = float(distance.max() if kind == "abs" else distance.mean())
    figure = f"{kind} {value:.2g} (gate {limit:g})"
    return (None if value <= limit else figure), figure


def _computation(name: str) -> Callable[[Folder, Arrays, str], Arrays]:
    if name.startswith("run_"):
        return _run
    known = {"prompts.npz": _prompts, "backbone.npz": _backbone, "sampler.npz": _sampler}
    known |= {"codec.npz": _codec, "fp8.npz": _fp8}
    if name not in known:
        raise RequestError(f"nothing here computes {name}")
    return known[name]


def _layout_of(case: dict, codes: Arrays) -> Layout:
    who = case["character"]
    return layout(
        case["text"],
        [(each["transcript"], codes[f"codes_{each['codes']}"]) for each in case["references"]],
        Described(who["name"], who["description"], who["scene"]) if who else None,
        [(each["text"], codes[f"codes_{each['codes']}"]) for each in case["history"]],
    )


def _prompts(folder: Folder, stored: Arrays, name: str) -> Arrays:
    config = folder.model().config
    tokenizer = load_tokenizer(folder.path / "checkpoint", config)

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    sizes = config.semantic_start_token_id, config.tower.num_codebooks, config.tower.vocab_size
    cases = folder.json("prompts.json")["cases"]
    return {
        f"rows_{case['name']}": layout_rows(_layout_of(case, stored), encode, *sizes)[0] for case in cases
    }


def _backbone(folder: Folder, stored: Arrays, name: str) -> Arrays:
    model, trace, rows = folder.model(), {}, torch.from_numpy(stored["frames"])
    state = _state(model, len(rows))
    state.prefill(rows, trace)
    config, memory = model.config, state.backbone
    got = {each: _joined(trace, each) for each in ("layer_output", "route_index", "route_weight")}
    got |= {each: trace[each][0].numpy() for each in ("inputs_embeds", "final_hidden")}
    got |= {"conv_state": memory.conv.numpy(), "recurrent_state": memory.recurrent.numpy()}
    got |= {"kv_key": memory.keys.numpy(), "kv_value": memory.values.numpy()}
    got["linear_layers"] = np.array(config.text.linear_layers)
    got["full_layers"] = np.array(config.text.full_layers)
    got["candidate_ids"] = model.candidates.numpy()
    got["candidate_logits"] = model.backbone.candidate_logits(trace["final_hidden"][0]).numpy()
    for array, want in stored.items():  # the first rows of the first linear and the first full layer
        part = array.replace("gdn0_", "gdn_") if array.startswith("gdn0_") else array
        if part.startswith(("gdn_", "attn_")):
            got[array] = trace[part][0][: len(want)].numpy()
    return got


class _Scripted:
    """Noise that a golden run brings with it, in the order a take draws it."""

    def __init__(self, main: np.ndarray, retry: np.ndarray, heads: np.ndarray) -> None:
        steps, candidates = main.shape
        self.noise = torch.ones(steps, 2 + heads.shape[1], candidates)
        self.noise[:, 0], self.noise[:, 1] = torch.from_numpy(main), torch.from_numpy(retry)
        self.noise[:, 2:, : heads.shape[2]] = torch.from_numpy(heads)

    def frame(self, frame: int) -> torch.Tensor:
        return self.noise[frame]


def _run(folder: Folder, stored: Arrays, name: str) -> Arrays:
    model = folder.model()
    run = next(each for each in folder.json("runs.json") if name == f"run_{each['run']}.npz")
    rows, steps = torch.from_numpy(stored["prompt"]), run["steps"]
    knobs = TakeKnobs.of(run["temperature"], run["top_k"], run["top_p"], "cpu")
    noise = _Scripted(stored["first_noise"], stored["ras_noise"], stored["head_noise"])
    state, filled, trace = TakeState.open(model, len(rows) + steps, steps, knobs, noise), {}, {}
    state.prefill(rows, filled)
    cached = state.tower[:, :, :, : len(rows) - 1].transpose(2, 3).clone().numpy()
    for _ in range(steps):
        state.step(trace)
    reason = "stop" if state.status(steps - 1)[0] else "length"
    if reason != run["finish_reason"]:
        raise ValueError(f"the run ended by {reason}, runs.json says {run['finish_reason']}")
    got = {
        "frames": state.frames(0, state.num_frames).numpy(),
        "step_hidden": torch.cat(trace["step_hidden"]).numpy(),
    }
    got["step_logits"] = torch.cat(trace["step_logits"]).numpy()
    got["step_head_logits"] = (
        torch.cat(trace["head_logits"]).view(steps, -1, model.tower.heads.shape[1]).numpy()
    )
    got["step_tower_output"] = (
        torch.cat(trace["tower_output"]).view(steps, len(model.tower.layers), -1).numpy()
    )
    got |= {"prefill_tower_output": _joined(filled, "tower_output")}
    got |= {"prefill_kv_key": cached[0], "prefill_kv_value": cached[1]}
    return {each: got[each] for each in got if each in stored}


def _sampler(folder: Folder, stored: Arrays, name: str) -> Arrays:
    given = {key: torch.from_numpy(value) for key, value in stored.items()}
    model = folder.model()
    knobs = Knobs(given["temperature"], given["top_k"], given["top_p"])
    got = {
        f"choice_{policy}_crossing": draw(given["logits"], given["noise"], knobs, policy == "keep").numpy()
        for policy in ("keep", "drop")
    }
    firsts, mains = [], []
    for i, logits in enumerate(given["ras_logits"]):
        one = TakeKnobs.of(
            *(given[f"ras_{key}"][i].item() for key in ("temperature", "top_k", "top_p")), "cpu"
        )
        noise = torch.stack((given["ras_first_noise"][i], given["ras_retry_noise"][i]))
        window = given["ras_window"][i]
        first, main = draw_main(logits[None], noise, window, model.candidates, model.config.eos_token_id, one)
        firsts, mains = [*firsts, first], [*mains, main]
    main = torch.cat(mains)
    got |= {"ras_first_token": torch.cat(firsts).numpy(), "ras_main_token": main.numpy()}
    return got | {"ras_code0": model.first_code(main).numpy()}


def _codec(folder: Folder, stored: Arrays, name: str) -> Arrays:
    codec, got = Codec.load(folder.path / "checkpoint"), {}
    for clip in sorted(key.removesuffix("_wave") for key in stored if key.endswith("_wave")):
        trace = {}
        got[f"{clip}_codes"] = codec.encode(torch.from_numpy(stored[f"{clip}_wave"]), trace).numpy()
        got |= {f"{clip}_{part}": value.numpy() for part, value in trace.items()}
    codes, trace = torch.from_numpy(stored["decode_codes"]), {}
    got["decode_audio"] = codec.decode(codes, trace).numpy()
    got |= {f"decode_{part}": value.numpy() for part, value in trace.items()}
    for array in stored:
        if array.startswith("windowed_audio_context_"):
            windows = codec.decode_windowed(
                codes, stored["window_ends"].tolist(), int(array.rsplit("_", 1)[1])
            )
            got[array] = torch.cat(list(windows)).numpy()
    return got


def _fp8(folder: Folder, stored: Arrays, name: str) -> Arrays:
    model, rows = folder.model("checkpoint_fp8"), torch.from_numpy(stored["frames"])
    trace, trace_w8a8 = {}, {}
    _state(model, len(rows)).prefill(rows, trace)
    with _quantised_activations(model):
        _state(model, len(rows)).prefill(rows, trace_w8a8)
        moe = zip(model.backbone.layers, torch.from_numpy(stored["moe_input"]), strict=True)
        with torch.inference_mode():
            w8a8_moe = torch.stack([layer.experts(x) for layer, x in moe])
    got = {f"weight_only_{part}": _joined(trace, part) for part in ("layer_output", "moe_output")}
    got |= {part: _joined(trace, part) for part in ("moe_input", "route_index", "route_weight")}
    got["weight_only_final_hidden"] = trace["final_hidden"][0].numpy()
    got |= {"w8a8_moe_output": w8a8_moe.numpy(), "w8a8_final_hidden": trace_w8a8["final_hidden"][0].numpy()}
    return got | _fp8_linear(stored)


def _fp8_linear(stored: Arrays) -> Arrays:
    weight = torch.from_numpy(stored["linear_weight_bits"]).view(torch.float8_e4m3fn)
    scale, x = torch.from_numpy(stored["linear_scale_inv"]), torch.from_numpy(stored["linear_input"])
    full = experts.dequantise(weight, scale, torch.float32)
    bits, row_scale = experts.quantise_rows(x)
    return {
        "linear_weight_dequant": full.numpy(),
        "linear_input_bits": bits.contiguous().view(torch.uint8).numpy(),
        "linear_input_scale": row_scale.numpy(),
        "linear_output_weight_only": F.linear(x, full).numpy(),
        "linear_output_w8a8": experts.quantised_matmul(x, weight, scale).numpy(),
    }


class _quantised_activations:
    """W8A8 in every layer while it lasts: only a verifier wants it."""

    def __init__(self, model: Drama3Model) -> None:
        self.blocks = [layer.experts.experts for layer in model.backbone.layers]

    def __enter__(self) -> None:
        for block in self.blocks:
            block.activations_fp8 = True

    def __exit__(self, *_: object) -> None:
        for block in self.blocks:
            block.activations_fp8 = False


def _state(model: Drama3Model, num_rows: int) -> TakeState:
    """A state for prefill only: its sampler is never asked."""
    return TakeState.open(model, num_rows, 1, TakeKnobs.of(1.0, None, 1.0, "cpu"), noise=None)


def _joined(trace: Trace, name: str) -> np.ndarray:
    return torch.stack(trace[name]).numpy()


def _config_cases(folder: Folder) -> Iterator[tuple[str, str | None]]:
    plain = folder.json("checkpoint/config.json")
    for case in folder.json("config_cases.json"):
        config = json.loads(json.dumps(plain))
        for path, value in case["set"].items():
            *places, last = path.split(".")
            _inside(config, places)[last] = float("inf") if value == "Infinity" else value
        for path in case["delete"]:
            *places, last = path.split(".")
            _inside(config, places).pop(last)
        try:
            Drama3Config.from_dict(config)
            said, accepted = "accepted", True
        except ConfigError as error:
            said, accepted = str(error), False
        yield f"config_cases.json:{case['name']}", None if accepted == case["accept"] else f"verdict: {said}"


def _inside(config: dict, places: list[str]) -> dict:
    for place in places:
        config = config[place]
    return config


def _validation(folder: Folder) -> Iterator[tuple[str, str | None]]:
    for i, case in enumerate(folder.json("prompts.json")["validation"]):
        verdicts = (
            words.caller_text_problem(case["text"]) is None,
            words.request_text_problem(case["text"]) is None,
        )
        good = verdicts == (case["caller_text_ok"], case["request_ok"])
        yield f"prompts.json:validation {i}", None if good else f"{case['text']!r} gave {verdicts}"


def _speaker_tags(folder: Folder) -> Iterator[tuple[str, str | None]]:
    for i, case in enumerate(folder.json("prompts.json")["speaker_tags"]):
        got = words.tag(case["text"]), words.reference_block(case["text"])
        good = got == (case["tagged"], case["reference_block"])
        yield f"prompts.json:speaker_tags {i}", None if good else f"{case['text']!r} gave {got}"


def _segments(folder: Folder) -> Iterator[tuple[str, str | None]]:
    codes = folder.arrays("prompts.npz")
    for case in folder.json("prompts.json")["cases"]:
        laid = _layout_of(case, codes).segments
        got = [{"codes": True} if isinstance(each, Codes) else each for each in laid]
        want = [{"codes": True} if isinstance(each, dict) else each for each in case["segments"]]
        yield f"prompts.json:segments {case['name']}", None if got == want else f"gave {got}"
