import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;

/** Checks Ed25519 signatures with the platform's own provider: triples of key (SPKI PEM), signed bytes, signature. */
final class VerifyRaw {
    private VerifyRaw() {}

    public static void main(String[] files) throws Exception {
        for (int at = 0; at < files.length; at += 3) {
            Signature check = Signature.getInstance("Ed25519");
            check.initVerify(key(Files.readString(Path.of(files[at]))));
            check.update(Files.readAllBytes(Path.of(files[at + 1])));
            boolean holds = check.verify(Files.readAllBytes(Path.of(files[at + 2])));
            System.out.println(holds ? "accepted" : "rejected");
        }
    }

    private static PublicKey key(String pem) throws Exception {
        String body = pem.replaceAll("-----[A-Z ]+-----", "").replaceAll("\\s", "");
        byte[] der = Base64.getDecoder().decode(body);
        return KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(der));
    }
}
