"""Messages of Java and of Apple's systems: keys, comments and escapes stay, and the values are translated."""

import re

import pytest
from fake_pipeline import SENTENCE, few, identity, reversed_words, shouted, texts_of, translated, unchanged
from hypothesis import given
from hypothesis import strategies as st

from vaswani_transformer.documents import DocumentError


pytestmark = pytest.mark.quick

SEPARATORS = st.sampled_from(["=", " = ", ":", " ", "\t=  ", " = \\\n  "])
LINES = st.one_of(
    st.builds("{}key.{}{}{}\n".format, st.sampled_from(["", "  "]), st.integers(0, 99), SEPARATORS, SENTENCE),
    st.sampled_from(
        ["# one two\n", "\n", " ! one\\\n", "key\n", "a b \\\n   c d\n", "a=\\u00e9 b\\\\\n", "a = b\\ c\\:\n"]
    ),
)
WORDS = st.builds('"{}"'.format, SENTENCE | st.sampled_from(["", "\\n", 'a \\"b\\"', "%@ c", "\\U00e9 d", "a\n b"]))
ENTRIES = st.one_of(
    st.builds("{}{}={}{};\n".format, WORDS, st.sampled_from(["", " ", "/* = */"]), st.sampled_from([" ", ""]), WORDS),
    st.sampled_from(["/* one; */\n", "// two\n", "\n", '"a";', "key = word;\n"]),
)


def value(text: str) -> str:
    return shouted(".properties", f"a = {text}\n").removeprefix("a = ").removesuffix("\n")


@few
@given(st.lists(LINES).map("".join), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_properties_come_back(text, newline):
    text = text.replace("\n", newline)
    assert unchanged(".properties", text) == text
    keys = re.compile(r"^\s*key\.\d+", re.MULTILINE)
    assert keys.findall(shouted(".properties", text)) == keys.findall(text)


@few
@given(st.lists(ENTRIES).map("".join), st.sampled_from(["\n", "\r\n"]))
def test_any_strings_come_back(text, newline):
    text = text.replace("\n", newline)
    assert unchanged(".strings", text) == text
    comments = re.compile(r"/\*.*?\*/|//.*|=|;")
    assert comments.findall(shouted(".strings", text)) == comments.findall(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", "ONE TWO"),
        ("caf\\u00e9 one", "CAF\\u00c9 ONE"),
        ("one\\ttwo\\nthree", "ONE\\tTWO\\nTHREE"),
        ("C:\\\\new one", "C:\\\\NEW ONE"),
        ("one \\: two", "ONE \\: TWO"),
        ("{0} isn''t here", "{0} ISN''T HERE"),
        ("it's one", "IT'S ONE"),
        ("{0,choice,0#one|1#two}", "{0,choice,0#one|1#two}"),
        ("%1$S is %S", "%1$S IS %S"),
        ("one two \\\n    three four", "ONE TWO \\\n    THREE FOUR"),
        ("one\\n\\\n  two\\n\\\n  three", "ONE\\n\\\n  TWO\\n\\\n  THREE"),
        ("true", "true"),
        ("org.example.Main", "org.example.Main"),
        ("12", "12"),
    ],
)
def test_escapes_placeholders_and_lines_of_properties_stay(text, expected):
    assert value(text) == expected


def test_an_apostrophe_is_doubled_in_patterns():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": text.replace("the", "l'")}
    assert translated(".properties", "a=the {0}\nb=the x\n", translator) == "a=l'' {0}\nb=l' x\n"


def test_keys_and_separators_of_properties():
    text = "a\\ b\\=c: d e\nf   g h\n\ti = # j\nk\n"
    assert texts_of(".properties", text) == ["d e", "g h", "# j"]
    assert shouted(".properties", text) == "a\\ b\\=c: D E\nf   G H\n\ti = # J\nk\n"
    assert shouted(".properties", text, keys=["f"]) == text.replace("g h", "G H")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a=grün b".encode("latin-1"), b"a=GR\\u00dcN B"),
        ("a=grün b".encode(), "a=GRÜN B".encode()),
        (b"a=gr\\u00FCn b", b"a=GR\\u00dcN B"),
        ("#é\na=b \\ud83d\\ude00".encode("latin-1"), "#é\na=B \\ud83d\\ude00".encode("latin-1")),
    ],
)
def test_encodings_of_properties_stay(content, expected):
    assert unchanged(".properties", content) == content
    assert shouted(".properties", content) == expected


def test_a_file_in_ascii_stays_in_ascii():
    translator = identity()
    translator.pipeline.record = lambda text: {"translation_text": "Tür 😀"}
    assert translated(".properties", "a = door\n", translator) == "a = T\\u00fcr \\ud83d\\ude00\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a b" = "c \\"d\\" e";', '"a b" = "C \\"D\\" E";'),
        ('a = /* b */ "c" /* d */ ; // "e" = "f";', 'a = /* b */ "C" /* d */ ; // "e" = "f";'),
        ('"a" = "b\\nc\nd";', '"a" = "B\\nC\nD";'.replace("\\n", "\n")),
        ('"a" = "\\U00e9 b";', '"a" = "\\U00c9 B";'),
        ('"a" = "%1$@ has %lu";', '"a" = "%1$@ HAS %lu";'),
        ('"a" = "b\\\\";', '"a" = "B\\\\";'),
        ('"one two";\n"a" = b;', '"one two";\n"a" = b;'),
    ],
)
def test_escapes_placeholders_and_comments_of_strings_stay(text, expected):
    assert shouted(".strings", text) == expected


def test_reversed_words_keep_quotation_marks():
    assert reversed_words(".strings", '"a" = "see \\"b\\" now";') == '"a" = "now \\" b \\" see";'


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("<plist/>", 1),
        ('"a" = "b";\n"c" = "d"\n', 2),
        ('"a" = "b', 1),
        ("/* a", 1),
        ('\n"a" "b";', 2),
        ("bplist00\x00", 1),
    ],
)
def test_what_is_not_in_the_format_of_strings_is_an_error(content, line):
    with pytest.raises(DocumentError, match=f"^file.strings: Line {line} is not an entry"):
        unchanged(".strings", content)


@pytest.mark.parametrize("shape", ["/* ", "\\", '"a', '"a" = ', "a ", "// \n", "a\\\n"])
def test_hostile_files_are_read_in_linear_time(shape):
    """A regular expression that went back for each start would take hours for this many."""
    for suffix in (".properties", ".strings"):
        try:
            unchanged(suffix, shape * 200_000)
        except DocumentError as error:
            assert "is not an entry" in str(error)
