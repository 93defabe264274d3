"""What the server answers: LibreTranslate's API, and what is refused."""

import json
import re
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer.documents import SUFFIXES
from vaswani_transformer.serving.queue import Overdue, WorkerLost
from vaswani_transformer.serving.rates import RateLimit


ENGLISH = "The old man reads a long book in the park."
TURNED = "park. the in book long a reads man old The"
GERMAN = "Der alte Mann liest ein langes Buch im Park."


def translate(client, status=200, **fields):
    answer = client.post("/translate", json={"q": ENGLISH, "source": "en", "target": "de", **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


# Texts ---------------------------------------------------------------------------------------------------------------


def test_a_text_is_translated(client):
    assert translate(client) == {"translatedText": TURNED}


def test_forms_and_addresses_say_the_same_as_json(client):
    fields = {"q": ENGLISH, "source": "en", "target": "de"}
    assert client.post("/translate", data=fields).json() == {"translatedText": TURNED}
    assert client.post("/translate", params=fields).json() == {"translatedText": TURNED}
    assert client.post("/translate", data=fields | {"q": ["a b", "c d"]}).json() == {"translatedText": ["b a", "d c"]}
    assert client.post("/translate", files={"x": b""}, data=fields).json() == {"translatedText": TURNED}


URLENCODED = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "q", ["Das Mädchen ist müde.", "Das+M%C3%A4dchen+ist+m%C3%BCde.", "Das Mädchen+ist m%C3%BCde."]
)
def test_forms_are_utf8_percent_encoded_or_not(client, q):
    body = f"q={q}&source=de&target=en".encode()
    answer = client.post("/translate", content=body, headers=URLENCODED)
    assert answer.json() == {"translatedText": "müde. ist Mädchen Das"}


@pytest.mark.parametrize("q", [b"M\xe4dchen", b"M%E4dchen", b"\xc3"])
def test_forms_in_another_encoding_are_refused(client, q):
    answer = client.post("/translate", content=b"source=de&target=en&q=" + q, headers=URLENCODED)
    assert (answer.status_code, answer.json()) == (400, {"error": "The form is not UTF-8."})
    answer = client.post(f"/translate?source=de&target=en&q={quote(unquote_to_bytes(q))}")
    assert (answer.status_code, answer.json()) == (400, {"error": "The form is not UTF-8."})
    lines = [b"--x", b'Content-Disposition: form-data; name="q"', b"", unquote_to_bytes(q), b"--x--", b""]
    multipart = {"content-type": "multipart/form-data; boundary=x"}
    answer = client.post("/translate?source=de&target=en", content=b"\r\n".join(lines), headers=multipart)
    assert (answer.status_code, answer.json()) == (400, {"error": "The form is not UTF-8."})


def test_a_form_of_too_many_fields_is_refused(client):
    answer = client.post("/translate", content=b"q=a&" * 1001, headers=URLENCODED)
    assert (answer.status_code, answer.json()) == (400, {"error": "The form has more than 1000 fields."})


def test_null_and_unknown_fields_are_ignored(client):
    nothing = dict.fromkeys(["api_key", "format", "alternatives", "unknown"])
    assert translate(client, **nothing, other=[1]) == {"translatedText": TURNED}
    answer = translate(client, source=None)
    assert answer["translatedText"] == TURNED and answer["detectedLanguage"]["language"] == "en"


def test_empty_fields_of_a_form_are_ignored(client):
    empty = dict.fromkeys(["api_key", "format", "alternatives", "confidence", "unknown"], "")
    fields = {"q": ENGLISH, "source": "en", "target": "de", **empty}
    assert client.post("/translate", data=fields).json() == {"translatedText": TURNED}
    assert client.post("/translate", data=fields, files={"x": b""}).json() == {"translatedText": TURNED}
    assert client.post("/translate", data=fields | {"q": ""}).json() == {"translatedText": ""}
    answer = client.post("/translate", data=fields | {"target": ""})
    assert answer.json() == {"error": "Invalid request: missing target parameter"}


def test_several_texts_have_several_answers(client, worker):
    assert translate(client, q=["a b", "", "c d"]) == {"translatedText": ["b a", "", "d c"]}
    assert worker.batches == [("de", ["a b", "", "c d"])]
    assert translate(client, q=[]) == {"translatedText": []}


def test_alternatives_are_other_translations(client, worker):
    answer = translate(client, q="a b", alternatives=2)
    assert answer == {"translatedText": "b a", "alternatives": ["1 b a", "2 b a"]}
    assert translate(client, q=["a b"], alternatives=1)["alternatives"] == [["1 b a"]]
    assert translate(client, q="a b", alternatives=6)["alternatives"][-1] == "6 b a"
    assert [settings["num_beams"] for settings in worker.settings] == [4, 4, 7]


def test_confidence_is_returned_on_request(client, worker):
    answer = translate(client, q="some . day", target="fr", confidence=True, alternatives=1)
    words = [{"word": "day", "confidence": 0.3}, {"word": ".", "confidence": 0.1}, {"word": "some", "confidence": 0.4}]
    assert answer["confidence"] == {"mean": 0.267, "lowest": words[0], "words": words}  # a mark is never the lowest
    assert worker.settings == [
        {"return_confidence": True, "num_return_sequences": 2, "num_beams": 4, "tries_again": True}
    ]
    answer = translate(client, q=["one", "!", " "], target="fr", confidence="true")["confidence"]
    assert answer[0]["mean"] == 0.3 and answer[1]["lowest"] is None and answer[2]["words"] == []
    assert "confidence" not in translate(client, target="fr")


def test_confidence_through_english_is_that_of_both_steps(client):
    answer = translate(client, q="one two", source="de", target="fr", confidence=True)
    words = [{"word": "one", "confidence": 0.09}, {"word": "two", "confidence": 0.09}]
    assert answer["confidence"] == {"mean": 0.09, "lowest": words[0], "words": words}


def test_unknown_confidence_is_null(client, worker):
    assert translate(client, confidence=True) == {"translatedText": TURNED, "confidence": None}  # not calibrated
    assert worker.settings == [{}]
    same = {"source": "de", "target": "de", "confidence": True}
    assert translate(client, q="a", **same)["confidence"] is None
    html = {"q": "<p>a b</p>", "target": "fr", "format": "html", "confidence": True}
    assert translate(client, **html) == {"translatedText": "<p>b a</p>", "confidence": None}


def test_a_language_is_detected(client):
    answer = translate(client, source="auto")
    assert answer["translatedText"] == TURNED
    assert answer["detectedLanguage"]["language"] == "en" and answer["detectedLanguage"]["confidence"] > 90
    answer = translate(client, source="auto", target="en", q=[GERMAN, ENGLISH])
    assert [one["language"] for one in answer["detectedLanguage"]] == ["de", "en"]
    assert answer["translatedText"] == [" ".join(GERMAN.split()[::-1]), ENGLISH]  # English needs no translation


def test_a_text_that_is_clearly_in_another_language_is_refused(client):
    answer = translate(client, 400, source="auto", q="Este es un texto en español, con varias palabras.")
    assert answer["error"].startswith("es-de is not supported")


def test_countries_and_capitals_do_not_matter(client):
    assert translate(client, source="en-GB", target="DE")["translatedText"] == TURNED


def test_html_keeps_its_elements(client):
    answer = translate(client, q="<p>one two</p><pre>a b</pre>", format="html")
    assert answer == {"translatedText": "<p>two one</p><pre>a b</pre>"}


def test_warnings_are_returned(client):
    assert translate(client, q="an odd one")["warnings"] == ["it is odd"]
    assert translate(client, q="<p>an odd one</p>", format="html")["warnings"] == ['line 1, "an odd one": it is odd']


def test_the_search_has_the_settings_of_the_server(serving, worker):
    with serving(search={"num_beams": 2, "length_penalty": 1.0}) as client:
        translate(client)
        translate(client, alternatives=1)
        translate(client, q="<p>a b</p>", format="html")
    assert worker.settings[:2] == [
        {"num_beams": 2, "length_penalty": 1.0},
        {"num_beams": 2, "length_penalty": 1.0, "num_return_sequences": 2, "tries_again": True},
    ]
    assert worker.settings[2]["num_beams"] == 2


# Languages and the rest ----------------------------------------------------------------------------------------------


def test_the_languages_are_listed(client):
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "de", "name": "German", "targets": ["en", "fr"], "through": {"fr": "en"}},
    ]


def test_detection_says_how_sure_it_is(client):
    found = client.post("/detect", data={"q": GERMAN}).json()
    assert found[0]["language"] == "de" and 90 < found[0]["confidence"] <= 100
    assert sorted(one["language"] for one in found) == ["de", "en", "fr"]
    spanish = client.post("/detect", json={"q": "Este es un texto en español, con varias palabras."}).json()
    assert spanish[0]["language"] == "es"


def test_settings_for_pages(client, serving):
    said = client.get("/frontend/settings").json()
    assert said["charLimit"] == 10_000 and not said["keyRequired"] and said["supportedFilesFormat"] == SUFFIXES
    assert said["language"] == {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}}
    with serving(api_key="k", max_characters=5) as client:
        said = client.get("/frontend/settings").json()
    assert said["charLimit"] == 5 and said["keyRequired"]


def test_health_and_metrics(client):
    translate(client)
    client.get("/nothing/here")
    assert client.get("/health").json() == {"status": "ok"}
    lines = client.get("/metrics").text.splitlines()
    assert 'vaswani_requests_total{path="/translate",status="200"} 1.0' in lines
    assert 'vaswani_characters_total{source="en",target="de"} 42.0' in lines
    assert "vaswani_batch_texts_count 1.0" in lines and "vaswani_waiting_requests 0.0" in lines
    assert not any("nothing" in line for line in lines)


def test_the_page_and_the_page_of_the_api_load_nothing_from_elsewhere(client):
    page = client.get("/")
    assert "<title>Translate</title>" in page.text and "default-src 'self'" in page.headers["content-security-policy"]
    docs = client.get("/docs").text
    assert "https://" not in docs and client.get("/static-offline-docs/swagger-ui-bundle.js").status_code == 200
    schema = client.get("/openapi.json").json()["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert {"q", "source", "target", "format", "alternatives", "confidence", "api_key"} == set(
        schema["application/json"]["schema"]["properties"]
    )


def test_methods_and_paths_have_libretranslates_statuses(client):
    for path, methods in {"/translate": ["GET"], "/absent": [], "/health": ["POST"], "/main.js": ["POST"]}.items():
        for method in ("GET", "POST"):
            answer = client.request(method, path)
            expected = 405 if method in methods else 404 if path == "/absent" else answer.status_code
            assert answer.status_code == expected and (answer.status_code < 400 or list(answer.json()) == ["error"])
    answer = client.post("/suggest", data={"q": "a", "s": "b", "source": "en", "target": "de"})
    assert (answer.status_code, answer.json()) == (403, {"error": "Suggestions are disabled on this server."})


def test_languages_without_a_model_are_translated_through_english(client, worker):
    answer = translate(client, q=["a b", "an odd one"], source="de", target="fr", alternatives=1)
    assert answer["translatedText"] == ["a b", "an odd one"] and answer["alternatives"] == [["1 a b"], ["1 an odd one"]]
    assert answer["warnings"] == ["it is odd"] * 2  # of both steps
    assert worker.batches == [("en", ["a b", "an odd one"]), ("fr", ["b a", "one odd an"])]
    assert [settings.get("num_return_sequences") for settings in worker.settings] == [None, 2]
    address = send(client, "a.txt", b"a b", source="de", target="fr")["translatedFileUrl"]
    assert client.get(address).text == "a b"


def test_an_error_in_the_first_step_is_the_error(client):
    assert "secret" not in translate(client, 500, q="break", source="de", target="fr")["error"]


def test_lost_and_late_work_has_statuses(client, worker, monkeypatch):
    for error, status in ((WorkerLost("It was killed."), 503), (Overdue("It took too long."), 504)):

        def fail(*arguments, error=error):
            raise error

        monkeypatch.setattr(worker, "translate", fail)
        assert translate(client, status) == {"error": str(error)}


def test_the_log_names_no_text(client, caplog):
    caplog.set_level("INFO", "vaswani.requests")
    translate(client, q="A secret.", source="en")
    send(client, "secret.txt", b"secret", source="en")
    client.get("/secret?q=secret")
    lines = [record.getMessage() for record in caplog.records if record.name == "vaswani.requests"]
    assert [re.sub(r"[\d.]+ s", "0 s", line) for line in lines] == [
        "POST /translate 200 0 s 9 characters",
        "POST /translate_file 200 0 s 0 characters",
        "GET other 404 0 s 0 characters",
    ]


def test_the_log_and_the_metrics_name_the_endpoint_of_rejected_requests(serving, caplog):
    caplog.set_level("INFO", "vaswani.requests")
    with serving(requests_per_minute=1) as client:
        translate(client)
        translate(client, 429)
        client.post("/translate", headers={"origin": "https://elsewhere.example"})
        client.get("/download_file/secret/secret.txt", headers={"host": "elsewhere.example"})
        client.get("/translate")
        client.get("/secret", headers={"host": "elsewhere.example"})
        metrics = client.get("/metrics").text
    assert [" ".join(record.getMessage().split()[:3]) for record in caplog.records][:6] == [
        "POST /translate 200",
        "POST /translate 429",
        "POST /translate 403",
        "GET /download_file/{token}/{name} 403",
        "GET /translate 405",
        "GET other 403",
    ]
    assert 'path="/translate",status="429"' in metrics


def test_health_can_be_asked_for_its_status_only(client):
    answer = client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_requests_of_an_address_per_minute_are_limited(serving):
    with serving(requests_per_minute=2) as client:
        translate(client)
        translate(client)
        answer = client.post("/translate", json={"q": "a"})
        assert answer.status_code == 429 and "2 requests a minute" in answer.json()["error"]
        assert 0 < int(answer.headers["retry-after"]) <= 30
        assert client.get("/health").status_code == 200


def test_permissions_come_back_with_time(monkeypatch):
    now = 0.0
    limit = RateLimit(6, lambda: now)
    assert [limit.seconds_to_wait("a") for _ in range(7)] == [0] * 6 + [10]
    assert limit.seconds_to_wait("b") == 0
    now = 5.0
    assert limit.seconds_to_wait("a") == 5
    now = 10.0
    assert [limit.seconds_to_wait("a") for _ in range(2)] == [0, 10]
    monkeypatch.setattr("vaswani_transformer.serving.rates.MAX_CLIENTS", 2)
    assert limit.seconds_to_wait("c") == 0 and limit.buckets.keys() == {"a", "c"}


def test_links_start_with_the_public_address(serving):
    fields = {"target": "de", "source": "en"}
    for origins, host, start in (
        ((), "127.0.0.1:5000", "http://127.0.0.1:5000/"),
        (("*",), "127.0.0.1:5000", "http://127.0.0.1:5000/"),
        (("https://a.example", "https://b.example"), "127.0.0.1:5000", "https://a.example/"),
        (("https://a.example", "https://b.example"), "b.example", "https://b.example/"),
        (("https://a.example:8443/some/path/",), "a.example:8443", "https://a.example:8443/some/path/"),
    ):
        with serving(origins=origins) as client:
            files = {"file": ("a.txt", b"a b")}
            answer = client.post("/translate_file", files=files, data=fields, headers={"host": host})
            assert answer.json()["translatedFileUrl"].startswith(f"{start}download_file/")


def test_a_server_can_have_a_path(serving):
    fields = {"q": "a b", "source": "en", "target": "de"}
    with serving(origins=("https://a.example/some/path/",)) as client:
        for prefix in ("", "/some/path"):  # as proxies remove it, or not
            headers = {"host": "a.example", "origin": "https://a.example"}
            answer = client.post(f"{prefix}/translate", json=fields, headers=headers)
            assert answer.json() == {"translatedText": "b a"}
            assert "<title>" in client.get(f"{prefix}/").text
            assert "/some/path/static-offline-docs/" in client.get(f"{prefix}/docs").text
            assert client.get(f"{prefix}/static-offline-docs/swagger-ui-bundle.js").status_code == 200


def test_the_path_of_a_server_can_begin_like_an_endpoint(serving):
    fields = {"q": "a b", "source": "en", "target": "de"}
    with serving(origins=("https://a.example/translate",), max_characters=100) as client:
        client.headers["host"] = "a.example"
        for prefix in ("", "/translate"):
            assert client.post(f"{prefix}/translate", json=fields).json() == {"translatedText": "b a"}
            files, large = {"file": ("a.txt", b"a b")}, {"file": ("a.txt", b"a\n" * 100_000)}
            answer = client.post(f"{prefix}/translate_file", files=files, data={"source": "en", "target": "de"})
            assert answer.json()["translatedFileUrl"].startswith("https://a.example/translate/download_file/")
            answer = client.post(f"{prefix}/translate_file", files=large, data={"source": "de", "target": "de"})
            assert answer.status_code == 200  # the limit for files, not for texts
        assert "<title>" in client.get("/translate").text  # without the last slash


def test_no_website_may_frame_a_page(client):
    for path in ("/", "/docs"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "script-src" not in client.get("/").headers["content-security-policy"]


# Documents -----------------------------------------------------------------------------------------------------------


def send(client, name: str, content: bytes, status=200, **fields):
    answer = client.post("/translate_file", files={"file": (name, content)}, data={"target": "de", **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_document_is_translated_and_fetched(client):
    address = send(client, "my menu.json", b'{"title": "the odd park"}', source="en")
    assert address["warnings"] == ['key title, "the odd park": it is odd']
    fetched = client.get(address["translatedFileUrl"])
    assert fetched.json() == {"title": "park odd the"}
    assert "filename*=utf-8''my%20menu.de.json" in fetched.headers["content-disposition"].lower()


def test_the_language_of_a_document_is_found(client):
    content = json.dumps({"der": ENGLISH}).encode()
    address = send(client, "a.json", content, source="auto")["translatedFileUrl"]
    assert client.get(address).json() == {"der": TURNED}
    address = send(client, "a.txt", GERMAN.encode())["translatedFileUrl"]
    assert client.get(address).text == GERMAN  # German already


def test_a_document_of_many_texts_lets_others_pass(client, worker):
    send(client, "a.txt", "\n".join(["a b"] * 3).encode(), source="en")
    send(client, "a.json", json.dumps(["a b"] * 100).encode(), source="en")
    assert [len(texts) for _, texts in worker.batches] == [1, 32, 32, 32, 4]


@pytest.mark.parametrize("name", ["../../etc/passwd.txt", "..\\..\\x.txt", "/a/b/.txt", "%2e%2e%2fx.txt", "..txt"])
def test_names_of_documents_lead_nowhere_else(client, name):
    answer = client.post("/translate_file", files={"file": (name, b"a b")}, data={"target": "de", "source": "en"})
    if answer.status_code == 200:
        address = answer.json()["translatedFileUrl"]
        assert address.count("/") == 5 and client.get(address).text == "b a"
    else:
        assert answer.status_code == 400 and "unsupported document format" in answer.json()["error"]
    assert client.get("/download_file/../x").status_code == 404
    assert client.get("/download_file/%2e%2e/passwd").status_code == 404


def test_files_in_the_target_language_are_files_too(client):
    for name in ("a.exe", "a.svg", f"a.{'x' * 300}", "a"):
        assert "unsupported document format" in send(client, name, b"<svg/>", 400, source="de")["error"]
    page = client.get(send(client, "a.html", b"<p>a b</p>", source="de")["translatedFileUrl"])
    assert page.text == "<p>a b</p>" and page.headers["content-type"] == "application/octet-stream"


def test_documents_that_cannot_be_translated_are_refused(client, serving):
    assert "unsupported document format" in send(client, "a.exe", b"", 400)["error"]
    assert send(client, "a.json", b"{", 400, source="en")["error"].startswith("a.json: Not valid JSON")
    answer = client.post("/translate_file", data={"target": "de"})
    assert (answer.status_code, answer.json()["error"]) == (400, "Invalid request: missing file parameter")
    with serving(max_file_bytes=1000) as client:
        assert "too large" in send(client, "a.txt", b"a" * 100_000, 413)["error"]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": 3}, "Invalid request: q: "),
        ({"target": "es"}, "es is not supported; this server has "),
        ({"source": "fr", "target": "de"}, "fr-de is not supported; this server translates de-en, en-de, en-fr."),
        ({"format": "pdf"}, "Invalid request: format: "),
        ({"alternatives": -1}, "Invalid request: alternatives: "),
        ({"alternatives": 100}, "Invalid request: alternatives: "),
        ({"confidence": "high"}, "Invalid request: confidence: "),
        ({"q": "a" * 10_001}, "Invalid request: request (10001) exceeds text limit (10000)"),
        ({"q": ["a" * 6000] * 2}, "Invalid request: request (12000) exceeds text limit (10000)"),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(client, fields, message):
    assert translate(client, 400, **fields)["error"].startswith(message)


def test_bodies_that_are_not_requests_are_refused(client):
    for body in (b"{", b"[1]", b"\xff", b"[" * 50_000):
        answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400 and list(answer.json()) == ["error"], body[:10]
    answer = client.post("/translate", content=b"")
    assert answer.json() == {"error": "Invalid request: missing q parameter"}


def test_half_a_character_is_refused(client):
    body = b'{"q": "a \\ud800 b", "source": "en", "target": "de"}'
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "q: " in answer.json()["error"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client):
    assert "too large" in translate(client, 413, q="a" * 1_000_000)["error"]

    def pieces():  # without a length
        for _ in range(1000):
            yield b" " * 1000

    answer = client.post("/translate", content=pieces())
    assert answer.status_code == 413


def test_an_internal_error_reveals_nothing_and_affects_no_other_request(client, worker):
    answer = translate(client, 500, q="break")
    assert "secret" not in json.dumps(answer) and answer["error"].startswith("Internal error")
    assert translate(client) == {"translatedText": TURNED}


def test_a_key_is_required(serving):
    with serving(api_key="right") as client:
        assert translate(client, 403)["error"] == "This server requires an API key: api_key"
        assert translate(client, 403, api_key="wrong")["error"] == "Invalid API key"
        assert translate(client, 403, api_key="right ")["error"] == "Invalid API key"
        assert translate(client, api_key="right") == {"translatedText": TURNED}
        bearer = {"authorization": "Bearer right"}
        fields = {"q": "a b", "source": "en", "target": "de"}
        assert client.post("/translate", json=fields, headers=bearer).status_code == 200
        assert client.post("/detect", data={"q": "a"}).status_code == 403
        assert client.post("/translate_file", files={"file": ("a.txt", b"a")}, data={"target": "de"}).status_code == 403
        assert client.get("/metrics").status_code == 403
        assert client.get("/metrics", headers=bearer).status_code == 200
        for path in ("/", "/health", "/languages", "/frontend/settings"):
            assert client.get(path).status_code == 200


def test_other_websites_and_host_names_are_refused(client, serving):
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
        answer = client.post("/translate", data={"q": "a"}, headers=headers)
        assert answer.status_code == 403 and "--origin" in answer.json()["error"], headers
    assert client.get("/health", headers={"origin": "http://127.0.0.1:5000"}).status_code == 200
    with serving(origins=("https://good.example",)) as client:
        origin = {"origin": "https://good.example"}
        answer = client.get("/health", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
        assert client.get("/health", headers={"host": "good.example"}).status_code == 200
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
        assert client.options("/translate", headers=origin | asked).status_code == 200
        assert client.get("/health", headers={"origin": "https://evil.example"}).status_code == 403
    with serving(origins=("*",), host="0.0.0.0") as client:
        answer = client.get("/health", headers={"origin": "https://any.example", "host": "any.example"})
        assert answer.headers["access-control-allow-origin"] == "*"


# Odd input -----------------------------------------------------------------------------------------------------------

FIELDS = ["q", "source", "target", "format", "alternatives", "confidence", "api_key"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@settings(max_examples=150)
@given(fields=st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_fields_have_an_answer_or_an_error_in_a_sentence(client, fields):
    body = json.dumps(fields)
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or (list(answer.json()) == ["error"] and answer.json()["error"])


@settings(max_examples=100)
@given(text=st.text(max_size=50), source=st.sampled_from(["en", "auto"]), kind=st.sampled_from(["text", "html"]))
def test_any_text_has_an_answer(client, text, source, kind):
    answer = client.post("/translate", json={"q": text, "source": source, "target": "de", "format": kind})
    assert answer.status_code == 200 or "not supported" in answer.text or "HTML" in answer.text
