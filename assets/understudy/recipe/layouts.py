"""Tokenizer and Drama 3 prompt layouts for training and testing the understudy."""

from __future__ import annotations

import random

import numpy as np

SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|voice|>",
    "<|text|>",
    "<|interleave|>",
    "<|audio_separator|>",
] + [f"<|speaker:{i}|>" for i in range(16)]
# fixed phrases of the layouts, one token each; everything else is read byte by byte
PHRASES = [
    "convert the provided text to speech",
    " reference to the following:",
    "\n\n[Reference ",
    "]\nText: ",
    "\nSpeech: ",
    "system\n",
    "user\n",
    "assistant\n",
    "Characters:\n- ",
    "Scene: ",
    "Voice every line of the script in order, with ",
    " between consecutive lines.",
]
TTS = "convert the provided text to speech"
REFERENCE = TTS + " reference to the following:"
SCENE = "Voice every line of the script in order, with <|audio_separator|> between consecutive lines."
END, START = "<|im_end|>\n", "<|im_start|>assistant\n<|voice|>"


def build_tokenizer(codes: int = 1024):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIALS])
    tokenizer.add_tokens([AddedToken(s, normalized=False, special=False) for s in PHRASES])
    tokenizer.add_special_tokens(
        [AddedToken(f"<|semantic:{i}|>", normalized=False, special=True) for i in range(codes)]
    )
    return tokenizer


def build_config(tokenizer, hidden=256, layers=8, interval=2, books=6, codes=1024):
    first = tokenizer.token_to_id("<|semantic:0|>")
    heads = hidden // 64
    vocab = -(-tokenizer.get_vocab_size() // 64) * 64
    kinds = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)]
    return dict(
        architectures=["FishOmniModel"],
        model_type="fish_omni",
        fish_schema_version=1,
        speech_template_version="reference-bracket-v1",
        torch_dtype="float16",
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
        semantic_start_token_id=first,
        semantic_end_token_id=first + codes - 1,
        audio_encoder_config=None,
        extra_samplable_token_ids=[],
        text_config=dict(
            model_type="fish_omni_text",
            vocab_size=vocab,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=64,
            hidden_act="silu",
            rms_norm_eps=1e-6,
            max_position_embeddings=8192,
            layer_types=kinds,
            mlp_layer_types=["moe"] * layers,
            linear_conv_kernel_dim=4,
            linear_key_head_dim=64,
            linear_value_head_dim=64,
            linear_num_key_heads=heads,
            linear_num_value_heads=heads,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=hidden * 11 // 32,
            shared_expert_intermediate_size=hidden * 3 // 4,
            shared_expert_gate=True,
            rotary_interleaved=False,
            use_qk_norm=True,
            attn_output_gate=True,
            layernorm_zero_centered_gamma=True,
            tie_word_embeddings=False,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
        ),
        audio_decoder_config=dict(
            model_type="fish_qwen3_audio_decoder",
            decoder_type="codebook_mtp_shared",
            dim=hidden,
            text_dim=hidden,
            n_head=heads,
            n_local_heads=heads // 2,
            head_dim=64,
            n_layer=1,
            shared_enrichment_layers=1,
            intermediate_size=hidden * 5 // 8,
            norm_eps=1e-6,
            num_codebooks=books,
            vocab_size=codes,
            max_seq_len=books + 1,
            rope_base=10000.0,
            rotary_percent=0.5,
            rotary_interleaved=True,
            attention_output_gate=True,
            attention_qk_norm=True,
            attention_qkv_bias=False,
            attention_o_bias=False,
            layernorm_zero_centered_gamma=True,
            vq_feature_scope="all_vq",
            vq_feature_placement="backbone_partial",
            vq_backbone_codebooks=books - 1,
            mtp_spec={},
            use_moe=False,
            mtp_use_swa=False,
            window_size=None,
            window_attn_skip_freq=None,
            window_rotary_base=None,
            dropout=0.0,
        ),
    )


class Encoder:
    """Strings to ids without the tokenizers library's per-call cost."""

    def __init__(self, tokenizer) -> None:
        self.tokenizer, self.cache = tokenizer, {}
        self.byte = {b: tokenizer.encode(bytes([b]).decode("latin1")).ids[-1] for b in range(32, 127)}
        self.byte[10] = tokenizer.encode("\n").ids[0]

    def __call__(self, text: str) -> np.ndarray:
        if text.isascii() and "<|" not in text and all(p not in text for p in PHRASES):
            return np.array([self.byte[b] for b in text.encode()], np.int16)
        if text not in self.cache:
            self.cache[text] = np.array(self.tokenizer.encode(text).ids, np.int16)
        return self.cache[text]


def rows(segments, encode: Encoder, first: int, books: int) -> np.ndarray:
    """Text rows are [token, 0, ...]; audio rows [c0 + first, c0, c1, ...]."""
    out = []
    for segment in segments:
        if isinstance(segment, str):
            ids = encode(segment)
            block = np.zeros((len(ids), 1 + books), np.int16)
            block[:, 0] = ids
        else:  # [frames, books]
            block = np.concatenate((segment[:, :1] + np.int16(first), segment), 1)
        out.append(block)
    return np.concatenate(out)


def directed(text: str, words: str) -> str:
    """A line with what is asked for in brackets in front, as the app's prompt has it."""
    return f"[{words}] {text}" if words else text


def tagged(text: str) -> str:
    return "<|speaker:0|> " + text


def layout(text, voices=(), history=(), character=None, scene=None):
    """voices, history: (text, codes) pairs; character: (name, description)."""
    said = (lambda t: f"{character[0]}: {t}") if character else tagged
    out = ["<|im_start|>", "system\n"]
    if character:
        if scene:
            out += ["Scene: ", scene, "\n"]
        out += ["Characters:\n- ", f"{character[0]}: {character[1]}\n", SCENE]
    else:
        out.append(REFERENCE if voices else TTS)
        for i, (said_before, codes) in enumerate(voices, 1):
            out += [
                "\n\n[Reference ",
                str(i),
                "]\nText: ",
                "<|speaker:0|>",
                " " + said_before,
                "\nSpeech: ",
                codes,
            ]
    out.append(END)
    for said_before, codes in history:
        out += ["<|im_start|>user\n", said(said_before), END, START, codes, END]
    return [*out, "<|im_start|>user\n", said(text), END, START]


NAMES = {
    "m": [
        "Jack",
        "Algernon",
        "George",
        "Victor",
        "Tom",
        "Samuel",
        "Henry",
        "Daniel",
        "Felix",
        "Edmund",
        "Marcus",
        "Captain Reed",
        "Mister Holt",
        "Father",
        "Arthur",
        "Leo",
        "Uncle Ben",
    ],
    "f": [
        "Gwendolen",
        "Cecily",
        "Mary",
        "Eliza",
        "Anna",
        "Ruth",
        "Clara",
        "Margaret",
        "Nora",
        "Lady Gray",
        "Missus Finch",
        "Mother",
        "Sophie",
        "Alice",
        "Ivy",
        "Aunt May",
    ],
}
ANY = [
    "Alex",
    "Robin",
    "Stranger",
    "Narrator",
    "Guard",
    "Doctor",
    "Voice",
    "Sam",
    "Doc",
    "Pilot",
    "Judge",
    "Witness",
    "Ghost",
    "Host",
]
PERSON = {
    "m": ["man", "man", "gentleman", "male voice", "fellow", "male speaker"],
    "f": ["woman", "woman", "lady", "female voice", "girl", "female speaker"],
}
ACCENT = {"us": ["American", "American", "from America"], "gb": ["British", "English", "from England"]}
PLACES = [
    "a railway station at night",
    "a small kitchen",
    "the deck of a ship",
    "an empty theatre",
    "a courtroom",
    "a garden in spring",
    "the old library",
    "a rainy street",
    "a spaceship bridge",
    "the drawing room",
    "a hospital corridor",
    "a mountain hut in a storm",
    "backstage before the show",
    "a crowded tavern",
    "a quiet church",
    "the edge of a forest",
]


def opposite(session: dict, pitch: str, other: str) -> tuple[dict, str]:
    """Session and pitch of a false description: the other pitch, or the other gender."""
    if other == "gender":
        return session | {"gender": "f" if session["gender"] == "m" else "m"}, pitch
    return session, {"low": "high", "high": "low"}[pitch]


def describe(rng: random.Random, session: dict, pitch: str, whisper: float, pitch_told: bool = False) -> str:
    """Words for how a line sounds; not every attribute is always mentioned, pitch if ``pitch_told``."""
    person = rng.choice(PERSON[session["gender"]])
    accent = rng.choice(ACCENT[session["accent"]]) if rng.random() < 0.8 else None
    traits = []
    low = {
        "low": ["deep voice", "low voice", "deep, dark voice"],
        "high": ["high voice", "bright, high voice", "light voice"],
        "mid": ["even voice", "clear voice", "ordinary voice"],
    }[pitch]
    if rng.random() < (0.85 if pitch != "mid" else 0.3) or pitch_told:
        traits.append(rng.choice(low))
    speed = session["speed"]
    pace = (
        ["slow", "speaks slowly", "unhurried"]
        if speed < 0.93
        else ["fast", "speaks quickly", "rapid"]
        if speed > 1.15
        else ["calm pace", "even pace"]
    )
    if rng.random() < (0.85 if not 0.93 <= speed <= 1.15 else 0.3):
        traits.append(rng.choice(pace))
    if whisper > 0.5:
        traits.append(rng.choice(["whispering", "whispery", "soft whisper"]))
    rng.shuffle(traits)
    front = (
        f"{accent} {person}"
        if accent and not accent.startswith("from")
        else f"{person} {accent}"
        if accent
        else person
    )
    if rng.random() < 0.6:
        front = ("an " if front[0] in "AEIOaeio" else "a ") + front
    text = ", ".join([front, *traits])
    if rng.random() < 0.3 and traits:
        text = front + (" with " if "voice" in traits[0] else ", ") + ", ".join(traits)
    return text[0].upper() + text[1:] + (rng.choice(["", ".", "."]))
