"""In-toto metadata over a set of files: a link that lists them and a layout that says who may, for ``in-toto-verify``.

Both are DSSE envelopes, so what is signed begins with ``DSSEv1 `` as everywhere else; in-toto's older form signs bare
JSON. They share the media type of bundles and are told apart by ``_type``: neither is a Statement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from provstore.errors import TrustError
from provstore.evidence import dsse, keys, public_forms

PAYLOAD_TYPE = "application/vnd.in-toto+json"
LAYOUT_FILE = "root.layout"
STEP = "export"
_INSPECTION = "unchanged"
# A layout must expire; the keys, and the trust in them, end earlier by other means.
EXPIRES = "2099-12-31T23:59:59Z"


def link_file(public: bytes) -> str:
    """Return the file name under which ``in-toto-verify`` looks for the link."""
    return f"{STEP}.{keyid(public)[:8]}.link"


def keyid(public: bytes) -> str:
    """Return the key id that in-toto computes for a key: hex digits."""
    return public_forms.FORMS["securesystemslib-id"](public).decode("ascii").strip()


def link(products: Mapping[str, str], signer: keys.Signer) -> bytes:
    """Return the signed link that lists ``products``.

    Args:
        products: SHA-256 in hex digits of each file, by name.
        signer: The key.
    """
    named = {name: {"sha256": digest} for name, digest in products.items()}
    return _signed(
        {
            "_type": "link",
            "name": STEP,
            "command": [],
            "materials": {},
            "products": named,
            "byproducts": {},
            "environment": {},
        },
        signer,
    )


def layout(products: Collection[str], beside: Collection[str], signer: keys.Signer, *, expires: str = EXPIRES) -> bytes:
    """Return the signed layout: the listed files must be there as the link states them, nothing else but ``beside``.

    ``in-toto-verify`` checks the files of the directory that it is run in, by an inspection whose command does nothing.

    Args:
        products: File names that the link lists.
        beside: Patterns of file names that may lie there too, such as the signatures themselves.
        signer: The key; the link must be signed by it as well.
        expires: When the layout stops being accepted, ISO 8601 UTC.
    """
    own = keyid(signer.public_key)
    step = {
        "_type": "step",
        "name": STEP,
        "expected_command": [],
        "expected_materials": [["DISALLOW", "*"]],
        "expected_products": [["REQUIRE", name] for name in sorted(products)] + [["ALLOW", "*"]],
        "pubkeys": [own],
        "threshold": 1,
    }
    inspection = {
        "_type": "inspection",
        "name": _INSPECTION,
        "run": ["true"],
        "expected_materials": [
            *(["REQUIRE", name] for name in sorted(products)),
            ["MATCH", "*", "WITH", "PRODUCTS", "FROM", STEP],
            *(["ALLOW", pattern] for pattern in sorted(beside)),
            ["DISALLOW", "*"],
        ],
        "expected_products": [],
    }
    key = {"keyid": own, "keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": signer.public_key.hex()}}
    return _signed(
        {
            "_type": "layout",
            "readme": "",
            "expires": expires,
            "keys": {own: key},
            "steps": [step],
            "inspect": [inspection],
        },
        signer,
    )


def products_of(envelope: bytes, public: bytes) -> dict[str, str]:
    """Return the digests by file name that a link states, once its signature holds.

    Raises:
        TrustError: It is no link, or not signed by this key.
    """
    found = dsse.parse(envelope)
    if found.payload_type != PAYLOAD_TYPE:
        raise TrustError("in-toto link: payload type: another one", code="envelope-malformed")
    (signature,) = found.signatures
    if not keys.is_signed(public, dsse.pae(found.payload_type, found.payload), signature.sig):
        raise TrustError("in-toto link: signature: does not hold for this key", code="bad-signature")
    stated = json.loads(found.payload)
    if not isinstance(stated, dict) or stated.get("_type") != "link" or stated.get("name") != STEP:
        raise TrustError("in-toto link: payload: not a link of this step", code="envelope-malformed")
    return {name: digests["sha256"] for name, digests in stated["products"].items()}


def _signed(stated: Mapping[str, object], signer: keys.Signer) -> bytes:
    payload = json.dumps(stated, sort_keys=True, separators=(",", ":")).encode("ascii")
    signature = keys.signed(signer, dsse.pae(PAYLOAD_TYPE, payload))
    named = dsse.Signature(keyid(signer.public_key), signature)
    return dsse.Envelope(payload, PAYLOAD_TYPE, (named,)).encode()
