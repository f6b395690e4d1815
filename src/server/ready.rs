//! Readiness: `GET /readyz`.

use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::App;
use super::reply::{Reply, json_reply};
use crate::gateway::{Detected, Gateway};
use crate::limits::upstream::CHECK_AGE;

/// Checks the upstreams. Anyone may ask whether they can be reached, without a key and however often:
/// once they are away, one question at a time reaches them, and its answer is kept for a while.
#[derive(Debug, Default)]
pub(super) struct UpstreamCheck {
    /// When the last check found no upstream, and why none can be reached.
    failed: parking_lot::Mutex<Option<(Instant, String)>>,
    /// Locked by a check while they are away.
    asking: tokio::sync::Mutex<()>,
}

impl UpstreamCheck {
    /// Whether any upstream can be reached.
    ///
    /// # Errors
    /// Why none can.
    async fn check(&self, gateway: &Gateway) -> Result<(), String> {
        if self.failed.lock().is_none() {
            return self.ask(gateway).await;
        }
        let _asking = self.asking.lock().await;
        if let Some((at, why)) = &*self.failed.lock()
            && at.elapsed() < CHECK_AGE
        {
            return Err(why.clone());
        }
        self.ask(gateway).await
    }

    async fn ask(&self, gateway: &Gateway) -> Result<(), String> {
        let outcome = gateway.check_upstream().await.map_err(|failure| failure.message);
        *self.failed.lock() = outcome.clone().err().map(|why| (Instant::now(), why));
        outcome
    }
}

/// Whether turns can be served, and how each upstream's model makes calls. Failures may show
/// addresses, so only clients with a key see the details.
pub(super) async fn ready(app: &App, headers: &HeaderMap) -> Reply {
    if app.gateway.is_draining() {
        let body = json!({ "status": "draining" });
        return json_reply(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    let may_see_why = || app.auth.check_key(headers).is_ok();
    if let Some(why) = app.gateway.awaited_source() {
        let mut body = json!({ "status": "tools_unavailable" });
        if may_see_why() {
            body["message"] = (*why).into();
        }
        return json_reply(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    if let Err(error) = app.gateway.check_store().await {
        let mut body = json!({ "status": "store_unavailable" });
        if may_see_why() {
            body["message"] = error.to_string().into();
        }
        return json_reply(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    match app.upstream_check.check(&app.gateway).await {
        Ok(()) => {
            let mut body = json!({ "status": "ready" });
            if may_see_why() {
                body["upstreams"] = app
                    .gateway
                    .upstreams()
                    .iter()
                    .map(|it| shown(it.name(), it.contract()))
                    .collect();
            }
            json_reply(StatusCode::OK, &body)
        }
        Err(why) => {
            let mut body = json!({ "status": "upstream_unreachable" });
            if may_see_why() {
                body["message"] = why.into();
            }
            json_reply(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

/// How an upstream's model makes calls, as far as is known.
fn shown(name: &str, known: Option<Detected>) -> Value {
    let (contract, reason) = known.map(|it| (it.contract.name(), it.reason)).unzip();
    json!({ "name": name, "call_contract": contract, "because": reason })
}
