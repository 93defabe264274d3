"""Headings In Title Case: the model gets them as they would be written in a sentence, which is what it knows."""

import re
from collections.abc import Collection, Iterable

from transformers import PreTrainedTokenizerBase

from .checks_vaswani import FIRST_NAMES
from .items_vaswani import KEPT_ITEM
from .lemmas_vaswani import is_known_in_lower_case
from .spans_vaswani import Replaced, Span, overlaps


WORD = re.compile(r"(?<![^\W\d_]['’])[^\W\d_]+(?:['’][^\W\d_]{1,2}\b)?|[^\W\d_]+")
MIN_WORDS, MAX_WORDS = 3, 16  # "New York" and "White House" may be names
# Of the words with a capital after the first; the others may be names. A function word with a capital is certain.
MIN_ORDINARY_WORDS, MIN_ORDINARY_SHARE = 2, 0.5
# A list of names, or a company: "Attendees: Rose Young, Will Cook".
NAMES_LISTED = re.compile(r",\s|\b(?:Ltd|Inc|LLC|Corp|Co|GmbH|AG|KG|SA|SARL|SAS)\b")
FULL_NAME = re.compile(rf"\b(?:{'|'.join(FIRST_NAMES)})(?: |-\w+ |-)(?P<surname>[^\W\d_]+)")
# Words that may be in lower case in a heading, and other words that are never names.
SMALL_WORDS = {
    "en": "a an and as at but by for from if in into nor of off on onto or out over per so than the to until up via"
    " with without",
    "de": "als am an auf aus bei beim bis das dem den der des die durch ein eine einem einen einer eines für gegen"
    " im in ins mit nach ohne über um und oder unter vom von vor zu zum zur",
    "fr": "a à au aux avec c d dans de des du en et l la le les ou par pour qu que s sans sous sur un une",
}
FUNCTION_WORDS = {  # besides these
    "en": "any are be been can can't could did didn't do does doesn't don't had has have he he's her his how i'm is"
    " isn't it it's its my not our she should that their them there they this too was wasn't we were what when"
    " where which who why would you you're your",
    "de": "aber bin bist dass dein deine denn du er es habe haben hat ich ist kann kein keine man mein meine muss"
    " nicht noch nur seid sich sind so unser war waren warum was wenn werden wer wie wir wird wo",
    "fr": "ce ces cette comment elle est il ils j je leur m ma mais mes mon n ne nos notre nous on où pas plus"
    " pourquoi quand qui sa se ses son sont t tu vos votre vous y",
}  # fmt: skip
SMALL = {language: frozenset(words.split()) for language, words in SMALL_WORDS.items()}
FUNCTION = {language: SMALL[language] | {*words.split()} for language, words in FUNCTION_WORDS.items()}


def is_title(text: str, language: str | None) -> bool:
    """Return whether each word has a capital, except for function words, in a short text."""
    if language not in SMALL:
        return False
    matches = words_of(text)
    in_lower_case = {match[0] for match in matches if match[0].islower()}
    has_size = MIN_WORDS <= len(matches) <= MAX_WORDS
    return has_size and in_lower_case <= SMALL[language] and sum(map(is_capitalised, matches)) >= MIN_WORDS


def words_of(text: str, fixed: Iterable[Span] = ()) -> list[re.Match]:
    """Return the words outside the items to keep and fixed spans; "don't" is one word, "l'été" two."""
    spans = [*fixed, *(match.span() for match in KEPT_ITEM.finditer(text))]
    return [match for match in WORD.finditer(text) if not overlaps(match.span(), spans)]


def is_capitalised(match: re.Match) -> bool:
    return match[0].istitle() or (match[0][0].isupper() and match[0][1:].islower())


def title_in_sentence_case(
    text: str,
    tokenizer: PreTrainedTokenizerBase,
    language: str | None,
    fixed: Iterable[Span] = (),
    names: Collection[str] = (),
) -> Replaced | None:
    """Return a text in Title Case as it would be written in a sentence, or None if it is not in Title Case.

    Names and German nouns keep their capitals: words that the tokenizer does not know better in lower case.

    Args:
        text: A sentence.
        tokenizer: The model's tokenizer.
        language: The code of the text's language. Title Case is recognised in English, German and French.
        fixed: Spans that stay as they are, such as terms of a glossary.
        names: More words that keep their capitals.
    """
    if language is None or not is_title(text, language):
        return None
    capitalised = [
        match for match in words_of(text, fixed)[1:] if is_capitalised(match) and is_word(match[0], language)
    ]
    people = surnames(text)
    ordinary = [
        match
        for match in capitalised
        if match[0] not in names and match.start() not in people and is_ordinary(match[0], tokenizer, language)
    ]
    is_certain = any(match[0].lower() in FUNCTION[language] for match in ordinary)
    if not is_certain and NAMES_LISTED.search(text):
        return None
    min_ordinary = max(MIN_ORDINARY_WORDS, MIN_ORDINARY_SHARE * len(capitalised))
    # In German unknown nouns look like other words with a capital.
    if not is_certain and (language == "de" or len(ordinary) < min_ordinary):
        return None
    return Replaced(text, [(match.span(), match[0].lower()) for match in ordinary])


def surnames(text: str) -> set[int]:
    """Return the start positions of the words right after a common first name, such as "Baker" in "Tom Baker"."""
    return {match.start("surname") for match in FULL_NAME.finditer(text)}


def is_word(text: str, language: str) -> bool:
    """Return whether a text is more than a letter, such as "B" in "Plan B"."""
    return len(text) > 1 or text.lower() in FUNCTION[language]


def is_ordinary(word: str, tokenizer: PreTrainedTokenizerBase, language: str) -> bool:
    """Return whether a word is usual in lower case inside a sentence: it is neither a name nor a German noun."""
    if word.capitalize() in FIRST_NAMES:
        return False
    if word.lower() in FUNCTION[language]:
        return True
    # The German dictionary takes seconds to load, and has most nouns in lower case, too.
    if language != "de" and (is_known := is_known_in_lower_case(word, language)) is not None:
        return is_known
    lower, capitalised = tokenizer([word.lower(), word], add_special_tokens=False)["input_ids"]
    # Of two words with one token each, the more frequent one has the smaller id.
    return len(lower) < len(capitalised) or (len(lower) == len(capitalised) == 1 and lower < capitalised)


def names_in(texts: Iterable[str]) -> set[str]:
    """Return the words that have a capital inside sentences of which most words are in lower case."""
    names: set[str] = set()
    for text in texts:
        words = words_of(text)
        inside = [match[0] for match in words[1:] if is_capitalised(match)]
        if 2 * len(inside) < len(words):
            names.update(inside)
    return names
