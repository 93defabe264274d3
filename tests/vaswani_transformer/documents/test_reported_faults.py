"""Faults that users of other translators and of this one have reported: the smallest inputs, and what is right.

A row has the texts to translate in guillemets; everything else must stay to the letter. The reports are in the trackers
of the projects that a row names. Those about numbers are tested with the model, those about requests and links with the
server, those about translation memories with `memories`.
"""

import json
import re

import pytest
from fake_pipeline import identity, shouted, texts_of, unchanged
from test_gettext import HEADER
from test_word import FIELD, docx, main_part, paragraph_of, run
from test_xliff import unit

from vaswani_transformer.documents import DocumentError, translate_content


pytestmark = pytest.mark.quick

SUPERSCRIPT, SUBSCRIPT = "<w:vertAlign w:val='superscript'/>", "<w:vertAlign w:val='subscript'/>"
DELETED = "<w:del w:id='2'><w:r><w:delText> a door</w:delText></w:r></w:del>"

XLIFF_2 = '<xliff version="2.0" srcLang="en"><file id="f"><unit id="u">'
XLIFF_2_END = "</unit></file></xliff>"
OMEGAT = (
    '<!DOCTYPE tmx SYSTEM "tmx11.dtd">\n<tmx version="1.1"><header srclang="EN-US"/><body>'
    '<tu><tuv lang="EN-US"><seg>a b</seg></tuv>{}</tu></body></tmx>'
)
CUES = "1\n00:00:01,000 --> 00:00:02,000\nHe went\n\n2\n00:00:0{} --> 00:00:05,000\nto bed.\n"


def target(source: str, translation: str) -> str:
    return unit(source, f'<target state="translated">{translation}</target>')


# For each report: the suffix, and a document, a message of a gettext or XLIFF file, the text of a subtitle, or the
# content of a paragraph in Word.
REPORTS = {
    "browsermt/bergamot-translator#266 #288": [
        (".md", "- [«Previous»](a.html) [«Next»](b.html)\n"),
        (".md", "- **«Sign»** [«up»](signup.html)\n"),
        (".md", "- [«One»](a.html)[«Two»](b.html)\n"),
        (".md", "[«Docs»](d.md) [«Issues»](i.md) [«Chat»](c.md)\n"),
        (".html", '<p><b>«Open»</b> <a href="x.html">«up»</a></p>'),
        (".html", "<a href='a'>«Home»</a> <a href='b'>«About»</a> | <a href='c'>«Contact»</a>"),
        (".html", '<b id="1a">1<i id="1b"> «inside b»</i></b> <i id="1c">«italic»</i>'),
        (".xlf", '<g id="1">«Sign»</g> <g id="2">«up»</g>'),
    ],
    "browsermt/bergamot-translator#286 #312": [
        (".html", "«five m»<sup>2</sup> «of H»<sub>2</sub>«O»"),
        (".html", "«The» 1<sup>st</sup> «house»<sup><a href='#n1'>1</a></sup> «is open.»"),
        (".docx", run("«The man»") + run("1", SUPERSCRIPT) + run("« opens the window.»")),
        (".docx", run("«Drink H»") + run("2", SUBSCRIPT) + run("«O.»")),
    ],
    "thomas-villani/all2md#480, python-openxml/python-docx#1538, developer0hye/office2pdf#583": [
        (".docx", run("«The man opens »") + f"<w:ins w:id='1'>{run('«the window »')}</w:ins>" + run("«and a door.»")),
        (".docx", f"<w:ins w:id='1'>{run('«The window»')}</w:ins>"),
        (".docx", f"<w:moveTo w:id='1'>{run('«The window»')}</w:moveTo>"),
        (".docx", run("«The man opens»") + DELETED + run("« the window.»")),
        (".docx", run("«The »") + f"<w:bdo w:val='rtl'>{run('«man»')}</w:bdo>" + run("« opens it.»")),
    ],
    "MicrosoftTranslator/DocumentTranslator-Legacy#78": [
        (".docx", run("«Go to page »") + f"<w:fldSimple w:instr='PAGE'>{run('7')}</w:fldSimple>" + run("« of it.»")),
        (".docx", run("«Go to page »") + FIELD.format("PAGE", run("7")) + run("« of it.»")),
        (".docx", run("«See »") + FIELD.format('HYPERLINK "a"', run("«the page»")) + run("« of it.»")),
        (".docx", FIELD.format("TOC", run("«The window»"))),
    ],
    "python-openxml/python-docx#1117": [
        (".docx", "<w:r><w:t>«The window»</w:t><w:br w:type='page'/></w:r>"),
        (".docx", "<w:r><w:t>«The window»</w:t><w:br w:type='column'/><w:t>«is open»</w:t></w:r>"),
        (".docx", "<w:r><w:t>«The window»</w:t><w:br w:clear='all'/><w:t>«is open»</w:t></w:r>"),
        (".html", '<p>«one»<br class="x" clear="all">«two»</p>'),
    ],
    "mondeja/mdpo#164": [
        (".md", "«See» <https://example.org/a> «for the details.»\n"),
        (".md", "«Write to» <me@example.org> «or visit» <http://127.0.0.1:8080/>.\n"),
    ],
    "pelikhan/action-continuous-translation#83, google/mdbook-i18n-helpers#307, microsoft/FluidFramework#28184": [
        (".md", "> [!NOTE]\n> «The window is open.»\n"),
        (".md", "> [!tip]- «My title»\n> «The window is open.»\n"),
    ],
    "facebook/docusaurus#3526 #8810": [
        (".md", ":::note[«My» *«title»*]{#id .x}\n«Text»\n:::\n"),
        (".md", ":::tip «My title»\n«The window is open.»\n:::\n"),
        (".md", "::: {.note}\n«The window is open.»\n:::\n"),
        (".md", '!!! note "«Read this»"\n    «The window is open.»\n'),
        (".md", "??? note\n    «The window is open.»\n\n    - «more»\n"),
        (".md", "/// note | «My title»\n«The window is open.»\n///\n"),
        (".md", "$$\na b\n$$\n\n«Text»\n"),
        (".md", "{{< note >}}\n«The window is open.»\n{{< /note >}}\n"),
        (".mdx", "import Tabs from '@theme/Tabs';\n\n<Steps>\n\n1. «Open the window»\n2. «Close the door»\n</Steps>\n"),
        (".md", '{% include note.html id="a b" content="«The *window* is open.»" %}\n'),
        (".md", '![«A cat»](cat.png){ width="300" }\n'),
        (".md", '«Open it.»\n\n--8<-- "snippets/file.md"\n'),
        (".md", "{* docs_src/options/help/tutorial002_an_py310.py hl[15,21] *}\n"),
        (".md", "«Hello» {{ user.name }}, {% if x %}«open the window»{% endif %}.\n"),
        (".html", "<p>«Hello» {{ user.name }}, {% if x %}«open the window»{% endif %}.</p>"),
        (".md", '=== "«On Linux»"\n\n    «Open the window.»\n'),
    ],
    "rstudio/rmarkdown#1447, mondeja/mdpo#203": [
        (".md", "[«the house»]({{site.baseurl}}/house.html)\n"),
        (".md", "[«the house»](<my house.md>), [«the park»](größe.md#über)\n"),
        (".md", "[«the house»]({{ site.baseurl }}/house.html)\n"),
        (".md", "[«the house»]({% link house.md %})\n"),
    ],
    "google/knowledge-catalog#174, sissbruecker/linkding#291, openzim/warc2zim#219": [
        (".html", '<p>«See» <a href="?a=1&copy=2&reg=3&lang=en">«this»</a> «page»'),
        (".html", '<p>«See» <a href="?a=1&center=2&param2=3&amp;x">«this»</a> «page»'),
        (".md", '«See» <a href="?a=1&copy=2&reg=3">«this»</a> https://example.org/?a=1&copy=2 «page»\n'),
    ],
    "LibreTranslate/LibreTranslate#144 #288 #806, argosopentech/translate-html#10 #19": [
        (".html", "<p>«hello»</p>"),
        (".html", "<p>«The» <b>«man» <i>«opens»</i></b> «the» <span>«window»</span>.</p>"),
        (".html", "<p>«a»<p>«b»<ul><li>«c»<li>«d»</ul>\n<table><td>«e»<td>«f»"),
        (".html", "<p>«two»&nbsp;«km» &copy; «AT&T»"),
        (".html", "<button>«Save»</button> «all» <input type='submit' value='«Send»'>"),
    ],
    "tolgee/tolgee-platform#2337, UiPath/apollo-ui#995, leolabs/json-autotranslate#87": [
        *(
            (suffix, text)
            for suffix in (".json", ".yaml", ".arb", ".po", ".xlf")
            for text in (
                "{count, plural, one {# «file»} other {# «files»}} «in the house»",
                "{gender, select, male {«He»} female {«She»} other {«They»}} «opened the window»",
            )
        ),
        (".xlf", '{VAR_PLURAL, plural, =0 {«no files»} other {<x id="I"/> «files»}}'),
    ],
    "python/python-docs-zh-tw#32, sphinx-doc/sphinx#3985": [
        (".po", "«See» :ref:`the house <house-label>` «and» ``open(file)`` «now.»"),
        (".po", "[% user %] «opens» |name| «and» `x`_ «now.»"),
        (".po", "«&Open File...»"),
        (".po", "«Save _As»"),
    ],
    "SubtitleEdit/subtitleedit#3611, SubtitleEdit/plugins#163": [
        (".srt", "<b>«The first line»</b>\n<i>«The second line»</i>\n<u>«The third line»</u>"),
        (".srt", "<i>«The first line\nand the second»</i>"),
        (".srt", "- <i>«One»</i>\n- «Two»"),
        (".vtt", "<ruby>«tree»<rt>ki</rt></ruby> «here»"),
    ],
    "SubtitleEdit/subtitleedit#5922 #8223, LibreTranslate/LibreTranslate#758": [
        (".srt", "{\\i1}«The window»{\\i0} «is open»"),
        (".srt", "«The window»<br />«and a door»"),
        (".srt", "«The window» -> «a door»"),
        (".srt", "«The window» --> «a door»"),
    ],
    "re999/script.program.sub-ai-translator#4": [(".srt", "«Please welcome the happy»\n\n«man in the house.»")],
    "meltano/meltano#7206, glebm/i18n-tasks#517, phrase/phraseapp-client#87": [
        (".yaml", "d: &d\n    title: «The house»\nen: {<<: *d, text: «The man»}\nn: &n «The cat»\nother: *n\n"),
        (".yaml", '---\na:  { "a": 1 }  # one\n...\n---\n'),
    ],
    "glebm/i18n-tasks#168, ruby-i18n/i18n#94, rails/rails#46475": [
        (".yaml", "restart: no\nenabled: yes\nmode: off\ndebug: on\nquoted: '«no»'\n"),
    ],
    "links of wikis": [(".md", "«See» [[House]] «and» ![[cat.png]] «now»\n")],
}  # fmt: skip


# Reports about the whole file: the suffix, a document and what it becomes.
FILES = {
    "martinroob/ngx-i18nsupport#149": (".xlf", unit("a b", '<target state="new">a b</target>'), target("a b", "A B")),
    "WeblateOrg/weblate#3663": (
        ".xlf",
        "<!DOCTYPE xliff>\n" + unit("a b", '<target state="needs-translation">a b</target>'),
        "<!DOCTYPE xliff>\n" + target("a b", "A B"),
    ),
    "WeblateOrg/weblate#972, translate/translate#3369": (
        ".xlf",
        f'{XLIFF_2}<segment><source>a <pc id="1">b</pc></source></segment>{XLIFF_2_END}',
        f'{XLIFF_2}<segment state="translated"><source>a <pc id="1">b</pc></source>'
        f'<target>A <pc id="1">B</pc></target></segment>{XLIFF_2_END}',
    ),
    "pluginsGLPI/barcode#22, Nokse22/high-tide#210": (
        ".po",
        'msgid "a b"\nmsgstr ""\n',
        'msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Content-Transfer-Encoding: 8bit\\n"\n\nmsgid "a b"\nmsgstr "A B"\n',
    ),
    "a template of gettext": (
        ".pot",
        HEADER.replace("UTF-8", "CHARSET") + 'msgid "a b"\nmsgstr ""\n',
        HEADER + 'msgid "a b"\nmsgstr "A B"\n',
    ),
    "translate/translate#224": (
        ".po",
        (HEADER.replace("UTF-8", "ISO-8859-15") + 'msgid "grün €"\nmsgstr ""\n').encode("iso-8859-15"),
        (HEADER.replace("UTF-8", "ISO-8859-15") + 'msgid "grün €"\nmsgstr "GRÜN €"\n').encode("iso-8859-15"),
    ),
    "SubtitleEdit: damaged arrows": (
        ".srt",
        "1\n00:00:01,000 -> 00:00:02,000\nthe man\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n",
        "1\n00:00:01,000 -> 00:00:02,000\nTHE MAN\n\n2\n00:00:03,000 --> 00:00:04,000\nBYE.\n",
    ),
    "a memory of OmegaT": (".tmx", OMEGAT.format(""), OMEGAT.format('<tuv lang="und"><seg>A B</seg></tuv>')),
}

# Reports about what is one text: the suffix, a document and its texts.
TEXTS = {
    "LibreTranslate/LibreTranslate#806": (".html", "<p>The <b>man <i>opens</i></b> it.</p>", ["The man opens it."]),
    "LibreTranslate/LibreTranslate#288": (".html", "<p>The man\nopens it.</p>", ["The man opens it."]),
    "LibreTranslate/LibreTranslate#688 #947": (
        ".docx",
        docx(),
        ["A bold word and italic ones.\vAnother\x1cline.", "Below it", "In a cell", "On top", "The title"],
    ),
    "byroot/pysrt: a gap of two seconds": (".srt", CUES.format("4,000"), ["He went", "to bed."]),
    "byroot/pysrt: a smaller gap": (".srt", CUES.format("3,999"), ["He went to bed."]),
    "byroot/pysrt: a position": (".srt", "1\n00:00:01,000 --> 00:00:02,000\na man\n{\\an2}a dog\n", ["a dog", "a man"]),
    "bilingual segments": (
        ".xlf",
        unit("A b. C d.", '<seg-source><mrk mtype="seg">A b.</mrk> <mrk mtype="seg">C d.</mrk></seg-source>'),
        ["A b.", "C d."],
    ),
}  # fmt: skip

INTO_FR = "The file is for a translation into fr, but this one is into de"
# Reports about files that cannot be translated: the suffix, a document and the message.
ERRORS = {
    "openai/tiktoken#82, molecular-labs/fertilizer#57": (".json", '{"a": "Two \\ud83d"}', "^a.json: Half a character"),
    "claude-code-log#139": (".yaml", 'a: "Two \\ud83d"\n', "^a.yaml: (Half a character|Not valid YAML)"),
    "symfony/translation: XLIFF": (".xlf", unit("a b").replace("<file", '<file target-language="fr"'), INTO_FR),
    "symfony/translation: gettext": (
        ".po",
        'msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n',
        INTO_FR,
    ),
}  # fmt: skip


def documents(suffix: str, marked: str) -> tuple[str | bytes, str | bytes]:
    """Returns a document, and the one that is expected, from a row of the table."""
    plain = re.sub("[«»]", "", marked)
    loud = re.sub("«(.*?)»", lambda match: match[1].upper(), marked, flags=re.DOTALL)
    if suffix == ".po":
        return tuple(f'{HEADER}msgid "{plain}"\nmsgstr "{text}"\n' for text in ("", loud))
    if suffix == ".xlf":
        return unit(plain), target(plain, loud)
    if suffix in (".json", ".arb"):
        return json.dumps({"a": plain}), json.dumps({"a": loud})
    if suffix == ".yaml" and "\n" not in marked:
        return f"a: '{plain}'\n", f"a: '{loud}'\n"
    if suffix in (".srt", ".vtt"):
        head = "WEBVTT\n\n00:01.000 --> 00:02.000\n" if suffix == ".vtt" else "1\n00:00:01,000 --> 00:00:02,000\n"
        return f"{head}{plain}\n", f"{head}{loud}\n"
    return (paragraph_of(plain), paragraph_of(loud)) if suffix == ".docx" else (plain, loud)


@pytest.mark.parametrize(
    ("suffix", "marked"),
    [pytest.param(*row, id=f"{report} {i}") for report, rows in REPORTS.items() for i, row in enumerate(rows)],
)
def test_a_reported_document_is_right(suffix, marked):
    content, expected = documents(suffix, marked)
    after = shouted(suffix, content)
    if suffix == ".docx":
        after, expected = main_part(after), main_part(expected)
    assert after == expected
    if suffix not in (".po", ".xlf"):
        assert unchanged(suffix, content) == content
    if suffix == ".md":
        assert shouted(suffix, content.replace("\n", "\r\n")) == expected.replace("\n", "\r\n")


@pytest.mark.parametrize(("suffix", "content", "expected"), FILES.values(), ids=FILES)
def test_a_reported_file_is_right(suffix, content, expected):
    assert shouted(suffix, content) == expected


@pytest.mark.parametrize(("suffix", "content", "texts"), TEXTS.values(), ids=TEXTS)
def test_a_reported_sentence_is_one_text(suffix, content, texts):
    assert sorted(text.strip() for text in texts_of(suffix, content) if text.strip()) == texts


@pytest.mark.parametrize(("suffix", "content", "message"), ERRORS.values(), ids=ERRORS)
def test_a_reported_file_is_refused_in_a_sentence(suffix, content, message):
    with pytest.raises(DocumentError, match=message):
        translate_content(content.encode(), f"a{suffix}", identity("de"))
