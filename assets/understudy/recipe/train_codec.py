"""Train the codec on the teacher's speech.

    python train_codec.py --speech SPEECH --out OUT --train 600 --then 900

First act (--train seconds): everything learns.  Reconstruction is a multi-scale log-mel L1;
code 0 is asked which phonemes the frame contains (labels come free from the teacher), because it
is what the language model writes first, and the first three codes for the pitch; a reader of phonemes
must understand the result.  With --resume an earlier codec and its codebooks go on from where they were.
Then the encoder and the codebooks are final: OUT/codes_final appears, and encode.py may
write codes from OUT/codec.safetensors.  Second act (--then
seconds): the decoder alone goes on, in smaller steps, against judges of realism (least squares, feature
matching), which may join the first act, too.  In both the sound must repeat itself where the real one does.
What the second act saves, minute by minute, is the mean of its last steps, so that it may be cut short.
New files of speech are picked up as they appear; CUDA graphs are captured before the first.
"""

from __future__ import annotations

import argparse
import glob
import math
import os
import time
from pathlib import Path

import codec as codec_module
import numpy as np
import torch
import torch.nn.functional as F
from codec import Codec
from judges import PARTS, PHONES, Judges, LowJudges, MelLoss, NamingHead, Periodicity, PitchNames, Reader
from teacher import SAMPLES_PER_FRAME

FRAME = 1024
RATE = 24000
PITCHED = 3  # codes of a frame that must tell the pitch


class Corpus:
    """Random crops, gathered on the GPU, from files of speech that may still be arriving."""

    KEYS = ("start", "length", "label_start", "label_count", "label_shift")

    def __init__(self, folder: str, device: str, hours: float, beginnings: float) -> None:
        self.folder, self.device, self.room, self.beginnings = folder, device, hours * 3600 * RATE, beginnings
        self.known: set = set()
        self.audio = torch.zeros(0, dtype=torch.int16, device=device)
        self.label = torch.zeros(0, dtype=torch.uint8, device=device)
        self.rows = torch.zeros(5, 0, dtype=torch.long, device=device)
        self.aside = None  # every 101st line of the first file

    def look(self) -> bool:
        """Takes in one more file of speech if there is one and room for it."""
        fresh = sorted(set(glob.glob(self.folder + "/*.pt")) - self.known)
        if not fresh or len(self.audio) >= self.room:
            return False
        self.known.add(fresh[0])
        speech = torch.load(fresh[0], weights_only=False, mmap=True)
        rows = torch.tensor(np.stack([speech[k] for k in self.KEYS]), dtype=torch.long, device=self.device)
        rows[0] += len(self.audio)
        rows[2] += len(self.label)
        self.audio = torch.cat((self.audio, speech["audio"].to(self.device)))
        self.label = torch.cat((self.label, speech["label"].to(self.device)))
        if self.aside is None:
            exam = torch.arange(rows.shape[1], device=self.device) % 101 == min(50, rows.shape[1] // 2)
            self.aside, rows = rows[:, exam], rows[:, ~exam]
        self.rows = torch.cat((self.rows, rows), 1)
        return True

    def wait(self) -> None:
        """Returns once there is speech to learn from."""
        while not len(self.audio) and not self.look():
            time.sleep(0.2)

    def crops(self, batch: int, frames: int, rows=None, vary: bool = True):
        """Waveforms [batch, frames * FRAME], phonemes of their frames [batch, frames, PARTS] (-100: none)."""
        start, length, label_start, label_count, label_shift = self.rows if rows is None else rows
        weight, size, device = length.double().cumsum(0), frames * FRAME, self.device
        pick = torch.searchsorted(weight, torch.rand(batch, device=device, dtype=torch.double) * weight[-1])
        pick = pick.clamp(max=len(start) - 1)
        room = (length[pick] - size).clamp(min=0)
        at = (torch.rand(batch, device=device) * (room + 1)).long()
        if vary:  # a line's first sound has nothing before it: show that more often than chance would
            at = at * (torch.rand(batch, device=device) > self.beginnings)
        grid = torch.arange(size, device=device)[None] + at[:, None]
        inside = grid < length[pick][:, None]
        audio = (
            self.audio[(start[pick][:, None] + grid).clamp(max=len(self.audio) - 1)].float() / 32768 * inside
        )
        # the phoneme in the middle of each part of a frame
        middle = (
            at[:, None]
            + torch.arange(PARTS * frames, device=device)[None] * (FRAME // PARTS)
            + FRAME // PARTS // 2
        )
        slot = (middle + label_shift[pick][:, None]) // SAMPLES_PER_FRAME
        known = (middle < length[pick][:, None]) & (slot < label_count[pick][:, None])
        slot = torch.minimum(slot, label_count[pick][:, None] - 1) + label_start[pick][:, None]
        label = torch.where(known, self.label[slot].long(), -100)
        if vary:
            quieter = 10 ** (torch.empty(batch, device=device).uniform_(-12, 3) / 20)
            audio = audio * torch.where(torch.rand(batch, device=device) < 0.3, quieter, 1.0)[:, None]
        return audio.clamp(-1, 1), label.reshape(batch, frames, PARTS)


class Codebooks:
    """Start the codebooks from real encoder outputs and keep every code in use."""

    def __init__(self, codec) -> None:
        q = codec.quantizer
        self.all = list(q.semantic_quantizer.quantizers) + list(q.quantizer.quantizers)
        self.count = [
            torch.zeros(m.codebook.num_embeddings, device=m.codebook.weight.device) for m in self.all
        ]

    def continuous(self, on: bool) -> None:
        for m in self.all:
            m.continuous = on

    @torch.no_grad()
    def fit(self, produce, rounds: int = 12) -> None:
        """Spherical k-means, one level after the other (each sees the rounded levels before)."""
        for m in self.all:
            m.continuous = True
        for m in self.all:
            seen = []
            for _ in range(16):
                produce()
                seen.append(m.seen[0].transpose(1, 2).flatten(0, 1))
            e = F.normalize(torch.cat(seen), dim=-1)
            table = e[torch.randperm(len(e), device=e.device)[: m.codebook.num_embeddings]]
            if len(table) < m.codebook.num_embeddings:
                table = table.repeat(-(-m.codebook.num_embeddings // len(table)), 1)[
                    : m.codebook.num_embeddings
                ]
                table = F.normalize(table + 0.01 * torch.randn_like(table), dim=-1)
            for _ in range(rounds):
                pick = (e @ table.T).argmax(-1)
                total = torch.zeros_like(table).index_add_(0, pick, e)
                used = torch.bincount(pick, minlength=len(table)) > 0
                table = torch.where(
                    used[:, None],
                    F.normalize(total + 1e-8, dim=-1),
                    e[torch.randint(0, len(e), (len(table),), device=e.device)],
                )
            m.codebook.weight.copy_(table)
            m.continuous = False

    @torch.no_grad()
    def observe(self) -> None:
        for m, count in zip(self.all, self.count, strict=False):
            count += torch.bincount(m.seen[1].flatten(), minlength=len(count))

    @torch.no_grad()
    def revive(self) -> None:
        for m, count in zip(self.all, self.count, strict=False):
            e = m.seen[0].transpose(1, 2).flatten(0, 1)
            fresh = e[torch.randint(0, len(e), (len(count),), device=e.device)]
            dead = (count < 2)[:, None]
            m.codebook.weight.copy_(torch.where(dead, fresh, m.codebook.weight))
            count.zero_()


class Average:
    """The mean of a network's last few hundred steps: at a high learning rate it sounds better than any of
    them (0.05-0.1 DNSMOS), at a low one the same."""

    STEPS = 400

    def __init__(self, parameters) -> None:
        self.live = [p.detach() for p in parameters]
        self.mean, self.count = [p.clone() for p in self.live], 0

    def add(self) -> None:
        self.count += 1
        torch._foreach_lerp_(self.mean, self.live, 1 / min(self.count, self.STEPS))

    def swap(self) -> None:
        """Exchanges the two, in place: CUDA graphs know the parameters by their address."""
        live = [p.clone() for p in self.live]
        torch._foreach_copy_(self.live, self.mean)
        torch._foreach_copy_(self.mean, live)


class Step:
    """One training step's forward and backward, replayed as a CUDA graph where there is one.

    The networks are small: launching their kernels one by one takes twice as long as running them.
    """

    def __init__(self, compute, clear, graph: bool) -> None:
        self.compute, self.clear, self.graph = compute, clear, None
        if graph:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    clear()
                    compute()[0].backward()
            torch.cuda.current_stream().wait_stream(side)
            clear()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                loss, self.values = compute()
                loss.backward()

    def __call__(self) -> dict:
        if self.graph is not None:
            self.graph.replay()
        else:
            self.clear()
            loss, self.values = self.compute()
            loss.backward()
        return self.values


class Lesson:
    """Losses of one batch, in fixed buffers, so that a CUDA graph can replay them.

    ``frozen``: the encoder and the codebooks stay as they are.  ``ramp`` is the weight of the judges,
    ``periodicity`` that of hoarseness."""

    def __init__(self, codec, ears, args, frozen: bool) -> None:
        self.codec, self.ears, self.args, self.frozen = codec, ears, args, frozen
        batch, device = args.then_batch if frozen else args.batch, args.device
        self.audio = 0.05 * torch.randn(batch, args.frames * FRAME, device=device)
        self.label = torch.zeros(batch, args.frames, PARTS, dtype=torch.long, device=device)
        self.names = PitchNames(ears["periodicity"]).to(device)
        self.ramp = torch.zeros((), device=device)
        self.periodicity = torch.full((), args.periodicity[0], device=device)
        self.judged, self.fake = min(self.audio.shape[1], args.low_samples), None
        # the decoder alone: bfloat16's rounding is a hiss 33 dB below the speech, which no judge forgives
        self.half = dict(device_type=device, dtype=torch.bfloat16, enabled=not frozen, cache_enabled=False)
        self.rough = self.half | dict(enabled=True)  # what the judges may compute in

    def quantised(self):
        with torch.autocast(**self.half):
            return self.codec.quantizer.quantise(self.codec.encoder(self.audio[:, None]))

    def decoded(self, z):
        with torch.autocast(**self.half):
            return self.codec.decoder(self.codec.quantizer.upsample(self.codec.quantizer.post_module(z)))[
                :, 0
            ].float()

    def naming(self, logits):
        return F.cross_entropy(logits.flatten(0, 2).float(), self.label.flatten(), ignore_index=-100)

    def read(self, audio, frozen: bool):
        reader = self.ears["reader"]
        state = (
            {k: v.detach() for k, v in reader.named_parameters()}
            if frozen
            else dict(reader.named_parameters())
        )
        with torch.autocast(**self.half):
            return torch.func.functional_call(reader, state, (audio,))

    def crop(self, audio):
        """The end of the crop, which has the longest past."""
        return audio[:, -self.judged :]

    def judged_by_all(self, audio):
        """(verdict, features) of every judge."""
        return self.ears["judges"](audio[:, -self.args.judge_samples :]) + self.ears["low"](audio)

    def forward(self, judged: bool):
        with torch.set_grad_enabled(not self.frozen):
            sums, codes, commitment, codebook = self.quantised()
        fake = self.decoded(sums[-1])
        mel = self.ears["mel"](fake, self.audio)
        understood = self.naming(self.read(fake, True))
        hoarse = self.ears["periodicity"](fake, self.audio)
        loss = self.args.mel * mel + self.periodicity * hoarse + self.args.read * understood
        values = dict(mel=mel, hoarse=hoarse, read=understood)
        if not self.frozen:
            phone = self.naming(self.ears["phone"](sums[0].float()))
            pitch = self.names.loss(self.ears["pitch"](sums[PITCHED - 1].float()), *self.names(self.audio))
            loss = loss + 0.25 * commitment + codebook + self.args.phone * phone + self.args.pitch * pitch
            values.update(phone=phone, pitch=pitch, commitment=commitment)
            if not self.args.resume:
                values["real"] = self.naming(self.read(self.audio, False))
                loss = loss + values["real"]
        if judged:
            real_crop, fake_crop = self.crop(self.audio), self.crop(fake)
            with torch.autocast(**self.rough):
                with torch.no_grad():
                    real_out = self.judged_by_all(real_crop)
                fake_out = self.judged_by_all(fake_crop)
            adversarial = sum(((f.float() - 1) ** 2).mean() for f, _ in fake_out)
            match = sum(
                (a.float() - b.float()).abs().mean()
                for (_, fa), (_, fb) in zip(fake_out, real_out, strict=False)
                for a, b in zip(fa, fb, strict=False)
            )
            loss = loss + self.ramp * (adversarial + self.args.match * match)
            values.update(adversarial=adversarial, match=match)
            self.fake = fake_crop.detach().clone()
        return loss, {k: v.detach() for k, v in values.items()} | {"codes": codes}

    def judge(self):
        with torch.autocast(**self.rough):
            real_out, fake_out = self.judged_by_all(self.crop(self.audio)), self.judged_by_all(self.fake)
        loss = sum(
            ((r.float() - 1) ** 2).mean() + (f.float() ** 2).mean()
            for (r, _), (f, _) in zip(real_out, fake_out, strict=False)
        )
        return loss, dict(judge=loss.detach())

    @torch.no_grad()
    def exam(self, audio, label) -> str:
        """On lines set aside: distance of the reconstruction, its hoarseness, phonemes named from code 0
        alone, and by the reader from the real sound and from the codec's; how often the pitch named from the
        first three codes, and that of the codec's sound, is within 4 % of the real one."""
        self.codec.eval()
        total = []
        for wave, names in zip(audio.split(len(self.audio)), label.split(len(self.audio)), strict=False):
            with torch.autocast(**self.half):
                sums, *_ = self.codec.quantizer.quantise(self.codec.encoder(wave[:, None]))
            fake, known, (place, voiced) = self.decoded(sums[-1]), names >= 0, self.names(wave)
            named = self.ears["pitch"](sums[PITCHED - 1].float()).argmax(-1)

            def right(logits, names=names, known=known):
                return (logits.argmax(-1) == names)[known].float().mean()

            def near(other, place=place, voiced=voiced):
                return ((other - place).abs() < 1.5)[voiced].float().mean()

            total.append(
                torch.stack(
                    (
                        self.ears["mel"](fake, wave),
                        self.ears["periodicity"](fake, wave),
                        right(self.ears["phone"](sums[0].float())),
                        right(self.read(wave, True)),
                        right(self.read(fake, True)),
                        near(named),
                        near(self.names(fake)[0]),
                    )
                )
            )
        self.codec.train()
        text = (
            "mel {:.3f} hoarse {:.3f} phonemes named from code 0 {:.3f}, "
            "read from the real {:.3f}, from the codec's {:.3f}, pitch named {:.3f}, kept {:.3f}"
        )
        return text.format(*torch.stack(total).mean(0).tolist())


def keep(codec, ears, out: Path) -> None:
    """A run may end at any moment, and others may be reading: files appear whole."""
    codec.save(out / "part")
    for name in ("codec.json", "codec.safetensors"):
        os.replace(out / "part" / name, out / name)
    half = {
        k: {n: x.half() if x.is_floating_point() else x for n, x in v.state_dict().items()}
        for k, v in ears.items()
        if k not in ("mel", "periodicity")
    }
    torch.save(half, out / "part" / "ears.pt")
    os.replace(out / "part" / "ears.pt", out / "ears.pt")


def between(ends: tuple[float, float], progress: float) -> float:
    """On the way from the first to the second."""
    return ends[0] * (1 - progress) + ends[1] * progress


def train(codec, ears, corpus, seconds: float, args, log, frozen: bool) -> None:
    started, cuda = time.time(), args.device == "cuda"
    judges = torch.nn.ModuleList((ears["judges"], ears["low"]))
    decoder = [
        p
        for m in (codec.quantizer.post_module, codec.quantizer.upsample, codec.decoder)
        for p in m.parameters()
    ]
    if frozen:
        learn = decoder
    else:
        learners = [codec, ears["phone"], ears["pitch"]]
        if not args.resume:  # a reader that reads forgets when its learning rate starts again
            learners.append(ears["reader"])
        learn = [p for m in learners for p in m.parameters()]
    codec.requires_grad_(not frozen)
    for p in learn:
        p.requires_grad_(True)
    lr, judge_from = (args.then_lr, args.then_judge_from) if frozen else (args.lr, args.judge_from)

    def adam(parameters):
        return torch.optim.AdamW(parameters, lr=lr, betas=(0.8, 0.99), weight_decay=0.01, fused=cuda)

    optim, optim_j = adam(learn), adam(judges.parameters())
    lesson = Lesson(codec, ears, args, frozen)
    books = None if frozen else Codebooks(codec)
    average = Average(decoder) if frozen else None
    rounding = frozen or bool(args.resume)
    if not rounding:
        books.continuous(True)
    graphs = cuda and bool(args.graphs)
    clear, clear_j = (
        (lambda: optim.zero_grad(set_to_none=True)),
        (lambda: optim_j.zero_grad(set_to_none=True)),
    )
    act, act_j, joined = None, None, 0

    def listen() -> None:
        """From here on the judges take part."""
        nonlocal act, act_j, joined
        act = None
        judges.requires_grad_(False)
        act = Step(lambda: lesson.forward(True), clear, graphs)
        if not graphs:
            act()
        judges.requires_grad_(True)
        act_j, joined = Step(lesson.judge, clear_j, graphs), step
        log(f"judges joined at {time.time() - started:.0f} s, step {step}")

    step = 0
    if judge_from <= 0:
        listen()
    else:
        judges.requires_grad_(False)
        act = Step(lambda: lesson.forward(False), clear, graphs)
    corpus.wait()
    batch = len(lesson.audio)
    exam = corpus.crops(min(96, 4 * batch), args.frames, corpus.aside, vary=False)
    last = looked = time.time()
    while True:
        elapsed = time.time() - started
        progress = max(elapsed / seconds, step / args.max_steps)
        if progress >= 1:
            break
        if step % 50 == 0 and corpus.look():
            log(f"{len(corpus.audio) / RATE / 3600:.1f} h at {elapsed:.0f} s")
        rate = lr * min(1.0, (step + 1) / 60) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))
        optim.param_groups[0]["lr"], optim_j.param_groups[0]["lr"] = rate, min(rate, 0.6 * lr)
        if not rounding and progress >= args.warm:

            def produce():
                lesson.audio.copy_(corpus.crops(batch, args.frames)[0])
                lesson.quantised()

            act = None
            books.fit(produce)
            rounding = True
            log(f"codebooks fitted at {time.time() - started:.0f} s, step {step}")
            act = Step(lambda: lesson.forward(False), clear, graphs)
        if rounding and act_j is None and progress >= judge_from:
            listen()
        audio, label = corpus.crops(batch, args.frames)
        lesson.audio.copy_(audio), lesson.label.copy_(label)
        lesson.ramp.fill_(min(1.0, 0.05 + (step - joined) / 200))
        ears["periodicity"].near.fill_(math.log(between(Periodicity.NEAR, 1.0 if frozen else progress)))
        if frozen:
            lesson.periodicity.fill_(between(args.periodicity, progress))
        judges.requires_grad_(False)
        values = dict(act())
        codes = values.pop("codes")
        norm = torch.nn.utils.clip_grad_norm_(learn, args.clip)
        optim.step()
        if average:
            average.add()
        if act_j is not None:
            judges.requires_grad_(True)
            values.update(act_j())
            torch.nn.utils.clip_grad_norm_(judges.parameters(), 10.0)
            optim_j.step()
        if books and rounding and progress < 0.7:
            books.observe()
            if step % 100 == 99:
                books.revive()
        if step % args.log_every == 0:
            if not math.isfinite(float(norm)):
                raise FloatingPointError("gradient is not finite")
            use = [len(codes[:, i].unique()) for i in range(codes.shape[1])]
            now = time.time()
            log(
                f"codec {step} {now - started:.0f}s ({(now - last) / args.log_every * 1000:.0f} ms/step) "
                + " ".join(f"{k} {float(v):.3f}" for k, v in values.items())
                + f" norm {float(norm):.1f} codes {use}"
            )
            last = now
        step += 1
        if time.time() - looked > args.look_every:
            looked = time.time()
            if average:
                average.swap()
            if rounding:
                log(f"EXAM {step} {looked - started:.0f}s {lesson.exam(*exam)}")
            keep(codec, ears, args.out)
            if average:
                average.swap()
    if average:
        average.swap()
    log(f"EXAM {step} {time.time() - started:.0f}s {lesson.exam(*exam)} at the end")


def parse():
    p = argparse.ArgumentParser()
    add = p.add_argument
    add("--speech", required=True, help="where perform.py writes")
    add("--out", required=True, type=Path)
    add("--device", default="cuda")
    add("--train", type=float, default=600)
    add("--then", type=float, default=0, help="seconds for the decoder alone, codes kept")
    add("--resume", default="", help="folder with codec.* and ears.pt")
    add("--hours", type=float, default=40, help="of speech, at most")
    add("--batch", type=int, default=24)
    add("--then-batch", type=int, default=8, help="the same for the second act")
    add("--frames", type=int, default=40, help="of a crop; the codec's window must not be longer")
    add("--lr", type=float, default=5e-4)
    add("--then-lr", type=float, default=2.5e-4)
    add("--clip", type=float, default=50.0)
    add("--mel", type=float, default=25.0)
    add(
        "--periodicity",
        type=float,
        nargs=2,
        default=(4.0, 1.5),
        help="weight at the beginning and at the end of the second act; more: less hoarse, more artefacts",
    )
    add("--phone", type=float, default=8.0)
    add("--pitch", type=float, default=4.0)
    add("--read", type=float, default=2.0)
    add("--match", type=float, default=2.0)
    add("--beginnings", type=float, default=0.2, help="share of crops that are the beginning of a line")
    add("--warm", type=float, default=0.06, help="share of the first act without rounding")
    add("--judge-from", type=float, default=2.0, help="share of the first act; 2: never")
    add("--then-judge-from", type=float, default=0.0, help="the same for the second act")
    add("--judge-samples", type=int, default=16384, help="that the judges of the whole band hear of a crop")
    add(
        "--low-samples",
        type=int,
        default=32768,
        help="the same for the judges below 1.5 kHz, at least as many",
    )
    add("--max-steps", type=int, default=10**9)
    add("--log-every", type=int, default=100)
    add("--look-every", type=float, default=60.0)
    add("--compile", type=int, default=1)
    add("--graphs", type=int, default=1)
    return p.parse_args()


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)

    def log(message):
        print(message, flush=True)
        with open(args.out / "codec.log", "a") as book:
            print(message, file=book)

    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch._dynamo.config.recompile_limit = 64
    if args.compile:
        codec_module._kernels["snake"] = torch.compile(codec_module._snake, dynamic=True)
    torch.manual_seed(1)
    codec = (Codec.load(args.resume) if args.resume else Codec()).to(args.device).train()
    ears = dict(
        phone=NamingHead(codec.config["latent_dim"], PHONES),
        pitch=NamingHead(codec.config["latent_dim"], PitchNames.COUNT),
        reader=Reader(),
        judges=Judges(),
        low=LowJudges(),
        mel=MelLoss(RATE),
        periodicity=Periodicity(RATE),
    )
    ears = {k: v.to(args.device) for k, v in ears.items()}
    if args.resume and (Path(args.resume) / "ears.pt").exists():
        for name, state in torch.load(Path(args.resume) / "ears.pt", map_location=args.device).items():
            ears[name].load_state_dict(state)
            log(f"{name} resumed")
    corpus = Corpus(args.speech, args.device, args.hours, args.beginnings)
    if args.train > 0:
        train(codec, ears, corpus, args.train, args, log, frozen=False)
        keep(codec, ears, args.out)
        codec.load_state_dict(
            Codec.load(args.out).state_dict()
        )  # what was saved is what the codes are made with
    (args.out / "codes_final").touch()
    if args.then > 0:
        train(codec, ears, corpus, args.then, args, log, frozen=True)
        keep(codec, ears, args.out)
    log("finished")


if __name__ == "__main__":
    main()
