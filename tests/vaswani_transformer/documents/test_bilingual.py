"""gettext, XLIFF and TMX: entries without a translation get one, and everything else stays."""

import re
from pathlib import Path

import pytest
from fake_pipeline import SENTENCE, SENTENCES, few, identity, reversed_words, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from translate.storage.pypo import pofile

from vaswani_transformer.documents import DocumentError, translate_content


EXAMPLES = {path.suffix: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("examples/*")}
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
    'datatype="plaintext"><body>{}</body></file></xliff>'
)
TMX = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'


def unit(source: str, rest: str = "", attributes: str = "") -> str:
    return XLIFF.format(f'<trans-unit id="1"{attributes}><source>{source}</source>{rest}</trans-unit>')


def canonical(text: str, *removed: str) -> bytes:
    """Returns canonical XML without the layout, without some elements, and without what translate-toolkit adds."""
    root = etree.fromstring(text.encode())
    for element in list(root.iter()):
        name = etree.QName(element).localname
        if name in removed:
            element.getparent().remove(element)
        if name == "trans-unit":
            element.attrib.pop("approved", None)
            element.attrib.pop("{http://www.w3.org/XML/1998/namespace}space", None)
        if name in ("tmx", "tu", "tuv", "xliff", "file", "body", "trans-unit"):  # elements without text of their own
            element.text = None
            for child in element:
                child.tail = None
    return etree.tostring(root, method="c14n")


def target_of(text: str) -> str:
    """Returns the content of the only target, without namespaces."""
    [content] = re.findall(r"<target[^>]*>(.*?)</target>|<target[^>]*/>", text, re.DOTALL)
    return content


# gettext -------------------------------------------------------------------------------------------------------------


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
    after = pofile.parsestring(unchanged(".po", text).encode())
    translations = {str(unit.source): str(unit.target) for unit in after.units if not unit.isheader()}
    assert translations == {source: target or source for source, target in entries.items()}


def test_only_msgstr_changes():
    after = reversed_words(".po", EXAMPLES[".po"])
    assert 'msgstr "%s Good"' in after and 'msgstr[0] "dog %d"' in after and 'msgstr[1] "dogs %d"' in after
    assert re.sub(r'msgstr.*"\n', "", after) == re.sub(r'msgstr.*"\n', "", EXAMPLES[".po"])


def test_a_template_gets_its_language_and_plural_forms():
    text = translated(".pot", HEADER + 'msgid "one two"\nmsgstr ""\n', identity("fr"))
    assert '"Language: fr\\n"' in text and '"Plural-Forms: nplurals=2; plural=(n > 1);\\n"' in text
    assert "Language" not in unchanged(".pot", HEADER + 'msgid "one two"\nmsgstr ""\n')


def test_other_charsets_are_read_and_written():
    content = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "café noir"\nmsgstr ""\n'
    after = reversed_words(".po", content.encode("latin-1"))
    assert 'msgstr "noir café"' in after.decode("latin-1")


@pytest.mark.parametrize("suffix, mark", [(".po", '#, fuzzy\nmsgid "Good %s"'), (".xlf", 'state="needs-review')])
def test_an_entry_with_a_warning_is_marked_for_review(suffix, mark):
    translator = identity()
    record = translator.pipeline.record
    warned = {"Good %s", "A man is {0} here"}
    translator.pipeline.record = lambda text: record(text) | ({"warnings": ["odd"]} if text in warned else {})
    assert mark in translated(suffix, EXAMPLES[suffix], translator)
    assert len(translator.warnings) == 1 and translator.warnings[0].endswith(": odd")
    assert mark not in unchanged(suffix, EXAMPLES[suffix])


# XLIFF and TMX -------------------------------------------------------------------------------------------------------


def with_tags(inner):
    return st.builds('<g id="1">{}</g>'.format, inner) | st.builds('<mrk mtype="x">{}</mrk>'.format, inner)


PHRASES = st.recursive(
    SENTENCE | st.sampled_from(['<x id="2"/>', '<ph id="3">&lt;br/&gt;</ph>', "a &amp; b", " "]),
    lambda inner: st.lists(inner | with_tags(inner), min_size=1, max_size=3).map("".join),
    max_leaves=5,
)


@few
@given(PHRASES)
def test_a_target_has_the_inline_elements_of_its_source(phrase):
    text = unit(f"Start {phrase}")
    after = unchanged(".xlf", text)
    assert canonical(after, "target") == canonical(text)
    [source], [target] = (etree.fromstring(after.encode()).findall(f".//{{*}}{name}") for name in ("source", "target"))
    target.tag = source.tag
    target.attrib.pop("state", None)
    target.tail = source.tail
    # Spaces at the ends of an element may move out of it.
    first, second = (etree.tostring(element, method="c14n").replace(b" ", b"") for element in (target, source))
    assert first == second


@pytest.mark.parametrize(
    "text",
    [
        unit("a b", "<target>x</target><note>one two</note>"),
        unit("a b", attributes=' translate="no"'),
        unit("a b", '<target state="needs-translation">x</target>'),
        EXAMPLES[".tmx"].replace("</tuv></tu>", '</tuv><tuv xml:lang="de"><seg>x</seg></tuv></tu>'),
    ],
)
def test_translated_and_protected_entries_stay(text):
    suffix = ".tmx" if "<tmx" in text else ".xlf"
    language = "de" if suffix == ".tmx" else None
    translator = identity(language)
    assert canonical(translated(suffix, text, translator)) == canonical(text)
    assert translator.pipeline.seen == []


@pytest.mark.parametrize(
    "source, expected",
    [
        ("one two", "two one"),
        ('A <g id="1">man</g> is <x id="2"/> here', 'here <x id="2"/> is <g id="1">man</g> A'),
        ('<x id="2"/> one two <x id="3"/> ', '<x id="2"/> two one <x id="3"/> '),
        ('<g id="1">one <g id="2">two</g></g>', '<g id="1"><g id="2">two</g> one</g>'),
        ("one &lt; two", "two &lt; one"),
    ],
)
def test_words_move_with_their_inline_elements(source, expected):
    assert target_of(reversed_words(".xlf", unit(source))) == expected


def test_a_translation_by_the_program_is_not_approved():
    assert 'approved="yes"' not in unchanged(".xlf", unit("a b", attributes=' approved="yes"'))


@pytest.mark.parametrize("suffix", [".tmx", ".xlf"])
@few
@given(sentences=SENTENCES)
def test_every_source_gets_a_target(suffix, sentences):
    if suffix == ".tmx":
        text = TMX.format("".join(f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv></tu>' for text in sentences))
    else:
        units = (f'<trans-unit id="{i}"><source>{text}</source></trans-unit>' for i, text in enumerate(sentences))
        text = XLIFF.format("".join(units))
    root = etree.fromstring(translated(suffix, text, identity("de")).encode())
    targets = root.findall(".//{*}target") if suffix == ".xlf" else root.findall(".//{*}seg")[1::2]
    assert [target.text for target in targets] == sentences


def test_a_memory_gets_a_variant_in_the_new_language():
    text = re.sub(r">\s+<", "><", translated(".tmx", EXAMPLES[".tmx"], identity("de")))
    assert '<tuv xml:lang="de"><seg>Good <hi>morning</hi></seg></tuv>' in text


@pytest.mark.parametrize("suffix", [".tmx", ".xlf"])
def test_external_entities_are_not_read(tmp_path, suffix):
    (tmp_path / "secret").write_text("from another file")
    root = "<tmx" if suffix == ".tmx" else "<xliff"
    entity = f'<!DOCTYPE x [<!ENTITY y SYSTEM "file://{tmp_path}/secret">]>'
    content = EXAMPLES[suffix].replace(root, entity + root, 1)
    content = content.replace("</source>", "&y;</source>").replace("</seg>", "&y;</seg>")
    assert "&y;" in content
    assert "from another file" not in unchanged(suffix, content)


# Encodings -----------------------------------------------------------------------------------------------------------


ENTRY = 'msgid "Good morning."\nmsgstr ""\n'


@pytest.mark.parametrize("charset", ["rot13", "idna", "hex", "undefined", "unicode_escape", "utf-16", "utf-7"])
def test_a_charset_that_cannot_be_written_is_reported_before_the_translation(charset):
    content = HEADER.replace("UTF-8", charset) + ENTRY
    translator = identity("de")
    try:
        result = translate_content(content.encode(), "a.po", translator)
    except DocumentError as error:
        assert translator.pipeline.seen == [] and str(error).startswith("a.po: ")
    else:
        assert pofile.parsestring(result).units[-1].target == "Good morning."


def test_the_charset_of_a_template(charset="CHARSET"):
    result = translate_content((HEADER.replace("UTF-8", charset) + ENTRY).encode(), "a.pot", identity("de"))
    assert pofile.parsestring(result).units[-1].target == "Good morning."


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "koi8-r"])
def test_a_charset_without_the_translations_letters(charset):
    """The file is refused, or it becomes UTF-8 and says so."""
    content = HEADER.replace("UTF-8", charset) + ENTRY
    translator = identity("de")
    translator.pipeline.record = lambda text: {"translation_text": "Dobrý deň, 日本", "alignments": []}
    try:
        result = translate_content(content.encode(), "a.po", translator)
    except DocumentError as error:
        assert str(error).startswith("a.po: The charset") and "UTF-8" in str(error)
    else:
        assert pofile.parsestring(result).units[-1].target == "Dobrý deň, 日本"
