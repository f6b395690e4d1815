//! Where a server's tokens come from (RFC 9728, RFC 8414, `OpenID` Connect Discovery).

use serde_json::Value;
use url::Url;

use super::Authorizer;
use crate::tools::oauth::TokenEndpoint;

/// What a server says when it refuses a request (`WWW-Authenticate`, RFC 9728 section 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    resource_metadata: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    pub(super) fn parse(header: &str) -> Self {
        let parameter = |name: &str| {
            let (_, after) = header.split_once(&format!("{name}=\""))?;
            let (value, _) = after.split_once('"')?;
            Some(value.to_owned())
        };
        Self { resource_metadata: parameter("resource_metadata"), scope: parameter("scope") }
    }
}

/// Finds out who issues tokens for a server.
///
/// # Errors
/// Why nobody was found.
pub(super) async fn token_endpoint(
    authorizer: &Authorizer,
    challenge: &Challenge,
) -> Result<TokenEndpoint, String> {
    let server = &authorizer.server;
    let metadata = resource_metadata(authorizer, challenge).await?;
    let text = |key: &str| metadata.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let resource = text("resource").unwrap_or_else(|| address(server));
    if !is_of_server(&resource, server) {
        return Err(format!("its metadata is for {resource}, not for this server"));
    }
    let list = |key: &str| metadata.as_ref()?.get(key)?.as_array().cloned();
    let issuer =
        list("authorization_servers").and_then(|all| all.first()?.as_str().map(str::to_owned));
    // Older servers are their own authorization servers.
    let issuer = issuer.unwrap_or_else(|| server.origin().ascii_serialization());
    // The client's secret goes to whoever it is.
    check_issuer(&issuer, authorizer.credentials.issuer.as_ref())?;
    let scopes = list("scopes_supported").unwrap_or_default();
    let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    let scope = (!scopes.is_empty()).then(|| scopes.join(" "));
    let scope = challenge.scope.clone().or(scope);
    let found = server_metadata(authorizer, &issuer).await?;
    let url = found.get("token_endpoint").and_then(Value::as_str);
    let url = url.and_then(|url| Url::parse(url).ok());
    let url = url.ok_or("the authorization server names no token_endpoint")?;
    let methods = found.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let takes_basic =
        methods.is_none_or(|methods| methods.iter().any(|it| it == "client_secret_basic"));
    Ok(TokenEndpoint { url, audience: issuer, takes_basic, resource: Some(resource), scope })
}

/// Checks that a server names the issuer that the operator expects, if there is one.
fn check_issuer(issuer: &str, expected: Option<&Url>) -> Result<(), String> {
    let Some(expected) = expected else { return Ok(()) };
    let is_same = Url::parse(issuer).is_ok_and(|issuer| {
        issuer.origin() == expected.origin()
            && issuer.path().trim_end_matches('/') == expected.path().trim_end_matches('/')
    });
    if is_same {
        return Ok(());
    }
    Err(format!("it wants its tokens from {issuer}, not from {expected}, which is its `issuer`"))
}

async fn resource_metadata(
    authorizer: &Authorizer,
    challenge: &Challenge,
) -> Result<Option<Value>, String> {
    let server = &authorizer.server;
    let named = challenge.resource_metadata.as_deref().and_then(|url| Url::parse(url).ok());
    let places = if let Some(named) = named {
        vec![named]
    } else {
        let path = server.path().trim_end_matches('/');
        let at = |path: &str| server.join(&format!("/.well-known/oauth-protected-resource{path}"));
        [at(path), at("")].into_iter().flatten().collect()
    };
    for place in places {
        if let Some(found) = authorizer.fetch(&place).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The metadata of an authorization server, which has to name itself.
async fn server_metadata(authorizer: &Authorizer, issuer: &str) -> Result<Value, String> {
    let url = Url::parse(issuer).map_err(|_| format!("{issuer} is not an authorization server"))?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let Ok(place) = url.join(&place) else { continue };
        let Some(found) = authorizer.fetch(&place).await? else { continue };
        let named = found.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if named.trim_end_matches('/') == issuer.trim_end_matches('/') {
            return Ok(found);
        }
        return Err(format!("the metadata of {issuer} names another issuer"));
    }
    Err(format!("{issuer} has no metadata"))
}

/// Whether a resource is the server or contains it.
fn is_of_server(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let path = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The server's address as the resource to ask a token for. Its query may be a key.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::oauth::{ClientCredentials, Proof};
    use crate::tools::outbound::tests::server::{Answer, Server};
    use crate::tools::outbound::{Addresses, Client, ClientOptions};

    /// Looks for who issues tokens for a server that answers with this metadata. `issuer` is the one that the operator
    /// expects.
    async fn found(metadata: &Value, issuer: Option<&str>) -> Result<TokenEndpoint, String> {
        let server = Server::once([Answer::json(&metadata.to_string())]).await;
        let here = vec!["127.0.0.1".parse().unwrap()];
        let credentials = ClientCredentials {
            client_id: "tether".to_owned(),
            proof: Proof::Secret("s3cret".to_owned()),
            scopes: Vec::new(),
            issuer: issuer.map(|issuer| issuer.parse().unwrap()),
            allow_private: here.clone(),
        };
        let own = Client::new(ClientOptions::new(Addresses::In(here)));
        let authorizer = Authorizer::new(credentials, server.url("/mcp").parse().unwrap(), own);
        token_endpoint(&authorizer, &Challenge::default()).await
    }

    /// An authorization server that says that it is this one.
    async fn authority(named: impl Fn(&str) -> String) -> Server {
        let server = Server::start_with(|url| {
            let metadata =
                json!({"issuer": named(url), "token_endpoint": "https://id.example/token"});
            vec![vec![Answer::json(&metadata.to_string())]]
        });
        server.await
    }

    #[tokio::test]
    async fn who_issues_tokens_is_who_the_server_names() {
        let authority = authority(str::to_owned).await;
        let metadata = json!({"authorization_servers": [authority.url("")]});
        let endpoint = found(&metadata, None).await.unwrap();
        assert_eq!(endpoint.url.as_str(), "https://id.example/token");
        assert_eq!(endpoint.audience, authority.url(""));
    }

    /// It may have been taken over, and would get the client's secret.
    #[tokio::test]
    async fn a_server_that_names_somebody_else_is_not_followed() {
        let authority = authority(str::to_owned).await;
        let servers = [authority.url("")];
        let another =
            json!({"resource": "https://b.example/mcp", "authorization_servers": servers});
        let error = found(&another, None).await.unwrap_err();
        assert!(error.contains("not for this server"), "{error}");
        let unexpected = json!({"authorization_servers": servers});
        let error = found(&unexpected, Some("https://id.example")).await.unwrap_err();
        assert!(error.contains("it wants its tokens from "), "{error}");
        assert_eq!(authority.connections(), 0);
    }

    /// What it says may be another server's, and so would the secret be (RFC 8414, section 3.3).
    #[tokio::test]
    async fn an_authorization_server_has_to_name_itself() {
        let authority = authority(|_| "https://b.example".to_owned()).await;
        let metadata = json!({"authorization_servers": [authority.url("")]});
        let error = found(&metadata, None).await.unwrap_err();
        assert!(error.contains("names another issuer"), "{error}");
        assert_eq!(authority.requests().len(), 1);
    }

    #[test]
    fn a_challenge_names_metadata_and_scope() {
        let header = r#"Bearer error="x", resource_metadata="https://a.example/m", scope="a b""#;
        assert_eq!(
            Challenge::parse(header),
            Challenge {
                resource_metadata: Some("https://a.example/m".to_owned()),
                scope: Some("a b".to_owned()),
            }
        );
        assert_eq!(Challenge::parse("Bearer"), Challenge::default());
    }

    #[test]
    fn the_secret_goes_to_the_expected_issuer_alone() {
        let expected = Url::parse("https://id.example/tenant").unwrap();
        for (issuer, is_expected) in [
            ("https://id.example/tenant", true),
            ("https://id.example:443/tenant/", true),
            ("https://id.example/other", false),
            ("https://id.example.evil.example/tenant", false),
            ("http://id.example/tenant", false),
            ("no address", false),
        ] {
            assert_eq!(check_issuer(issuer, Some(&expected)).is_ok(), is_expected, "{issuer}");
            assert!(check_issuer(issuer, None).is_ok());
        }
    }

    #[test]
    fn a_key_in_the_servers_address_is_for_the_server_alone() {
        let server = Url::parse("https://a.example/mcp/?api_key=S#end").unwrap();
        assert_eq!(address(&server), "https://a.example/mcp");
    }

    #[test]
    fn a_resource_is_the_server_or_contains_it() {
        let server = Url::parse("https://a.example/x/mcp").unwrap();
        for (resource, is_ours) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x/mcp/", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://a.example/x/m", false),
            ("https://a.example/y", false),
            ("https://b.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("mcp", false),
        ] {
            assert_eq!(is_of_server(resource, &server), is_ours, "{resource}");
        }
    }
}
