"""Signs of a bad translation."""

import pytest

from vaswani_transformer.model import lemmas_vaswani
from vaswani_transformer.model.checks_vaswani import (
    count_repetitions,
    differing_numbers,
    find_problems,
    is_person,
    required_forms,
)


@pytest.mark.parametrize(
    "source, translation",
    [
        ("A man rides a bicycle.", "Ein Mann fährt Fahrrad."),
        ("It costs 1,234.50 euros.", "Es kostet 1.234,50 Euro."),
        ("In 1990, 12,000 people came.", "En 1990, 12\u202f000 personnes sont venues."),
        ("Two of the 3 dogs.", "Zwei der drei Hunde."),
        ("He has twelve.", "Er hat 12."),
        ("It starts at 7:30 p.m.", "Es beginnt um 19.30 Uhr."),
        ("On 05/06.", "Am 5.6."),
        ("No, no, no, no!", "Nein, nein, nein, nein!"),
        ("See https://a.org/b (<b>here</b>).", "Siehe https://a.org/b (<b>hier</b>)."),
        ("Yes", "Ja"),
        ("Add 1.5 kg, 20% and 3 m.", "Fügen Sie 1,5 kg, 20 Prozent und 3 Meter hinzu."),
        ("A 5-km run at 1,500 m and 30 °C.", "Une course de 5\u00a0km à 1\u202f500 m et 30 degrés."),
        ("It is 30 cm long.", "Es ist 30 Zentimeter lang."),
        ("{{ days }} left on 10.0.0.1 👩‍🍳", "Noch {{ days }} auf 10.0.0.1 👩‍🍳"),
    ],
)
def test_good_translations_have_no_problems(source, translation):
    assert find_problems(source, translation) == []
    is_french = any(word in translation for word in ("Une ", " personnes "))
    assert find_problems(source, translation, ("en", "fr" if is_french else "de")) == []


@pytest.mark.parametrize(
    "source, translation, problem",
    [
        ("Hello there.", "", "empty"),
        ("Hello there.", "...", "empty"),
        ("Hello.", "Hallo, " * 20, "much longer"),
        ("A man rides a bicycle through the park. " * 4, "Ein Mann.", "much shorter"),
        ("I am tired of it.", "Ich bin es es es es leid.", "repeats"),
        ("I am tired of it all the time.", "Ich bin es leid, " * 4, "repeats"),
        ("It is a question of law.", "Es ist eine Rechtsrechtsrechtsrechtsfrage.", "repeats"),
        ("In 1985 it was.", "Es war 1958.", "1985 is missing from the translation; 1958 is not in the source"),
        ("I have 17 cats.", "Ich habe Katzen.", "17 is missing from the translation"),
        ("I have cats.", "Ich habe 17 Katzen.", "17 is not in the source"),
        ("I have 3 cats.", "Ich habe 8 Katzen.", "3 is missing from the translation; 8 is not in the source"),
        ("Write to me@x.org.", "Schreib an mich@x.org.", "me@x.org is missing"),
        ("{a} and {a} and %s", "{a} und %s", "{a} is missing"),
        ("Click <b>here</b>.", "Klicken Sie <b>hier.", "</b> is missing"),
        ("Run <code>npm install</code>.", "Starten Sie <code>npm-Installation</code>.", "</code> is missing"),
        ("Between **a** and **b**.", "Zwischen **a* und **b**.", "** is missing"),
        ("Please *do not* park.", "Bitte *nicht parken.", "* is missing"),
        ("See [the notes](a/b.html).", "Siehe die Notizen](a/b.html).", "[ is missing"),
        ("{{ days }} days", "{{ Tage }} Tage", "{{ days }} is missing"),
        ("%d%% used", "%d% benutzt", "%% is missing"),
        ("Port 1 of 10.0.0.138.", "Port 1 von 10.0.138.", "10.0.0.138 is missing"),
        ("Error 0x80070057.", "Fehler 0 80070057.", "0x80070057 is missing"),
        ("Call +33 1 99 00 47 32.", "Ruf +33 1 99,00 47 32 an.", "+33 1 99 00 47 32 is missing"),
        ("The :name field", "Das Feld : Name", ":name is missing"),
        ("Dinner 👩‍🍳!", "Essen 👩!", "👩‍🍳 is missing"),
        ("Food ★★★★☆", "Essen ★★★★★☆", "★★★★☆ is missing"),
        ("Lol 🤣🤣🤣", "Lol 🤣🤣🤣🤣", "🤣🤣🤣 is missing"),
        ("Take 500 mg twice.", "Nimm zweimal 500 Tabletten.", "500 mg is missing"),
        ("It is 175 cm wide.", "Es ist 175 km breit.", "175 cm is missing"),
        ("Tomás left.", "Tom\ufffds ging.", "broken"),
    ],
)  # fmt: skip
def test_problems_are_described(source, translation, problem):
    assert problem in "; ".join(find_problems(source, translation))


@pytest.mark.parametrize(
    "languages, source, translation",
    [
        ("en de", "It costs $1,234.56.", "Es kostet 1.234,56 $."),
        ("en fr", "It costs $1,234.56.", "Cela coûte 1\u202f234,56 $."),
        ("en fr", "It costs $1,234.56.", "Cela coûte 1 234,56 dollars."),
        ("en de", "It costs 1,234.56 francs.", "Es kostet 1’234,56 Franken."),
        ("en de", "See you at 9:30 p.m.", "Bis 21:30 Uhr."),
        ("en de", "See you at 9:30 p.m.", "Bis halb zehn abends."),
        ("en fr", "See you at 9:30 p.m.", "À 21 h 30."),
        ("fr de", "À neuf heures et demie.", "Um halb zehn."),
        ("en de", "It is half past nine.", "Es ist halb zehn."),
        ("en fr", "It is a quarter to ten.", "Il est dix heures moins le quart."),
        ("de en", "Um Viertel nach acht.", "At a quarter past eight."),
        ("de en", "Freitag um 10 Uhr.", "Friday at 10 a.m."),
        ("de en", "Freitag um 22 Uhr.", "Friday at 10 p.m."),
        ("en de", "Open from 2 to 5 p.m.", "Geöffnet von 14 bis 17 Uhr."),
        ("en de", "From five to ten people.", "Fünf bis zehn Leute."),
        ("en fr", "It starts at 12 p.m.", "Cela commence à midi."),
        ("en de", "The 1st of 3.", "Der 1. von drei."),
        ("en fr", "The 1st of the 19th century.", "Le 1er du XIXe siècle."),
        ("en de", "The first and the twenty-fifth.", "Der erste und der fünfundzwanzigste."),
        ("en de", "On 14 March 2025.", "Am 14. März 2025."),
        ("en fr", "On March 14, 2025.", "Le 14 mars 2025."),
        ("en de", "On 3/14/2025.", "Am 14.3.2025."),
        ("en fr", "On 3/14/2025.", "Le 14 mars 2025."),
        (
            "de en",
            "Er kam am dritten Oktober, am Ende des 14. Novembers.",
            "He came on October 3, by the 14th of November.",
        ),
        ("en fr", "Seven days: from September 11 to 17 May 2010.", "Sept jours : du 11 septembre au 17/5/2010."),
        ("en de", "In May 2010 you may 3 times.", "Im Mai 2010 darfst du dreimal."),
        ("fr en", "Les 12 maisons et 5 mais.", "The 12 houses and 5 buts."),
        ("en de", "A walk in March and April.", "Ein Spaziergang im Frühling."),
        ("de en", "Um fünf vor halb neun.", "At twenty-five past eight."),
        ("en de", "It costs a dollar.", "Es kostet einen Dollar."),
        ("en de", "In the 1980s.", "In den 80er Jahren."),
        ("en de", "Add 120 g, 2 kg, 5 GB and 3 L.", "Nimm 120 G, 2 Kg, 5GB und 3 l."),
        ("en fr", "Add 2 kg and 5 GB.", "Ajoutez deux kilogrammes et 5 Go."),
        ("en fr", "20 % of 5 €.", "20 pour cent de 5 euros."),
        ("en de", "20 % of £5.", "20 Prozent von 5 Pfund."),
        ("en de", "Call 0171-555 0199.", "Ruf (0171) 5550199 an."),
        ("en de", "Version 2.14.1, [15,21] and [1].", "Version 2.14.1, [15,21] und [1]."),
        ("en de", "3.5 million people.", "3,5 Millionen Menschen."),
        ("en fr", "3.5 million people.", "3\u00a0500\u00a0000 personnes."),
        ("en de", "Eleven of 11 workers.", "11 von elf Arbeitern."),
        ("en fr", "Seventy-one and ninety-nine.", "Soixante et onze et quatre-vingt-dix-neuf."),
        ("en de", "Two hundred and thirty-five thousand.", "Zweihundertfünfunddreißigtausend."),
        ("de en", "Hundert oder tausend.", "A hundred or a thousand."),
        ("fr en", "Un vélo neuf, pour une heure.", "A new bicycle, for an hour."),
        ("en de", "Both, twice.", "Zwei, zweimal."),
        ("en de", "Two dogs.", "Beide Hunde."),
        ("en de", "From 12,000 to 16,000 rubles.", "12 bis 16 Tausend Rubel."),
        ("en fr", "Two hundred to 400 thousand.", "Entre deux cent et quatre cent mille."),
        ("en de", "Gaza's 1.7m people.", "Die 1,7 Millionen Einwohner."),
        ("en fr", "A $90-million project of £2.1bn.", "Un projet de 90 M$ et 2,1 Md£."),
        (
            "en de",
            "Five million people, in a few million years.",
            "Fünf Millionen Einwohner, in ein paar Millionen Jahren.",
        ),
        ("en fr", "About 2.5 million, for 1.5 hours.", "Environ 2 millions et demi, pendant 1h30."),
        ("en fr", "Within two weeks, after three decades.", "Dans les quinze jours, après trente ans."),
        ("de en", "Innerhalb von 14 Tagen.", "Within two weeks."),
        ("en fr", "They reached the last 16.", "Ils sont en 8es de finale."),
        ("de en", "Mit einem viereinhalb Meter langen Kleid.", "With a dress of 4.5 metres."),
        ("en de", "One and a half million people, 2½ years.", "Anderthalb Millionen Menschen, zweieinhalb Jahre."),
        (
            "en fr",
            "One and a half million people, two and a half years.",
            "Un million et demi de gens, deux ans et demi.",
        ),
        ("en de", "A year and a half ago.", "Vor 18 Monaten."),
        ("en de", "It costs six thousand million euros.", "Es kostet 6 Milliarden Euro."),
        ("en de", "The winter of 1998/99, from 2000-08.", "Der Winter 1998 und 1999, von 2000 bis 2008."),
        ("en fr", "In the 1950s and the eighties.", "Dans les années 50 et les années 1980."),
        ("en de", "In the first six months.", "Im ersten Halbjahr."),
        ("en de", "A couple of million.", "Ein paar Millionen."),
        ("en de", "Between 25% and 29.9%, 1.65m to 1.70m.", "Zwischen 25 und 29,9 %, 1,65 bis 1,70 m."),
        ("en de", "World War II, chapter 14.", "Der Zweite Weltkrieg, Kapitel XIV."),
        ("en fr", "Flight LH2490 on the B33.", "Le vol LH2490 sur la B 33."),
        ("en de", "Their fifth Euro in 2012.", "Die fünfte EM im Jahr 2012."),
        ("fr en", "Carlos et Nicolas.", "Karlos and Nikolas."),
        ("en de", "It weighs 12 lb 6 oz at 30 mph, on 45 m².", "Es wiegt 12 Pfund 6 Unzen bei 30 Meilen, auf 45 qm."),
        ("en de", "They reached the last 16.", "Sie sind im Achtelfinale."),
        ("en fr", "It costs £15/hr, 3 times/week.", "Cela coûte 15 £ de l'heure, 3 fois par semaine."),
        ("de en", "12 €/Std., 40 €/Woche, 5 €/m².", "€12 an hour, €40 weekly, €5 per square metre."),
        ("fr de", "Ouvert 24 h/24, 7 j/7, 3 €/h.", "24 h/24, 7 j/7 geöffnet, 3 € stündlich."),
        ("en fr", "Ocean's Eleven on BBC Two.", "Ocean's Eleven sur BBC Two."),
        ("en fr", "Three centimetres for four euros.", "Trois centimètres pour quatre euros."),
        ("en de", "It took six years.", "Nach einem sechsjährigen Kampf."),
        ("fr en", "Aucun des deux.", "Neither of them."),
        ("de en", "Lass es nicht außer Acht; es ist erst am Montag.", "Do not ignore it; it is not until Monday."),
    ],
)
def test_numbers_of_good_translations_are_equal(languages, source, translation):
    assert find_problems(source, translation, tuple(languages.split())) == []


@pytest.mark.parametrize(
    "languages, source, translation, missing, extra",
    [
        ("en de", "It costs $1,234.56.", "Es kostet $1.234.56.", ["1,234.56"], ["1.234.56"]),
        ("en fr", "It costs 17 billion.", "Cela coûte 17 millions.", ["17 billion"], ["17 millions"]),
        ("en fr", "It costs $4 billion.", "Cela coûte 4 M$.", ["4 billion"], ["4"]),
        ("en de", "From 12 to 16 thousand.", "12.000 bis 17.000.", ["16 thousand"], ["17.000"]),
        ("en de", "Within two weeks.", "Innerhalb von 10 Tagen.", ["two"], ["10"]),
        ("de en", "Vor zweieinhalb Jahren.", "Two years ago.", ["zweieinhalb"], []),
        ("de en", "Rund anderthalb Millionen Menschen.", "Other than million people.", ["anderthalb Millionen"], []),
        ("fr en", "Il y a deux ans et demi.", "Two years ago.", ["deux ans et demi"], []),
        ("de en", "König Karl III.", "King Karl II.", ["III"], []),
        ("de en", "Der Flug LH2490.", "Flight 2490.", ["LH2490"], ["2490"]),
        ("en de", "From 2000-08.", "Von 2000 bis 2009.", ["08"], ["2009"]),
        (
            "en de",
            "It costs six thousand million.",
            "Es kostet 6 Millionen.",
            ["six thousand million"],
            ["6 Millionen"],
        ),
        ("en fr", "Within 1.5 hours.", "Pendant 2h30.", ["1.5"], ["2h30"]),
        ("en de", "It costs 1,234 euros.", "Es kostet 1,2 Euro.", ["1,234"], ["1,2"]),
        ("en fr", "It costs $1,250.50.", "Cela coûte 150,250.50 $.", ["1,250.50"], ["150,250.50"]),
        ("en de", "The fee of 250 euros is due at 5 p.m.", "Die 520 Euro sind um 17 Uhr fällig.", ["250"], ["520"]),
        ("en fr", "14 March 2025, 9:30 a.m.", "2025 mars, 9h30", ["14"], []),
        ("en de", "It is half past nine.", "Es ist halb acht.", ["half past nine"], []),
        ("en de", "It is half past nine.", "Es ist halb neun.", ["half past nine"], []),
        ("de en", "Freitag um 10 Uhr.", "Friday at 10 p.m.", ["10 Uhr"], ["10 p.m."]),
        ("fr en", "À 10 heures.", "At 10 p.m.", ["10 heures"], ["10 p.m."]),
        ("en de", "On 3/14/2025.", "Am 15.3.2025.", ["3/14/2025"], ["15.3.2025"]),
        ("de fr", "Am 5. Mai 1999.", "Le 5 juin 1999.", ["Mai"], []),
        ("en fr", "14 March 2025.", "Le 14 March 2025.", ["March"], []),
        ("de en", "Am dritten Oktober.", "On October 4.", ["dritten"], ["4"]),
        ("de en", "Um fünf vor halb neun.", "At 8:35.", ["fünf vor halb neun"], ["8:35"]),
        ("en de", "It costs $1,250.50.", "Es kostet $1 1.250,50.", [], ["1"]),
        ("en de", "Version 2.14.1.", "Version 2.14.2.", ["2.14.1"], ["2.14.2"]),
        ("en de", "The set [15,21].", "Die Menge [15.21].", ["[15,21]"], []),
        ("en fr", "Eleven workers left.", "Les élévateurs sont partis.", ["Eleven"], []),
        ("de en", "Es waren tausend.", "There were.", ["tausend"], []),
        ("en de", "3.5 million people.", "3,5 Milliarden Menschen.", ["3.5 million"], ["3,5 Milliarden"]),
        ("en de", "I have 3 cats.", "Ich habe Katzen.", ["3"], []),
    ],
)
def test_numbers_of_bad_translations_differ(languages, source, translation, missing, extra):
    differing = differing_numbers(source, translation, tuple(languages.split()))
    assert [[number.text for number in numbers] for numbers in differing] == [missing, extra]


def test_a_telephone_number_must_keep_its_digits():
    source = "Call 0171-555 0199."
    assert find_problems(source, "Ruf (0171) 5550199 an.", ("en", "de")) == []
    assert find_problems(source, "Ruf 0171-555 019 an.", ("en", "de")) == [
        "0171-555 0199 is missing from the translation"
    ]


@pytest.mark.parametrize(
    "languages, source, translation, missing",
    [
        ("en de", "Add 200 g flour.", "200 Gour hinzufügen.", "200 g"),
        ("fr en", "200 g de farine.", "200 flour g.", "200 g"),
        ("en de", "It costs $200.", "Es kostet 200 €.", "$"),
        ("en de", "A 5-km run.", "Ein Lauf von 5 m.", "5-km"),
        ("de en", "Das kostet zwanzig Euro.", "It costs twenty.", "Euro"),
        ("en fr", "It lost 2.4 billion dollars.", "Elle a perdu 2,4 milliards.", "dollars"),
        ("en de", "It weighs 12 lb.", "Es wiegt 12.", "12 lb"),
        ("fr en", "Un appartement de 45 m².", "An apartment of 45.", "45 m²"),
        ("en de", "The rent is £15/hr.", "Die Miete beträgt 15 £.", "15/hr"),
        ("de fr", "Es kostet 12 €/m².", "Cela coûte 12 €.", "12 €/m²"),
        ("fr en", "Une chambre à 80 €/nuit.", "A room for €80.", "80 €/nuit"),
    ],
)
def test_units_must_remain(languages, source, translation, missing):
    assert find_problems(source, translation, tuple(languages.split())) == [
        f"{missing} is missing from the translation"
    ]


@pytest.mark.parametrize(
    "languages, source, translation, missing",
    [
        ("en de", "Happy birthday, Lisa!", "Alles Gute zum Geburtstag!", ["Lisa"]),
        ("de en", "Familie Schröder fährt in die Berge.", "The family goes to the mountains.", ["Schröder"]),
        ("de en", "Herr Dr. Obermüller ist da.", "He is here.", ["Obermüller"]),
        ("en fr", "Ask Mrs Ada Byron.", "Demandez à Ada.", ["Byron"]),
        ("en de", "Lena Brandvold scored twice.", "Lena traf zweimal.", ["Brandvold"]),
        ("en fr", "She met Özdemir.", "Elle l'a rencontré.", ["Özdemir"]),
        ("fr en", "M. Dupont est parti.", "He has left.", ["Dupont"]),
        ("fr en", "Il habite à Saint-Étienne.", "He lives in St.", ["Étienne"]),
        ("fr en", "Au nom du Saint-Esprit, à Saint-Laurent.", "In the name of the Holy Spirit, in St. Laurent.", []),
        ("en fr", "The journey through the Talysh Mountains.", "Le voyage via les montagnes T analyh.", ["Talysh"]),
        ("en de", "The path, Brandvold said, led to Kvikkjokk.", "Der Weg führte.", ["Brandvold", "Kvikkjokk"]),
        ("en de", "It is Svetlana Savitskaya of Algeria.", "Es ist Swetlana Sawizkaja aus Algerien.", []),
        ("en de", "Kvikkjokks are well-known, in Vienna.", "Sie sind in Wien bekannt.", []),
        ("fr en", "Le car pour Guingamp part d'Ancenis.", "The car to share.", ["Guingamp", "Ancenis"]),
        ("fr en", "Le car d'Angleterre vient des Alpes, jeudi à Quimper.", "The English bus to Quimper.", []),
        ("en de", "The London-based Kvikkjokk-wide trip.", "Die Reise.", []),
        ("en ru", "Happy birthday, Lisa Kvikkjokk!", "С днём рождения, Лиза!", []),
        ("en ja", "Mr Schröder has π.", "シュレーダーさんは元気です。", []),
        (" ", "Happy birthday, Lisa!", "Alles Gute zum Geburtstag!", ["Lisa"]),
        ("en de", "On Friday the French President saw Vienna.", "Am Freitag sah der Präsident Wien.", []),
        ("en de", "Happy birthday, Lisa!", "Alles Gute zum Geburtstag, Lisas Mutter!", []),
        ("en fr", "Mr Schröder is in Zürich.", "M. Schroeder est à Zurich.", []),
        ("de en", "Ich weiß, dass Tom Hilfe braucht.", "I know that Tom needs help.", []),
        ("de en", "Jürgen Schröder wohnt hier.", "Jürgen Sticks lives here.", ["Schröder"]),
        ("de en", "Jürgen Schröder wohnt hier.", "Jürgen Schroeder lives here.", []),
        ("fr en", "La taille M Chemise.", "The size of the shirt.", []),
        ("en fr", "Philip lives here.", "Philiporris habite ici.", ["Philip"]),
        ("de en", "Jürgen wohnt hier.", "Jure lives here.", ["Jürgen"]),
        ("fr en", "Élodie et Jürgen chantent.", "Elodie's friend sings with Jurgen.", []),
        ("en de", "Mary, Peter's mother, calls Christopher.", "Maria, Peters Mutter, ruft Christophe an.", []),
        ("en fr", "This is a Christian church.", "C'est une église chrétienne.", []),
        ("fr en", "Le pape François est là.", "Pope Francis is here.", []),
    ],
)
def test_names_must_remain(languages, source, translation, missing):
    pair = tuple(languages.split()) or (None, None)
    assert find_problems(source, translation, pair) == [f"{name} is missing from the translation" for name in missing]


def test_without_a_dictionary_unknown_words_are_not_names(monkeypatch):
    monkeypatch.setattr(lemmas_vaswani, "simplemma", None)
    assert find_problems("He went to Kvikkjokk.", "Er ging.", ("en", "de")) == []


@pytest.mark.parametrize(
    "language, text, is_name",
    [
        ("de", "Jürgen Schröder", True), ("de", "Anna Maria Lindqvist,", True), ("de", "Tom", False),
        ("de", "Tom hilft", False), ("de", "Max Lautstärke", False), ("de", "Neues Rathaus", False),
        ("fr", "Étienne Durand", True), ("fr", "Pauline Lefèvre", True), ("fr", "Tour Eiffel", False),
        ("fr", "Julie Arrive", False), ("en", "Sarah Lindqvist", True), ("en", "Adam Optimizer", False),
        ("en", "Peter Settings", False), ("en", "SARAH LINDQVIST", False), ("en", "Sarah Lindqvist left", False),
        (None, "Jürgen Schröder", True), (None, "Étienne Durand", False),
    ],
)  # fmt: skip
def test_texts_that_are_only_a_name(language, text, is_name):
    assert is_person(text, language) == is_name


def test_missing_numbers_are_as_the_source_writes_them():
    missing, extra = differing_numbers("It costs 1,234.50 or 77.", "Es kostet 77.")
    assert ([number.text for number in missing], extra) == (["1,234.50"], [])


def test_a_better_translation_must_contain_missing_numbers_and_what_was_there():
    source = "Add 1.5 kg of {x} and 200 ml at www.a.org/b by 17:30, 12 times <b>or</b> 9."
    translation = "1,5 Kilo {x} und 200 ml bei www.a.org/b um 17:30, 12 Mal <b>oder</b> 8."
    required = [("9",), ("www.a.org/b",), ("200 ml",), ("17:30",), ("12",)]
    assert required_forms(source, translation) == required
    assert required_forms(source, translation, ("en", "de")) == required
    assert required_forms("It is 1.5 kg.", "Es sind 1.5 Stück.", ("en", "de")) == [("1.5 kg", "1,5 kg")]


def test_a_better_translation_writes_numbers_as_its_language_does():
    assert required_forms("eleven of 1,234.50", "von", ("en", "de")) == [
        ("elf", "11"),
        ("1.234,50", "1 234,50", "1234,50"),
    ]
    assert required_forms("Freitag um 10 Uhr.", "Friday.", ("de", "en")) == [("10 a.m.",)]
    assert required_forms("at 9:30 p.m.", "à", ("en", "fr")) == [("21 h 30",)]
    assert required_forms("Am 5. Mai.", "Le 5 juin.", ("de", "fr")) == [("mai",), ("5",)]
    assert required_forms("half past nine", "halb acht", ("en", "de")) == []  # in the morning or in the evening


def test_chinese_is_shorter():
    source = (
        "The quick brown fox jumps over the lazy dog, and then it runs away through the old park near the river. " * 4
    )
    translation = "敏捷的棕色狐狸跳过了懒狗，然后穿过河边的老公园跑走了。" * 4
    assert len(source) > 2.5 * len(translation) + 40
    assert find_problems(source, translation, ("en", "zh")) == find_problems(translation, source, ("zh", "en")) == []
    assert "much shorter" in find_problems(source, translation[:27], ("en", "zh"))[0]


def test_repetition_is_counted():
    assert [count_repetitions(text) for text in ("", "a", "a b c", "a a", "a b a b a b", "so so so so so")] == [
        1,
        1,
        1,
        2,
        3,
        5,
    ]
