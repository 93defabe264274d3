"""Texts in capitals: the model gets them in the case that it knows, and the translation gets the capitals again.

A translation also begins with a capital if its source does.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from transformers import PreTrainedTokenizerBase

from .checks_vaswani import FIRST_NAMES
from .items_vaswani import KEPT_ITEM
from .lemmas_vaswani import accented_forms, has_word, spelling_with_capitals
from .spans_vaswani import Replaced, Span, overlaps


WORD = re.compile(r"[^\W\d_]+")
LETTER_WORD = re.compile(r"[^\W\d_]\w*")
START = re.compile(r"[^\w<{%]*([^\W\d_]\w*)")  # the first word, if no number and no item is before it
MAX_SHARE_IN_LOWER_CASE = 0.2  # of the words of a text in capitals, such as units and product names
MAX_ACRONYM = 3  # letters; a word of this length keeps its capitals unless the tokenizer knows it better in lower case
# Frequent acronyms that are longer, or look like the beginnings of words, and that the English dictionary lacks.
ACRONYMS = {
    "en": "CIA HIV IMF NASA",
    "de": "AG AOK ARD BRD DNA EDV EU HIV NATO TÜV UN",
    "fr": "ADN FMI OTAN PIB RATP SARL VTT",
}
KNOWN_ACRONYMS = {language: frozenset(words.split()) for language, words in ACRONYMS.items()}
CONTRACTED = ("LL", "RE", "VE")  # after an apostrophe
TITLE_BEFORE = re.compile(r"\b(?:MRS?|MS|DR|MME|MLLE)\.?[ \u00a0]$")  # a name follows, or one of these words
NO_NAMES = ("AND", "OR", "ET", "OU")
# English months that are also words.
DATE_BEFORE, DATE_AFTER = re.compile(r"(?:\d|\d(?:ST|ND|RD|TH)|\b(?:IN|OF))[ \u00a0]$"), re.compile(r"[ \u00a0]\d")
AMBIGUOUS_MONTHS = ("MARCH", "MAY", "AUGUST")
ROMAN = re.compile("[IVX]{2,}")
AFTER_DIPHTHONG = re.compile(r"(?<=[aeä]u|ei|ie)ss(?<!\bauss(?!e[nr]))")  # "heiss" is "heiß", but "aussehen" stays
LABEL = re.compile(r"[^:]{2,40}?(?=[ \u00a0\u202f]?:\s)")  # "WARNING" in "WARNING: Do not open"
GERMAN_VERB = re.compile("(?:(?<![hk]ei)(?<!schaf)t(?:en?)?|en)$", re.IGNORECASE)
# Words of one letter; others, as in "plan B", keep their capital.
LETTERS = {"en": "a", "de": "", "fr": "aàcdjlmnsty"}
# French capitals often lack their accents. "A" is "à" at the beginning, beside digits, and before an infinitive, an
# article or a place, but not after a pronoun. The dictionary does not have all frequent words.
FRENCH_TO = re.compile(
    r"^A(?= )|(?<=\d )A\b|(?<=\dH )A\b|(?<!\bIL )(?<!\bELLE )(?<!\bON )(?<!\bQUI )\bA"
    r"(?= (?:\d|L['’]|LA |\w+[EIO]I?RE?\b|DROITE|GAUCHE|C[OÔ]T[EÉ]|PROXIMIT[EÉ]|[NV]OTRE|[NV]OS )\b)"
)
MAX_WORD_WITHOUT_ACCENTS = 2  # letters; the dictionary does not have "du"
FRENCH_WORDS = {"acces": "accès", "apres": "après", "deja": "déjà", "etre": "être", "meme": "même", "tres": "très"}
# Words that a writer stresses in a sentence, as in "DO NOT reply". Others may be acronyms or keywords of a program.
STRESSED = {
    "en": "all always any anything both can cannot can't could did do does doesn't don't each every everything has have"
    " immediately important is must never no nobody none not nothing now only please should so urgent very will won't",
    "de": "alle alles beide bitte dringend immer ist jede jeden jeder jedes jetzt kann kein keine keinen keiner muss"
    " müssen nicht nichts nie niemals niemand nur sehr sofort soll sollen unbedingt wichtig wird",
    "fr": "absolument aucun aucune doit doivent faut immédiatement important jamais ne pas personne plus rien seulement"
    " toujours tous tout toute toutes très urgent uniquement",
}
STRESSED_WORDS = {language: frozenset(words.split()) for language, words in STRESSED.items()}
STRESSABLE = re.compile(r"(?<![\w'’-])(?=[^\W\d_]{2})(?:(?![a-zß-öø-ÿ])[^\W\d_])+(?:['’]T)?(?![\w'’-])")


def has_capitals(text: str) -> bool:
    """Return whether nearly all words outside the items to keep are in capitals: a quick test before the exact one."""
    words = [word for word in WORD.findall(KEPT_ITEM.sub(" ", text)) if len(word) > 1]
    in_lower_case = sum(not is_upper(word) for word in words)
    return bool(words) and in_lower_case <= MAX_SHARE_IN_LOWER_CASE * len(words)


def is_upper(word: str) -> bool:
    """Return whether a word is in capitals; ß counts as one, because it rarely has another form."""
    return word.replace("ß", "").isupper()


def in_sentence_case(
    text: str, tokenizer: PreTrainedTokenizerBase, language: str | None = None, fixed: Iterable[Span] = ()
) -> Replaced | None:
    """Return a text in capitals as it would be written in a sentence, or None if it is not in capitals.

    For each word, the spelling wins that the tokenizer knows best: the one with the fewest tokens. Acronyms therefore
    keep their capitals, and names and German nouns get one; so do names and acronyms of the English dictionary, common
    first names and names after a title. French words get the accents that their capitals lack. A text of acronyms alone
    is not in capitals.

    Args:
        text: A sentence.
        tokenizer: The model's tokenizer.
        language: The language of the text, such as "de".
        fixed: Spans that stay as they are, such as terms of a glossary.
    """
    if not has_capitals(text):
        return None
    spans = [*fixed, *(match.span() for match in KEPT_ITEM.finditer(text))]
    accented = with_accents(text, tokenizer) if language == "fr" else text
    words = [match for match in WORD.finditer(accented) if is_upper(match[0]) and not overlaps(match.span(), spans)]
    has_better, replacements = False, []
    for match, forms in zip(words, known_spellings([match[0] for match in words], tokenizer, language), strict=True):
        (tokens, *_, spelling), (capital_tokens, *_) = min(forms), forms[-1]
        certain = certain_spelling(match, language)
        is_acronym = 1 < tokens == capital_tokens and len(match[0]) <= MAX_ACRONYM
        spelling = certain or (match[0] if is_acronym else spelling)
        has_better |= tokens < capital_tokens and spelling != match[0]
        before, after = text[: match.start()][-1:], text[match.end() :][:1]
        replacements.append((match.span(), choose(match[0], spelling, before, after, language)))
    if not has_better:
        return None
    return Replaced(text, with_first_capital(text, replacements))


def label_in_sentence_case(
    text: str, tokenizer: PreTrainedTokenizerBase, language: str | None = None, fixed: Iterable[Span] = ()
) -> Replaced | None:
    """Return a text with its label, as in "WARNING: Do not open", in sentence case, or None without such a label.

    The arguments are those of `in_sentence_case`.
    """
    match = LABEL.match(text)
    label = in_sentence_case(match[0], tokenizer, language, fixed) if match else None
    return label and Replaced(text, [(old, label.text[slice(*new)]) for old, new in label.places])


def has_label(text: str) -> bool:
    """Return whether a text begins with a label in capitals: a quick test before the exact one."""
    match = LABEL.match(text)
    return match is not None and has_capitals(match[0])


def certain_spelling(match: re.Match, language: str | None) -> str | None:
    """Return the spelling of a name, an acronym or a month, whatever the tokenizer knows; None for other words."""
    word, text = match[0], match.string
    before = text[max(0, match.start() - 6) : match.start()]
    is_month = word in AMBIGUOUS_MONTHS and (DATE_BEFORE.search(before) or DATE_AFTER.match(text, match.end()))
    if word in KNOWN_ACRONYMS.get(language or "", ()):
        return word
    is_name = word.capitalize() in FIRST_NAMES or (TITLE_BEFORE.search(before) and word not in NO_NAMES)
    if is_name or (language == "en" and is_month):
        return word.capitalize()
    return spelling_with_capitals(word, language) if language else None


def with_accents(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a French text in capitals with accents on words that do not exist without them."""

    def accented(match: re.Match) -> str:
        word = match[0].lower()
        if not is_upper(match[0]) or word.capitalize() in FIRST_NAMES:
            return match[0]
        known = FRENCH_WORDS.get(word)
        forms = [known] if known else accented_forms(word, "fr") if len(word) > MAX_WORD_WITHOUT_ACCENTS else []
        # Rare words are no better than the capitals, which may be a name.
        best = min((len(tokenizer.tokenize(form)), i, form) for i, form in enumerate([*forms, word]))[2]
        return best.upper()

    return WORD.sub(accented, FRENCH_TO.sub("À", text))


def without_stress(text: str, language: str | None, fixed: Iterable[Span] = ()) -> Replaced | None:
    """Return a sentence with its stressed words, as in "DO NOT reply", in lower case, or None if it has none.

    The model copies or loses such words; losing "NOT" reverses the meaning. Only common words are changed, and not
    beside another word in capitals, because both may be keywords of a program: "NOT NULL".
    """
    stressed = STRESSED_WORDS.get(language or "", frozenset())
    spans = [*fixed, *(match.span() for match in KEPT_ITEM.finditer(text))]
    replacements = []
    for words in capital_phrases(text):
        span = words[0][0], words[-1][1]
        if {text[slice(*word)].lower().replace("’", "'") for word in words} <= stressed and not overlaps(span, spans):
            replacements.append((span, text[slice(*span)].lower()))
    return Replaced(text, with_first_capital(text, replacements)) if replacements else None


def capital_phrases(text: str) -> Iterator[list[Span]]:
    """Yield the spans of words in capitals that stand side by side."""
    phrase: list[Span] = []
    for match in STRESSABLE.finditer(text):
        if phrase and text[phrase[-1][1] : match.start()] != " ":
            yield phrase
            phrase = []
        phrase.append(match.span())
    if phrase:
        yield phrase


def known_spellings(
    words: Sequence[str], tokenizer: PreTrainedTokenizerBase, language: str | None
) -> Iterator[list[tuple[int, int, int, str]]]:
    """Yield the spellings of each word, the capitals last: number of tokens, rank, order, spelling.

    Ranks decide between spellings with equally many tokens. German words of one token have its id, which is smaller for
    the more frequent one of "waren" and "Waren"; those of several tokens are mostly nouns, unless they end as verbs do.
    In other languages lower case comes before a capital.
    """
    for word in words:
        lower = word.lower()
        if language == "de" and (sharp := AFTER_DIPHTHONG.sub("ß", lower)) != lower and has_word(sharp, language):
            lower = sharp
        spellings = [lower, lower.capitalize()]
        if language == "de" and "ss" in lower:
            spellings += [spelling.replace("ss", "ß") for spelling in spellings]
        spellings.append(word)
        all_ids = tokenizer(spellings, add_special_tokens=False)["input_ids"]
        yield [
            (len(ids), rank(spelling, ids) if language == "de" else 0, i, spelling)
            for i, (spelling, ids) in enumerate(zip(spellings, all_ids, strict=True))
        ]


def rank(spelling: str, ids: Sequence[int]) -> int:
    """Return the rank of a German word: smaller for a more likely spelling with the same number of tokens."""
    if spelling == "Ich":  # more frequent than "ich" only because so many sentences begin with it
        return sys.maxsize
    return ids[0] if len(ids) == 1 else spelling.istitle() == bool(GERMAN_VERB.search(spelling))


def choose(word: str, spelling: str, before: str, after: str, language: str | None) -> str:
    """Return the spelling of a word in a sentence, given the best-known one and the characters around the word."""
    if before and before in "'’" and word in CONTRACTED:
        return word.lower()
    if len(word) == 1:
        is_word = word.lower() in LETTERS.get(language or "en", "")
        return word.lower() if is_word or (before and before in "'’") else word
    if before.isdigit():
        return word.lower()  # 2ND, 10AM
    return word if ROMAN.fullmatch(word) or after.isdigit() else spelling


def with_first_capital(text: str, replacements: list[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """Return the replacements with a capital at the beginning of the sentence, unless a number is there."""
    first = WORD.search(text)
    if (
        replacements
        and first
        and replacements[0][0][0] == first.start()
        and not re.search(r"\d", text[: first.start()])
    ):
        span, word = replacements[0]
        return [(span, word[:1].upper() + word[1:]), *replacements[1:]]
    return replacements


def in_capitals(translation: str, source: str) -> Replaced:
    """Return a translation in capitals, except for items to keep and words that the source has in lower case, too.

    If only the label at the beginning of the source is in capitals, so is that of the translation.
    """
    is_label = has_label(source) and not has_capitals(source)
    end = translation.find(":") + 1 if is_label else len(translation)
    spared = {word for word in WORD.findall(source) if not word.isupper()}
    items = [match.span() for match in KEPT_ITEM.finditer(translation)]
    eszett = "ẞ" if "ẞ" in source else "SS"
    return Replaced(
        translation,
        (
            (match.span(), match[0].replace("ß", eszett).upper())
            for match in WORD.finditer(translation, 0, end)
            if match[0] not in spared and not overlaps(match.span(), items)
        ),
    )


def with_capital_start(translation: str, source: str, language: str | None) -> Replaced:
    """Return an English, German or French translation that begins with a capital if its source of several words does.

    A word that the source has, too, such as "iPhone", stays. Afrikaans, for one, has another rule ('n Hond).
    """
    if language not in LETTERS:
        return Replaced(translation)
    first, words = START.match(translation), LETTER_WORD.findall(source)
    if not (first and START.match(source) and len(words) > 1 and words[0][0].isupper()):
        return Replaced(translation)
    begin, letter = first.start(1), first[1][0]
    return Replaced(translation, [((begin, begin + 1), letter.upper())] if first[1] not in words else ())
