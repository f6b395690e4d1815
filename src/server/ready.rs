//! Readiness: `GET /readyz`.

use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::App;
use super::reply::{Reply, json_reply};
use crate::gateway::Detected;

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
    match app.gateway.check_upstream().await {
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
        Err(failure) => {
            let mut body = json!({ "status": "upstream_unreachable" });
            if may_see_why() {
                body["message"] = failure.message.into();
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
