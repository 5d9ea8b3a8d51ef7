"""From a scene to its takes: what is asked of the model for a line, and line after line performed.

The command line and the page perform through here; they differ in what `perform` is (the engine itself, or a
gate and a door before it) and in where the sound goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from engine.engine import Engine
from engine.family import Family
from engine.memory import order_of_going, turns_that_go
from engine.scene import PINNED, Scene, SceneLine, SceneTake, seed_for, voice_key
from engine.take import Audio, Done, Event, RequestError, Spoken, Status, TakeFailed, TakeRequest, Trouble
from prompts.text import PromptError

Perform = Callable[[TakeRequest], Iterator[Event]]


@dataclass(frozen=True, eq=False)
class Attempt:
    """One take about to be made: the request, and what the scene wants to know of it afterwards.

    `hint` is a sentence for a person about what will not be performed, or "".
    """

    line: SceneLine
    request: TakeRequest
    history: tuple[SceneTake, ...]
    retake: int
    direction: str
    note: str
    model: str
    revision: str
    hint: str

    def take(self, done: Done, sample_rate: int, num_samples: int) -> SceneTake:
        """The take that came of it, `num_samples` long. For one that was cut, `done` is a Done of yours."""
        return SceneTake(
            line_id=self.line.id,
            retake=self.retake,
            seed=done.seed,
            text=self.request.text,
            direction=self.direction,
            note=self.note,
            voice=voice_key(self.request.character),
            sampling=self.request.sampling,
            heard=tuple((turn.line_id, turn.id) for turn in self._heard(done.flags)),
            model=self.model,
            revision=self.revision,
            codes=done.codes,
            frames=done.frames,
            sample_rate=sample_rate,
            num_samples=num_samples,
            finish_reason=done.finish_reason,
            flags=done.flags,
        )

    def _heard(self, flags: tuple[str, ...]) -> list[SceneTake]:
        """The history without the turns that had to go before the line began."""
        counts = {word: int(rest[:-1]) for word, _, rest in (flag.partition("(") for flag in flags) if rest}
        gone = counts.get("history_dropped", 0)
        left_out = order_of_going([turn.pinned for turn in self.request.history])[:gone]
        return [turn for index, turn in enumerate(self.history) if index not in left_out]


def attempt_for(
    scene: Scene,
    line_id: str,
    family: Family,
    note: str = "",
    direction: str | None = None,
    seed: int | None = None,
) -> Attempt:
    """The next take of a line. Pure: the same scene gives the same attempt.

    A retake may come with a `note` that is added to the direction, another `direction`, another `seed`.
    Raises RequestError for a line without a voice, or with words that can't be performed.
    """
    line = scene.line(line_id)
    if line.actor not in scene.cast:
        raise RequestError(f"{line.speaker} has no voice yet; cast {line.speaker} first.")
    wish = line.direction if direction is None else direction
    cue = ", ".join(filter(None, (wish.strip(), note.strip())))
    history = scene.history_of(line_id, family.name, family.revision) if family.capabilities.history else ()
    retake = scene.next_retake(line_id)
    request = TakeRequest(
        _words(scene, line, cue, family),
        scene.cast[line.actor],
        tuple(Spoken(t.text, t.codes, scene.memory.get(t.line_id) == PINNED) for t in history),
        scene.sampling,
        seed_for(scene.seed, line_id, retake) if seed is None else seed,
        numbers=scene.reading.numbers,
    )
    hint = ""
    if cue and not family.capabilities.direct:
        hint = f"{family.name} can't be directed; directions are shown and not performed."
    return Attempt(line, request, history, retake, wish, note, family.name, family.revision, hint)


def perform_attempt(attempt: Attempt, perform: Perform) -> Iterator[Event | SceneTake]:
    """The events of one take, and after its Done the SceneTake.

    A take that can't be made ends in a Trouble, whether `perform` raises or yields it. Closing the generator
    ends the take under way; what was heard of it, `attempt.take` makes a take of.
    """
    if attempt.hint:
        yield Status("direction", attempt.hint)
    end, sample_rate, num_samples = None, 0, 0
    try:
        with closing(perform(attempt.request)) as events:
            for event in events:
                yield event
                if isinstance(event, Audio):
                    sample_rate, num_samples = event.sample_rate, num_samples + len(event.pcm)
                elif isinstance(event, Done):
                    end = attempt.take(event, sample_rate, num_samples)
    except RequestError as problem:
        end = Trouble("request", str(problem))
    except TakeFailed as problem:
        end = Trouble("take", str(problem))
    if end:  # only now, with gate and door behind us: whoever listens may let us wait here
        yield end


def perform_lines(
    scene: Scene, family: Family, perform: Perform, line_ids: Iterable[str] | None = None
) -> Iterator[tuple[SceneLine, Event | SceneTake]]:
    """Perform lines one after another, all of them or those of `line_ids`; each event comes with its line.

    A SceneTake ends a line that was performed: keep it (`Scene.with_take` accepts it), as the lines after it
    remember it. A Trouble ends a line that was not; going on performs the next one, closing ends the scene
    and the line under way. At either nothing runs and nothing is held: whoever asks for the next event sets
    the pace.
    """
    for line_id in [line.id for line in scene.lines] if line_ids is None else line_ids:
        line = scene.line(line_id)
        try:
            attempt = attempt_for(scene, line_id, family)
        except RequestError as problem:
            yield line, Trouble("request", str(problem))
            continue
        with closing(perform_attempt(attempt, perform)) as events:
            for event in events:
                if isinstance(event, SceneTake):
                    scene = scene.with_take(event)
                yield line, event


@dataclass(frozen=True)
class Remembered:
    """What an actor remembers at a line: line ids oldest first, those among them that have gone, and how many
    `rows` the remembered ones take of the model's `room` for them."""

    lines: tuple[str, ...]
    dropped: tuple[str, ...]
    rows: int
    room: int


def remembered_at(scene: Scene, line_id: str, engine: Engine) -> Remembered:
    """The memory with which a line's next take would be performed. Raises RequestError as `attempt_for`."""
    attempt = attempt_for(scene, line_id, engine.family)
    size = engine.measure(attempt.request)
    pinned = [turn.pinned for turn in attempt.request.history]
    gone = turns_that_go(size.turns, pinned, size.room)
    ids = [take.line_id for take in attempt.history]
    rows = sum(size.turns) - sum(size.turns[turn] for turn in gone)
    return Remembered(
        tuple(each for turn, each in enumerate(ids) if turn not in gone),
        tuple(ids[turn] for turn in sorted(gone)),
        rows,
        size.room,
    )


def _words(scene: Scene, line: SceneLine, cue: str, family: Family) -> str:
    """The line's words as they are performed, with the cue in the family's own way."""
    try:
        words = scene.reading.words(line.text, family.capabilities)
        return family.directed(words, cue) if cue and family.capabilities.direct else words
    except PromptError as problem:
        raise RequestError(str(problem)) from None
