"""Translation memories: what is read of translators' files."""

import pytest

from vaswani_transformer.documents import DocumentError
from vaswani_transformer.documents.memories import read_memory


TMX = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header srclang="{srclang}" datatype="plaintext" segtype="sentence" adminlang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>Good <hi>morning</hi></seg></tuv>
<tuv xml:lang="de"><seg>Guten <hi>Morgen</hi></seg></tuv>
{more}</tu>
<tu><tuv xml:lang="de"><seg>Ein <ph x="1"/> Wort</seg></tuv>
<tuv xml:lang="en-GB"><seg>One <ph x="1"/> word</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only one</seg></tuv></tu>
</body></tmx>"""
FRENCH = '<tuv xml:lang="fr"><seg>Bonjour</seg></tuv>'
PAIRS = [("Good morning", "Guten Morgen"), ("One {0} word", "Ein {0} Wort")]

XLIFF = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="de-DE" datatype="plaintext"><body>
<trans-unit id="1"><source>A <g id="1">man</g> is <x id="2"/> here</source>
<target>Ein <g id="1">Mann</g> ist <x id="2"/> da</target></trans-unit>
<trans-unit id="2"><source>Open</source></trans-unit>
<trans-unit id="3"><source>Done</source><target state="needs-review-translation">Gemacht</target></trans-unit>
</body></file></xliff>"""

PO = """msgid ""
msgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"

msgid "Done"
msgstr "Fertig"

msgid "Open"
msgstr ""

#, fuzzy
msgid "Close"
msgstr "Auf"

msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] "%d Hund"
msgstr[1] "%d Hunde"

#~ msgid "Old"
#~ msgstr "Alt"
"""


def memory(tmp_path, name, text, *languages):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_memory(path, *languages)


def test_tmx_has_the_pairs_of_its_two_languages(tmp_path):
    text = TMX.format(srclang="en", more="")
    assert memory(tmp_path, "a.tmx", text) == (PAIRS, "en", "de")
    swapped = [(b, a) for a, b in PAIRS]
    assert memory(tmp_path, "a.tmx", text, "de") == (swapped, "de", "en")


def test_of_several_languages_two_are_chosen(tmp_path):
    text = TMX.format(srclang="en", more=FRENCH)
    with pytest.raises(
        DocumentError, match=r"a.tmx has en \(3\), de \(2\), fr \(1\): choose the target language with --to"
    ):
        memory(tmp_path, "a.tmx", text)
    assert memory(tmp_path, "a.tmx", text, None, "fr") == ([("Good morning", "Bonjour")], "en", "fr")
    with pytest.raises(DocumentError, match="with --to"):
        memory(tmp_path, "a.tmx", text, None, "es")
    with pytest.raises(DocumentError, match="with --from"):
        memory(tmp_path, "a.tmx", TMX.format(srclang="*all*", more=""))


def test_xliff_has_what_is_translated_and_not_in_doubt(tmp_path):
    assert memory(tmp_path, "a.xliff", XLIFF) == ([("A man is {0} here", "Ein Mann ist {0} da")], "en", "de")


def test_gettext_has_what_is_translated_and_not_in_doubt(tmp_path):
    pairs = [("Done", "Fertig"), ("%d dog", "%d Hund"), ("%d dogs", "%d Hunde")]
    found = memory(tmp_path, "a.po", PO)
    assert found.pairs == pairs and found.target_language == "de"


@pytest.mark.parametrize("name", ["a.tmx", "a.xliff", "a.po"])
def test_a_damaged_memory_is_refused(tmp_path, name):
    with pytest.raises(DocumentError, match=name):
        memory(tmp_path, name, "<tmx><body")
