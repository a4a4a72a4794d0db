"""Prometheus is asked within limits, every series of its answer is judged, and its token goes nowhere else."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import secrets
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provstore.errors import ConfigError, InputError
from provstore.sources.signals import http_client, prometheus
from provstore.sources.signals.devices import Device, Devices, scopes
from provstore.sources.signals.http_client import FetchError, Token, fetched
from provstore.sources.signals.prometheus import Limit, Prometheus, Settings, address, answer, asked, settings

UUID = "GPU-34d7319c-5b19-1e75-186d-c187099e4fe5"
DEVICES = Devices([Device(0, "node1", "0000:01:00", UUID), Device(1, "node2", "0000:01:00")])
HOT = Limit("temperature", 90.0, 80.0, "gpu_temp")


def vector(*series):
    """An answer as Prometheus gives it: labels and value of each series."""
    result = [
        {"metric": {"__name__": "gpu_temp", **labels}, "value": [1700000000.5, value]} for labels, value in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def polled(reader, *answers):
    return [reader.poll(lambda data=data: data) for data in answers]


class Served:
    """A server in a thread; ``answers`` maps a path to a function of the handler."""

    def __init__(self, answers):
        self.seen = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.seen.append((self.path, self.headers.get("Authorization")))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    answers[urlsplit(self.path).path](self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def url(self, path="/api/v1/query", host="127.0.0.1"):
        return f"http://{host}:{self.server.server_address[1]}{path}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def body(data, status=200, **headers):
    def serve(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if data is not None:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data or b"")

    return serve


def dripping(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(400):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def drips_less_than_it_states(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(400):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def drips_its_head(handler):
    for byte in b"HTTP/1.0 200 OK\r\n" + b"X: y\r\n" * 70:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.05)


def mute(handler):
    time.sleep(3)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65_536)


def cut_short(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")


def kind_of(url, **limits):
    with pytest.raises(FetchError) as refused:
        fetched(url, **limits)
    return refused.value


def test_a_second_series_beyond_the_threshold_fires_though_the_first_is_not():
    poll = Prometheus(HOT, DEVICES).poll(lambda: vector(({"rank": "0"}, "60"), ({"rank": "1"}, "95.5")))

    (signal,) = poll.signals
    assert (signal.trigger, signal.source, signal.name) == ("prometheus", "prometheus", "temperature")
    assert (signal.value, signal.threshold, signal.ranks) == (95.5, 90, (1,))
    assert signal.at_ns == 1_700_000_000_500_000_000
    assert poll.problems == ()


def test_a_series_fires_when_it_crosses_and_clears_below_the_clear_threshold():
    reader = Prometheus(HOT, DEVICES)

    polls = polled(reader, *(vector(({"rank": "1"}, str(value))) for value in (70, 91, 95, 85, 91, 80, 85, 91)))

    assert [len(poll.signals) for poll in polls] == [0, 1, 0, 0, 0, 0, 0, 1]
    assert [poll.cleared for poll in polls] == [(), (), (), (), (), ("rank:1",), (), ()]


def test_a_scope_clears_when_its_last_series_does():
    reader = Prometheus(HOT, DEVICES)
    two = [({"host": "node1", "gpu": gpu}, value) for gpu, value in (("0", "95"), ("1", "96"))]

    polls = polled(reader, vector(*two), vector((two[0][0], "10"), two[1]), vector((two[0][0], "10"), (two[1][0], "1")))

    assert [len(poll.signals) for poll in polls] == [2, 0, 0]
    assert [poll.cleared for poll in polls] == [(), (), ("host:node1",)]


def test_a_lower_threshold_is_crossed_downward():
    low = Limit("clock", 1000, 1200, "sm_clock", is_upper=False)
    polls = polled(
        Prometheus(low, DEVICES), *(vector(({"rank": "0"}, value)) for value in ("1500", "900", "1100", "1200"))
    )

    assert [len(poll.signals) for poll in polls] == [0, 1, 0, 0]
    assert polls[-1].cleared == ("rank:0",)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_not_finite_are_passed_over_and_counted(value):
    reader = Prometheus(HOT, DEVICES)

    first, second = polled(
        reader, vector(({"rank": "0"}, "95")), vector(({"rank": "0"}, value), ({"rank": "1"}, value))
    )

    assert len(first.signals) == 1
    assert (second.signals, second.cleared) == ((), ())
    assert [(one.kind, one.count) for one in second.problems] == [("non-finite", 2)]


def test_an_empty_answer_is_no_information_and_is_said_at_the_fifth_poll():
    reader = Prometheus(HOT, DEVICES)

    polls = polled(reader, *[vector()] * 7, vector(({}, "1")), *[vector()] * 5)

    assert [[one.kind for one in poll.problems] for poll in polls] == [
        [], [], [], [], ["empty"], [], [], [], [], [], [], [], ["empty"],
    ]  # fmt: skip
    assert not any(poll.signals or poll.cleared for poll in polls)


def test_a_series_that_is_gone_keeps_its_scope_for_four_polls():
    reader = Prometheus(HOT, DEVICES)
    other = ({"rank": "0"}, "1")

    polls = polled(reader, vector(other, ({"rank": "1"}, "95")), *[vector(other)] * 5)

    assert [poll.cleared for poll in polls] == [(), (), (), (), (), ("rank:1",)]


MALFORMED = [
    b"", b"<html>", b"[]", b"null", b"{}", b'{"status":"success"}', b'{"status":5,"data":{}}',
    b'{"status":"success","data":[]}', b'{"status":"success","data":{"resultType":"vector"}}',
    b'{"status":"success","data":{"resultType":"vector","result":{}}}',
    b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
    b'{"status":"success","data":{"resultType":"string","result":[1,"x"]}}',
    b'{"status":"error","errorType":"bad_data","error":"parse error"}', b"\xff\xfe", b"[" * 100_000, b"NaN",
]  # fmt: skip


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_an_answer_that_is_none_is_a_problem_and_changes_nothing(data):
    reader = Prometheus(HOT, DEVICES)
    reader.poll(lambda: vector(({"rank": "0"}, "95")))
    before = json.dumps(reader.state())

    poll = reader.poll(lambda: data)

    assert [one.kind for one in poll.problems] == ["malformed"]
    assert poll.problems[0].text.startswith("temperature: prometheus: answer: ")
    assert (poll.signals, poll.cleared, json.dumps(reader.state())) == ((), (), before)


@pytest.mark.parametrize(
    "series",
    [
        5, {}, {"metric": {}}, {"metric": {}, "value": [1, 2]}, {"metric": {}, "value": ["1", "2"]},
        {"metric": {}, "value": [1, "two"]}, {"metric": {"a": 1}, "value": [1, "2"]}, {"metric": {}, "value": [1]},
        {"metric": {}, "value": [True, "2"]}, {"metric": {}, "value": [1e300, "2"]},
        {"metric": {}, "value": [1, "1_0"]},
        {"metric": {}, "histogram": [1, {}]},
    ],
)  # fmt: skip
def test_a_series_that_cannot_be_read_is_counted_and_the_others_are_judged(series):
    good = {"metric": {"rank": "1"}, "value": [1, "95"]}
    data = json.dumps({"status": "success", "data": {"resultType": "vector", "result": [series, good]}}).encode()

    poll = Prometheus(HOT, DEVICES).poll(lambda: data)

    assert [one.ranks for one in poll.signals] == [(1,)]
    assert [(one.kind, one.count) for one in poll.problems] == [("malformed", 1)]


def test_a_scalar_is_one_series_without_labels_and_concerns_the_run():
    data = b'{"status":"success","data":{"resultType":"scalar","result":[1700000000,"99"]}}'

    (signal,) = Prometheus(HOT, DEVICES).poll(lambda: data).signals

    assert scopes(signal, DEVICES) == ("run",)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({"rank": "1"}, ("rank:1",)),
        ({"UUID": UUID}, ("rank:0",)),
        ({"pci_bus_id": "00000000:01:00.0", "Hostname": "node2"}, ("rank:1",)),
        ({"pci_bus_id": "00000000:01:00.0"}, ("run",)),
        ({"instance": "node2:9400"}, ("host:node2",)),
        ({"instance": "10.0.0.7:9400", "node": "node1.cluster"}, ("host:node1",)),
        ({"rank": "7"}, ("run",)),
        ({"rank": "-1"}, ("run",)),
        ({"host": "elsewhere"}, ("run",)),
    ],
)
def test_labels_lead_to_a_rank_or_a_host_of_the_run_else_the_run_is_concerned(labels, wanted):
    (signal,) = Prometheus(HOT, DEVICES).poll(lambda: vector((labels, "95"))).signals

    assert scopes(signal, DEVICES) == wanted


def test_other_labels_can_be_named_for_ranks_and_hosts():
    reader = Prometheus(HOT, DEVICES, rank_labels=("torch_rank",), host_labels=("box",))

    signals = reader.poll(lambda: vector(({"torch_rank": "1"}, "95"), ({"box": "node2", "rank": "0"}, "95"))).signals

    assert [scopes(one, DEVICES) for one in signals] == [("rank:1",), ("host:node2",)]


def test_a_restarted_reader_goes_on_where_it_was():
    first = Prometheus(HOT, DEVICES)
    first.poll(lambda: vector(({"rank": "0"}, "95")))
    second = Prometheus(HOT, DEVICES, state=json.loads(json.dumps(first.state())))

    still, cleared = polled(second, vector(({"rank": "0"}, "95")), vector(({"rank": "0"}, "5")))

    assert (still.signals, cleared.cleared) == ((), ("rank:0",))


@pytest.mark.parametrize(
    "limits", [{"threshold": float("nan")}, {"threshold": float("inf")}, {"threshold": 5, "clear": 6},
               {"threshold": 5, "clear": float("nan")}, {"threshold": 5, "clear": 4, "is_upper": False}],
)  # fmt: skip
def test_thresholds_that_cannot_be_crossed_and_crossed_back_are_refused(limits):
    with pytest.raises(ConfigError, match=r"^t: "):
        Limit("t", **limits)


def test_settings_have_the_names_of_the_environment_and_their_defaults():
    secret = secrets.token_urlsafe(24)

    assert settings({}) is None
    assert settings({"PROMETHEUS_QUERY_URL": "http://p:9090/q"}) == Settings("http://p:9090/q", 30.0, 10.0, None)
    said = settings(
        {
            "PROMETHEUS_QUERY_URL": "https://p/api/v1/query",
            "PROMETHEUS_POLL_INTERVAL": "5",
            "PROMETHEUS_TIMEOUT": "2.5",
            "PROMETHEUS_BEARER_TOKEN": secret,
        }
    )
    assert (said.interval_seconds, said.timeout_seconds, said.token.value) == (5, 2.5, secret)
    assert secret not in repr(said) + str(said) + repr(said.token)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROMETHEUS_QUERY_URL", "ftp://p/q"), ("PROMETHEUS_QUERY_URL", "file:///etc/passwd"),
        ("PROMETHEUS_QUERY_URL", "p:9090"), ("PROMETHEUS_QUERY_URL", "http://"), ("PROMETHEUS_QUERY_URL", "http://p:x/"),
        ("PROMETHEUS_QUERY_URL", "http://p/a b"), ("PROMETHEUS_QUERY_URL", "http://[p/"),
        ("PROMETHEUS_POLL_INTERVAL", "0"), ("PROMETHEUS_POLL_INTERVAL", "soon"), ("PROMETHEUS_TIMEOUT", "-1"),
        ("PROMETHEUS_TIMEOUT", "nan"), ("PROMETHEUS_TIMEOUT", "inf"),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_usable_is_refused(name, value):
    with pytest.raises(ConfigError):
        settings({"PROMETHEUS_QUERY_URL": "http://p/"} | {name: value})


def test_an_address_with_a_password_is_refused_without_showing_it():
    secret = secrets.token_urlsafe(24)

    with pytest.raises(ConfigError) as refused:
        settings({"PROMETHEUS_QUERY_URL": f"http://me:{secret}@p/q"})
    assert secret not in str(refused.value)


@pytest.mark.parametrize("end", ["\r\nX: y", " ", "\x00", "é"])
def test_a_token_that_no_header_can_hold_is_refused_without_showing_it(end):
    secret = secrets.token_urlsafe(24)

    with pytest.raises(ConfigError) as refused:
        Token(secret + end)
    assert secret not in str(refused.value)


def test_a_query_is_added_to_the_address_and_is_quoted():
    url = address("http://p/api/v1/query?tenant=a", 'max(x{y="é&b"}) > 0')

    assert parse_qs(urlsplit(url).query) == {"tenant": ["a"], "query": ['max(x{y="é&b"}) > 0']}
    assert address("http://p/q?query=up", None) == "http://p/q?query=up"


def test_a_server_is_asked_with_the_query_and_the_token():
    secret = secrets.token_urlsafe(24)
    with Served({"/api/v1/query": body(vector(({"rank": "1"}, "95")))}) as served:
        said = Settings(served.url(), 30, 5, Token(secret))

        poll = Prometheus(HOT, DEVICES).poll(asked(said, HOT))

    assert [one.ranks for one in poll.signals] == [(1,)]
    assert served.seen == [("/api/v1/query?query=gpu_temp", f"Bearer {secret}")]


def test_a_redirect_within_the_host_is_followed():
    answers = {"/q": body(b"", 307, Location="/api/v1/query?x=1"), "/api/v1/query": body(b"ok")}
    with Served(answers) as served:
        assert fetched(served.url("/q"), timeout=5) == b"ok"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_or_port_is_not_followed_and_its_host_is_never_asked(status):
    secret = secrets.token_urlsafe(24)
    with Served({"/api/v1/query": body(b"stolen")}) as other:
        places = [other.url(), other.url(host="localhost"), other.url().replace("http:", "https:"), "file:///etc/passwd",
                  "//user@127.0.0.1/", "http://[x/"]  # fmt: skip
        for place in places:
            with Served({"/api/v1/query": body(b"", status, Location=place)}) as served:
                error = kind_of(served.url(), timeout=5, token=Token(secret))
            assert error.kind == "unreachable"
            assert "redirect to another host" in str(error)

    assert other.seen == []


def test_a_circle_of_redirects_ends():
    with Served({"/api/v1/query": body(b"", 302, Location="/api/v1/query")}) as served:
        assert "redirects" in str(kind_of(served.url(), timeout=5))

    assert len(served.seen) == 4


@pytest.mark.parametrize("serve", [dripping, drips_less_than_it_states, drips_its_head, mute])
def test_a_slow_server_is_given_up_at_the_time_limit_whatever_it_sends_meanwhile(serve):
    with Served({"/api/v1/query": serve}) as served:
        started = time.monotonic()
        error = kind_of(served.url(), timeout=0.5)
        took = time.monotonic() - started

    assert error.kind == "timeout"
    assert str(error).endswith("none within 0.5 s")
    assert took < 10, "not as long as the server sends"


def test_a_huge_answer_is_given_up_at_the_size_limit():
    with Served({"/api/v1/query": endless, "/stated": body(b"x" * 2_000)}) as served:
        errors = [kind_of(served.url(), timeout=20), kind_of(served.url("/stated"), timeout=5, max_bytes=1_999)]
        whole = fetched(served.url("/stated"), timeout=5, max_bytes=2_000)

    assert [error.kind for error in errors] == ["malformed", "malformed"]
    assert len(whole) == 2_000


@pytest.mark.parametrize(
    ("serve", "kind"),
    [(cut_short, "malformed"), (body(b"no", 401), "unreachable"), (body(b"no", 503), "unreachable"),
     (body(b"", 302), "unreachable"), (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), "unreachable")],
    ids=["short", "401", "503", "nowhere", "no http"],
)  # fmt: skip
def test_an_answer_that_is_not_whole_and_good_is_an_error(serve, kind):
    with Served({"/api/v1/query": serve}) as served:
        assert kind_of(served.url(), timeout=5).kind == kind


def test_a_server_whose_certificate_nobody_vouches_for_gets_no_token(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day).sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (tmp_path / "both.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    with Served({"/api/v1/query": body(b"{}")}) as served:
        served.server.handle_error = lambda *_: None
        served.server.socket = context.wrap_socket(served.server.socket, server_side=True)
        error = kind_of(served.url().replace("http:", "https:"), timeout=5, token=Token("x" * 20))

    assert error.kind == "unreachable"
    assert served.seen == []


def test_a_server_that_is_not_there_is_a_problem_of_the_poll():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = Settings(f"http://127.0.0.1:{taken.getsockname()[1]}/q", 30, 2)

        poll = Prometheus(HOT, DEVICES).poll(asked(said, HOT))

    assert [one.kind for one in poll.problems] == ["unreachable"]
    assert (poll.signals, poll.cleared) == ((), ())


def test_a_time_out_is_a_problem_of_the_poll_and_changes_nothing():
    reader = Prometheus(HOT, DEVICES)
    reader.poll(lambda: vector(({"rank": "0"}, "95")))
    with Served({"/api/v1/query": lambda handler: time.sleep(2)}) as served:
        poll = reader.poll(asked(Settings(served.url(), 30, 0.3), HOT))

    assert [one.kind for one in poll.problems] == ["timeout"]
    assert (poll.signals, poll.cleared) == ((), ())


def test_the_token_is_in_no_message_no_log_and_no_state(caplog, tmp_path, monkeypatch):
    secret = secrets.token_urlsafe(24)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    reader, texts = Prometheus(HOT, DEVICES), []
    answers = {
        "/good": body(vector(({"rank": "0"}, "95"))), "/bad": body(b"{"), "/away": body(b"", 302, Location="http://x/"),
        "/no": body(b"", 403), "/slow": lambda handler: time.sleep(1), "/cut": cut_short,
    }  # fmt: skip
    with Served(answers) as served:
        for path in answers:
            said = Settings(served.url(path), 30, 0.3, Token(secret))
            texts += [repr(reader.poll(asked(said, HOT))), repr(said), json.dumps(reader.state())]
        dead = Settings("http://127.0.0.1:1/q", 30, 0.3, Token(secret))
        texts.append(repr(reader.poll(asked(dead, HOT))))

    assert len(served.seen) == len(answers)
    assert all(header == f"Bearer {secret}" for _, header in served.seen)
    assert not any(secret in text for text in (*texts, caplog.text))
    assert [*tmp_path.rglob("*")] == []


def test_the_query_of_an_address_is_in_no_message():
    with Served({"/api/v1/query": body(b"", 500)}) as served:
        error = kind_of(served.url("/api/v1/query?key=hidden"), timeout=5)

    assert "hidden" not in str(error)
    assert "/api/v1/query" in str(error)


def test_an_answer_is_an_input_and_no_more_is_read_from_it_than_it_says():
    with pytest.raises(InputError, match=r"^prometheus: answer: status 'error', error 'bad_data'$"):
        answer(b'{"status":"error","errorType":"bad_data","error":"x"}')
    assert http_client.MAX_BYTES == 8 << 20
    assert prometheus.EMPTY_POLLS == 5
