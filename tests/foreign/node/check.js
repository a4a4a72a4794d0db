// Checks exported files with Node's crypto, tweetnacl, @noble/ed25519 and @sigstore/verify: cases in, verdicts out.
"use strict";
const { createHash, createPublicKey, verify } = require("node:crypto");
const { readFileSync } = require("node:fs");
const path = require("node:path");

const rawKey = (pem) => createPublicKey(pem).export({ format: "der", type: "spki" }).subarray(-32);

const checks = {
  node: (one) => verify(null, one.read("pae.bin"), createPublicKey(one.pem), one.read("sig.raw")),
  tweetnacl: (one) =>
    require("tweetnacl").sign.detached.verify(
      new Uint8Array(one.read("pae.bin")), new Uint8Array(one.read("sig.raw")), new Uint8Array(rawKey(one.pem))),
  noble: async (one) => {
    const { verifyAsync } = await import(require.resolve("@noble/ed25519"));
    return verifyAsync(
      new Uint8Array(one.read("sig.raw")), new Uint8Array(one.read("pae.bin")), new Uint8Array(rawKey(one.pem)));
  },
  sigstore: (one) => {
    const { bundleFromJSON } = require("@sigstore/bundle");
    const { TrustedRoot } = require("@sigstore/protobuf-specs");
    const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");
    const bundle = bundleFromJSON(JSON.parse(one.read("sigstore.json")));
    const key = { publicKey: createPublicKey(one.pem), validFor: () => true };
    const trust = toTrustMaterial(TrustedRoot.fromJSON({}), () => key);
    const thresholds = one.thresholds ?? { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
    new Verifier(trust, thresholds).verify(toSignedEntity(bundle));
    const statement = JSON.parse(bundle.content.dsseEnvelope.payload);
    return statement.subject[0].digest.sha256 === createHash("sha256").update(one.read("jsonl")).digest("hex");
  },
};

async function main() {
  const verdicts = [];
  for (const one of JSON.parse(readFileSync(0))) {
    one.read = (form) => readFileSync(path.join(one.folder, `${one.stem}.${form}`));
    one.pem = readFileSync(path.join(one.folder, "pub.pem"));
    try {
      verdicts.push((await checks[one.check](one)) ? "accept" : "reject");
    } catch (error) {
      verdicts.push(error.message);
    }
  }
  process.stdout.write(JSON.stringify(verdicts));
}

main();
