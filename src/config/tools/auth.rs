//! `auth` of servers: how the gateway gets a token.

use serde::{Serialize, Serializer};
use url::Url;

use super::address::{range, ranges, web_as_written};
use super::shown::Shown;
use crate::config::Secret;
use crate::config::raw::Node;
use crate::config::reader::{Keys, text};
use crate::config::values::{choice, secret_text};
use crate::tools::oauth::{Algorithm, ClientCredentials, Proof, SigningKey};
use crate::tools::outbound::Cidr;

/// How the gateway is authorized by a server: client credentials.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename = "client_credentials")]
pub struct AuthConfig {
    /// Where tokens come from; MCP servers say so themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<Shown<Url>>,
    /// Who has to issue an MCP server's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Shown<Url>>,
    /// The client's id.
    pub client_id: String,
    /// Its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// Its private key, in PKCS #8 as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_pem: Option<Secret>,
    /// What the key signs with.
    #[serde(serialize_with = "algorithm_name")]
    pub signing_algorithm: Algorithm,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// Private addresses at which the authorization server may be.
    #[serde(serialize_with = "ranges")]
    pub allow_private: Vec<Cidr>,
}

impl AuthConfig {
    /// The credentials.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn credentials(&self) -> Result<ClientCredentials, String> {
        let proof = match (&self.client_secret, &self.private_key_pem) {
            (_, Some(pem)) => Proof::Key(SigningKey::read(pem.reveal(), self.signing_algorithm)?),
            (Some(secret), None) => Proof::Secret(secret.reveal().to_owned()),
            (None, None) => return Err("it has neither a secret nor a key".to_owned()),
        };
        let Self { client_id, scopes, issuer, allow_private, .. } = self.clone();
        let issuer = issuer.map(|issuer| issuer.reveal().clone());
        Ok(ClientCredentials { client_id, proof, scopes, issuer, allow_private })
    }
}

/// Reads the `auth` of an MCP server.
pub(super) fn of_mcp(mut keys: Keys<'_, '_>) -> AuthConfig {
    let message =
        "is not needed here: the server says where tokens come from; `issuer` limits that";
    keys.refuse_all(&["token_url"], message);
    let issuer = keys.read("issuer", None, web_as_written);
    read(keys, None, issuer)
}

/// Reads an `auth` that has to say where tokens come from.
pub(super) fn of_http(mut keys: Keys<'_, '_>) -> AuthConfig {
    keys.refuse_all(&["issuer"], "is for MCP servers: `token_url` says where tokens come from");
    let token_url = keys.required("token_url", None, web_as_written);
    read(keys, token_url, None)
}

fn read(
    mut keys: Keys<'_, '_>,
    token_url: Option<Shown<Url>>,
    issuer: Option<Shown<Url>>,
) -> AuthConfig {
    let kinds = &[("client_credentials", ())];
    keys.read("type", (), choice("type", kinds));
    let secret = |node: &Node| secret_text(node).map(Some);
    let one = |node: &Node| text(node).map(str::to_owned);
    let algorithm = choice("signing_algorithm", &Algorithm::ALL);
    let auth = AuthConfig {
        token_url,
        issuer,
        client_id: keys.required("client_id", String::new(), one),
        client_secret: keys.read("client_secret", None, secret),
        private_key_pem: keys.read("private_key_pem", None, secret),
        signing_algorithm: keys.read("signing_algorithm", Algorithm::Es256, algorithm),
        scopes: keys.list("scopes", Vec::new(), one),
        allow_private: keys.list("allow_private", Vec::new(), range),
    };
    if auth.client_secret.is_some() == auth.private_key_pem.is_some() {
        keys.refuse_whole("expected either `client_secret` or `private_key_pem`".to_owned());
    } else if let Err(reason) = auth.credentials() {
        keys.refuse("private_key_pem", reason);
    }
    keys.finish();
    auth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn algorithm_name<S: Serializer>(it: &Algorithm, serializer: S) -> Result<S::Ok, S::Error> {
    let named = Algorithm::ALL.iter().find(|(_, algorithm)| algorithm == it);
    serializer.serialize_str(named.map_or("", |(name, _)| name))
}
