//! Tools over HTTP, as a configuration describes them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::{OperatorTool, written_spec};
use crate::config::{
    AccessConfig, CredentialConfig, DocumentAt, HttpConfig, OpenApiConfig, RequestConfig,
};
use crate::limits::openapi::DOCUMENT_BYTES_MAX;
use crate::tools::http::openapi::{Credential, OpenApiOptions};
use crate::tools::http::{Bearer, HttpOptions, HttpTool, OpenApiSource};
use crate::tools::outbound::{Addresses, Client, ClientOptions};
use crate::tools::source::{EntryRules, LeftOut, Offering, SourceKind};
use crate::tools::{Entry, Source, Sources};

/// Adds the source of an entry.
pub(super) fn add(sources: &mut Sources, entry: &HttpConfig) {
    match entry {
        HttpConfig::Request(entry) => sources.push(request(entry)),
        HttpConfig::OpenApi(entry) => match &entry.openapi {
            DocumentAt::File(path) => {
                let document = read(path);
                let source = openapi(entry);
                sources.push(source.offering(document.as_deref().map_err(Clone::clone)));
            }
            DocumentAt::Web(url) => {
                let (source, url) = (openapi(entry), url.reveal().clone());
                sources.push_live(source.starting(), move || source.follow(url));
            }
        },
    }
}

/// What a request entry offers.
fn request(entry: &RequestConfig) -> Offering {
    let source = Source::entry(SourceKind::Http, entry.name.as_str());
    let tool = || {
        let request = entry.request().map_err(|mistakes| mistakes[0].to_string())?;
        let mut policy = entry.policy.apply(request.policy());
        policy.timeout = policy.timeout.or(entry.access.timeout);
        let RequestConfig { name, description, parameters, .. } = entry;
        let tool = OperatorTool { name, description, parameters };
        let spec = written_spec(&source, "asking", tool, policy)?;
        let (result, client) = (entry.result(), client(&entry.access));
        let options = HttpOptions { request, bearer: None, result, client };
        Entry::new(Arc::new(HttpTool::new(spec, options))).map_err(|error| error.to_string())
    };
    match tool() {
        Ok(tool) => Offering::ready(source, vec![tool], Vec::new()),
        Err(reason) => {
            let left_out = LeftOut { name: entry.name.clone(), reason };
            Offering::ready(source, Vec::new(), vec![left_out])
        }
    }
}

fn openapi(entry: &OpenApiConfig) -> OpenApiSource {
    let rules = EntryRules::new(Source::entry(SourceKind::Http, entry.name.as_str()));
    let prefix = entry.prefix.clone().unwrap_or_else(|| rules.prefix.clone());
    let credentials = entry.auth.iter().map(|(name, it)| (name.clone(), credential(it)));
    OpenApiSource {
        rules: EntryRules { prefix, policy: entry.policy.clone(), is_trusted: true, ..rules },
        options: OpenApiOptions {
            base_url: entry.base_url.reveal().clone(),
            include: entry.include.clone(),
            exclude: entry.exclude.clone(),
            credentials: credentials.collect(),
            idempotency_header: entry.access.idempotency_header.clone(),
        },
        client: client(&entry.access),
        timeout: entry.access.timeout,
    }
}

fn credential(config: &CredentialConfig) -> Credential {
    match config {
        CredentialConfig::Key(key) => Credential::Key(key.reveal().to_owned()),
        CredentialConfig::Client(config) => match (config.credentials(), &config.token_url) {
            (Ok(credentials), Some(url)) => {
                Credential::Client(Arc::new(Bearer::new(credentials, url.reveal().clone())))
            }
            _ => unreachable!("`config` only accepts credentials that can be used"),
        },
    }
}

fn client(access: &AccessConfig) -> Client {
    let addresses = Addresses::In(access.allow_private.clone());
    Client::new(ClientOptions { redirects_max: access.redirects, ..ClientOptions::new(addresses) })
}

/// Reads a document, up to one byte over the limit, so that its reader can refuse it.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot read {}: {error}", path.display());
    let mut bytes = Vec::new();
    let most = u64::try_from(DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(failed)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
