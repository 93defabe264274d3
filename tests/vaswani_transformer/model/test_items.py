"""Items of a text that are copied: what is one, and what is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.model.items_vaswani import kept_items


def test_items_to_keep():
    text = (
        "See https://a.org/b(c), www.d.de. Mail x.y@z.co.uk; {name} ${x} {{y}} %s %1$d 100%, <a href='u'>v</a> &nbsp; "
        "`a b` /usr/bin C:\\a\\b.txt and/or --force well-known my_var f_g() @me #tag a < b > c 5% of it 2 * 3 "
        "1.234.567 ☀️🎉 ssh://g@h:22/r.git mailto:a@b.de :attribute 3:30 so: yes [DATE] [1] [FAQ](x) 0x80070057 "
        "97CD65FA-AF4B-4587-9309-0DD6BFD8B4E1"
    )
    assert kept_items(text) == [
        "https://a.org/b(c)", "www.d.de", "x.y@z.co.uk", "{name}", "${x}", "{{y}}", "%s", "%1$d", "<a href='u'>",
        "</a>", "&nbsp;", "`a b`", "/usr/bin", "C:\\a\\b.txt", "--force", "my_var", "f_g()", "@me", "#tag", "☀️", "🎉",
        "ssh://g@h:22/r.git", "mailto:a@b.de", ":attribute", "[DATE]", "[", "](x)", "0x80070057",
        "97CD65FA-AF4B-4587-9309-0DD6BFD8B4E1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "items",
    [
        ["www.beispiel.de/hilfe", "beispiel.de/hilfe?a=1", "example.org:8080/", "shop.example.com", "info@beispiel.de"],
        [
            "WWW.EXAMPLE.ORG/HELP",
            "EXAMPLE.COM",
            "INFO@EXAMPLE.ORG",
            "CONFIG.JSON",
            "IMG_2041.JPG",
            "DSC_1.NEF",
            "A.ZIP",
        ],
        ["https://de.wikipedia.org/wiki/Bern_(Kanton)", "example.org/a_(b)/c", "10.0.0.1:8080", "10.0.0.0/8"],
        ["config.json", "report_final.docx", "main.c", "README.md", "src/app/main.py", "Übersicht-2.xlsx", "a.zip"],
        ["/etc/hosts", "~/bin/run", "./a/b", "C:\\Users\\x", "C:\\Programme\\a.txt"],
        ["snake_case", "getUserName", "run()", "user.getName()", "ERR_CONN_42", "NullPointerException", "v2.3.1"],
        ["a1b2c3d", "d41d8cd98f00b204e9800998ecf8427e", "123e4567-e89b-12d3-a456-426614174000"],
        ["978-1-90277-348-3", "0-306-40615-X", "4111 1111 1111 1111", "9781902773483", "10.1000/xyz123"],
        ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "FR14 2004 1010 0505 0001 3M02 606"],
        ["2001:db8::8a2e:370:7334", "fe80::1", "00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "1Z999AA10123456784"],
        ["SA/0042/77-B", "AB/0917/33-C", "★★★★☆", "⭐⭐⭐", "👩‍🍳👩‍🍳"],
        ["CVE-2024-3094", "SN48-7719-QX", "4F7K-99QZ-1B3C", "A-1234-56", "732 829 320 00074"],
        ["+49 171 555-0199", "0171-555 0199", "(030) 5550199", "+33 1 99 00 47 32", "01 99 00 47 32", "(555) 010-9999"],
        ["Goethestraße 21b, 10623 Berlin", "Lindenweg 14", "Kleine Rosenstr. 3", "Karl-Marx-Allee 1, 10178 Berlin"],
        ["221B Baker Street, London NW1 6XE", "14 Elm Road", "10 Downing Street", "5 Martin Luther King Ave"],
        ["21 bis, rue de la République, 69002 Lyon", "14, rue des Lilas", "3 avenue de l'Opéra", "12 place Bellecour"],
        ["+49 (0)171 5550199", "+491715550199", "0049 30 555019", "00493055501900", "0171/5550199", "555-010-9999"],
        [
            "❤️",
            "👨‍👩‍👧",
            "❤️‍🔥",
            "👍🏽",
            "🇩🇪",
            "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "1️⃣",
            "©️",
            "⌚",
        ],
    ],
    ids=lambda items: items[0],
)
def test_items_in_a_sentence(items):
    """Between words, and before the marks that end a sentence."""
    assert kept_items(" und ".join(items)) == items
    for mark in (".", ",", "!", ").", ": ja"):
        assert [kept_items(f"Siehe {item}{mark}") for item in items] == [[item] for item in items]
    assert kept_items("🇩🇪🇫🇷❤️") == ["🇩🇪", "🇫🇷", "❤️"]


@pytest.mark.parametrize(
    "text",
    [
        "e.g. and/or p.m. 3.5 McDonald iPhone U.S.A. done.Next z.B. d.h. MacBook YouTube PowerPoint eBay GmbH VMware",
        "01.02.2024 05/06/2024 2024-03-14 1.234.567 1,234.50 $1,250.50 10.30 Uhr 9:30 a.m. km/h 5-10 1990-2000",
        "i.e. u.a. o.ä. usw. bzw. vs. a.m./p.m. Mr./Mrs. er/sie Hin- und Rückfahrt G20-Gipfel A380 COVID-19 F-16",
        "007 1 000 000 0,5 00:30 08:30-10:00 decade facade 1980s 20er Straße.Dann Nr.5 St.Pauli ca.5 Art.3 no.One",
        "Wall Street 5th Avenue rue de la Paix 20 Road signs Der Weg 5 war lang Auf dem Weg 5 Kilometer Bahnhofstraße",
        "12 places libres, 3 quais, 2 chemins En 2010 Fleet Street Hauptplatz 1989er 5 rues de Paris",
        "word(s) Mitarbeiter(innen) O'Neill DiCaprio 2 + 3 = 5 +5 °C +12 -3 24/7 1.FC Jean-Luc",
        "the end.so be it END.The END.C",
        "1990-2000-2010 12:30:45 3:2:1 std::vector a::b 1234 5678 2019 2020 2021 EU27 MUST STOP THIS NOW "
        "123456789.50 12-24-36 COVID-19-IMPFUNG A-B-C U-BAHN-LINIE-5 1-2-Fly 732 829 320",
    ],
)
def test_ordinary_text_has_no_items(text):
    assert kept_items(text) == []


@pytest.mark.parametrize(
    "unit",
    ["a.", "a-", "a@", "a_a.", "://(", "://a(b", "www.(", "1.", "1-", "1 ", "+1", "0", "(0", "a_",
     "aA", "Aa", "a/", "/a", "a\\", "{", "<a", "`a", "[a",
     "*", "%1", "&a", "www.", "a.b/", "ab.c", "😀\u200d", "a1", "--a", "#",
     "1-1", "a:", "a::", "1111 ", "AA11", "AA11 ", "1A", "A-", "1-A-", "A1-", "10.1000/"],
)  # fmt: skip
def test_the_time_grows_with_the_length_and_not_faster(unit):
    """A pattern that retries from each place would take forever on a text of this length."""
    assert isinstance(kept_items(unit * (50_000 // len(unit)) + "\n"), list)


PIECES = ["a", "B", "ß", "1", "0", ".", "/", "\\", "@", "_", "-", " ", "(", ")", "{", "}", "<", ">", "%s", "+", "www.",
          "http://", ".json", ".de", "❤", "\ufe0f", "\u200d", "🇩", "👨", "日", "\n"]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_an_item_has_no_spaces_at_its_ends(text):
    items = kept_items(text)
    assert all(item and item == item.strip() for item in items)


def test_bank_codes_and_time_zones_are_known_by_the_words_before_them():
    text = "BIC AGRIFRPP, SWIFT: BARCGB22XXX, at 14:35 GMT or 9 a.m. EST, in GMT and BARCLAYS."
    assert kept_items(text) == ["AGRIFRPP", "BARCGB22XXX", "GMT", "EST"]


def test_thousands_are_not_a_telephone_number():
    assert kept_items("$ 5 010 000,00 $, 1 012 345 and 2\u00a0034\u00a0567") == []
