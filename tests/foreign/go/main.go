// Checks notes, tree proofs and envelopes with golang.org/x/mod and go-securesystemslib: a list of cases in, a list of answers out.
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

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Bytes travel as base64, as encoding/json does it.
type question struct {
	Check      string
	Note       []byte
	Vkey       string
	Records    [][]byte
	Record     []byte
	Index      int64
	Size       int64
	Root       []byte
	First      int64
	FirstRoot  []byte
	Proof      [][]byte
	Envelope   []byte
	PublicPem  string
	VerifierID string
}

type answer struct {
	Accepted bool
	Reason   string
	Value    []byte
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	answers := make([]answer, len(questions))
	for i, asked := range questions {
		value, err := check(asked)
		if err != nil {
			answers[i] = answer{Reason: err.Error()}
		} else {
			answers[i] = answer{Accepted: true, Value: value}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		os.Exit(2)
	}
}

func check(asked question) ([]byte, error) {
	switch asked.Check {
	case "note":
		return openNote(asked.Note, asked.Vkey)
	case "root":
		return root(asked.Records)
	case "inclusion":
		whole, err := hash(asked.Root)
		if err != nil {
			return nil, err
		}
		proof, err := hashes(asked.Proof)
		if err != nil {
			return nil, err
		}
		return nil, tlog.CheckRecord(proof, asked.Size, whole, asked.Index, tlog.RecordHash(asked.Record))
	case "consistency":
		return nil, consistency(asked)
	case "envelope":
		return envelope(asked)
	}
	return nil, errors.New("no such check")
}

func openNote(text []byte, vkey string) ([]byte, error) {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		return nil, err
	}
	return []byte(opened.Text), nil
}

func root(records [][]byte) ([]byte, error) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			found[i] = stored[index]
		}
		return found, nil
	})
	for i, record := range records {
		more, err := tlog.StoredHashes(int64(i), record, reader)
		if err != nil {
			return nil, err
		}
		stored = append(stored, more...)
	}
	whole, err := tlog.TreeHash(int64(len(records)), reader)
	return whole[:], err
}

func consistency(asked question) error {
	older, err := hash(asked.FirstRoot)
	if err != nil {
		return err
	}
	newer, err := hash(asked.Root)
	if err != nil {
		return err
	}
	proof, err := hashes(asked.Proof)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, asked.Size, newer, asked.First, older)
}

// An Ed25519 verifier with a key id of its own, or with none: then the library makes one from the key.
type verifier struct {
	public ed25519.PublicKey
	id     string
}

func (v verifier) Verify(_ context.Context, data, signature []byte) error {
	if !ed25519.Verify(v.public, data, signature) {
		return errors.New("signature does not hold")
	}
	return nil
}

func (v verifier) KeyID() (string, error)   { return v.id, nil }
func (v verifier) Public() crypto.PublicKey { return v.public }

func envelope(asked question) ([]byte, error) {
	block, _ := pem.Decode([]byte(asked.PublicPem))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	public, isEd25519 := parsed.(ed25519.PublicKey)
	if !isEd25519 {
		return nil, errors.New("not an Ed25519 key")
	}
	var given dsse.Envelope
	if err := json.Unmarshal(asked.Envelope, &given); err != nil {
		return nil, err
	}
	checker, err := dsse.NewEnvelopeVerifier(verifier{public, asked.VerifierID})
	if err != nil {
		return nil, err
	}
	_, payload, err := checker.VerifyAndDecode(context.Background(), &given)
	return payload, err
}

func hash(given []byte) (tlog.Hash, error) {
	if len(given) != tlog.HashSize {
		return tlog.Hash{}, errors.New("a hash is not 32 bytes")
	}
	return tlog.Hash(given), nil
}

func hashes(given [][]byte) ([]tlog.Hash, error) {
	made := make([]tlog.Hash, len(given))
	for i, one := range given {
		whole, err := hash(one)
		if err != nil {
			return nil, err
		}
		made[i] = whole
	}
	return made, nil
}
