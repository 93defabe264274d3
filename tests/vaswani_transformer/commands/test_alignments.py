"""`vaswani translate --alignments`."""

from tiny_checkpoint import PAIRS

from vaswani_transformer.commands.lines import moses


SENTENCES = list(PAIRS)


def test_moses_counts_words_between_spaces():
    source, translation = "I don't know.", "Ich weiß es nicht."
    links = [((0, 1), (0, 3)), ((8, 12), (4, 8)), ((8, 12), (9, 11)), ((2, 7), (12, 17)), ((12, 13), (17, 18))]
    assert moses(source, translation, links) == "0-0 1-3 2-1 2-2 2-3"


def test_the_command_adds_a_column(translate, loaded, monkeypatch):
    head = {"layer": 0, "head": 1, "when": "read"}
    monkeypatch.setattr(loaded.model.generation_config, "alignment_head", head, raising=False)
    result = translate("--alignments", "--scores", *SENTENCES, "")
    assert result.stderr == ""
    *lines, empty = result.stdout.splitlines()
    for text, line in zip(SENTENCES, lines, strict=True):
        _, translation, links = line.split("\t")
        assert translation == PAIRS[text]
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert {j for _, j in pairs} == set(range(len(translation.split())))
        assert {i for i, _ in pairs} <= set(range(len(text.split())))
    assert empty == "0.0000\t\t"


def test_the_command_says_what_is_missing(translate):
    result = translate("--alignments", SENTENCES[0])
    assert result.exit_code == 1 and "alignment_head" in result.stderr
