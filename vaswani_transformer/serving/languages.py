"""The pairs of languages that a server translates, and which language a text is in."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

# The names of 99 languages, in a library that is here anyway.
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from .queue import Pair


AUTO = "auto"
# A language that nobody here translates is taken to be the text's only where it is at least this probable.
LEAST_FOR_OTHERS = 0.5


class Unsupported(ValueError):
    """A language that this server does not translate."""


class Detected(NamedTuple):
    language: str
    confidence: float  # from 0 to 1


class Languages:
    """The pairs of languages, such as ("en", "de"), with the generation config of the model for each."""

    def __init__(self, configs: Mapping[Pair, Any]):
        self.configs = dict(configs)

    def names(self) -> list[dict[str, Any]]:
        """The languages that can be translated, each with its targets; first the one that has most."""
        sources = [source for source, _ in Counter(source for source, _ in self.configs).most_common()]
        return [
            {"code": source, "name": name_of(source), "targets": [b for a, b in self.configs if a == source]}
            for source in sources
        ]

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(code for pair in self.configs for code in pair))

    def code(self, language: str) -> str:
        """The code by which a language goes here: "en" for "EN" and "en-GB".

        Raises:
            Unsupported: nothing is translated from or into it.
        """
        code = language.strip().lower().replace("_", "-")
        for known in (code, code.partition("-")[0]):
            if known in self.codes:
                return known
        raise Unsupported(f"{language} is not supported; this server has {', '.join(self.codes)}.")

    def check(self, source: str, target: str):
        """Raises Unsupported where no model translates this pair."""
        if (source, target) not in self.configs:
            pairs = ", ".join(f"{a}-{b}" for a, b in self.configs)
            raise Unsupported(f"{source}-{target} is not supported; this server translates {pairs}.")

    def detect(self, text: str, target: str | None = None) -> list[Detected]:
        """The languages that a text may be in, the most likely first.

        They are those from which `target` can be reached, and `target`; without one all that the server has. Only a
        text that is clearly in another language is said to be.
        """
        languages = self.codes if target is None else [a for a, b in self.configs if b == target] + [target]
        ranked = [Detected(*found) for found in self._identifier.rank(text)]
        known = [found for found in ranked if found.language in languages]
        if ranked[0] not in known and ranked[0].confidence >= LEAST_FOR_OTHERS:
            return [ranked[0], *known]
        # Of those that come into question; the library does not know some rare codes.
        total = sum(found.confidence for found in known)
        return [Detected(code, confidence / total) for code, confidence in known] or [Detected(languages[0], 0.0)]

    @cached_property
    def _identifier(self) -> LanguageIdentifier:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def name_of(code: str) -> str:
    """In English."""
    return LANGUAGES.get(code, code).title()
