//! Readiness: `GET /readyz`.

use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::App;
use super::reply::{Reply, json_reply};
use crate::gateway::{Detected, Gateway};
use crate::limits::upstream::CHECK_AGE;

/// The last check that found no upstream: when, and why none can be reached. Anyone may ask, without
/// a key and however often: upstreams that are away are not asked as often.
#[derive(Debug, Default)]
pub(super) struct Unreachable(Mutex<Option<(Instant, String)>>);

impl Unreachable {
    /// Whether any upstream can be reached.
    ///
    /// # Errors
    /// Why none can.
    async fn check(&self, gateway: &Gateway) -> Result<(), String> {
        if let Some((at, why)) = &*self.0.lock()
            && at.elapsed() < CHECK_AGE
        {
            return Err(why.clone());
        }
        let outcome = gateway.check_upstream().await.map_err(|failure| failure.message);
        *self.0.lock() = outcome.clone().err().map(|why| (Instant::now(), why));
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
    match app.unreachable.check(&app.gateway).await {
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
