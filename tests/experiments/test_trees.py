"""Trees: read, written as symbols and back, and compared by evalb's rules."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import linearisation
from experiments.linearisation import (
    END,
    FORMS,
    LINEARISATIONS,
    SPELLED,
    State,
    brackets,
    build,
    completion,
    in_order,
    tag_of,
    word,
)
from experiments.trees import Leaf, Tree, compare, read_tree, total


LABELS = ["S", "NP", "VP", "PP"]
leaf = st.builds(Leaf, st.sampled_from(["DT", "NN", "VB", ","]), st.sampled_from(["the", "cell", "grew", ","]))
trees = st.recursive(
    st.builds(Tree, st.sampled_from(LABELS), st.lists(leaf, min_size=1, max_size=3).map(tuple)),
    lambda below: st.builds(
        Tree, st.sampled_from(LABELS), st.lists(st.one_of(leaf, below), min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=8,
)
orders = pytest.mark.parametrize("order", LINEARISATIONS)

# Reading -------------------------------------------------------------------------------------------------------------


def test_a_line_of_a_treebank_loses_traces_functions_and_indices():
    line = "( (S (NP-SBJ-1 (DT The) (NN cell)) (VP (VBZ is) (VP (VBN seen) (NP-1 (-NONE- *)))) (. .)) )"
    assert str(read_tree(line)) == "(S (NP (DT The) (NN cell)) (VP (VBZ is) (VP (VBN seen))) (. .))"


def test_a_word_may_have_a_space_inside():
    assert list(read_tree("(NP (NN Xpd TTD) (NNS mice))").leaves()) == [Leaf("NN", "XpdTTD"), Leaf("NNS", "mice")]


@pytest.mark.parametrize("line", ["(S (NP (DT a))", "(S (NN a)))", "", "(NN a)", "word", "((S (NN a)) (S (NN b))) x"])
def test_invalid_brackets_are_refused(line):
    with pytest.raises(ValueError):
        read_tree(line)


@given(trees)
def test_a_tree_reads_itself(tree):
    assert read_tree(str(tree)) == tree
    assert " ".join(tree.pretty().split()) == str(tree)


# As symbols ----------------------------------------------------------------------------------------------------------


def test_in_order_names_a_constituent_after_its_first_child():
    tree = read_tree("(S (NP (DT The) (NN cell)) (VP (VBD grew)))")
    assert " ".join(brackets(tree)) == "oS oNP wDT wNN cNP oVP wVBD cVP cS"
    assert " ".join(in_order(tree)) == "wDT oNP wNN cNP oS wVBD oVP cVP cS"
    assert " ".join(brackets(tree, is_tagged=False)) == "oS oNP w w cNP oVP w cVP cS"
    assert " ".join(in_order(tree, is_tagged=False)) == "w oNP w cNP oS w oVP cVP cS"


def test_the_symbol_of_a_word_is_of_letters_and_says_its_part_of_speech():
    for tag in ("NN", *SPELLED):
        [symbol] = word(Leaf(tag, "x"), is_tagged=True)
        assert symbol.isalpha() and tag_of(symbol) == tag


def test_a_tree_takes_the_parts_of_speech_of_its_symbols():
    leaves = [Leaf("XX", "The"), Leaf("XX", "cell")]
    assert str(build("oNP wDT wNN cNP".split(), leaves, is_in_order=False)) == "(NP (DT The) (NN cell))"
    assert str(build("oNP w w cNP".split(), leaves, is_in_order=False)) == "(NP (XX The) (XX cell))"


@orders
@given(tree=trees, is_tagged=st.booleans())
def test_a_tree_comes_back_and_each_of_its_symbols_is_allowed(order, tree, is_tagged):
    leaves, symbols = list(tree.leaves()), LINEARISATIONS[order](tree, is_tagged)
    assert build(symbols, leaves, order == "in-order") == tree
    words = [symbol for leaf in leaves for symbol in word(leaf, is_tagged)]
    state = State(len(leaves), order == "in-order", LABELS, words)
    for symbol in symbols:
        assert symbol in state.allowed()
        state = state.after(symbol)
    assert END in state.allowed()


@orders
@given(words=st.integers(1, 7), data=st.data())
def test_whatever_is_allowed_ends_in_a_whole_tree(order, words, data):
    state, symbols = State(words, order == "in-order", LABELS), []
    leaves = [Leaf("NN", str(i)) for i in range(words)]
    for _ in range(data.draw(st.integers(0, 60))):
        symbol = data.draw(st.sampled_from(state.allowed()))
        if symbol == END:
            break
        state, symbols = state.after(symbol), [*symbols, symbol]
    tree = build([*symbols, *completion(state)], leaves, order == "in-order")
    assert list(tree.leaves()) == leaves


@orders
def test_constituents_between_two_words_come_to_an_end(order):
    """At most MAX_OPENED constituents open between two words."""
    state = State(2, order == "in-order", LABELS)
    for _ in range(200):
        allowed = state.allowed()
        if allowed == [END]:
            break
        state = state.after(next((s for s in allowed if s[0] in "oc"), allowed[0]))
    assert END in state.allowed()


def reachable(state: State, length: int) -> set[tuple[str, ...]]:
    """All complete sequences of at most this many symbols."""
    sequences, partial = set(), {(): state}
    for _ in range(length + 1):
        sequences |= {symbols for symbols, state in partial.items() if END in state.allowed()}
        partial = {
            (*symbols, symbol): state.after(symbol)
            for symbols, state in partial.items()
            for symbol in state.allowed()
            if symbol != END
        }
    return sequences


def is_tree(symbols: tuple[str, ...], leaves: list[Leaf], is_in_order: bool) -> bool:
    try:
        build(symbols, leaves, is_in_order)
    except ValueError:
        return False
    return True


def opens_at_most(symbols: tuple[str, ...], limit: int) -> bool:
    runs = "".join(symbol[0] for symbol in symbols).replace("c", "").split("w")
    return max(map(len, runs)) <= limit


@orders
@pytest.mark.parametrize("words", [1, 2])
def test_the_search_can_produce_every_short_tree_and_nothing_else(order, words, monkeypatch):
    """All sequences of up to nine symbols, of which those that are trees are found by trying."""
    monkeypatch.setattr(linearisation, "MAX_OPENED", 3)
    leaves, is_in_order = [Leaf("NN", str(i)) for i in range(words)], order == "in-order"
    sequences = (s for length in range(10) for s in itertools.product(("w", "oA", "cA"), repeat=length))
    trees = {s for s in sequences if s.count("w") == words and is_tree(s, leaves, is_in_order)}
    assert len(trees) >= 4
    found = reachable(State(words, is_in_order, ["A"]), 9)
    assert found <= trees
    assert {symbols for symbols in trees if opens_at_most(symbols, 2)} <= found


def test_a_form_has_a_name_its_order_and_the_symbols_of_its_words():
    assert list(FORMS) == ["brackets", "in-order", "brackets-untagged", "in-order-untagged"]
    assert [form.is_in_order for form in FORMS.values()] == [False, True] * 2
    assert FORMS["in-order-untagged"].word_symbols == ["w"]
    tagged = FORMS["brackets"].word_symbols
    assert len(set(tagged)) == len(tagged) and {"wNN", "wCOMMA", "wPRPS"} <= set(tagged)
    tree = read_tree("(S (NP (DT The) (NN cell)) (VP (VBD grew)))")
    assert FORMS["in-order-untagged"].linearise(tree) == in_order(tree, is_tagged=False)


@pytest.mark.parametrize(
    "text", ["oS oNP w cVP w cS", "oS w w banana", "oS oNP cNP w w cS", "w w", "oS w cS", "cS", ""]
)
def test_incomplete_trees_are_refused(text):
    leaves = [Leaf("NN", "a"), Leaf("NN", "b")]
    with pytest.raises(ValueError):
        build(text.split(), leaves, is_in_order=False)


def test_a_constituent_in_order_needs_a_first_child():
    leaves = [Leaf("NN", "a"), Leaf("NN", "b")]
    for text in ("oS w w cS", "w oS oNP w cNP cS"):
        with pytest.raises(ValueError):
            build(text.split(), leaves, is_in_order=True)


# Comparing: by hand after evalb's README and COLLINS.prm -------------------------------------------------------------

GOLD = "(S (NP (DT The) (NN cell)) (VP (VBD grew) (PP (IN in) (NP (NN serum)))) (. .))"
CASES = {
    "the same": (GOLD, (5, 5, 5)),
    "a wrong label": (GOLD.replace("(PP", "(ADJP"), (4, 5, 5)),
    "one too few": ("(S (NP (DT The) (NN cell)) (VP (VBD grew) (IN in) (NP (NN serum))) (. .))", (4, 4, 5)),
    "one too many": (GOLD.replace("(NN serum)", "(NML (NN serum))"), (5, 6, 5)),
    "another attachment": (
        "(S (NP (DT The) (NN cell)) (VP (VBD grew)) (PP (IN in) (NP (NN serum))) (. .))", (4, 5, 5)
    ),
    "punctuation anywhere": (
        "(S (NP (DT The) (NN cell)) (VP (VBD grew) (PP (IN in) (NP (NN serum) (. .)))))", (5, 5, 5)
    ),
    "a constituent of punctuation": (GOLD.replace("(. .)", "(PRN (. .))"), (5, 5, 5)),
    "the root is not counted": (f"(TOP {GOLD})", (5, 5, 5)),
    "the same twice, once right": (GOLD.replace("(NP (NN serum))", "(NP (NP (NN serum)))"), (5, 6, 5)),
}  # fmt: skip


@pytest.mark.parametrize(("predicted", "expected"), CASES.values(), ids=CASES)
def test_constituents_are_counted_as_by_evalb(predicted, expected):
    assert compare(read_tree(predicted), read_tree(GOLD)) == expected


def test_prt_counts_as_advp_and_scores_add_up():
    prt, advp = read_tree("(VP (VB carry) (PRT (RP out)))"), read_tree("(VP (VB carry) (ADVP (RP out)))")
    assert compare(prt, advp) == (2, 2, 2)
    scores = [compare(read_tree(predicted), read_tree(GOLD)) for predicted, _ in CASES.values()]
    assert total(scores) == (42, 46, 45) and total(scores).f1 == pytest.approx(200 * 42 / 91)
