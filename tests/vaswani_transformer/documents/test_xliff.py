"""XLIFF and TMX: entries without a translation get one, and everything else stays byte for byte."""

import re
from pathlib import Path

import pytest
from fake_pipeline import SENTENCE, SENTENCES, few, identity, reversed_words, shouted, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from vaswani_transformer.documents import DocumentError


EXAMPLES = {path.suffix: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("examples/*")}
XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
    'datatype="plaintext"><body>{}</body></file></xliff>'
)
TMX = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'


def unit(source: str, rest: str = "", attributes: str = "") -> str:
    return XLIFF.format(f'<trans-unit id="1"{attributes}><source>{source}</source>{rest}</trans-unit>')


def target_of(text: str) -> str:
    """Returns the content of the only target, without namespaces."""
    [content] = re.findall(r"<target[^>]*>(.*?)</target>|<target[^>]*/>", text, re.DOTALL)
    return content


def with_tags(inner):
    return st.builds('<g id="1">{}</g>'.format, inner) | st.builds('<mrk mtype="x">{}</mrk>'.format, inner)


PHRASES = st.recursive(
    SENTENCE | st.sampled_from(['<x id="2"/>', '<ph id="3">&lt;br/&gt;</ph>', "a &amp; b", " "]),
    lambda inner: st.lists(inner | with_tags(inner), min_size=1, max_size=3).map(" ".join),
    max_leaves=5,
)


@few
@given(PHRASES)
def test_a_target_has_the_inline_elements_of_its_source(phrase):
    text = unit(f"Start {phrase}")
    after = unchanged(".xlf", text)
    assert re.sub(r"<target.*?</target>", "", after, flags=re.DOTALL) == text
    assert target_of(after) == re.search("<source>(.*?)</source>", text, re.DOTALL)[1]
    source, target = (
        etree.fromstring(shouted(".xlf", text).encode()).find(f".//{{*}}{n}") for n in ("source", "target")
    )
    assert [(x.tag, x.attrib) for x in target.iter()][1:] == [(x.tag, x.attrib) for x in source.iter()][1:]


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
    assert translated(suffix, text, translator) == text
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


def test_segments_of_an_entry_are_texts_of_their_own():
    segmented = '<seg-source><mrk mtype="seg" mid="1">A b.</mrk> <mrk mtype="seg" mid="2">C d.</mrk></seg-source>'
    text = unit("A b. C d.", segmented)
    assert texts_of(".xlf", text) == ["A b.", "C d."]
    assert target_of(shouted(".xlf", text)) == (
        '<mrk mtype="seg" mid="1">A B.</mrk> <mrk mtype="seg" mid="2">C D.</mrk>'
    )
    assert "</seg-source><target" in shouted(".xlf", text)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ('a <bpt id="1">[b]</bpt>b<ept id="1">[/b]</ept>', 'A <bpt id="1">[b]</bpt>B<ept id="1">[/b]</ept>'),
        ("a <!-- c --> b &lt;b&gt;c&lt;/b&gt; %s", "A <!-- c --> B &lt;b&gt;C&lt;/b&gt; %s"),
        ("<![CDATA[a <b>]]> c", "A &lt;b&gt; C"),
    ],
)
def test_tags_in_pairs_and_messages_are_kept(source, target):
    assert target_of(shouted(".xlf", unit(source))) == target


def test_version_2():
    text = (
        '<xliff version="2.0" srcLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0">\n '
        '<file id="f"><unit id="u">\n'
        '    <segment{}>\n      <source>a <pc id="1">b</pc> <sc id="2"/>c<ec startRef="2"/></source>{}\n'
        "    </segment>\n"
        '</unit><unit id="v" translate="no"><segment><source>x</source></segment></unit></file></xliff>'
    )
    target = '\n      <target>A <pc id="1">B</pc> <sc id="2"/>C<ec startRef="2"/></target>'
    assert shouted(".xlf", text.format("", "")) == text.format(' state="translated"', target)
    assert 'trgLang="de"' in translated(".xlf", text.format("", ""), identity("de"))


def test_an_entry_with_a_warning_needs_review():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": text, "warnings": ["odd"]}
    assert '<target state="needs-review-translation">a b</target>' in translated(".xlf", unit("a b"), translator)
    assert translator.warnings == ['entry 1, "a b": odd']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings_stay(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>\r\n<!DOCTYPE xliff>\r\n' + unit("größe b")
    after = shouted(".xlf", text.encode(encoding))
    assert after.decode(encoding) == text.replace("</source>", '</source><target state="translated">GRÖSSE B</target>')


@pytest.mark.parametrize("suffix", [".xlf", ".tmx"])
@pytest.mark.parametrize("encoding", ["rot13", "idna", "nonsense", "hex", "undefined"])
def test_an_encoding_that_cannot_be_written_is_an_error(suffix, encoding):
    with pytest.raises(DocumentError, match=f": The file is not XML in {encoding}: "):
        unchanged(suffix, f'<?xml version="1.0" encoding="{encoding}"?>{unit("a b")}')


@pytest.mark.parametrize("content", ["", "<a/>", "<xliff>", "<xliff/>", "<tmx/>", '<xliff version="1.2"></tmx>'])
def test_what_is_not_in_the_format_is_an_error(content):
    for suffix in (".xlf", ".tmx"):
        with pytest.raises(DocumentError):
            unchanged(suffix, content)


def test_a_file_from_another_language_is_an_error():
    text = unit("a b").replace('source-language="en"', 'source-language="fr-FR" target-language="en-US"')
    translator = identity("en")
    translator.source_language = "de"
    with pytest.raises(DocumentError, match=r"from fr-FR, but this one is from de"):
        translated(".xlf", text, translator)
    assert "<target" in translated(".xlf", text, identity("en"))
