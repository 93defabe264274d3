"""The explorer's responses over HTTP: their contents, invalid requests, and that they name no path of the machine."""

import json
import threading
from contextlib import contextmanager

import pytest
import torch
from explorer_client import client_of
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_tensors
from tiny_checkpoint import ABOUT, PAIRS, tiny_checkpoint
from torch.testing import assert_close

from vaswani_transformer import inspect_translation
from vaswani_transformer.explorer import responses as responses_module
from vaswani_transformer.explorer import runs as runs_module
from vaswani_transformer.explorer.app import create_app
from vaswani_transformer.explorer.checkpoints import CheckpointCache
from vaswani_transformer.explorer.responses import GREETING, OPENING
from vaswani_transformer.explorer.runs import Runs
from vaswani_transformer.inspection.heads import head_names


SENTENCE = "A woman reads a long book in the old park."
HEAD = ["encoder", "self_attn", 0, 1]


def ask(client, what: str, **request) -> dict:
    answer = client.post(f"/api/{what}", json={"text": SENTENCE, **request})
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer) -> str:
    """The sentence of an error."""
    [(name, sentence)] = answer.json().items()
    assert name == "problem" and sentence[0].isupper() and sentence.endswith(".") and len(sentence.split()) > 3
    return sentence


# Answers -------------------------------------------------------------------------------------------------------------


def test_the_checkpoints_are_named_and_the_given_one_is_current(client, cache):
    answer = client.get("/api/checkpoints").json()
    assert answer["current"] == answer["checkpoints"][0]["name"] == ABOUT["name"]
    assert "mini-en-de" in [checkpoint["name"] for checkpoint in answer["checkpoints"]]
    assert set(answer["checkpoints"][0]) == {"name", "source_language", "target_language", "parameters"}
    assert answer["checkpoints"][0]["parameters"] == cache.open().model.num_parameters()


def test_the_model_is_described(client, cache):
    answer = client.get("/api/model", params={"checkpoint": ABOUT["name"]}).json()
    assert answer == client.get("/api/model").json()
    config = cache.open().model.config
    assert answer["config"]["d_model"] == 32 and answer["config"]["d_k"] == 16
    for name in ("label_smoothing_type", "dropout", "attention_dropout", "activation_dropout"):
        assert answer["config"][name] == getattr(config, name)
    assert answer["parameters"]["count"] == cache.open().model.num_parameters()
    search = {"num_beams": 4, "length_penalty": 0.6, "length_penalty_offset": 5, "min_new_tokens": 0}
    assert answer["generation"] == search
    assert answer["limits"] == {"source_tokens": 100, "beams": 8}
    assert answer["training"] is None and answer["curve"] is None
    assert [example["id"] for example in answer["examples"]] == ["long-distance", "anaphora", "structure"]


def test_the_page_opens_with_a_sentence_that_fits(client, monkeypatch):
    longer = client.get("/api/model").json()["example"]
    monkeypatch.setattr(responses_module, "MAX_SOURCE_TOKENS", 10)
    assert [longer, client.get("/api/model").json()["example"]] == [OPENING["en"], GREETING["en"]]


def test_the_positions_are_those_that_the_model_adds(client, cache):
    positions = load_tensors(client.get("/api/model/tensors").content)["positions"]
    assert_close(positions, cache.open().model.model.encoder.embedding.encode(torch.arange(128)))


def test_a_run_is_the_librarys_inspection(client, cache):
    run = ask(client, "run")
    checkpoint = cache.open()
    wanted = inspect_translation(checkpoint.model, checkpoint.tokenizer, SENTENCE)
    assert run["target"]["text"] == wanted.translation == PAIRS[SENTENCE]
    settings = {"beams": 4, "alpha": 0.6, "off": [], "causal": True}
    assert run["request"] == {"checkpoint": ABOUT["name"], "text": SENTENCE, **settings}
    assert run["log_probs"] == pytest.approx(wanted.log_probs.tolist(), abs=1e-5)
    assert run["mean_log_probs"] == pytest.approx(wanted.mean_log_probs.tolist(), abs=1e-5)
    assert run["log_prob"] == pytest.approx(sum(run["log_probs"]), abs=1e-5)
    assert run["score"] == pytest.approx(run["search"]["finished"][0]["score"], abs=1e-4)
    assert run["search"]["finished"][0]["text"] == run["target"]["text"]
    assert len(run["alternatives"]) == len(run["target"]["tokens"]) == len(run["target"]["outputs"])
    assert [len(position) for position in run["alternatives"]] == [10] * len(run["alternatives"])
    assert run["changes"] is None
    tensors = load_tensors(client.get(f"/api/run/{run['id']}/tensors").content)
    assert list(tensors) and tensors.keys() == wanted.tensors.keys()
    for name, x in wanted.tensors.items():
        assert_close(tensors[name], x)


def test_every_head_has_measures_and_at_most_one_label(client, cache):
    heads = ask(client, "run")["heads"]
    names = [(head["stack"], head["kind"], head["layer"], head["head"]) for head in heads]
    assert names == head_names(cache.open().model)
    for head in heads:
        assert 0 <= min(head["measures"].values())
        assert head["measures"]["punctuation"] <= 1 and head["label"] is not None


def test_heads_off_are_compared_with_the_plain_run(client):
    plain, run = ask(client, "run"), ask(client, "run", off=[HEAD])
    assert run["request"]["off"] == [HEAD]
    assert run["changes"]["text_before"] == plain["target"]["text"]
    assert run["changes"]["score_before"] == plain["score"]
    assert run["log_prob"] != pytest.approx(plain["log_prob"], abs=1e-4)


def test_without_the_mask_the_translation_stays_and_its_probabilities_change(client):
    plain, run = ask(client, "run"), ask(client, "run", causal=False)
    assert run["target"] == plain["target"]
    assert run["log_probs"] != plain["log_probs"]


@pytest.mark.parametrize("beams", [1, 2, 8])
@pytest.mark.parametrize("alpha", [0, 1.0])
def test_beams_and_alpha_are_those_of_the_search(client, beams, alpha):
    search = ask(client, "run", beams=beams, alpha=alpha)["search"]
    assert (search["beams"], search["alpha"]) == (beams, alpha)
    assert all(sum(c["fate"] == "kept" for c in step["candidates"]) <= beams for step in search["steps"])


def test_every_head_by_itself(client, cache):
    heads = ask(client, "heads", beams=4, off=[], causal=True)
    assert [(h["stack"], h["kind"], h["layer"], h["head"]) for h in heads] == head_names(cache.open().model)
    [ablation] = [head for head in heads if [head["stack"], head["kind"], head["layer"], head["head"]] == HEAD]
    alone = ask(client, "run", off=[HEAD], beams=1)
    assert ablation["text"] == alone["target"]["text"]
    assert ablation["score"] == pytest.approx(alone["score"], abs=1e-4)
    assert any(head["changed"] for head in heads)
    assert [head["changed"] for head in heads] == [head["text"] != PAIRS[SENTENCE] for head in heads]


def test_beyond_the_trained_length(client):
    answer = ask(client, "beyond")
    assert answer["trained_length"] == ABOUT["max_length"] and "problem" not in answer
    once = [point["log_prob"] for point in answer["points"] if point["copies"] == 1]
    assert once == pytest.approx(ask(client, "run")["log_probs"], abs=1e-4)
    lengths = [sum(p["copies"] == copies for p in answer["points"]) for copies in range(1, 9)]
    assert lengths == [copies * (len(once) - 1) + 1 for copies in range(1, 9)]


def test_only_the_last_16_runs_are_kept(cache, page):
    client = client_of(create_app(cache, page=page))
    ids = [ask(client, "run", beams=1, alpha=0.01 * i)["id"] for i in range(17)]
    answers = [client.get(f"/api/run/{run_id}/tensors").status_code for run_id in ids]
    assert answers == [404] + [200] * 16
    assert "Translate the sentence again" in problem(client.get(f"/api/run/{ids[0]}/tensors"))


def test_large_runs_are_dropped_sooner_but_never_the_latest(client, monkeypatch):
    monkeypatch.setattr(runs_module, "MAX_STORED_BYTES", 1)
    ids = [ask(client, "run", beams=1, alpha=0.01 * i)["id"] for i in range(2)]
    answers = [client.get(f"/api/run/{run_id}/tensors").status_code for run_id in ids]
    assert answers == [404, 200]


# Refusals ------------------------------------------------------------------------------------------------------------

LONG = "word " * 500


@pytest.mark.parametrize(
    "request_, status, words",
    [
        (dict(text=""), 422, "text is empty"),
        (dict(text=" \t\n"), 422, "text is empty"),
        (dict(text=LONG), 422, "at most 100"),
        (dict(text="x" * 5001), 422, "at most 5000 characters"),
        (dict(text=None), 422, "text"),
        (dict(text=["A", "list"]), 422, "text"),
        (dict(text="a", beams=0), 422, "beams"),
        (dict(text="a", beams=9), 422, "beams"),
        (dict(text="a", beams="many"), 422, "beams"),
        (dict(text="a", alpha=-1), 422, "alpha"),
        (dict(text="a", alpha=100), 422, "alpha"),
        (dict(text="a", off=[["encoder", "self_attn", 9, 0]]), 422, "the encoder has 1 layers of 2 heads"),
        (dict(text="a", off=[["encoder", "self_attn", 0]]), 422, "off"),
        (dict(text="a", off=[["../..", "__class__", 0, 0]]), 422, "head"),
        (dict(text="a", checkpoint="absent"), 404, "Checkpoint 'absent' not found. Available: tiny-en-de"),
        (dict(text="a", checkpoint="../../etc"), 404, "not found"),
        (dict(text="a", surprise=1), 422, "surprise"),
        ({}, 422, "text"),
    ],
)
def test_invalid_requests(client, request_, status, words):
    for what in ("run", "heads", "beyond"):
        if what == "run" or "off" not in request_:
            answer = client.post(f"/api/{what}", json=request_)
            assert answer.status_code == status
            assert words in problem(answer)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"text": "\\ud800"}', b'{"text": "a", "alpha": NaN}', b"\xff"])
def test_invalid_bodies(client, body):
    answer = client.post("/api/run", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    problem(answer)


@pytest.mark.parametrize("path", ["/api/nothing", "/nothing.js", "/../app.py", "/%2e%2e/app.py", "/api/run/x/tensors"])
def test_missing_pages(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    problem(answer)


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, IndexError])
def test_unexpected_errors_are_reported_without_details(client, monkeypatch, kind):
    def fail(*arguments, **keywords):
        raise kind(f"secret {tiny_checkpoint()}")

    monkeypatch.setattr(runs_module, "inspect_translation", fail)
    answer = client.post("/api/run", json={"text": "unforeseen"})
    assert answer.status_code == 500
    assert problem(answer) == "Internal error; see the terminal that runs `vaswani explore`."


def test_a_third_concurrent_run_gets_a_busy_response(cache, page, monkeypatch):
    runs = Runs(patience=0.05)
    client = client_of(create_app(cache, runs=runs, page=page))
    with two_turns(runs):
        answer = client.post("/api/run", json={"text": SENTENCE})
        assert answer.status_code == 503
        assert "busy with two other runs" in problem(answer)
    assert client.post("/api/run", json={"text": SENTENCE}).status_code == 200


@contextmanager
def two_turns(runs: Runs):
    with runs.turn(), runs.turn():
        yield


def test_a_search_without_end_is_cut_off(cache, page):
    client = client_of(create_app(cache, runs=Runs(time_limit=1e-6), page=page))
    answer = client.post("/api/run", json={"text": SENTENCE})
    assert answer.status_code == 503
    assert "took longer" in problem(answer)


def test_many_requests_at_once_are_answered_as_one_by_one(cache, page):
    client = client_of(create_app(cache, runs=Runs(patience=120), page=page))
    requests = [dict(text=text) for text in PAIRS] + [
        dict(text=SENTENCE, off=[HEAD]),
        dict(text=SENTENCE, causal=False),
    ]
    wanted = [ask(client, "run", **request) for request in requests]
    responses: list[dict] = [{}] * len(requests)

    def run(i: int):
        responses[i] = ask(client_of(client.app), "run", **requests[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sequential, concurrent in zip(wanted, responses, strict=True):
        assert sequential["target"] == concurrent["target"]
        assert sequential["log_probs"] == pytest.approx(concurrent["log_probs"], abs=1e-5)


# Who may ask ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8017", "localhost:8017", "[::1]:8017", "localhost"])
def test_this_computers_own_names_are_answered(client, host):
    origin = f"http://{host}"
    assert client.get("/api/checkpoints", headers={"host": host, "origin": origin}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8017"},
        {"host": "192.168.0.7:8017"},
        {"host": ""},
        {"host": "[bad"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
    ],
)
def test_requests_from_other_websites_are_blocked(client, headers):
    for answer in (
        client.get("/api/checkpoints", headers=headers),
        client.post("/api/run", json={"text": "a"}, headers=headers),
        client.get("/", headers=headers),
    ):
        assert answer.status_code == 403
        problem(answer)


def test_on_another_address_any_host_name_may_ask_but_no_foreign_page(cache, page):
    client = client_of(create_app(cache, host="0.0.0.0", page=page))
    assert client.get("/api/checkpoints", headers={"host": "a-computer:8017"}).status_code == 200
    foreign = {"host": "a-computer:8017", "origin": "http://evil.example"}
    assert client.get("/api/checkpoints", headers=foreign).status_code == 403


def test_the_page_is_served_with_the_types_that_browsers_ask_for(client):
    index, module = client.get("/"), client.get("/lib/data.js")
    assert index.status_code == module.status_code == 200
    assert index.headers["content-type"].startswith("text/html")
    assert module.headers["content-type"].startswith("text/javascript")
    assert "default-src 'self'" in index.headers["content-security-policy"]


# No path of the machine ----------------------------------------------------------------------------------------------

odd_text = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["", "🙂" * 20, "Это предложение.", "你好", "a\x00\x07b", "\u202eabc", "</s> <pad>", "x" * 400, LONG]
    ),
)


@given(text=odd_text, what=st.sampled_from(["run", "heads", "beyond"]), name=st.text(max_size=20) | st.none())
@settings(max_examples=40)
def test_odd_input_gives_an_answer_or_a_sentence_and_never_a_path(client, text, what, name):
    answer = client.post(f"/api/{what}", content=json.dumps({"text": text, "checkpoint": name}),
                         headers={"content-type": "application/json"})  # fmt: skip
    assert answer.status_code in (200, 404, 422)
    if answer.status_code != 200:
        problem(answer)
    folder = tiny_checkpoint()
    for path in (str(folder), str(folder.parent), "site-packages", "vaswani_transformer/"):
        assert path not in answer.text or path in (text + str(name))


def test_no_answer_names_a_folder(client):
    everything = [client.get("/api/checkpoints"), client.get("/api/model"), client.post("/api/run", json={"text": "a"})]
    for answer in everything:
        assert str(tiny_checkpoint().parent) not in answer.text


# Other checkpoints ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_checkpoint(tiny_model, tmp_path_factory):
    """Makes a folder of random weights with the tiny checkpoint's tokenizer: `other_checkpoint(name, **fields)`."""
    from transformers import AutoTokenizer

    from vaswani_transformer.model.generation_vaswani import paper_generation_config

    def make(name: str, **fields) -> str:
        folder = tmp_path_factory.mktemp("others") / name
        model = tiny_model(vocab_size=300, **fields)
        ids = {n: getattr(model.config, n) for n in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
        model.generation_config = paper_generation_config(**ids)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_checkpoint()).save_pretrained(folder)
        return str(folder)

    return make


def test_the_end_of_learned_positions_is_reported(other_checkpoint, page):
    fields = dict(position_encoding="learned", max_position_embeddings=40)
    client = client_of(create_app(CheckpointCache(other_checkpoint("learned", **fields)), page=page))
    model = client.get("/api/model").json()
    assert model["name"] == "learned" and model["limits"]["source_tokens"] == 40
    assert load_tensors(client.get("/api/model/tensors").content)["positions"].shape == (40, 16)
    assert "at most 40" in problem(client.post("/api/run", json={"text": "word " * 41}))
    beyond = ask(client, "beyond", text="Hello!")
    assert "for only 40 tokens" in beyond["problem"]
    assert max(point["position"] for point in beyond["points"]) < 40


@pytest.mark.parametrize(
    "name, fields",
    [
        (
            "many-heads",
            dict(encoder_layers=2, decoder_layers=2, encoder_attention_heads=16, decoder_attention_heads=16),
        ),
        ("no-positions", dict(position_encoding="none", norm_position="pre")),
        ("widths", dict(d_k=3, d_v=5, share_embeddings="none")),
    ],
)
def test_any_checkpoint_of_ours_is_shown(other_checkpoint, page, name, fields):
    cache = CheckpointCache(other_checkpoint(name, **fields))
    client = client_of(create_app(cache, page=page))
    run, model = ask(client, "run", text="Two dogs run."), client.get("/api/model").json()
    assert run["checkpoint"] == model["name"] == name
    assert model["source_language"] is None
    assert len(run["heads"]) == len(ask(client, "heads", text="Two dogs run.")) == len(head_names(cache.open().model))
