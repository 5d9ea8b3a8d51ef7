"""Directions: what the teacher does with its curves, and the words in which people ask for it.

A `Manner` is how a line is performed; `DIRECTIONS` are the manners that have a name, each with the phrases
that mean it. `phrase` words one for a prompt. Phrases in `held_out` are never trained on: evaluate.py asks
for them. Directions without a sound ("without looking up") belong to this as the others do: they change
nothing.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Manner:
    """How a line differs from the same line plain.

    Factors of `pace`, of the `melody`'s range (in the logarithm, around its own mean) and of the `pitch`;
    `breath`: no voice at all; `energy` is added to the teacher's energy curve; `tilt_db` lifts what lies
    above 1 kHz against what lies below, `level_db` is loudness against plain; `tremble` is the share by which
    the pitch swings; `pauses` and `drawn` are shares of the words with a pause behind them and of words drawn
    out.
    """

    pace: float = 1.0
    melody: float = 1.0
    pitch: float = 1.0
    energy: float = 0.0
    tilt_db: float = 0.0
    level_db: float = 0.0
    tremble: float = 0.0
    pauses: float = 0.0
    drawn: float = 0.0
    breath: bool = False

    def scaled(self, strength: float) -> Manner:
        """The same, more (above 1) or less of it."""
        factors = {k: getattr(self, k) ** strength for k in ("pace", "melody", "pitch")}
        terms = ("energy", "tilt_db", "level_db", "tremble", "pauses", "drawn")
        return replace(self, **factors, **{k: getattr(self, k) * strength for k in terms})

    def __add__(self, other: Manner) -> Manner:
        """Both at once."""
        factors = {k: getattr(self, k) * getattr(other, k) for k in ("pace", "melody", "pitch")}
        terms = {k: getattr(self, k) + getattr(other, k) for k in ("energy", "tilt_db", "level_db")}
        shares = {k: max(getattr(self, k), getattr(other, k)) for k in ("tremble", "pauses", "drawn")}
        return Manner(**factors, **terms, **shares, breath=self.breath or other.breath)


def listed(words: str) -> tuple[str, ...]:
    return tuple(words.split(", "))


# How scripts use a stem; {an} is the word with its article.
FRAMES = {
    "adverbs": listed("speaking {}, says {}, answering {}, replies {}, saying it {}, {} now, quite {}"),
    "adjectives": listed(
        "sounding {}, in {an} voice, in {an} tone, with {an} voice, {} voice, voice {}, her voice {}, "
        "his voice {}, suddenly {}, growing {}, she is {}, he sounds {}"
    ),
    "nouns": listed(
        "with {}, full of {}, voice full of {}, {} in her voice, {} in his voice, a note of {}, with great {}"
    ),
    "doing": listed("still {}, suddenly {}, now {}, she is {}, he is {}"),
}


@dataclass(frozen=True)
class Direction:
    """A manner with its words: stems, which stand in `FRAMES`, and `phrases`, which stand for themselves.

    Adverbs and adjectives go with "a little" and "very". `kind`: of one kind only one at a time can be asked
    for. `degrees`: whether there can be a little of it. `laughs`: the line begins with a laugh.
    """

    kind: str
    manner: Manner
    held_out: tuple[str, ...]
    phrases: tuple[str, ...]
    adverbs: tuple[str, ...] = ()
    adjectives: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    doing: tuple[str, ...] = ()
    degrees: bool = True
    laughs: bool = False

    @functools.cached_property
    def graded(self) -> tuple[str, ...]:
        return self.adverbs + self.adjectives if self.degrees else ()

    @functools.cached_property
    def bare(self) -> tuple[str, ...]:
        """What can stand on its own."""
        return self.adverbs + self.adjectives + self.doing

    @functools.cached_property
    def framed(self) -> tuple[str, ...]:
        """Every stem in every frame, but what is held out."""
        spoken = (
            frame.format(word, an=f"{'an' if word[0] in 'aeiou' else 'a'} {word}")
            for kind, frames in FRAMES.items()
            for word in getattr(self, kind)
            for frame in frames
        )
        return tuple(dict.fromkeys(p for p in spoken if p not in self.held_out))

    @functools.cached_property
    def trained(self) -> tuple[str, ...]:
        """All that a training says without a strength."""
        return tuple(dict.fromkeys(self.bare + self.phrases + self.framed))


PLAIN = Manner()
DIRECTIONS = {
    "whispering": Direction(
        "loudness",
        Manner(breath=True, energy=-1.0, level_db=-4.0, tilt_db=12.0, pace=0.97),
        listed("under her breath, barely audible, speaking in a whisper, a hoarse whisper, without voice"),
        listed(
            "whispers, whisper, whispered, in a whisper, whispering in her ear, whispering to him, "
            "in a low whisper, whispering so that no one hears, a whisper, barely a whisper, "
            "voice dropped to a whisper, in whispers, stage whisper, whispers in his ear, hoarse whisper, "
            "whispering urgently to her, under his breath, in a stage whisper, he whispers, she whispers, "
            "whispers back, whispering back, almost inaudible, breathing the words, in a breath, "
            "only breath, no voice, hardly audible, scarcely audible, so no one else hears, "
            "for her ears only, as if the walls had ears, so as not to wake the baby, "
            "whispering into the phone, in an urgent whisper, in a frightened whisper, "
            "in an excited whisper, a loud whisper, in a loud whisper, below a whisper, "
            "more of a breath than a voice, mouthing it, like a secret, sharing a secret, "
            "whispers to Anna, whispered to him, voice barely a breath, close to her ear, "
            "close to his ear, in his ear, conspiratorial"
        ),
        adjectives=listed("whispery, whispered, inaudible, voiceless, breathy, unvoiced"),
        doing=listed("whispering"),
        degrees=False,
    ),
    "soft": Direction(
        "loudness",
        Manner(pace=0.92, melody=0.8, pitch=0.95, energy=-1.2, tilt_db=-6.5, level_db=-8.0),
        ("gently, as to a child", "in hushed tones", "with a quiet voice", "speaking softly", "mutters"),
        listed(
            "softer, quieter, more softly, more quietly, lower your voice, lowering her voice, "
            "keeping his voice down, to herself, to himself, murmurs, in a murmur, keep it down, "
            "calming her, as if to a child, almost to herself, under the music, gentler, more gently, "
            "lowering his voice, lowers her voice, lowers his voice, drops his voice, dropping her voice, "
            "half to himself, to a sleeping child, so as not to wake him, not to be overheard, "
            "talking low, in an undertone, calming him, comforting her, consoling him, at half voice, "
            "as if in church, by the cradle, putting the child to bed, like a lullaby, confiding, "
            "intimate"
        ),
        adverbs=listed(
            "softly, quietly, gently, tenderly, mildly, soothingly, calmly, kindly, lovingly, delicately, "
            "intimately, peacefully, sweetly, faintly"
        ),
        adjectives=listed(
            "soft, quiet, gentle, hushed, low, soothing, tender, mild, calm, subdued, muted, faint, kind, "
            "loving, peaceful, velvety, sleepy, dreamy"
        ),
        nouns=listed("tenderness, gentleness, kindness, warmth"),
        doing=listed("murmuring, muttering, soothing him, comforting him, mumbling"),
    ),
    "loud": Direction(
        "loudness",
        Manner(melody=1.15, pitch=1.1, energy=0.8, tilt_db=5.0, level_db=4.0),
        listed("with a raised voice, speaking loudly, to the crowd, out loud, above the din"),
        listed(
            "louder, more loudly, raising his voice, raising her voice, speak up, at full voice, "
            "so that all can hear, to the whole room, over the noise, over the music, to the back row, "
            "voice raised, raises her voice, raises his voice, in a raised voice, voice rising, "
            "to the gallery, so the whole house hears, for all to hear, addressing the crowd, "
            "to the assembly, to the hall, to the whole street, above the noise, over the engine, "
            "over the wind, over the applause, more forcefully, stronger, at the top of her lungs, "
            "making herself heard, like a town crier, as from a pulpit, to the balcony, giving a speech, "
            "with full force, full voice, turning it up, speaking up, up, not caring who hears"
        ),
        adverbs=listed(
            "loudly, forcefully, strongly, powerfully, noisily, vigorously, emphatically, heartily, "
            "mightily, thunderously, commandingly, grandly"
        ),
        adjectives=listed(
            "loud, forceful, powerful, thunderous, resounding, ringing, strident, vigorous, emphatic, "
            "commanding, stentorian, deafening"
        ),
        nouns=listed("force, power, vigour, authority"),
        doing=listed("booming, projecting, declaiming, proclaiming, thundering, announcing"),
    ),
    "shouting": Direction(
        "loudness",
        Manner(pace=0.97, melody=1.15, pitch=1.25, energy=1.2, tilt_db=5.0, level_db=5.0),
        listed("at the top of his voice, bellows, yelling across the field, shouts at her, crying out loud"),
        listed(
            "shouts, shout, yells, shouted, yelled, shouting over the storm, shouting across the street, "
            "calls out, yelling at him, shouting from the next room, calling from far away, shouts at him, "
            "shouting at her, shouting at them, he shouts, she shouts, she yells, yells at her, "
            "yells back, shouts back, screams, screams at him, roars, hollers, calls, cries out, yell, "
            "scream, roar, bellow, in a shout, with a shout, with a roar, with a yell, with a scream, "
            "at the top of her voice, at the top of his lungs, to someone far off, across the valley, "
            "from the other end of the house, up the stairs, down the stairs, out of the window, "
            "calling across the water, over the thunder, over the waves, from the deck, for help, "
            "shouting for help, calling for help, hailing the ship, giving orders across the yard"
        ),
        doing=listed(
            "shouting, yelling, calling out, crying out, screaming, hollering, bellowing, roaring, "
            "shrieking, bawling, howling"
        ),
        degrees=False,
    ),
    "slow": Direction(
        "pace",
        Manner(pace=0.7),
        listed("with no hurry at all, at a crawl, slow and steady, spoken slowly, with great deliberation"),
        listed(
            "slower, more slowly, slow down, taking his time, taking her time, in no hurry, "
            "at a slow pace, one word at a time, word by word, drawing it out, at leisure, without haste, "
            "without hurry, in no rush, no hurry, at a snail's pace, at a leisurely pace, in slow motion, "
            "slowing down, slows down, stretching the words, drawing out the words, stretching every word, "
            "weighing each word, each word by itself, with all the time in the world, "
            "as if to a foreigner, spelling it out, dictating, like a judge, savouring every word, "
            "lingering on each word, letting each word fall, taking all the time she needs, even slower, "
            "much slower, with weight, slow speech"
        ),
        adverbs=listed(
            "slowly, unhurriedly, deliberately, ponderously, lazily, languidly, heavily, sluggishly, "
            "patiently"
        ),
        adjectives=listed(
            "slow, measured, ponderous, unhurried, leisurely, drawling, deliberate, languid, sluggish, "
            "lazy, patient, stately"
        ),
        nouns=listed("deliberation, patience, gravity"),
        doing=listed("drawling, dragging the words, taking time, lingering"),
    ),
    "quick": Direction(
        "pace",
        Manner(pace=1.4),
        listed("at high speed, at a gallop, hastily, spoken fast, rushing through it"),
        listed(
            "faster, quicker, more quickly, speed up, in a hurry, in a rush, at a fast pace, in haste, "
            "all in one breath, in one breath, without a breath, at speed, at full speed, at top speed, "
            "at a quick pace, at a brisk pace, at breakneck speed, double quick, much faster, even faster, "
            "a mile a minute, nineteen to the dozen, like a machine gun, rapid fire, speeding up, "
            "speeds up, picking up speed, words tumbling out, tumbling over the words, "
            "not stopping for breath, without pausing, getting it over with, to be done with it, "
            "before she can answer, before he can stop her, like an auctioneer, in a torrent, "
            "a stream of words, talks fast, fast talking, patter"
        ),
        adverbs=listed(
            "quickly, rapidly, hurriedly, briskly, swiftly, speedily, fast, promptly, breathlessly"
        ),
        adjectives=listed(
            "quick, rapid, hurried, brisk, swift, speedy, rushed, breathless, fast-paced, clipped"
        ),
        nouns=listed("speed, haste"),
        doing=listed(
            "hurrying, rushing, speaking quickly, talking fast, rattling it off, babbling, gabbling, "
            "racing, chattering"
        ),
    ),
    "flat": Direction(
        "feeling",
        Manner(melody=0.02, energy=-0.1),
        listed("without any feeling, in a monotonous voice, robotic, ice cold, with a dead voice"),
        listed(
            "monotone, in a monotone, without expression, colder, flatter, without emotion, no feeling, "
            "with no feeling, like a robot, as if reading a list, like a machine, "
            "without a trace of feeling, without feeling, showing nothing, giving nothing away, "
            "no emotion, no expression, with no expression, with no emotion, all on one note, on one note, "
            "without melody, without inflection, no inflection, voice dead, poker face, with a poker face, "
            "as if reading a timetable, as if reading the phone book, like an answering machine, "
            "like a computer, like a clerk, reading it off, as if it meant nothing, "
            "as if nothing had happened, without interest, not caring, couldn't care less, unmoved by it, "
            "with a shrug in the voice, like ice, cold as stone, drained of feeling, "
            "keeping his voice level, keeping her voice even"
        ),
        adverbs=listed(
            "flatly, coldly, drily, blankly, tonelessly, indifferently, mechanically, dully, impassively, "
            "icily, evenly, coolly, woodenly, lifelessly, emotionlessly, dispassionately, dryly, "
            "listlessly"
        ),
        adjectives=listed(
            "flat, cold, bored, detached, expressionless, deadpan, emotionless, toneless, indifferent, "
            "stone-faced, matter-of-fact, mechanical, dull, impassive, icy, wooden, lifeless, unmoved, "
            "dispassionate, level, blank, unfeeling, apathetic, cool, dry, colourless"
        ),
        nouns=listed("indifference, boredom, coldness, detachment"),
    ),
    "excited": Direction(
        "feeling",
        Manner(pace=1.1, melody=1.5, pitch=1.1, energy=0.3, tilt_db=1.0, level_db=1.5),
        listed("full of excitement, jubilant, giddy with joy, gleefully, with great enthusiasm"),
        listed(
            "happier, overjoyed, in high spirits, bursting with news, livelier, smiling broadly, "
            "more excited, more cheerful, brighter, full of life, full of fun, jumping for joy, "
            "dancing with joy, beside herself with joy, bursting with joy, bursting with pride, "
            "unable to contain herself, hardly able to sit still, like a child at Christmas, "
            "like a child with a new toy, over the moon, on top of the world, in raptures, "
            "with shining eyes, her eyes shining, face lighting up, lighting up, with a big smile, "
            "all smiles, a smile in her voice, smiling, grinning, with a grin, good news, having won, "
            "clapping her hands, in good cheer, radiant with happiness, wild with delight, "
            "happy as a lark, hurrah"
        ),
        adverbs=listed(
            "excitedly, happily, cheerfully, joyfully, enthusiastically, brightly, eagerly, merrily, "
            "gladly, joyously, delightedly, triumphantly, exuberantly, cheerily, rapturously, playfully, "
            "ecstatically"
        ),
        adjectives=listed(
            "excited, happy, cheerful, joyful, enthusiastic, delighted, thrilled, eager, merry, elated, "
            "ecstatic, exuberant, radiant, animated, lively, bubbly, triumphant, jolly, exhilarated, "
            "euphoric, joyous"
        ),
        nouns=listed(
            "excitement, joy, enthusiasm, delight, happiness, glee, eagerness, cheer, wonder, triumph"
        ),
        doing=listed("beaming, bubbling over, rejoicing, exulting, cheering, celebrating"),
    ),
    "sad": Direction(
        "feeling",
        Manner(pace=0.8, melody=0.55, pitch=0.9, energy=-0.6, tilt_db=-2.0, level_db=-3.0),
        listed("full of sadness, downcast, drained, mournfully, with deep regret"),
        listed(
            "with a heavy heart, sadder, in grief, defeated, close to tears, worn out, holding back tears, "
            "lost in grief, after a long day, more sadly, near tears, on the verge of tears, in tears, "
            "through tears, fighting tears, fighting back tears, tearing up, eyes filling, heavy-hearted, "
            "her heart breaking, heart broken, having lost everything, giving up, gives up, beaten, "
            "without hope, with no hope left, all hope gone, in despair, in sorrow, in mourning, "
            "at the graveside, after the funeral, saying goodbye for ever, remembering the dead, "
            "dead tired, tired to death, ready to drop, half asleep with tiredness, bone weary, "
            "spirit broken, low in spirits, down, blue"
        ),
        adverbs=listed(
            "sadly, wearily, sorrowfully, tiredly, unhappily, gloomily, miserably, dejectedly, "
            "regretfully, despairingly, hopelessly, glumly, dolefully, ruefully, tearfully, resignedly, "
            "wistfully, brokenly"
        ),
        adjectives=listed(
            "sad, tired, weary, sorrowful, gloomy, mournful, dejected, unhappy, melancholy, heartbroken, "
            "exhausted, miserable, glum, crushed, depressed, despondent, disappointed, grief-stricken, "
            "tearful, wistful, hopeless, forlorn, lonely, resigned, crestfallen, disheartened"
        ),
        nouns=listed(
            "sorrow, regret, sadness, grief, weariness, melancholy, despair, misery, disappointment, "
            "resignation"
        ),
        doing=listed("grieving, mourning, weeping, crying, sobbing quietly, despairing"),
    ),
    "angry": Direction(
        "feeling",
        Manner(pace=1.14, melody=1.2, pitch=1.06, energy=0.8, tilt_db=4.0, level_db=4.0),
        listed("full of anger, in a fury, boiling with rage, wrathful, out of patience"),
        listed(
            "in anger, angrier, snaps, in a rage, losing his temper, losing her temper, more angrily, "
            "in a temper, in a bad temper, in a towering rage, in a white rage, in wrath, "
            "burning with rage, burning with anger, shaking with rage, mad with rage, "
            "beside himself with rage, blazing with anger, white with anger, red with rage, "
            "purple with rage, seeing red, at the end of her patience, patience gone, "
            "running out of patience, having had enough, fed up, she has had enough, he snaps, "
            "snapping at her, snapping at him, barks, barks at him, explodes, erupts, "
            "flying off the handle, through clenched teeth, through gritted teeth, teeth clenched, "
            "slamming the table, banging his fist, striking the table, in hot anger, on the attack, "
            "accusing her, cursing, with hatred in every word, threatening him"
        ),
        adverbs=listed(
            "angrily, furiously, fiercely, bitterly, harshly, irritably, crossly, savagely, violently, "
            "hotly, indignantly, viciously, sharply, ferociously, testily, heatedly, accusingly, "
            "scathingly"
        ),
        adjectives=listed(
            "angry, furious, irritated, annoyed, enraged, outraged, livid, cross, mad, irate, incensed, "
            "infuriated, indignant, fierce, harsh, savage, hostile, exasperated, vicious, vengeful, "
            "hot-tempered, ferocious, bad-tempered, impatient"
        ),
        nouns=listed(
            "anger, rage, fury, wrath, hatred, indignation, outrage, contempt, irritation, venom, impatience"
        ),
        doing=listed(
            "snapping, fuming, seething, raging, barking, exploding, storming, ranting, "
            "spitting with anger, boiling over, scolding"
        ),
    ),
    "trembling": Direction(
        "feeling",
        Manner(pace=0.96, melody=0.75, pitch=1.06, tremble=0.2, energy=-0.2, level_db=-1.5),
        listed("shaking all over, with a quaver, panic-stricken, voice quivering with fear, tremulous"),
        listed(
            "trembles, voice shaking, in fear, voice trembling, shaking with fear, in terror, "
            "her voice shakes, his voice shakes, with a tremble, with a tremor, a tremor in her voice, "
            "a quiver in his voice, a tremble in her voice, a shake in his voice, voice quivering, "
            "voice quavering, voice wobbling, voice unsteady, her voice trembling, his voice trembling, "
            "her voice quivers, his voice wavers with fear, her voice trembles, trembling with fear, "
            "trembling all over, quaking with fear, quivers, quavers, shaking like a leaf, "
            "trembling like a leaf, teeth chattering, shivering with cold, shivering with fear, "
            "scared to death, frightened to death, scared stiff, sick with fear, "
            "as if she had seen a ghost, seeing a ghost, with a lump in the throat, "
            "hardly daring to speak, in dread, in fright, in horror, white with fear, out of fear, "
            "knees knocking, shaking from head to foot, mortally afraid, fear in every word"
        ),
        adverbs=listed(
            "fearfully, nervously, shakily, anxiously, tremblingly, timidly, unsteadily, apprehensively, "
            "quaveringly"
        ),
        adjectives=listed(
            "afraid, scared, frightened, fearful, nervous, shaken, shaky, trembling, quavering, quivering, "
            "terrified, petrified, horrified, anxious, unsteady, timid, wobbly, shaking, spooked, jittery, "
            "scared-sounding, apprehensive"
        ),
        nouns=listed("fear, terror, dread, fright, horror, nervousness"),
        doing=listed("trembling, shivering, quivering, shaking, quavering, quaking, shuddering, cowering"),
    ),
    "hesitant": Direction(
        "feeling",
        Manner(pace=0.92, melody=0.9, pauses=0.35, drawn=0.12, level_db=-1.0, energy=-0.2),
        listed("full of doubt, looking for the right words, with long pauses, tentatively, wavering"),
        listed(
            "searching for words, not sure, choosing his words, choosing her words, groping for words, "
            "thinking it over, stumbling over the words, with many pauses, in doubt, falters, "
            "hesitates to say it, searching for the words, searching for the right word, "
            "looking for words, feeling for words, struggling for words, fumbling for words, "
            "hunting for a word, at a loss for words, lost for words, not knowing what to say, "
            "not knowing how to say it, unsure what to say, in two minds, of two minds, between two minds, "
            "having second thoughts, making it up, making it up as he goes, inventing an excuse, "
            "trying to remember, as if remembering, thinking aloud, thinking as she speaks, "
            "thinking between words, pausing between words, with pauses, pausing often, "
            "stopping and starting, in fits and starts, in broken phrases, in fragments, "
            "tripping over his tongue, tongue-tied, stammers, stutters, he falters, she hesitates, "
            "stopping after every word, with a stammer, with a stutter, breaking off, not quite certain"
        ),
        adverbs=listed(
            "hesitantly, haltingly, uncertainly, reluctantly, doubtfully, falteringly, cautiously, shyly, "
            "awkwardly, dubiously, warily, bashfully, unsurely, stumblingly"
        ),
        adjectives=listed(
            "hesitant, unsure, uncertain, doubtful, halting, faltering, reluctant, undecided, indecisive, "
            "shy, awkward, cautious, dubious, embarrassed, confused, bashful, stammering, wary, diffident, "
            "flustered"
        ),
        nouns=listed("hesitation, doubt, uncertainty, reluctance, embarrassment, caution"),
        doing=listed(
            "hesitating, faltering, stammering, stuttering, dithering, stumbling, pausing, doubting"
        ),
    ),
    "urgent": Direction(
        "feeling",
        Manner(pace=1.24, melody=1.2, pitch=1.08, energy=0.4, tilt_db=2.0, level_db=2.5),
        listed(
            "as if there were no time left, frantically, with great urgency, time is short, urging her on"
        ),
        listed(
            "in alarm, there is no time, in a panic, more urgent, hurry, pressing him, "
            "running out of time, begging him to come, no time to lose, not a moment to lose, "
            "time running out, time is running out, every second counts, before it is too late, "
            "it is almost too late, it is an emergency, an emergency, in an emergency, at the last moment, "
            "at the last minute, the house is on fire, the train is leaving, they are coming, "
            "as if the house were on fire, more urgently, listen to me, begging her, begging him, "
            "pleading with her, imploring him, urging him, urging him on, urging them to go, "
            "pressing her for an answer, pulling him along, dragging her to the door, sounding the alarm, "
            "raising the alarm, giving warning, warning them, in desperation, with desperate haste, "
            "in dire need"
        ),
        adverbs=listed(
            "urgently, insistently, desperately, pleadingly, imploringly, pressingly, beseechingly, "
            "earnestly, feverishly, agitatedly"
        ),
        adjectives=listed(
            "urgent, insistent, alarmed, pressing, frantic, desperate, panicked, pleading, agitated, "
            "panicky, imploring, hectic, feverish, beseeching, distraught"
        ),
        nouns=listed("urgency, alarm, desperation, insistence, panic, agitation"),
        doing=listed("pleading, imploring, panicking, begging, insisting, beseeching, warning him"),
    ),
    "laughing": Direction(
        "feeling",
        Manner(pace=1.04, melody=1.25, pitch=1.06, energy=0.2),
        listed("bursting into laughter, through laughter, with a giggle"),
        listed(
            "with a laugh, laughs, laughing a little, with a chuckle, laughing softly at him, "
            "unable to stop laughing, he laughs, she laughs, chuckles, giggles, bursts out laughing, "
            "bursting out laughing, breaking into laughter, breaking into a laugh, with laughter, "
            "in fits of laughter, in a fit of giggles, laughing at him, laughing at her, "
            "laughing out loud, laughing to herself, laughing at the joke, roaring with laughter, "
            "shaking with laughter, helpless with laughter, crying with laughter, between laughs, "
            "trying not to laugh, hardly able to speak for laughter, a laugh in her voice, "
            "laughter in his voice, with a snort, with a little laugh, with a short laugh, "
            "with a hearty laugh, it is so funny, tickled, having a laugh, finding it funny, "
            "in on the joke"
        ),
        adjectives=listed("amused, laughing, giggly, chuckling, mirthful"),
        nouns=listed("laughter, amusement, mirth"),
        doing=listed("laughing, chuckling, giggling, cackling, chortling, snickering, tittering"),
        degrees=False,
        laughs=True,
    ),
}
NAMES = tuple(DIRECTIONS)
# What contradicts itself, or cannot be heard together.
APART = {
    frozenset(pair)
    for pair in (
        ("slow", "urgent"), ("slow", "excited"), ("quick", "hesitant"), ("quick", "sad"), ("soft", "angry"),
        ("whispering", "flat"), ("whispering", "trembling"), ("whispering", "angry"),
        ("whispering", "laughing"), ("shouting", "sad"), ("loud", "sad"), ("shouting", "hesitant"),
        ("soft", "excited"), ("slow", "laughing"), ("soft", "urgent"), ("shouting", "flat"),
    )
}  # fmt: skip
PAIRS = [
    (a, b)
    for i, a in enumerate(NAMES)
    for b in NAMES[i + 1 :]
    if DIRECTIONS[a].kind != DIRECTIONS[b].kind and frozenset((a, b)) not in APART
]

# A direction that is a matter of contour is learnt more slowly than level, tilt, voice and pace.
CONTOURS = ("flat", "excited", "trembling", "hesitant")
OFTEN = {name: 2 if name in CONTOURS else 1 for name in NAMES}
SINGLE = [(name,) for name in NAMES]
GRADED = [names for names in SINGLE if DIRECTIONS[names[0]].degrees]
# Beyond these the teacher loses words or sounds like nobody.
LIMITS = dict(
    melody=(0.0, 1.65), pitch=(0.8, 1.375), energy=(-2.0, 1.25), tilt_db=(-10.0, 14.0), level_db=(-13.0, 8.0),
    tremble=(0.0, 0.3), pauses=(0.0, 0.6), drawn=(0.0, 0.4),
)  # fmt: skip

STRENGTHS = (1.0, 0.4, 1.8)  # plain word, "a little", "very"
LITTLE = ("a little {}", "slightly {}", "a bit {}", "somewhat {}", "rather {}", "{}, but only a little")
VERY = ("very {}", "extremely {}", "really {}", "very, very {}", "so {}", "terribly {}", "most {}")
LITTLE_HELD_OUT, VERY_HELD_OUT = ("just a little {}", "a touch {}"), ("as {} as possible", "incredibly {}")

SOUNDLESS = (
    "without looking up", "to Anna", "to the children", "aside", "reading", "reading a letter", "off",
    "sitting down", "standing up", "rising", "turning away", "at the door", "at the window", "on the phone",
    "into the phone", "after a moment", "beat", "pointing", "nodding", "to the audience", "entering",
    "leaving", "exiting", "waiting", "looking at her hands", "looking around", "looking away",
    "with her back to him", "over his shoulder", "handing him the book", "taking off his coat",
    "pouring tea", "lighting the lamp", "closing the book", "from the kitchen", "in the garden",
    "in the dark", "by the fire", "still standing", "not moving", "kneeling", "holding the letter",
    "opening the box", "putting down the cup", "seeing the map", "folding the paper", "to no one",
    "to the dog", "to the judge", "to Mister Holt", "to both of them", "counting coins",
)  # fmt: skip
DOING = (
    "crossing to", "looking at", "pointing at", "walking to", "sitting by", "leaning on", "turning to",
    "reaching for", "picking up", "putting away", "opening", "closing", "moving", "watching", "touching",
    "passing", "cleaning",
)  # fmt: skip
THINGS = (
    "the window", "the door", "the table", "the chair", "the lamp", "the letter", "the fire", "a glass",
    "the map", "her bag", "his hat", "the clock", "the stairs", "the curtain", "the box", "the knife",
    "the garden", "the book",
)  # fmt: skip
SOUNDLESS_HELD_OUT = (
    "glancing at the clock", "to her brother", "hands in his pockets", "stirring the soup",
    "behind the curtain", "buttoning his coat", "facing the wall", "to Captain Reed", "feeding the cat",
    "with the keys in his hand",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a line was performed with: up to two names, and the strength of the first (index of STRENGTHS)."""

    names: tuple[str, ...] = ()
    strength: int = 0

    def manner(self) -> Manner:
        return manner_of(self)


@functools.cache  # of a few hundred different ones
def manner_of(asked: Asked) -> Manner:
    out = PLAIN
    for i, name in enumerate(asked.names):
        out = out + DIRECTIONS[name].manner.scaled(STRENGTHS[asked.strength] if i == 0 else 1.0)
    return replace(out, **{k: min(max(getattr(out, k), low), high) for k, (low, high) in LIMITS.items()})


def draw(rng: random.Random) -> Asked:
    """A direction, two at once, or one with a strength."""
    kind = rng.random()
    if kind < 0.25:
        return Asked(often(rng, PAIRS))
    if kind < 0.5:
        return Asked(often(rng, GRADED), rng.choice((1, 2)))
    return Asked(often(rng, SINGLE))


def often(rng: random.Random, choices: list[tuple[str, ...]]) -> tuple[str, ...]:
    """One of them, those with a contour twice as often."""
    return rng.choices(choices, [max(OFTEN[name] for name in names) for names in choices])[0]


def contrary(rng: random.Random, asked: Asked) -> Asked:
    """What a line performed as `asked` is not: often nothing at all, or the other strength."""
    if asked.strength and rng.random() < 0.5:
        return replace(asked, strength=3 - asked.strength)
    if asked.names and rng.random() < (0.5 if set(asked.names) & set(CONTOURS) else 0.35):
        return Asked()
    while True:
        other = Asked(often(rng, SINGLE))
        if other.names[0] not in asked.names and not _alike(asked.names, other.names[0]):
            return other


def _alike(names: tuple[str, ...], other: str) -> bool:
    """Whether a line may well sound as `other` although it wasn't asked to."""
    near = ({"loud", "shouting", "angry"}, {"soft", "sad"}, {"quick", "urgent", "excited"}, {"slow", "sad"})
    near += ({"slow", "hesitant"}, {"excited", "laughing"}, {"whispering", "soft"})
    return any(other in group and group & set(names) for group in near)


def phrase(rng: random.Random, asked: Asked, held_out: bool = False) -> str:
    """Words for `asked`; for nothing, and now and then besides, those that mean no sound."""
    if not asked.names:
        return soundless(rng, held_out)
    words = [_one(rng, DIRECTIONS[asked.names[0]], asked.strength, held_out)]
    words += [_one(rng, DIRECTIONS[name], 0, held_out) for name in asked.names[1:]]
    rng.shuffle(words)
    if rng.random() < (0.12 if len(words) == 1 else 0.05):
        words.insert(rng.choice((0, len(words))), soundless(rng, held_out))
    return _written(rng, rng.choice((", ", ", ", ", ", " and ", ", and ", "; ")).join(words))


def soundless(rng: random.Random, held_out: bool = False) -> str:
    if held_out:
        return rng.choice(SOUNDLESS_HELD_OUT)
    return rng.choice(SOUNDLESS) if rng.random() < 0.6 else f"{rng.choice(DOING)} {rng.choice(THINGS)}"


def _one(rng: random.Random, direction: Direction, strength: int, held_out: bool) -> str:
    if strength:
        known, new = ((LITTLE, LITTLE_HELD_OUT), (VERY, VERY_HELD_OUT))[strength - 1]
        word = rng.choice(direction.graded)
        said = rng.choice(new if held_out else known).format(word)
        return f"sounding {said}" if word in direction.adjectives and rng.random() < 0.2 else said
    if held_out:
        return rng.choice(direction.held_out)
    return rng.choice(rng.choice((direction.bare, direction.phrases, direction.framed)))


def _written(rng: random.Random, words: str) -> str:
    """As people write: now and then with a capital or a full stop."""
    kind = rng.random()
    if kind < 0.12:
        words = words[0].upper() + words[1:]
    return words + ("." if rng.random() < 0.06 else "")
