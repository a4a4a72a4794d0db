"""The commands that an export prints for its signatures hold for it, and fail for anything that was changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import keys, public_forms
from provstore.exports.evidence import signing_forms
from tests.foreign import tools

FILES = {"epoch-0.jsonl": b'{"n":0}\n', "epoch-0.dsse.json": b"{}", "checkpoint": b"a\n2\n\n"}
ROLES = {"sshsig": {"run"}, "minisign": set(), "signify": {"file"}, "in-toto": {"run"}}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


def check(form: signing_forms.SignedForm, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run the printed commands as they stand."""
    known = {"signify-openbsd": "signify", "in-toto-verify": "in-toto"}
    found = Path(tools.program(known.get(form.tool, form.tool))).parent
    return tools.run(["bash", "-c", form.commands], folder=folder, PATH=f"{found}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("name", signing_forms.FORMS)
def test_the_printed_commands_hold(name: str, export: Path, key: keys.PrivateKey) -> None:
    (form,) = signing_forms.write_signing_forms(export, [name], key, ROLES[name])
    shown = check(form, export)
    assert shown.returncode == 0, shown.stderr.decode()


@pytest.mark.parametrize("name", signing_forms.FORMS)
def test_the_printed_commands_fail_for_a_changed_bit_of_any_file(name: str, export: Path, key: keys.PrivateKey) -> None:
    (form,) = signing_forms.write_signing_forms(export, [name], key, ROLES[name])
    listed = [*FILES, *([] if name == "in-toto" else ["SHA256SUMS"])]
    for changed in listed:
        content = (export / changed).read_bytes()
        (export / changed).write_bytes(content[:1] + bytes([content[1] ^ 1]) + content[2:])
        assert check(form, export).returncode != 0, changed
        (export / changed).write_bytes(content)
    assert check(form, export).returncode == 0


@pytest.mark.parametrize("name", signing_forms.FORMS)
def test_the_printed_commands_fail_for_a_missing_file(name: str, export: Path, key: keys.PrivateKey) -> None:
    (form,) = signing_forms.write_signing_forms(export, [name], key, ROLES[name])
    (export / "epoch-0.jsonl").unlink()
    assert check(form, export).returncode != 0


@pytest.mark.parametrize("name", signing_forms.FORMS)
def test_the_printed_commands_fail_for_files_listed_anew_by_another_key(
    name: str, export: Path, key: keys.PrivateKey
) -> None:
    (form,) = signing_forms.write_signing_forms(export, [name], key, ROLES[name])
    publics = {path: content for path, content in form.files.items() if path.endswith((".pub", ".pem", "signers"))}
    (export / "epoch-0.jsonl").write_bytes(b"{}\n")
    signing_forms.write_signing_forms(export, [name], keys.PrivateKey.generate(), ROLES[name])
    for path, content in publics.items():
        (export / path).write_bytes(content)
    assert check(form, export).returncode != 0


def test_signatures_of_several_forms_and_keys_stand_side_by_side(export: Path, key: keys.PrivateKey) -> None:
    made = signing_forms.write_signing_forms(export, ["in-toto", "sshsig", "minisign"], key, {"run"})
    made += signing_forms.write_signing_forms(export, ["signify"], keys.PrivateKey.generate(), {"file"})
    (export / "VERIFY.txt").write_text("how to")
    for form in made:
        shown = check(form, export)
        assert shown.returncode == 0, (form.form, shown.stderr.decode())


def test_the_list_is_that_of_sha256sum(export: Path) -> None:
    shown = tools.run(["bash", "-c", "sha256sum --tag *"], folder=export)
    assert signing_forms.sums(signing_forms.digests_of(export)) == b"".join(sorted(shown.stdout.splitlines(True)))


def test_proofs_and_instructions_are_not_listed(export: Path) -> None:
    for name in ("record-0.json", "record-0.tlog-proof", "VERIFY.txt", "minisign.pub"):
        (export / name).write_bytes(b"x")
    assert set(signing_forms.digests_of(export)) == set(FILES)


def test_the_public_key_files_are_those_of_the_key(export: Path, key: keys.PrivateKey) -> None:
    signing_forms.write_signing_forms(export, ["in-toto", "sshsig", "minisign"], key, set())
    for name in ("in-toto.pem", "allowed_signers", "minisign.pub"):
        assert public_forms.read_public((export / name).read_bytes(), name) == key.public_key


@pytest.mark.parametrize("forms", [[], ["gpg"], ["sshsig", "gpg"], ["signify", "sshsig"]])
def test_forms_that_do_not_exist_or_go_together_are_refused(
    forms: list[str], export: Path, key: keys.PrivateKey
) -> None:
    with pytest.raises(ConfigError, match="form"):
        signing_forms.write_signing_forms(export, forms, key, {"file"})
    assert {path.name for path in export.iterdir()} == set(FILES)


def test_a_key_signs_either_raw_files_or_everything_else(export: Path, key: keys.PrivateKey) -> None:
    for name in ("sshsig", "minisign", "in-toto"):
        with pytest.raises(TrustError, match="role file"):
            signing_forms.write_signing_forms(export, [name], key, {"file"})
    for roles in (set(), {"run"}, {"run", "file"}):
        with pytest.raises(TrustError, match="not file"):
            signing_forms.write_signing_forms(export, ["signify"], key, roles)
    assert {path.name for path in export.iterdir()} == set(FILES)


def test_a_signer_that_gives_wrong_signatures_is_found_out(export: Path, key: keys.PrivateKey) -> None:
    class Broken:
        public_key = key.public_key

        def sign(self, message: bytes) -> bytes:
            return key.sign(message + b"x")

    for name in signing_forms.FORMS:
        with pytest.raises(TrustError, match="does not hold"):
            signing_forms.write_signing_forms(export, [name], Broken(), ROLES[name])
    assert {path.name for path in export.iterdir()} == set(FILES)


@pytest.mark.parametrize("name", ["two words", "a\nb", "é", ".hidden", "{x}", "*", "-rf"])
def test_a_file_that_no_export_has_is_refused(name: str, export: Path, key: keys.PrivateKey) -> None:
    (export / name).write_bytes(b"")
    with pytest.raises(InputError, match="no such file"):
        signing_forms.write_signing_forms(export, ["sshsig"], key, set())


def test_links_and_folders_are_refused(export: Path, key: keys.PrivateKey) -> None:
    (export / "link.jsonl").symlink_to("epoch-0.jsonl")
    with pytest.raises(InputError, match="link"):
        signing_forms.digests_of(export)
    (export / "link.jsonl").unlink()
    (export / "folder").mkdir()
    with pytest.raises(InputError, match="folder"):
        signing_forms.digests_of(export)


def test_a_folder_without_an_export_is_refused(tmp_path: Path, key: keys.PrivateKey) -> None:
    with pytest.raises(InputError, match="no files"):
        signing_forms.digests_of(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        signing_forms.digests_of(tmp_path / "absent")
