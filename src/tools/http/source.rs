//! The tools of an `OpenAPI` document as a source.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, CONTENT_ENCODING};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use url::Url;

use super::openapi::{Document, OpenApiOptions, Operation, Select};
use super::{HttpOptions, HttpTool, ResultOptions};
use crate::http;
use crate::limits::http_tools::MEDIA_TYPE_BYTES_MAX;
use crate::limits::openapi::{
    DOCUMENT_BYTES_MAX, FETCH_BACKOFF_MAX, FETCH_BACKOFF_MIN, FETCH_TIMEOUT,
};
use crate::text::cut;
use crate::tools::Entry;
use crate::tools::keys::Keys;
use crate::tools::outbound::Client;
use crate::tools::source::{EntryRules, LeftOut, Offering, SourceReport, SourceState};

/// An entry that takes its tools from a document.
#[derive(Debug, Clone)]
pub struct OpenApiSource {
    /// How its tools are named and treated.
    pub rules: EntryRules,
    /// Which operations it uses, and how.
    pub options: OpenApiOptions,
    /// Sends the requests, and fetches the document.
    pub client: Client,
    /// The longest call, if not the usual one.
    pub timeout: Option<Duration>,
}

impl OpenApiSource {
    /// What it offers, given its document or why that could not be read.
    #[must_use]
    pub fn offering(&self, document: Result<&[u8], String>) -> Offering {
        let read = document.and_then(|bytes| {
            let document = Document::read(bytes).map_err(|error| error.to_string())?;
            let operations =
                document.operations(&self.options).map_err(|error| error.to_string())?;
            Ok((document, operations))
        });
        let source = self.rules.source.clone();
        let (document, operations) = match read {
            Ok(read) => read,
            Err(error) => {
                let failed = SourceReport::new(source, SourceState::Failed);
                let report = SourceReport { error: Some(error), ..failed };
                return Offering { report, tools: Vec::new() };
            }
        };
        let mut offering = Offering::ready(source, Vec::new(), operations.left_out);
        let rules = self.rules();
        for operation in operations.tools {
            let name = operation.declared.name.clone();
            match self.tool(&rules, operation) {
                Ok(tool) => offering.tools.push(tool),
                Err(reason) => offering.report.left_out.push(LeftOut { name, reason }),
            }
        }
        offering.report.version = Some(document.version().to_owned());
        offering.report.error = operations.warning;
        let names = offering.tools.iter().filter_map(|tool| tool.spec().source_name.as_deref());
        let names = names.chain(offering.report.left_out.iter().map(|tool| &*tool.name));
        let of_rules = self.rules.unmatched(&names.collect::<Vec<_>>());
        offering.report.unmatched = [operations.unmatched, of_rules].concat();
        offering
    }

    /// The rules, by which an operation that `include` names is allowed by name.
    fn rules(&self) -> EntryRules {
        let mut rules = self.rules.clone();
        rules.allow.extend(self.options.include.iter().filter_map(|select| match select {
            Select::Id(glob) => Some(glob.clone()),
            Select::Tag(_) | Select::Path(..) => None,
        }));
        rules
    }

    fn tool(&self, rules: &EntryRules, operation: Operation) -> Result<Entry, String> {
        let Operation { declared, request, bearer } = operation;
        let mut spec = rules.spec(declared)?;
        spec.policy.timeout = spec.policy.timeout.or(self.timeout);
        let (result, client) = (ResultOptions::default(), self.client.clone());
        let options = HttpOptions { request, bearer, result, client };
        let tool = HttpTool::new(spec, options);
        Entry::new(Arc::new(tool)).map_err(|error| error.to_string())
    }

    /// What is known before the document has been fetched.
    #[must_use]
    pub fn starting(&self) -> SourceReport {
        let starting = SourceReport::new(self.rules.source.clone(), SourceState::Starting);
        SourceReport { prefix: self.rules.prefix.clone(), ..starting }
    }

    /// Fetches the document until it can be used, and publishes what it offers. A server that is being
    /// maintained may answer with a page instead. **It must be called inside a runtime.**
    #[must_use]
    pub fn follow(self, url: Url) -> watch::Receiver<Offering> {
        let mut keys = Keys::default();
        keys.note_query(&url);
        let starting = Offering { report: self.starting(), tools: Vec::new() };
        let (sender, receiver) = watch::channel(starting);
        tokio::spawn(async move {
            let (source, mut pause) = (Arc::new(self), FETCH_BACKOFF_MIN);
            loop {
                let fetched = source.fetch(&url).await;
                let reader = Arc::clone(&source);
                // Reading a large document takes a second, and would block a worker.
                let offering = spawn_blocking(move || {
                    reader.offering(fetched.as_deref().map_err(Clone::clone))
                });
                let Ok(mut offering) = offering.await else { return };
                offering.report.error = offering.report.error.map(|error| keys.hidden(error));
                let is_usable = offering.report.state == SourceState::Ready;
                sender.send_replace(offering);
                if is_usable {
                    return;
                }
                tokio::select! {
                    () = sleep(pause) => {}
                    () = sender.closed() => return,
                }
                pause = (pause * 2).min(FETCH_BACKOFF_MAX);
            }
        });
        receiver
    }

    /// The document, which is public or on an address that the entry allows. No redirect is
    /// followed, whatever the entry says of its requests: the operator vouches for this address and
    /// for no other.
    async fn fetch(&self, url: &Url) -> Result<Bytes, String> {
        let request = Request::get(url.as_str())
            .header(ACCEPT, "application/json, application/yaml;q=0.9, */*;q=0.5")
            .body(Bytes::new())
            .map_err(|error| format!("cannot fetch the document: {error}"))?;
        let fetch = async {
            let response = self.client.without_redirects().send(request).await;
            let response = response.map_err(|error| error.to_string())?;
            let status = response.status();
            if status.is_redirection() {
                let status = status.as_u16();
                return Err(format!(
                    "HTTP status {status}, a redirect; write the address that it leads to"
                ));
            }
            if !status.is_success() {
                return Err(format!("HTTP status {}", status.as_u16()));
            }
            let codings = response.headers().get_all(CONTENT_ENCODING).iter();
            let codings = codings.map(|coding| coding.to_str().unwrap_or("?"));
            if let Some(coding) = http::unknown_coding(codings, "identity") {
                let coding = cut(coding, MEDIA_TYPE_BYTES_MAX);
                return Err(format!("the server compressed it ({coding}) unasked"));
            }
            let body = response.into_body().collect(DOCUMENT_BYTES_MAX).await;
            body.map_err(|error| error.to_string())
        };
        let fetched = timeout(FETCH_TIMEOUT, fetch).await;
        let fetched = fetched.unwrap_or_else(|_| Err("it took too long".to_owned()));
        fetched.map_err(|reason| format!("cannot fetch the document: {reason}"))
    }
}
