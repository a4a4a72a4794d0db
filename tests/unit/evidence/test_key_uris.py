"""A signing key comes from where its URI says, and neither key nor passphrase leaks on the way."""

from __future__ import annotations

import base64
import os
import pty
import select
import subprocess
import sys
import time
import traceback
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import key_files, key_uris, keys
from provstore.evidence.key_files import INTERACTIVE

WORD = "correct horse ünïcode"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    for name in (key_uris.PASSPHRASE, key_uris.PASSPHRASE_FILE, "PROVSTORE_CONFIG_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def key():
    return keys.PrivateKey.generate()


@pytest.fixture
def file(tmp_path, key):
    key_files.save(tmp_path / "run.key", key, None)
    return tmp_path / "run.key"


@pytest.fixture
def sealed(tmp_path, key):
    key_files.save(tmp_path / "sealed.key", key, WORD.encode(), cost=INTERACTIVE)
    return tmp_path / "sealed.key"


def never():
    raise AssertionError("asked for a passphrase")


@pytest.mark.parametrize(
    "form", ["{path}", "file:{path}", "file://{path}", "./run.key", "file:run.key", "file:./run.key"]
)
def test_a_path_and_a_file_uri_open_the_file(file, key, form):
    assert key_uris.open_signer(form.format(path=file), ask=never).public_key == key.public_key


def test_a_tilde_is_the_home_directory(file, key, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert key_uris.open_signer("~/run.key", ask=never).public_key == key.public_key
    assert key_uris.open_signer("file:~/run.key", ask=never).public_key == key.public_key


def test_a_bare_name_is_a_key_of_the_user_and_never_a_file_of_the_working_directory(tmp_path, key, file):
    with pytest.raises(InputError, match=r"config/keys/run\.key\.key: key file: No such file"):
        key_uris.open_signer("run.key")
    key_files.save(tmp_path / "config" / "keys" / "run.key", key, None)

    assert key_uris.open_signer("run", ask=never).public_key == key.public_key
    assert key_uris.key_path("run") == tmp_path / "config" / "keys" / "run.key"


@pytest.mark.parametrize("name", ["", "file:", "a b", "-x", ".hidden", "x" * 101, "a\0b", "ключ", "a;b", "$(id)", "*"])
def test_what_is_neither_a_path_nor_a_name_is_refused(name):
    with pytest.raises(ConfigError, match="neither a path nor the name of a key"):
        key_uris.open_signer(name)


@pytest.mark.parametrize("uri", ["http://example.org/key", "hex:00", "pass:word", "kms:abc", "File:x", "data:,x"])
def test_another_kind_of_uri_is_refused_and_the_message_lists_the_known_ones(uri):
    with pytest.raises((ConfigError, InputError)) as caught:
        key_uris.open_signer(uri)
    if uri != "File:x":
        assert "file:PATH, env:NAME, fd:NUMBER, keyring:SERVICE/USER, cmd:PROGRAM" in str(caught.value)


def secrets_as_arguments():
    seed = os.urandom(32)
    pem = "-----BEGIN PRIVATE KEY-----\n" + base64.b64encode(seed).decode() + "\n-----END PRIVATE KEY-----"
    return [seed.hex(), seed.hex().upper(), (seed + seed).hex(), base64.b64encode(seed).decode(), f"file:{seed.hex()}",
            f"hex:{seed.hex()}", f"seed:{seed.hex()}", pem, '{"data":"b64:' + seed.hex() + '"}']  # fmt: skip


@pytest.mark.parametrize("number", range(9))
def test_a_key_given_as_an_argument_is_refused_and_not_repeated(number):
    argument = secrets_as_arguments()[number]
    with pytest.raises(ConfigError) as caught:
        key_uris.open_signer(argument)
    shown = "".join(traceback.format_exception_only(caught.value)) + str(caught.value.hint)

    assert not any(argument[start : start + 16] in shown for start in range(10, len(argument) - 16))


def test_others_may_not_reach_the_file_unless_that_is_asked_for(file, key):
    file.chmod(0o640)
    with pytest.raises(InputError, match="mode 0640"):
        key_uris.open_signer(str(file))

    assert key_uris.open_signer(str(file), insecure_mode=True).public_key == key.public_key


def texts_of(key, tmp_path):
    """Return a key as the texts that variables and programs hold."""
    key_files.save(tmp_path / "t1", key, None)
    key_files.export(tmp_path / "t2", key, "pkcs8")
    key_files.export(tmp_path / "t3", key, "openssh")
    return [(tmp_path / name).read_text() for name in ("t1", "t2", "t3")]


def test_a_variable_holds_the_text_of_a_key_file_and_is_removed_as_it_is_read(tmp_path, key, monkeypatch):
    for text in texts_of(key, tmp_path):
        for spelling in (text, text.strip(), f"\n  {text}\r\n"):
            monkeypatch.setenv("SIGNING", spelling)

            assert key_uris.open_signer("env:SIGNING", ask=never).public_key == key.public_key
            assert "SIGNING" not in os.environ
    with pytest.raises(
        ConfigError, match="env:SIGNING: signer: the variable is not set; it is removed once it was read"
    ):
        key_uris.open_signer("env:SIGNING")


@pytest.mark.parametrize("value", ["", " ", "{}", "AAAA", "-----BEGIN PRIVATE KEY-----", "x" * 70_000])
def test_a_variable_that_holds_no_key_is_refused_and_not_repeated(monkeypatch, value):
    monkeypatch.setenv("SIGNING", value)
    with pytest.raises(InputError, match=r"^env:SIGNING: ") as caught:
        key_uris.open_signer("env:SIGNING")
    assert len(value) < 3 or value not in str(caught.value)


def test_a_descriptor_is_read_to_its_end(tmp_path, key):
    for text in texts_of(key, tmp_path):
        reader, writer = os.pipe()
        os.write(writer, text.encode())
        os.close(writer)

        assert key_uris.open_signer(f"fd:{reader}", ask=never).public_key == key.public_key
        os.close(reader)


@pytest.mark.parametrize("number", ["", "-1", "x", "1.0", "٣", "999999", "9999999", "0x3", " 3"])
def test_what_is_no_open_descriptor_is_refused(number):
    with pytest.raises(ConfigError, match="signer: "):
        key_uris.open_signer(f"fd:{number}")


def test_a_descriptor_that_never_ends_is_refused():
    with Path("/dev/zero").open("rb") as zeros, pytest.raises(InputError, match="more than 65535 bytes"):
        key_uris.open_signer(f"fd:{zeros.fileno()}")


class OneEntry(KeyringBackend):
    """A key ring that holds one entry."""

    priority = 1
    text: str | None = None

    def get_password(self, service, username):
        if service == "locked":
            raise KeyringLocked("no")
        return self.text if (service, username) == ("provstore", "run/1") else None

    def set_password(self, service, username, password):
        raise NotImplementedError

    def delete_password(self, service, username):
        raise NotImplementedError


@pytest.fixture
def ring():
    before = keyring.get_keyring()
    ring = OneEntry()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_an_entry_of_the_key_ring_is_read_and_the_user_s_name_may_have_slashes(ring, tmp_path, key):
    for text in texts_of(key, tmp_path):
        ring.text = text

        assert key_uris.open_signer("keyring:provstore/run/1", ask=never).public_key == key.public_key


@pytest.mark.parametrize("name", ["provstore/other", "provstore", "/run", "provstore/", "locked/run"])
def test_an_entry_that_the_key_ring_does_not_give_is_refused(ring, name):
    with pytest.raises(ConfigError, match=r"^keyring"):
        key_uris.open_signer(f"keyring:{name}")


def test_a_machine_without_a_key_ring_is_a_clear_message(monkeypatch):
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())
    try:
        with pytest.raises(ConfigError, match="the key ring gave nothing: NoKeyringError"):
            key_uris.open_signer("keyring:provstore/run")
    finally:
        keyring.set_keyring(before)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="needs the package keyring"):
        key_uris.open_signer("keyring:provstore/run")


def program(tmp_path, text):
    path = tmp_path / "a program"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o700)
    return path


def test_what_a_program_prints_is_read_and_its_arguments_may_be_quoted(tmp_path, key):
    for number, text in enumerate(texts_of(key, tmp_path)):
        (tmp_path / f"out {number}").write_text(text)

        assert key_uris.open_signer(f"cmd:cat 'out {number}'", ask=never).public_key == key.public_key


def test_no_shell_ever_sees_the_line_of_a_program(tmp_path, file):
    for line in ("cat run.key; touch owned", "cat run.key && touch owned", "cat $(touch owned)", "cat `touch owned`",
                 "cat run.key | tee owned", "cat run.key > owned", "cat ~/run.key"):  # fmt: skip
        with pytest.raises(ConfigError, match=r"^cmd:cat: signer: ended with 1"):
            key_uris.open_signer(f"cmd:{line}")
    assert not (tmp_path / "owned").exists()


def test_a_program_inherits_no_passphrase_and_no_input(tmp_path, monkeypatch):
    path = program(tmp_path, "import os, sys, json; print(json.dumps([dict(os.environ), sys.stdin.read()]),"
                             " file=open('seen', 'w'))")  # fmt: skip
    monkeypatch.setenv(key_uris.PASSPHRASE, "open sesame")
    monkeypatch.setenv(key_uris.PASSPHRASE_FILE, str(tmp_path / "word"))
    with pytest.raises(InputError):
        key_uris.open_signer(f"cmd:'{path}'")
    seen = (tmp_path / "seen").read_text()

    assert "PASSPHRASE" not in seen
    assert "open sesame" not in seen
    assert seen.rstrip().endswith('""]')


@pytest.mark.parametrize("line", ["", " ", "''", "'", "nosuchprogram-xyz", "/", "a\0b", "false", "sh -c 'exit 7'"])
def test_a_program_that_does_not_start_or_fails_is_a_clear_message(line):
    with pytest.raises(ConfigError, match=r"^cmd"):
        key_uris.open_signer(f"cmd:{line}")


def test_a_failing_program_s_output_and_arguments_are_not_repeated(tmp_path):
    path = program(tmp_path, "import sys; print('topsecret-output'); sys.exit(3)")
    with pytest.raises(ConfigError, match="ended with 3") as caught:
        key_uris.open_signer(f"cmd:'{path}' --token topsecret-argument")
    assert "topsecret" not in f"{caught.value} {caught.value.hint}"


def test_a_program_that_prints_for_ever_is_stopped():
    with pytest.raises(ConfigError, match="prints more than a key file has"):
        key_uris.open_signer("cmd:yes")


@pytest.mark.parametrize(
    "text",
    [
        "import time; time.sleep(60)",
        "import sys, time, os; os.close(1); time.sleep(60)",
        "import subprocess, sys; subprocess.Popen(['sleep', '9']); sys.exit(0)",
    ],
)
def test_a_program_that_does_not_end_is_stopped_in_time(tmp_path, monkeypatch, text):
    monkeypatch.setattr(key_uris, "COMMAND_SECONDS", 1)
    path = program(tmp_path, text)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="no end after 1 s"):
        key_uris.open_signer(f"cmd:'{path}'")

    assert time.monotonic() - start < 20


def test_the_passphrase_variable_opens_a_key_and_is_removed_as_it_is_read(sealed, key, monkeypatch):
    monkeypatch.setenv(key_uris.PASSPHRASE, WORD)

    assert key_uris.open_signer(str(sealed)).public_key == key.public_key
    assert key_uris.PASSPHRASE not in os.environ
    shown = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert WORD not in shown


def test_a_key_that_is_not_encrypted_asks_for_no_passphrase(file, key, monkeypatch):
    monkeypatch.setenv(key_uris.PASSPHRASE, WORD)

    assert key_uris.open_signer(str(file)).public_key == key.public_key
    assert os.environ[key_uris.PASSPHRASE] == WORD


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_passphrase_file_opens_a_key_and_one_line_end_does_not_count(sealed, key, monkeypatch, tmp_path, end):
    (tmp_path / "word").write_bytes((WORD + end).encode())
    (tmp_path / "word").chmod(0o600)
    monkeypatch.setenv(key_uris.PASSPHRASE_FILE, str(tmp_path / "word"))

    assert key_uris.open_signer(str(sealed)).public_key == key.public_key


def test_the_variable_goes_before_the_file(sealed, key, monkeypatch):
    monkeypatch.setenv(key_uris.PASSPHRASE, WORD)
    monkeypatch.setenv(key_uris.PASSPHRASE_FILE, "missing")

    assert key_uris.open_signer(str(sealed)).public_key == key.public_key


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_passphrase_file_that_others_can_reach_is_refused(sealed, key, monkeypatch, tmp_path, mode):
    (tmp_path / "word").write_text(WORD)
    (tmp_path / "word").chmod(mode)
    monkeypatch.setenv(key_uris.PASSPHRASE_FILE, str(tmp_path / "word"))
    with pytest.raises(InputError, match=f"word: passphrase file: mode 0{mode:o}") as caught:
        key_uris.open_signer(str(sealed))

    assert WORD not in str(caught.value)
    assert key_uris.open_signer(str(sealed), insecure_mode=True).public_key == key.public_key


def test_an_empty_passphrase_and_a_missing_file_are_clear_messages(sealed, monkeypatch, tmp_path):
    monkeypatch.setenv(key_uris.PASSPHRASE, "")
    with pytest.raises(ConfigError, match="passphrase: empty"):
        key_uris.open_signer(str(sealed))
    monkeypatch.setenv(key_uris.PASSPHRASE_FILE, str(tmp_path / "missing"))
    with pytest.raises(InputError, match="missing: passphrase file: No such file"):
        key_uris.open_signer(str(sealed))


def test_without_any_passphrase_and_without_a_terminal_nothing_hangs(sealed):
    code = "import sys; from provstore.evidence import key_uris; key_uris.open_signer(sys.argv[1])"
    ended = subprocess.run(
        [sys.executable, "-c", code, sealed], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip

    assert "passphrase: none is set, and there is no terminal to ask on" in ended.stderr


def on_a_terminal(code, *arguments, answers):
    """Run code on a terminal of its own, answer each of its prompts, and return all that the terminal showed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", code, *map(str, arguments)])
    shown, left = b"", list(answers)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and select.select([terminal], [], [], 30)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        shown += piece
        if left and shown.rstrip(b" ").endswith(b":"):
            os.write(terminal, left.pop(0).encode() + b"\n")
    os.waitpid(child, 0)
    os.close(terminal)
    return shown.decode()


def test_the_terminal_is_asked_and_shows_no_letter_of_the_answer(sealed, key):
    code = "import sys; from provstore.evidence import key_uris; print(key_uris.open_signer(sys.argv[1]))"
    shown = on_a_terminal(code, sealed, answers=[WORD])

    assert f"Passphrase of {sealed}:" in shown
    assert keys.fingerprint(key.public_key) in shown
    assert WORD not in shown


def test_a_new_passphrase_is_asked_for_twice():
    code = "from provstore.evidence import key_uris; print(len(key_uris.passphrase('the new key', confirm=True)))"
    alike = on_a_terminal(code, answers=["open sesame", "open sesame"])
    different = on_a_terminal(code, answers=["open sesame", "open sesam"])

    assert alike.rstrip().endswith("11")
    assert "the two answers differ" in different
    assert "sesam" not in alike + different


def test_the_end_of_input_at_the_prompt_is_a_clear_message(sealed):
    code = "import sys; from provstore.evidence import key_uris; print(key_uris.open_signer(sys.argv[1]))"
    end_of_input = "\x04"
    shown = on_a_terminal(code, sealed, answers=[end_of_input])

    assert "passphrase: no answer" in shown or "passphrase: empty" in shown


def test_an_error_shows_neither_key_nor_passphrase_nor_the_frames_that_held_them(tmp_path, key, monkeypatch):
    seed = key.secret_seed()
    text = (texts_of(key, tmp_path)[0]).replace(keys.fingerprint(key.public_key), "SHA256:other")
    (tmp_path / "out").write_text(text)
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    monkeypatch.setenv("SIGNING", text)
    for uri in ("env:SIGNING", f"fd:{reader}", "cmd:cat out"):
        with pytest.raises(TrustError, match="the stated key id") as caught:
            key_uris.open_signer(uri)
        frames = [repr(frame.f_locals) for frame, _ in list(traceback.walk_tb(caught.value.__traceback__))[1:]]
        shown = "".join([*frames, *traceback.format_exception(caught.value)])

        assert base64.b64encode(seed).decode()[:40] not in shown
        assert seed.hex() not in shown
        assert caught.value.__context__ is None
    os.close(reader)
