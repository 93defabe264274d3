"""gettext: entries without a translation get one, and everything else stays."""

import gettext
import re
from pathlib import Path

import pytest
from fake_pipeline import SENTENCE, few, identity, reversed_words, shouted, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents import DocumentError
from vaswani_transformer.documents.gettext import entries_of, quoted, unquoted


EXAMPLE = Path(__file__).with_name("examples").joinpath("example.po").read_text(encoding="utf-8")
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


@pytest.mark.parametrize(
    "entry",
    [
        '# one\n#. two\n#: f.c:1\n#, c-format\nmsgctxt "k"\nmsgid "a b"\nmsgstr "x"\n',
        'msgid ""\n"a b\\n"\n"c"\nmsgstr ""\n"x\\n"\n"y"\n',
        'msgid "a \\"b\\"\\t\\\\"\nmsgstr "x"\n',
        '#, fuzzy\n#| msgid "old"\nmsgid "a b"\nmsgstr "x"\n',
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "x"\nmsgstr[1] "y"\n',
        'msgid "a b"\nmsgstr "x"\n\n#~ msgid "old"\n#~ msgstr "alt"\n',
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_translated_entry_stays(entry, line_end):
    text = (HEADER + entry).replace("\n", line_end)
    assert texts_of(".po", text) == []
    assert unchanged(".po", text) == text


@few
@given(st.dictionaries(SENTENCE, st.sampled_from(["", "Fertig"]), min_size=1, max_size=5))
def test_missing_translations_are_added(entries):
    text = HEADER + "".join(f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in entries.items())
    after = [entry for entry in entries_of(unchanged(".po", text)) if not entry.is_header]
    translations = {entry.find("msgid").value: entry.translations[0].value for entry in after}
    assert translations == {source: target or source for source, target in entries.items()}


def test_only_msgstr_changes():
    after = reversed_words(".po", EXAMPLE)
    assert 'msgstr "%s Good"' in after and 'msgstr[0] "dog %d"' in after and 'msgstr[1] "dogs %d"' in after
    assert re.sub(r'msgstr.*"\n', "", after) == re.sub(r'msgstr.*"\n', "", EXAMPLE)


def test_a_template_gets_its_language_and_plural_forms():
    text = translated(".pot", HEADER + 'msgid "one two"\nmsgstr ""\n', identity("fr"))
    assert '"Language: fr\\n"' in text and '"Plural-Forms: nplurals=2; plural=(n > 1);\\n"' in text
    assert "Language" not in unchanged(".pot", HEADER + 'msgid "one two"\nmsgstr ""\n')


def test_other_charsets_are_read_and_written():
    content = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "café noir"\nmsgstr ""\n'
    after = reversed_words(".po", content.encode("latin-1"))
    assert 'msgstr "noir café"' in after.decode("latin-1")


def test_an_entry_with_a_warning_is_fuzzy():
    for flags, expected in [("", "#, fuzzy\n"), ("#, c-format\n", "#, c-format, fuzzy\n")]:
        translator = identity()
        translator.pipeline.record = lambda text: {"translation_text": text, "warnings": ["odd"]}
        content = HEADER + f'# note\n{flags}#| msgid "old"\nmsgid "a b"\nmsgstr ""\n'
        expected = HEADER + f'# note\n{expected}#| msgid "old"\nmsgid "a b"\nmsgstr "a b"\n'
        assert translated(".po", content, translator) == expected
        assert translator.warnings == [f'line {7 + bool(flags)}, "a b": odd']


@few
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40), st.booleans())
def test_any_text_can_be_quoted(text, is_long):
    field = f'msgid "x"\nmsgstr {quoted(text, is_long, chr(10))}\n'
    [entry] = entries_of(field)
    assert entry.translations[0].value == text
    assert unquoted('"a\\tb\\\\n\\""') == 'a\tb\\n"'


def test_blank_lines_and_a_missing_last_line_end_stay():
    content = HEADER + '\n\n  \nmsgid "a b"\nmsgstr ""\n\n\n\nmsgid   "c"\nmsgstr ""'
    assert shouted(".po", content) == content.replace('b"\nmsgstr ""', 'b"\nmsgstr "A B"').replace(
        'c"\nmsgstr ""', 'c"\nmsgstr "C"'
    )


@pytest.mark.parametrize(("language", "number"), [("fr", 2), ("pl", 3), ("ja", 1), ("ar", 6)])
def test_plural_forms_of_the_target_language(language, number):
    content = HEADER + 'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    after = translated(".po", content, identity(language))
    assert len(re.findall(r"^msgstr\[\d+\] \"%d dogs?\"$", after, re.MULTILINE)) == number
    rule = re.search(r"plural=(.*?);\\n", after)[1]
    assert f'msgstr[{gettext.c2py(rule)(1)}] "%d dog"\n' in after or number == 1


@pytest.mark.parametrize("charset", ["rot13", "idna", "nonsense", "hex", "undefined", "utf-16", "utf-7"])
def test_an_encoding_that_cannot_be_read_is_an_error(charset):
    translator = identity()
    with pytest.raises(DocumentError, match=f"The file is not in {charset}"):
        translated(".po", HEADER.replace("UTF-8", charset) + 'msgid "grün"\nmsgstr ""\n', translator)
    assert translator.pipeline.seen == []


def test_characters_that_the_encoding_lacks_change_it():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": "größer ≥"}
    content = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "a b"\nmsgstr ""\n'
    after = translated(".po", content.encode(), translator).decode()
    assert "charset=UTF-8" in after and "größer ≥" in after


@pytest.mark.parametrize("content", ["", "# only\n", HEADER, "<html>", 'msgid "a\n', "hello\n"])
def test_what_is_not_gettext_is_an_error(content):
    with pytest.raises(DocumentError):
        unchanged(".po", content)
