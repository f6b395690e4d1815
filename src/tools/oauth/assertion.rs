//! Signed statements by which a client proves its identity (RFC 7523, section 2.2).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use crate::limits::oauth::ASSERTION_LIFE;

/// How a statement is signed (RFC 7518, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA with P-256.
    Es256,
    /// ECDSA with P-384.
    Es384,
    /// RSA PKCS #1.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them, with their names.
    pub const ALL: [(&str, Self); 4] = [
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("RS256", Self::Rs256),
        ("EdDSA", Self::EdDsa),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, algorithm)| *algorithm == self).map_or("", |(name, _)| name)
    }
}

/// A private key that signs statements.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: Algorithm,
    key: Arc<Key>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

enum Key {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads a key in PKCS #8, as PEM (RFC 7468).
    ///
    /// # Errors
    /// What is wrong with it, without the key itself.
    pub fn read(pem: &str, algorithm: Algorithm) -> Result<Self, String> {
        let body: String =
            pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
        if pem.contains("BEGIN EC PRIVATE KEY") || pem.contains("BEGIN RSA PRIVATE KEY") {
            return Err("the key must be in PKCS #8; `openssl pkcs8 -topk8 -nocrypt` converts it"
                .to_owned());
        }
        let der = BASE64_STANDARD.decode(body).map_err(|_| "the key is not PEM".to_owned())?;
        let random = SystemRandom::new();
        let ecdsa = |kind| EcdsaKeyPair::from_pkcs8(kind, &der, &random).map(Key::Ecdsa);
        let key = match algorithm {
            Algorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::Rs256 => RsaKeyPair::from_pkcs8(&der).map(|key| Key::Rsa(Box::new(key))),
            Algorithm::EdDsa => Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Key::Ed25519),
        };
        let key =
            key.map_err(|error| format!("the key cannot sign with {}: {error}", algorithm.name()))?;
        Ok(Self { algorithm, key: Arc::new(key) })
    }

    /// A statement of this client for this audience, the authorization server.
    pub(super) fn assertion(&self, client_id: &str, audience: &str) -> Result<String, String> {
        let encode = |json: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
        let now = Timestamp::now().as_second();
        let life = i64::try_from(ASSERTION_LIFE.as_secs()).unwrap_or_default();
        let header = encode(json!({ "alg": self.algorithm.name(), "typ": "JWT" }));
        let claims = encode(json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": uuid::Uuid::new_v4().to_string(),
            "iat": now,
            "exp": now + life,
        }));
        let signed = format!("{header}.{claims}");
        let signature = self.sign(signed.as_bytes())?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "signing with the key failed".to_owned();
        let random = SystemRandom::new();
        match &*self.key {
            Key::Ecdsa(key) => {
                key.sign(&random, message).map(|it| it.as_ref().to_vec()).map_err(failed)
            }
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Key::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, KeyPair as _, UnparsedPublicKey};

    use super::*;

    /// A new key of this kind, in PEM.
    fn new_key(kind: &'static SignatureAlgorithm) -> String {
        rcgen::KeyPair::generate_for(kind).unwrap().serialize_pem()
    }

    #[test]
    fn a_statement_is_signed_by_the_key() {
        let key = SigningKey::read(&new_key(&PKCS_ECDSA_P256_SHA256), Algorithm::Es256).unwrap();
        let token = key.assertion("me", "https://issuer.example").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        let Key::Ecdsa(pair) = &*key.key else { panic!() };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key())
            .verify(signed.as_bytes(), &signature)
            .unwrap();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(signed.split('.').nth(1).unwrap()).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(
            (&claims["iss"], &claims["aud"]),
            (&json!("me"), &json!("https://issuer.example"))
        );

        let key = SigningKey::read(&new_key(&PKCS_ED25519), Algorithm::EdDsa).unwrap();
        let Key::Ed25519(pair) = &*key.key else { panic!() };
        let signature = key.sign(b"x").unwrap();
        UnparsedPublicKey::new(&ED25519, pair.public_key()).verify(b"x", &signature).unwrap();
    }

    #[test]
    fn a_key_of_another_kind_is_refused() {
        let key = new_key(&PKCS_ED25519);
        for algorithm in [Algorithm::Es256, Algorithm::Es384, Algorithm::Rs256] {
            assert!(SigningKey::read(&key, algorithm).is_err(), "{algorithm:?}");
        }
        assert!(SigningKey::read("no key", Algorithm::EdDsa).unwrap_err().contains("not PEM"));
        let old = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----";
        assert!(SigningKey::read(old, Algorithm::Es256).unwrap_err().contains("pkcs8"));
    }
}
