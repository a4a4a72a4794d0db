"""The commands of ``VERIFY.txt``: each block checks something with one foreign tool and fails when it does not hold.

``@FIRST@`` and ``@LAST@`` are numbers of epochs, ``@CALLS@`` the calls of a shell function, one for each key that
signed. Nothing else is filled in: no block holds anything that a run states.
"""

from __future__ import annotations

FINGERPRINT = r"""EXPECTED=''   # write between the quotes the fingerprint that you got from elsewhere, SHA256:...
[ -n "$EXPECTED" ] && [ "SHA256:$({ printf '\000\000\000\013ssh-ed25519\000\000\000\040'
  openssl pkey -pubin -in @PEM@ -outform DER | tail -c 32
} | openssl dgst -sha256 -binary | openssl base64 | tr -d '=')" = "$EXPECTED" ]
"""

SSH_KEYGEN = r"""EXPECTED=''   # write between the quotes the fingerprint that you got from elsewhere, SHA256:...
[ -n "$EXPECTED" ] && ssh-keygen -l -f @SSH@ | grep -F " $EXPECTED "
"""

OPENSSL = r"""check() ( for n in $(seq "$1" "$2"); do
  openssl pkeyutl -verify -pubin -inkey "$3" -rawin -in "epoch-$n.pae.bin" -sigfile "epoch-$n.sig.raw" || exit 1
done )
@CALLS@
"""

CHAIN = r"""python3 - @FIRST@ @LAST@ <<'EOF'
import base64, hashlib, json, sys

def sha(data):
    return hashlib.sha256(data).digest()

def need(holds, what):
    if not holds:
        sys.exit(what + ": does not hold")

def read(name):
    with open(name, "rb") as file:
        return file.read()

first, last = int(sys.argv[1]), int(sys.argv[2])
peaks, size, prev, attestations = [], 0, "0" * 64, read("run.intoto.jsonl").split(b"\n")
need(len(attestations) == last - first + 2, "run.intoto.jsonl: number of lines")
for n in range(first, last + 1):
    name = "epoch-%d" % n
    envelope = json.loads(read(name + ".dsse.json"))
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"], validate=True)
    pae = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    need(pae == read(name + ".pae.bin"), name + ": signed bytes")
    need(base64.b64decode(envelope["signatures"][0]["sig"]) == read(name + ".sig.raw"), name + ": signature")
    need(envelope == json.loads(read(name + ".sigstore.json"))["dsseEnvelope"], name + ": Sigstore bundle")
    need(envelope == json.loads(attestations[n - first]), name + ": run.intoto.jsonl")
    statement = json.loads(payload)
    said, lines = statement["predicate"], read(name + ".jsonl")
    need(sha(lines).hex() == statement["subject"][0]["digest"]["sha256"], name + ": digest of the records")
    need(said["epoch"] == n, name + ": number")
    if first == 0:
        need((said["prev"], said["first"]) == (prev, size), name + ": chain")
        for line in lines.split(b"\n")[:-1]:
            peaks.append((1, sha(b"\0" + line)))
            size += 1
            while len(peaks) > 1 and peaks[-1][0] == peaks[-2][0]:
                (width, right), (_, left) = peaks.pop(), peaks.pop()
                peaks.append((2 * width, sha(b"\1" + left + right)))
        root = peaks[-1][1]
        for _, left in peaks[-2::-1]:
            root = sha(b"\1" + left + root)
        need((said["size"], said["root"]) == (size, root.hex()), name + ": tree")
    prev = sha(payload).hex()
print("digests hold" if first else "digests, chain and tree hold: %d records" % size)
print("closed by its writer" if said["closed"] else "never closed: nobody has signed that these are all its records")
EOF
"""

CHECKPOINT = r"""( set -e; d=$(mktemp -d)
sed '/^$/,$d' checkpoint > "$d/note"
sed -n '/^$/,$s/^— [^ ]* //p' checkpoint | head -n 1 | openssl base64 -d -A | tail -c 64 > "$d/sig"
openssl pkeyutl -verify -pubin -inkey @PEM@ -rawin -in "$d/note" -sigfile "$d/sig"
python3 - @LAST@ <<'EOF'
import base64, json, sys
said = json.loads(base64.b64decode(json.load(open("epoch-%s.dsse.json" % sys.argv[1]))["payload"]))["predicate"]
_, size, root = open("checkpoint", encoding="utf-8").read().split("\n")[:3]
sys.exit((int(size), base64.b64decode(root).hex()) != (said["size"], said["root"]))
EOF
)
"""

PROOFS = r"""python3 - <<'EOF'
import base64, glob, hashlib, sys

def read(name):
    with open(name, "rb") as file:
        return file.read()

def sha(data):
    return hashlib.sha256(data).digest()

for name in glob.glob("record-*.tlog-proof"):
    proof, _, note = read(name).decode().partition("\n\n")
    head, number, *told = proof.split("\n")
    index, hashes = int(number.split(" ")[1]), [base64.b64decode(one, validate=True) for one in told]
    _, size, root = note.split("\n")[:3]
    at, end = index, int(size) - 1
    value = sha(b"\0" + read(name[: -len("tlog-proof")] + "json"))
    for sibling in hashes:
        if end == 0:
            sys.exit(name + ": too long")
        if at % 2 or at == end:
            value = sha(b"\1" + sibling + value)
            while at and not at % 2:
                at, end = at >> 1, end >> 1
        else:
            value = sha(b"\1" + value + sibling)
        at, end = at >> 1, end >> 1
    holds = index < int(size) and end == 0 and value == base64.b64decode(root)
    if not holds or head != "c2sp.org/tlog-proof@v1" or note.encode() != read("checkpoint"):
        sys.exit(name + ": does not hold")
print("every proof leads to the checkpoint")
EOF
"""

SECURESYSTEMSLIB = r"""check() { python3 - "$@" <<'EOF'
import json, sys
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

with open(sys.argv[3], "rb") as file:
    public = SSlibKey.from_crypto(load_pem_public_key(file.read()))
for n in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    with open("epoch-%d.dsse.json" % n) as file:
        told = json.load(file)
    # The key id is not signed; this library wants the key to have the one that the envelope names.
    key = SSlibKey(told["signatures"][0]["keyid"], public.keytype, public.scheme, public.keyval)
    Envelope.from_dict(told).verify([key], threshold=1)
EOF
}
@CALLS@
"""

IN_TOTO = r"""check() { python3 - "$@" <<'EOF'
import json, sys
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from in_toto.models.metadata import Metadata
from securesystemslib.signer import SSlibKey

with open(sys.argv[3], "rb") as file:
    public = SSlibKey.from_crypto(load_pem_public_key(file.read()))
for n in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    name = "epoch-%d.dsse.json" % n
    with open(name) as file:
        keyid = json.load(file)["signatures"][0]["keyid"]
    Metadata.load(name).verify_signature({"keyid": keyid, **public.to_dict()})
EOF
}
@CALLS@
"""

IN_TOTO_ATTESTATION = r"""python3 - @FIRST@ @LAST@ <<'EOF'
import base64, json, sys
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message

for n in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    with open("epoch-%d.dsse.json" % n) as file:
        payload = base64.b64decode(json.load(file)["payload"])
    Statement.copy_from_pb(json_format.Parse(payload, Message())).validate()
EOF
"""

PYMERKLE = r"""python3 - @LAST@ <<'EOF'
import base64, sys
from pymerkle import InmemoryTree

tree = InmemoryTree(algorithm="sha256")
for n in range(int(sys.argv[1]) + 1):
    with open("epoch-%d.jsonl" % n, "rb") as file:
        for line in file:
            tree.append_entry(line[:-1])
with open("checkpoint", encoding="utf-8") as file:
    sys.exit(tree.get_root() != base64.b64decode(file.read().split("\n")[2]))
EOF
"""

NODE = r"""check() { node - "$@" <<'EOF'
const { createPublicKey, verify } = require("node:crypto");
const { readFileSync } = require("node:fs");
const [first, last, pem] = process.argv.slice(2);
const key = createPublicKey(readFileSync(pem));
for (let n = Number(first); n <= Number(last); n++) {
  const [signed, sig] = ["pae.bin", "sig.raw"].map((form) => readFileSync(`epoch-${n}.${form}`));
  if (!verify(null, signed, key, sig)) throw new Error(`epoch-${n}: the signature does not hold`);
}
EOF
}
@CALLS@
"""

SIGSTORE = r"""check() { node - "$@" <<'EOF'
const { createHash, createPublicKey } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { bundleFromJSON } = require("@sigstore/bundle");
const { TrustedRoot } = require("@sigstore/protobuf-specs");
const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");
const [first, last, pem] = process.argv.slice(2);
const publicKey = createPublicKey(readFileSync(pem));
const trust = toTrustMaterial(TrustedRoot.fromJSON({}), () => ({ publicKey, validFor: () => true }));
// Without these three it wants entries of a public log.
const verifier = new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });
for (let n = Number(first); n <= Number(last); n++) {
  const bundle = bundleFromJSON(JSON.parse(readFileSync(`epoch-${n}.sigstore.json`)));
  verifier.verify(toSignedEntity(bundle));
  const statement = JSON.parse(bundle.content.dsseEnvelope.payload);
  const digest = createHash("sha256").update(readFileSync(`epoch-${n}.jsonl`)).digest("hex");
  if (statement.subject[0].digest.sha256 !== digest) throw new Error(`epoch-${n}: other records`);
}
EOF
}
@CALLS@
"""

JAVA = r"""check() { d=$(mktemp -d) && cat > "$d/Check.java" <<'EOF' && java "$d/Check.java" "$@"
import java.nio.file.*;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;

public class Check {
    public static void main(String[] given) throws Exception {
        String pem = Files.readString(Path.of(given[2])).replaceAll("-----[^-]+-----", "");
        byte[] der = Base64.getMimeDecoder().decode(pem);
        PublicKey key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(der));
        for (int n = Integer.parseInt(given[0]); n <= Integer.parseInt(given[1]); n++) {
            Signature check = Signature.getInstance("Ed25519");
            check.initVerify(key);
            check.update(Files.readAllBytes(Path.of("epoch-" + n + ".pae.bin")));
            if (!check.verify(Files.readAllBytes(Path.of("epoch-" + n + ".sig.raw")))) {
                throw new SignatureException("epoch-" + n + ": the signature does not hold");
            }
        }
    }
}
EOF
}
@CALLS@
"""

GO = r"""d=$(mktemp -d) && cat > "$d/main.go" <<'EOF' && (
package main

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	verifier, err := note.NewVerifier(string(bytes.TrimSpace(read("@VKEY@"))))
	need(err)
	opened, err := note.Open(read("checkpoint"), note.VerifierList(verifier))
	need(err)
	_, rest, _ := bytes.Cut([]byte(opened.Text), []byte("\n"))
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + string(rest)))
	need(err)
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			found[i] = stored[index]
		}
		return found, nil
	})
	index := int64(0)
	for n := 0; index < tree.N; n++ {
		for _, line := range bytes.SplitAfter(read(fmt.Sprintf("epoch-%d.jsonl", n)), []byte("\n")) {
			if len(line) > 0 {
				hashes, err := tlog.StoredHashes(index, bytes.TrimSuffix(line, []byte("\n")), reader)
				need(err)
				stored = append(stored, hashes...)
				index++
			}
		}
	}
	root, err := tlog.TreeHash(tree.N, reader)
	need(err)
	if root != tree.Hash {
		need(fmt.Errorf("the tree of the records has another root"))
	}
}

func read(name string) []byte {
	data, err := os.ReadFile(name)
	need(err)
	return data
}

func need(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
EOF
  cd "$d" && go mod init check && go get golang.org/x/mod@v0.43.0 && go build -o check . ) && "$d/check"
"""

COSIGN = r"""( for n in $(seq @FIRST@ @LAST@); do
  cosign verify-blob-attestation --key @PEM@ --bundle "epoch-$n.sigstore.json" --insecure-ignore-tlog \
    --type @PREDICATE@ "epoch-$n.jsonl" || exit 1
done )
"""

GO_DSSE = r"""d=$(mktemp -d) && cat > "$d/main.go" <<'EOF' && (
package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

type verifier struct {
	key ed25519.PublicKey
	id  string
}

func (v verifier) KeyID() (string, error)   { return v.id, nil }
func (v verifier) Public() crypto.PublicKey { return v.key }
func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(v.key, data, sig) {
		return errors.New("the signature does not hold")
	}
	return nil
}

func main() {
	first, err := strconv.Atoi(os.Args[1])
	need(err)
	last, err := strconv.Atoi(os.Args[2])
	need(err)
	text, err := os.ReadFile(os.Args[3])
	need(err)
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	need(err)
	for n := first; n <= last; n++ {
		data, err := os.ReadFile(fmt.Sprintf("epoch-%d.dsse.json", n))
		need(err)
		var envelope dsse.Envelope
		need(json.Unmarshal(data, &envelope))
		// The key id is not signed; this library wants the key to have the one that the envelope names.
		check, err := dsse.NewEnvelopeVerifier(verifier{parsed.(ed25519.PublicKey), envelope.Signatures[0].KeyID})
		need(err)
		_, err = check.Verify(context.Background(), &envelope)
		need(err)
	}
}

func need(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
EOF
  cd "$d" && go mod init check && go get github.com/secure-systems-lab/go-securesystemslib@v0.11.1 &&
    go build -o check .
) && check() { "$d/check" "$@"; } && @CALLS@
"""
