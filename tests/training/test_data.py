"""Reading parallel text, setting pairs apart, the cache of token ids, mixing by weight, and streams."""

import gzip
import json
import lzma
import os
import signal
from collections import Counter
from itertools import islice, pairwise
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from toy_data import toy_pairs
from transformers import PreTrainedTokenizerFast
from waiting import TIMEOUT

from training import data as data_module
from training.data import (
    CachedCorpus,
    StreamedCorpus,
    TokenisedPairs,
    cached,
    cut_pairs,
    in_memory,
    tokenise,
)
from training.parallel_text import held_out_pairs, hold_out, iterate_pairs, read_pairs, training_pairs
from training.recipe import Data, Source
from training.subwords import Merges
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer


PAIRS = list(dict.fromkeys(toy_pairs(60)))


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer((text for pair in toy_pairs(300) for text in pair), 300)


def write(path, pairs=PAIRS):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return Source(path=path.name)


def filters(**settings) -> Data:
    """What `tokenise` asks of a recipe's data."""
    return Data(train=[Source(path="text.tsv")], **settings)


def ids(pairs: TokenisedPairs, indices=None) -> list[tuple[list[int], list[int]]]:
    return [tuple(side.tolist() for side in pairs[i]) for i in (range(len(pairs)) if indices is None else indices)]


# Reading -------------------------------------------------------------------------------------------------------------


def zst(data: bytes) -> bytes:
    """Two frames one after another, as `pzstd` and `cat` make them."""
    half = data.index(b"\n", len(data) // 2) + 1
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))


@pytest.mark.parametrize(
    "ending, compress", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zst)]
)
def test_reads_tab_separated_text_however_compressed(tmp_path, ending, compress):
    pairs = [("ä b", "ü\u2028 d"), ("e\x85f", "g"), *PAIRS]
    text = "".join(f"{number}\t{s}\t{t}\r\n" for number, (s, t) in enumerate(pairs))
    (tmp_path / f"text.tsv{ending}").write_bytes(compress(text.encode()))
    assert read_pairs(Source(path=f"text.tsv{ending}", source_column=1, target_column=2), tmp_path) == pairs


def test_reads_two_plain_files_and_names_the_shorter(tmp_path):
    (tmp_path / "text.en.gz").write_bytes(gzip.compress(b"one\ttab\n\nthree"))
    (tmp_path / "text.de").write_text("eins\n\ndrei\n", encoding="utf-8")
    source = Source(path="text.en.gz", target_path="text.de")
    assert read_pairs(source, tmp_path) == [("one\ttab", "eins"), ("", ""), ("three", "drei")]
    with (tmp_path / "text.de").open("a") as file:
        file.write("vier\n")
    with pytest.raises(ValueError, match=r"text\.en\.gz has fewer lines than .*text\.de \(it ends before line 4\)"):
        read_pairs(source, tmp_path)


def test_reads_json_lines_with_columns_inside_others(tmp_path):
    rows = [{"translation": {"en": s, "de": t}, "meta": {"kind": "ab"[i % 2]}} for i, (s, t) in enumerate(PAIRS)]
    (tmp_path / "text.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    source = Source(path="text.jsonl.xz", source_column="translation.en", target_column="translation.de")
    assert read_pairs(source, tmp_path) == PAIRS
    source.tag_column, source.tags = "meta.kind", ["b"]
    assert read_pairs(source, tmp_path) == PAIRS[1::2]


@pytest.mark.parametrize("streaming", [False, True])
def test_reads_a_data_set_folder_as_the_hub_holds_it(tmp_path, monkeypatch, streaming):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "corpus" / "data").mkdir(parents=True)
    rows = [
        {"translation": {"en": s, "de": t}, "quality": "high" if i < 9 else "low"} for i, (s, t) in enumerate(PAIRS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "corpus" / "data" / "train-00000-of-00001.parquet")
    source = Source(
        dataset=str(tmp_path / "corpus"),
        source_column="translation.en",
        target_column="translation.de",
        tag_column="quality",
        tags=["high"],
    )
    assert list(iterate_pairs(source, tmp_path, streaming)) == PAIRS[:9]
    source.target_column = "translation.fr"
    with pytest.raises(ValueError, match=r"corpus, example 1 has no 'translation.fr'"):
        next(iterate_pairs(source, tmp_path, streaming))


def test_keeps_tagged_lines_only(tmp_path):
    lines = [f"{s}\t{t}\t{['good', 'bad', 'fair'][i % 3]}\n" for i, (s, t) in enumerate(PAIRS)]
    (tmp_path / "text.tsv").write_text("".join(lines), encoding="utf-8")
    source = Source(path="text.tsv", tag_column=2, tags=["good", "fair"])
    assert read_pairs(source, tmp_path) == [pair for i, pair in enumerate(PAIRS) if i % 3 != 1]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("bad.tsv", b"a\tb\nc\n", r"bad\.tsv, line 2 has 1 column; column 1 is missing"),
        ("bad.tsv", b"a\tb\nf\xfcr\tfor\n", r"bad\.tsv, line 2: not UTF-8 \(byte 0xfc\)"),
        ("bad.jsonl", b'{"en": "a", "de": "b"}\n{"en": "a"}\n', r"bad\.jsonl, line 2 has no 'de'"),
        ("bad.jsonl", b'{"en": "a", "de": "b"}\n\n{"en": 1, "de": "b"}\n', r"bad\.jsonl, line 2 is not valid JSON"),
        ("bad.jsonl", b'{"en": 1, "de": "b"}\n', r"bad\.jsonl, line 1 has 1 in 'en', which is not text"),
        ("bad.tsv.gz", gzip.compress(b"a\tb\n" * 9)[:-9], r"bad\.tsv\.gz cannot be read after line"),
        ("bad.tsv.zst", b"no zst at all", r"bad\.tsv\.zst cannot be read after line 0"),
    ],
    ids=["too few columns", "Latin-1", "no such key", "no JSON", "no text", "cut off", "not compressed"],
)
def test_bad_lines_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    columns = {"source_column": "en", "target_column": "de"} if "json" in name else {}
    with pytest.raises(ValueError, match=message):
        read_pairs(Source(path=name, **columns), tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.tsv\.xz"):
        read_pairs(Source(path="none.tsv.xz"), tmp_path)


def test_reads_no_further_than_asked(tmp_path):
    (tmp_path / "text.tsv").write_bytes("".join(f"{s}\t{t}\n" for s, t in PAIRS[:5]).encode() + b"\xff" * 100_000)
    assert list(islice(iterate_pairs(Source(path="text.tsv"), tmp_path), 5)) == PAIRS[:5]


# Setting apart -------------------------------------------------------------------------------------------------------


def test_holds_out_so_many_sources_by_seed():
    pairs = list(toy_pairs(500))
    held_out = hold_out(pairs, 40, seed=3)
    assert len(held_out) == len({source for source, _ in held_out}) == 40
    assert set(held_out) <= set(pairs)
    assert hold_out(pairs, 40, seed=3) == held_out
    assert hold_out(pairs, 40, seed=4) != held_out


def test_wanted_pairs_are_not_held_out_and_change_no_other():
    pairs = list(dict.fromkeys(toy_pairs(500)))
    before = hold_out(pairs, 40, seed=3)
    wanted = {before[0][0]}, {before[1][1]}
    after = hold_out(pairs, 40, seed=3, wanted=wanted)
    assert [pair for pair in before if pair[0] not in wanted[0] and pair[1] not in wanted[1]] == after[: len(after) - 2]
    assert len(after) == 40 and not {source for source, _ in after} & wanted[0]


def test_held_out_pairs_come_in_through_no_source(tmp_path, tokenizer):
    """Not as they are, nor one side of them with another."""
    write(tmp_path / "one.tsv")
    write(tmp_path / "two.tsv", [*PAIRS, *((s, "anderes.") for s, _ in PAIRS), *(("other.", t) for _, t in PAIRS)])
    data = Data(train=[Source(path="one.tsv", held_out=15), Source(path="two.tsv")])
    [(name, held_out)] = held_out_pairs(data, tmp_path, seed=1).items()
    assert name == "one.tsv, held out" and len(held_out) == 15
    sources, targets = (set(side) for side in zip(*held_out, strict=True))
    left = [pair for source in data.train for pair in training_pairs(source, tmp_path, held_out)]
    everything = [pair for source in data.train for pair in read_pairs(source, tmp_path)]
    assert left == [(s, t) for s, t in everything if s not in sources and t not in targets]
    assert len(left) <= len(everything) - 4 * 15

    corpus = CachedCorpus(data, tmp_path, tokenizer, held_out, tmp_path / "cache", seed=1)
    texts = [tuple(tokenizer.decode(side, skip_special_tokens=True) for side in pair) for pair in ids(corpus.pairs)]
    assert set(texts) == set(left)


def test_what_a_heavier_source_teaches_is_not_held_out(tmp_path):
    write(tmp_path / "corpus.tsv")
    write(tmp_path / "list.tsv", [(PAIRS[0][0], "anderes."), ("other.", PAIRS[1][1])])
    sources = [Source(path="corpus.tsv", held_out=18), Source(path="list.tsv", weight=2)]
    for weight, kept in ((2, 2), (1, 0)):
        sources[1].weight = weight
        [held_out] = held_out_pairs(Data(train=sources), tmp_path, seed=1).values()
        assert len(set(PAIRS[:2]) - set(held_out)) >= kept
        assert len(held_out) == 18


# Tokenising and the cache ----------------------------------------------------------------------------------------


def test_filters_count_what_they_drop():
    tokenizer = learn_tokenizer(["ab"] * 5, 259)  # every letter of the pairs is a token, so is the space in front
    pairs = [
        ("xyz", "xyz"),
        ("", "x"),
        ("x", ""),
        ("x" * 97, "x" * 97),  # with space and </s>: 99
        ("x" * 98, "x" * 99),
        ("x" * 40, "x"),
        ("x" * 8, "x"),  # 10 tokens and 3: too short for the ratio to matter
        ("x" * 9, "xx"),  # 11 and 4
        ("x" * 10, "xx"),  # 12 and 4: just the ratio
        ("x" * 11, "xx"),
    ]
    dropped = Counter()
    batches = list(tokenise(pairs, tokenizer, filters(max_length=100, max_ratio=3.0), dropped, at_once=3))
    kept = TokenisedPairs.from_tables([pa.Table.from_batches(batches)])
    assert [tuple(lengths) for lengths in kept.lengths.tolist()] == [(5, 5), (99, 99), (10, 3), (11, 4), (12, 4)]
    assert dropped == {"empty": 2, "longer than max_length": 1, "beyond max_ratio": 2}


def test_tokens_are_those_of_each_side_and_none_is_padding():
    """Though the tokenizer has just padded others, as validation makes it do."""
    texts = ["ab ba", "ab", "a b a b"]
    source, target = (learn_tokenizer([letters] * 5, 262).backend_tokenizer for letters in ("ab ba", "ba ab aab"))
    tokenizer = VaswaniTokenizer.from_sides(source, target, pad_token="<pad>", eos_token="</s>")
    expected = [(tokenizer(text).input_ids, tokenizer(text_target=text).input_ids) for text in texts]
    tokenizer(texts, text_target=texts, padding=True)
    pairs_in_memory = in_memory([(text, text) for text in texts], tokenizer, filters(max_ratio=1e9))
    assert ids(pairs_in_memory) == expected
    assert any(source != target for source, target in expected)


@settings(max_examples=40)
@given(pairs=st.lists(st.tuples(*2 * [st.text(max_size=30)]), min_size=1, max_size=20), at=st.integers(1, 9))
def test_the_cache_holds_what_the_tokenizer_says(tmp_path_factory, tokenizer, pairs, at):
    """Read from the disk, in batches of any size, as the tokenizer encodes each text alone."""
    folder = tmp_path_factory.mktemp("cache")
    data = filters(max_length=10_000, max_ratio=1e9)
    expected = [tuple(tokenizer(text).input_ids for text in pair) for pair in pairs if all(pair)]
    file = folder / "pairs.arrow"
    with pa.OSFile(str(file), "wb") as sink:
        batches = list(tokenise(pairs, tokenizer, data, Counter(), at_once=at))
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    table = pa.ipc.open_stream(pa.memory_map(str(file))).read_all()
    mapped, keys = TokenisedPairs.from_tables([table]), table["key"].to_pylist()
    assert ids(mapped) == ids(in_memory(pairs, tokenizer, data)) == expected
    assert mapped.lengths.tolist() == [[len(s), len(t)] for s, t in expected]
    assert [expected.index(pair) for pair in expected] == [keys.index(key) for key in keys]


def test_indices_count_across_sources(tmp_path, tokenizer):
    parts = PAIRS[:7], PAIRS[7:8], PAIRS[8:]
    data = Data(train=[write(tmp_path / f"{i}.tsv", part) for i, part in enumerate(parts)])
    corpus = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "cache", seed=1)
    assert ids(corpus.pairs) == [tuple(tokenizer(text).input_ids for text in pair) for pair in PAIRS]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The pairs that each call of `tokenise` was given."""
    calls = []

    def counting(pairs, *arguments):
        pairs = list(pairs)
        calls.append(pairs)
        return tokenise(pairs, *arguments)

    monkeypatch.setattr(data_module, "tokenise", counting)
    return calls


def test_text_is_tokenised_once(tmp_path, tokenizer, written):
    pairs = [*PAIRS, ("", "leer"), ("one " * 200, "eins")]
    data = Data(train=[write(tmp_path / "text.tsv", pairs)])
    arguments = tmp_path, tokenizer, data, [], tmp_path / "cache"
    table, dropped = cached(data.train[0], *arguments)
    again, dropped_again = cached(data.train[0], *arguments)
    assert written == [pairs]
    assert table == again and len(table) == len(PAIRS)
    assert dropped == dropped_again == {"empty": 1, "longer than max_length": 1}


@pytest.mark.parametrize(
    "change",
    ["other text", "another file", "max_length", "max_ratio", "a pair held out", "a tag", "a column", "tokenizer"],
)
def test_what_the_cache_depends_on_makes_a_new_one(tmp_path, tokenizer, written, change):
    source = Source(path="text.tsv", source_column=0, target_column=1, tag_column=0, tags=["one"])
    for name in ("text.tsv", "other.tsv"):
        (tmp_path / name).write_text(f"one\teins\tI\ntwo\tzwei\t{name}\n", encoding="utf-8")
    data, held_out = Data(train=[source]), []
    cached(source, tmp_path, tokenizer, data, held_out, tmp_path / "cache")
    if change == "other text":
        (tmp_path / "text.tsv").write_text("one\tzwei\tI\ntwo\teins\tII\n", encoding="utf-8")
    elif change == "another file":
        source.path = "other.tsv"
    elif change == "a pair held out":
        held_out = [("two", "zwei")]
    elif change == "a tag":
        source.tags = ["one", "two"]
    elif change == "a column":
        source.target_column = 2
    elif change == "tokenizer":
        tokenizer = learn_tokenizer((source for source, _ in toy_pairs(300)), 280)
    else:
        setattr(data, change, 2)
        source.tags = ["one"]
    cached(source, tmp_path, tokenizer, data, held_out, tmp_path / "cache")
    assert len(written) == len(list((tmp_path / "cache").glob("*.arrow"))) == 2


def test_a_copy_of_the_data_uses_the_same_cache(tmp_path, tokenizer, written):
    for place, time in (("here", 1), ("there", 2)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "text.tsv").write_text("one\teins\ntwo\tzwei\n", encoding="utf-8")
        os.utime(tmp_path / place / "text.tsv", ns=(time, time))
        data = Data(train=[Source(path="text.tsv")])
        cached(data.train[0], tmp_path / place, tokenizer, data, [], tmp_path / "cache")
    assert len(written) == 1


def _write_until_killed(folder, tokenizer, data):
    def broken(pairs, *arguments):
        yield from islice(tokenise(pairs, *arguments, at_once=10), 3)
        os.kill(os.getpid(), signal.SIGKILL)

    data_module.tokenise = broken
    cached(data.train[0], folder, tokenizer, data, [], folder / "cache")


def test_a_killed_writer_leaves_nothing_that_is_taken_for_whole(tmp_path, tokenizer):
    data = Data(train=[write(tmp_path / "text.tsv")])
    # Forked, so as not to wait for imports; the child does nothing but write and die.
    process = get_context("fork").Process(target=_write_until_killed, args=(tmp_path, tokenizer, data))
    process.start()
    process.join(TIMEOUT)
    assert process.exitcode == -signal.SIGKILL
    assert any((tmp_path / "cache").iterdir()), "killed before it wrote anything"
    table, _ = cached(data.train[0], tmp_path, tokenizer, data, [], tmp_path / "cache")
    assert ids(TokenisedPairs.from_tables([table])) == ids(in_memory(PAIRS, tokenizer, data))


def _write_slowly(folder, tokenizer, data, counts, barrier):
    def slow(pairs, *arguments):
        with counts.get_lock():
            counts.value += 1
        yield from tokenise(pairs, *arguments, at_once=1)

    data_module.tokenise = slow
    barrier.wait(TIMEOUT)
    table, _ = cached(data.train[0], folder, tokenizer, data, [], folder / "cache")
    os._exit(0 if len(table) == len(PAIRS) else 1)


def test_processes_that_come_at_once_share_one_cache(tmp_path, tokenizer):
    data, context = Data(train=[write(tmp_path / "text.tsv")]), get_context("fork")
    counts, barrier = context.Value("i"), context.Barrier(3)
    processes = [
        context.Process(target=_write_slowly, args=(tmp_path, tokenizer, data, counts, barrier)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert counts.value == 1


def test_a_source_without_pairs_is_named(tmp_path, tokenizer):
    (tmp_path / "text.tsv").write_text("one\teins\tgood\n", encoding="utf-8")
    source = Source(path="text.tsv", name="The corpus", tag_column=2, tags=["Good"])
    with pytest.raises(ValueError, match=r"The corpus has no pairs tagged \['Good'\]"):
        CachedCorpus(Data(train=[source]), tmp_path, tokenizer, [], tmp_path / "cache", 1)
    assert not list((tmp_path / "cache").glob("*.arrow*"))


# Mixing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.25, 2.0), (2.6, 0.5)])
def test_weights_say_how_often_an_epoch_takes_each_pair(tmp_path, tokenizer, weights):
    parts = PAIRS[:20], PAIRS[20:50]
    data = Data(train=[write(tmp_path / f"{i}.tsv", part) for i, part in enumerate(parts)])
    for source, weight in zip(data.train, weights, strict=True):
        source.weight = weight
    corpus = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "cache", seed=1)
    epochs = [np.bincount(corpus.epoch(number)[1], minlength=50) for number in range(3)]
    for weight, part in zip(weights, (slice(0, 20), slice(20, 50)), strict=True):
        for counts in epochs:
            assert set(counts[part]) <= {int(weight), -int(-weight // 1)}
            assert counts[part].sum() == weight * len(counts[part])
        if weight % 1:
            assert not np.array_equal(epochs[0][part], epochs[1][part])
    assert np.array_equal(epochs[2], np.bincount(corpus.epoch(2)[1], minlength=50)), "not by seed and epoch alone"
    lengths = [len(tokenizer(target).input_ids) for part in parts for _, target in part]
    expected = sum(w * sum(part) for w, part in zip(weights, (lengths[:20], lengths[20:]), strict=True))
    assert corpus.target_tokens() == round(expected)


def test_repetitions_are_dropped_and_counted(tmp_path, tokenizer):
    one, two = [*PAIRS[:10], *PAIRS[:3]], [*PAIRS[5:20], (PAIRS[0][0], PAIRS[1][1])]
    data = Data(train=[write(tmp_path / "one.tsv", one), write(tmp_path / "two.tsv", two)], max_ratio=100.0)
    corpus = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "cache", seed=1)
    pairs, taken = corpus.epoch(0)
    kept = ids(pairs, taken)
    expected = [tuple(tokenizer(text).input_ids for text in pair) for pair in dict.fromkeys([*one, *two])]
    assert sorted(kept) == sorted(expected)
    assert corpus.dropped["repeated"] == 8
    assert "21 training pairs" in corpus.describe() and "8 repeated" in corpus.describe()


@pytest.mark.parametrize("weights", [(1, 5), (5, 1), (2, 2)])
def test_a_repeated_pair_is_shown_as_often_as_its_heaviest_source(weights, tmp_path, tokenizer):
    corpora = [write(tmp_path / "one.tsv", PAIRS[:10]), write(tmp_path / "two.tsv", PAIRS[5:15])]
    for source, weight in zip(corpora, weights, strict=True):
        source.weight = weight
    corpus = CachedCorpus(Data(train=corpora), tmp_path, tokenizer, [], tmp_path / "cache", seed=1)
    shown = Counter(tuple(map(tuple, pair)) for pair in ids(*corpus.epoch(0)))
    expected = Counter()
    for weight, pairs in zip(weights, (PAIRS[:10], PAIRS[5:15]), strict=True):
        for pair in pairs:
            key = tuple(tuple(tokenizer(text).input_ids) for text in pair)
            expected[key] = max(weight, expected[key])
    assert shown == expected


def test_an_epoch_has_the_variations_and_texts_of_several_that_were_asked_for(tmp_path, tokenizer):
    data = Data(train=[write(tmp_path / "text.tsv")], joined=1.0, variations={"capitals": 1.0}, max_length=1000)
    corpus = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "cache", seed=1)
    texts = [tuple(tokenizer.decode(side, skip_special_tokens=True) for side in pair) for pair in ids(corpus.pairs)]
    assert {(source.upper(), target.upper()) for source, target in PAIRS} < set(texts)
    assert sum(source.count(".") > 1 for source, _ in texts) > 50
    again = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "other", seed=1)
    assert ids(again.pairs) == ids(corpus.pairs), "another process would train on other text"
    other = CachedCorpus(data, tmp_path, tokenizer, [], tmp_path / "cache", seed=2)
    assert ids(other.pairs) != ids(corpus.pairs), "the cache gives one seed's text to another"


@pytest.mark.parametrize("content", [b"", b"ARROW", None])
def test_a_torn_cache_file_is_written_again(tmp_path, tokenizer, content):
    data = Data(train=[write(tmp_path / "text.tsv")])
    cached(data.train[0], tmp_path, tokenizer, data, [], tmp_path / "cache")
    [path] = (tmp_path / "cache").glob("*.arrow")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    cached(data.train[0], tmp_path, tokenizer, data, [], tmp_path / "cache")
    assert path.read_bytes() == whole


# Cutting tokens ------------------------------------------------------------------------------------------------------

TEXTS = st.lists(st.text(st.sampled_from("one two three ein zwei drei dog.! 日ü"), max_size=40), min_size=1, max_size=6)


@settings(max_examples=100)
@given(TEXTS, st.floats(0, 1), st.integers(0, 1 << 32))
def test_cut_tokens_spell_the_same_texts(tokenizer, texts, dropout, seed):
    rows = [np.array(row) for row in tokenizer(texts).input_ids]
    cut_ids, offsets = Merges(tokenizer).cut(rows, dropout, np.random.default_rng(seed))
    assert [tokenizer.decode(cut_ids[a:b], skip_special_tokens=True) for a, b in pairwise(offsets)] == texts
    if not dropout:
        assert cut_ids.tolist() == np.concatenate(rows).tolist()


def test_tokens_are_cut_into_what_they_were_merged_from_as_often_as_asked(tokenizer):
    rows = [np.array([tokenizer.convert_tokens_to_ids("Ġthree")])] * 20_000
    ids, offsets = Merges(tokenizer).cut(rows, 0.3, np.random.default_rng(0))
    counts = Counter(" ".join(tokenizer.convert_ids_to_tokens(ids[a:b])) for a, b in pairwise(offsets))
    merged = {"Ġthree": ("Ġthr", "ee"), "Ġthr": ("Ġt", "hr"), "Ġt": ("Ġ", "t"), "hr": ("h", "r"), "ee": ("e", "e")}

    def expected(token):
        """The probabilities of what it may become."""
        if token not in merged:
            return {token: 1.0}
        left, right = map(expected, merged[token])
        return {token: 0.7, **{f"{a} {b}": 0.3 * left[a] * right[b] for a in left for b in right}}

    assert {cut: count / len(rows) for cut, count in counts.items()} == pytest.approx(expected("Ġthree"), abs=0.015)


def test_cut_pairs_are_other_ones_in_each_epoch_and_within_the_limit(tmp_path, tokenizer):
    data = Data(train=[write(tmp_path / "text.tsv")], bpe_dropout=0.5, max_length=20)
    pairs = in_memory(PAIRS, tokenizer, data)
    (first, kept), (again, _), (other, _) = (
        cut_pairs(pairs, np.arange(len(pairs)), Merges(tokenizer), data, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    assert ids(first) == ids(again) != ids(other)
    assert first.lengths.tolist() == [[len(s), len(t)] for s, t in ids(first)]
    kept = set(kept.tolist())
    assert 0 < len(kept) < len(pairs)
    assert all((max(map(len, pair)) <= 20) == (i in kept) for i, pair in enumerate(ids(first)))
    with pytest.raises(ValueError, match=r"BPE-dropout, all pairs are longer than data.max_length"):
        data.max_length = 1
        cut_pairs(pairs, np.arange(5), Merges(tokenizer), data, np.random.default_rng(1))


def test_what_is_not_one_byte_pair_encoding_cannot_be_cut(tokenizer):
    inside = Tokenizer(models.Unigram([("a", -1.0)], 0, False))
    for other in (
        PreTrainedTokenizerFast(tokenizer_object=inside),
        VaswaniTokenizer.from_sides(tokenizer.backend_tokenizer, tokenizer.backend_tokenizer),
    ):
        with pytest.raises(ValueError, match=r"bpe_dropout needs a tokenizer with one byte-pair encoding"):
            Merges(other)


# Streams -------------------------------------------------------------------------------------------------------------


def stream(folder, tokenizer, **settings):
    data = Data(
        train=[Source(path="one.tsv", weight=3.0), Source(path="two.tsv")], streaming=True, window=12, **settings
    )
    return StreamedCorpus(data, folder, tokenizer, seed=1)


@pytest.fixture
def stream_folder(tmp_path):
    write(tmp_path / "one.tsv", PAIRS[:25])
    write(tmp_path / "two.tsv", PAIRS[25:32])
    return tmp_path


def test_windows_of_a_stream_follow_the_weights_and_sources_begin_anew(stream_folder, tokenizer):
    corpus = stream(stream_folder, tokenizer)
    windows = [ids(*corpus.epoch(number)) for number in range(6)]
    expected = [tuple(tokenizer(text).input_ids for text in pair) for pair in PAIRS]
    for number, window in enumerate(windows):
        one = [expected[i % 25] for i in range(9 * number, 9 * number + 9)]
        two = [expected[25 + i % 7] for i in range(3 * number, 3 * number + 3)]
        assert window == one + two


def test_a_stream_goes_on_where_it_was(stream_folder, tokenizer):
    corpus = stream(stream_folder, tokenizer)
    windows = [ids(*corpus.epoch(number)) for number in range(6)]
    restarted = stream(stream_folder, tokenizer)
    assert [ids(*restarted.epoch(number)) for number in (4, 5, 0, 1)] == [windows[i] for i in (4, 5, 0, 1)]


def test_a_stream_filters_and_says_when_nothing_is_left(stream_folder, tokenizer):
    corpus = stream(stream_folder, tokenizer, max_length=6)
    window = ids(*corpus.epoch(0))
    short = [pair for pair in PAIRS[:9] + PAIRS[25:28] if max(len(tokenizer(text).input_ids) for text in pair) <= 6]
    assert len(window) == len(short) > 0
    assert corpus.dropped == {"longer than max_length": 12 - len(short)}
    with pytest.raises(ValueError, match="dropped all pairs of a window"):
        stream(stream_folder, tokenizer, max_length=1).epoch(0)
    write(stream_folder / "two.tsv", [])
    with pytest.raises(ValueError, match="no pairs"):
        stream(stream_folder, tokenizer).epoch(0)
