"""The console: `python -m engine say | perform | card | doctor | verify`.

Exit codes: 0 done, 1 our fault, 2 the caller's (one sentence on stderr), 130 interrupted or told to end. Logs
go to stderr; with --json stdout holds one line of JSON and nothing else.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from engine.take import RequestError, TakeFailed

DONE, OUR_FAULT, CALLERS_FAULT, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        self.exit(CALLERS_FAULT, f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.\n")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("engine").setLevel(logging.DEBUG if args.verbose else logging.WARNING)
    try:
        return args.command(args)
    except RequestError as problem:
        print(problem, file=sys.stderr)
        return CALLERS_FAULT
    except TakeFailed as problem:
        print(problem, file=sys.stderr)
        return OUR_FAULT
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception:
        logging.exception("This is a fault of Tableread, not of your request; please report it.")
        return OUR_FAULT


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m engine", description="Performs lines of drama.")
    commands = parser.add_subparsers(
        required=True, metavar="say | perform | card | doctor | verify", parser_class=_Parser
    )
    _add_say(commands)
    _add_perform(commands)
    card = _add(commands, "card", _card, "print the card in a take's file")
    card.add_argument("take", type=Path)
    doctor = _add(commands, "doctor", _doctor, "say what this machine can run and why")
    doctor.add_argument("--json", action="store_true")
    verify = _add(commands, "verify", _verify, "hold this program against a folder of golden arrays")
    verify.add_argument("folder", type=Path)
    return parser


def _add(commands, name: str, command: Callable, summary: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
    parser.add_argument("--verbose", action="store_true", help="log what happens to stderr")
    parser.set_defaults(command=command)
    return parser


def _add_say(commands) -> None:
    say = _add(commands, "say", _say, "perform one line and write it as a file")
    say.add_argument("text", nargs="?", help="the line, or - to read it from standard input")
    say.add_argument(
        "--voice", action="append", default=[], metavar="CLIP", help="a clip of the voice, up to 4"
    )
    say.add_argument(
        "--words", action="append", default=[], help="what is said in the clip; one for each --voice"
    )
    say.add_argument(
        "--ready", metavar="ID", help="a ready voice of assets/voices/voices.json, instead of clips"
    )
    say.add_argument("--direction", metavar="TEXT", help='how the line is said: "whispering", "colder"')
    say.add_argument("--describe", metavar="TEXT", help="a voice in words, instead of clips")
    say.add_argument("--name", help="the described character's name")
    say.add_argument("--scene", help="the described character's surroundings")
    say.add_argument(
        "--history", type=Path, metavar="FILE", help='earlier lines: JSON [{"text", "take"}], oldest first'
    )
    say.add_argument("--seed", type=_whole_number, help="0 to 2^64-1; the same seed gives the same take")
    say.add_argument("--temperature", type=_number, default=None)
    say.add_argument("--top-p", type=_number, default=None)
    say.add_argument("--top-k", type=_whole_number, default=None)
    say.add_argument("--max-frames", type=_whole_number, default=None)
    _add_numbers(say)
    say.add_argument("--model", help="kokoro, understudy, a hub id or a checkpoint folder")
    say.add_argument("--again", type=Path, metavar="TAKE", help="make a take again from its card")
    say.add_argument("--out", type=Path, help="a .wav or .flac file; default take-<seed>.wav")
    say.add_argument("--json", action="store_true", help="describe the take in one line of JSON")


def _add_perform(commands) -> None:
    perform = _add(commands, "perform", _perform, "perform a whole script into a folder")
    perform.add_argument("script", help="a file of lines such as NAME: words, or - for standard input")
    perform.add_argument(
        "--cast", type=Path, required=True, metavar="FILE", help="JSON: a voice for each name"
    )
    perform.add_argument(
        "--part", metavar="NAME", help='an act or a scene of a long script, such as "FIRST ACT"'
    )
    perform.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or an empty folder")
    perform.add_argument("--seed", type=_whole_number, help="0 to 2^64-1; the same seed gives the same files")
    _add_numbers(perform)
    perform.add_argument("--model", help="kokoro, understudy, a hub id or a checkpoint folder")
    perform.add_argument("--json", action="store_true", help="describe what was made in one line of JSON")


def _add_numbers(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--numbers",
        action=argparse.BooleanOptionalAction,
        help="write numbers and abbreviations out as words; by default where the model can't read them",
    )


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


# Each command's own modules are imported when it runs: `doctor` must work where soundfile or a codec doesn't.
def _say(args: argparse.Namespace) -> int:
    from engine.say import say

    say(args)
    return DONE


def _perform(args: argparse.Namespace) -> int:
    from engine.perform import perform

    perform(args)
    return DONE


def _card(args: argparse.Namespace) -> int:
    import json

    from engine.audio_files import read_card

    print(json.dumps(read_card(args.take), indent=2, ensure_ascii=False))
    return DONE


def _doctor(args: argparse.Namespace) -> int:
    from engine.doctor import report

    print(report(as_json=args.json))
    return DONE


def _verify(args: argparse.Namespace) -> int:
    from engine.verify import verify

    return DONE if verify(args.folder) else OUR_FAULT


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM leaves nothing behind either
    sys.exit(main())
