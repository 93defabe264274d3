"""The language pairs of a server, and the detection of a text's language."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

# The names of 99 languages, from a library that is a dependency anyway.
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from .queue import Pair


AUTO = "auto"
PIVOT = "en"  # languages without a model for the pair are translated through it
# A language that no model here translates is reported only if it is at least this probable.
MIN_OTHER_PROBABILITY = 0.5


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
        """Returns the source languages with their targets, the one with the most direct targets first.

        LibreTranslate does not have "through": the pivot language for each target that has no model of its own.
        """
        sources = [source for source, _ in Counter(source for source, _ in self.configs).most_common()]
        return [{"code": source, "name": english_name(source), **self._targets(source)} for source in sources]

    def _targets(self, source: str) -> dict[str, Any]:
        direct = [target for start, target in self.configs if start == source]
        indirect = [target for target in self.codes if len(self.route(source, target)) > 1]
        through = {"through": dict.fromkeys(indirect, PIVOT)} if indirect else {}
        return {"targets": direct + indirect, **through}

    def route(self, source: str, target: str) -> list[Pair]:
        """Returns the pairs to translate one after the other: one, two through the pivot language, or none."""
        if (source, target) in self.configs:
            return [(source, target)]
        steps = [(source, PIVOT), (PIVOT, target)]
        return steps if source != target and all(step in self.configs for step in steps) else []

    def have_confidence(self, route: Sequence[Pair]) -> bool:
        """Returns whether the models of all steps are calibrated, so that their words have a confidence."""
        return all(getattr(self.configs[pair], "confidence", None) for pair in route)

    @cached_property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(code for pair in self.configs for code in pair))

    def code(self, language: str) -> str:
        """Returns the server's code of a language: "en" for "EN" and "en-GB".

        Raises:
            Unsupported: no model translates from or into it.
        """
        code = language.strip().lower().replace("_", "-")
        for known in (code, code.partition("-")[0]):
            if known in self.codes:
                return known
        raise Unsupported(f"{language} is not supported; this server has {', '.join(self.codes)}.")

    def check(self, source: str, target: str):
        """Raises Unsupported if no models translate this pair."""
        if not self.route(source, target):
            pairs = ", ".join(f"{a}-{b}" for a, b in self.configs)
            raise Unsupported(f"{source}-{target} is not supported; this server translates {pairs}.")

    def detect(self, text: str, target: str | None = None) -> list[Detected]:
        """Returns the possible languages of a text, the most likely first.

        These are `target` and its source languages, or all languages of the server if `target` is None. Another
        language is returned only if the text is clearly in it.
        """
        languages = self.codes
        if target is not None:
            languages = [source for source in self.codes if source == target or self.route(source, target)]
        ranked = [Detected(*item) for item in self._identifier.rank(text)]
        known = [detected for detected in ranked if detected.language in languages]
        if ranked[0] not in known and ranked[0].confidence >= MIN_OTHER_PROBABILITY:
            return [ranked[0], *known]
        # Shares among the possible languages; there are none if the library does not know their codes.
        total = sum(detected.confidence for detected in known)
        return [Detected(code, confidence / total) for code, confidence in known] or [Detected(languages[0], 0.0)]

    @cached_property
    def _identifier(self) -> LanguageIdentifier:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def english_name(code: str) -> str:
    """Returns the English name of a language, or its code if the name is unknown."""
    return LANGUAGES.get(code, code).title()
