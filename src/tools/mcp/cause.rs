//! What went wrong between the gateway and a server: in words, and as the fault of a call.

use std::error::Error;

use jiff::Timestamp;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;

use super::http::{HttpError, why_unreadable};
use crate::error_chain::root_cause;
use crate::tools::ToolFault;
use crate::tools::oauth::SendError;

/// A failed handshake in words.
pub(super) fn told_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("it answered: {}", error.message),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ToString::to_string).collect();
            format!(
                "it speaks only versions of the protocol that the gateway does not know: {}",
                versions.join(", ")
            )
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => told_handshake(fallback),
        ClientInitializeError::TransportError { error, .. } => told_transport(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::Cancelled => "the gateway gave it up".to_owned(),
        // rmcp would print the whole answer.
        _ => "its answer is not one to the question".to_owned(),
    }
}

/// A failed request in words.
pub(super) fn told_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => told_transport(error),
        ServiceError::TransportClosed => "the connection was lost".to_owned(),
        error => root_cause(error),
    }
}

fn told_transport(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<HttpError>() {
        Some(error) => told_http(error),
        None => root_cause(&*error.error),
    }
}

fn told_http(error: &HttpError) -> String {
    if let Some(why) = why_unreadable(error) {
        return why;
    }
    match error {
        HttpError::AuthRequired(_) => {
            "it does not authorize the gateway (HTTP status 401); check `auth` and `headers`"
                .to_owned()
        }
        HttpError::InsufficientScope(_) => {
            "it does not allow the gateway this (HTTP status 403)".to_owned()
        }
        HttpError::Client(error) => error.to_string(),
        HttpError::HttpStatus(error) => format!("it answered with HTTP status {}", error.status),
        HttpError::UnexpectedServerResponse(told) => told.to_string(),
        HttpError::SessionExpired => "it no longer knows the session".to_owned(),
        HttpError::TransportChannelClosed => "the connection was lost".to_owned(),
        error => root_cause(error),
    }
}

/// The fault of a call whose request failed.
pub(super) fn fault(error: ServiceError) -> ToolFault {
    let error = match error {
        ServiceError::TransportSend(error) => error.error,
        error => return ToolFault::transient(told_request(&error)),
    };
    match error.downcast::<HttpError>() {
        Ok(error) => http_fault(*error),
        Err(error) => {
            let told = root_cause(&*error);
            ToolFault::transient(format!("the server cannot be reached: {told}"))
        }
    }
}

fn http_fault(error: HttpError) -> ToolFault {
    match error {
        HttpError::AuthRequired(_) | HttpError::InsufficientScope(_) => {
            ToolFault::permanent("not authorized by the server")
        }
        HttpError::Client(error) => error.into(),
        HttpError::HttpStatus(error) => {
            let retry_after = error.retry_after.as_deref();
            ToolFault::from_status("the server", error.status, retry_after, Timestamp::now())
        }
        HttpError::SessionExpired => {
            ToolFault::transient("the server no longer knows the session").before_sending()
        }
        HttpError::UnexpectedServerResponse(told) => ToolFault::permanent(told),
        HttpError::UnexpectedContentType(_) | HttpError::Deserialize(_) => {
            let told = told_http(&error);
            ToolFault::permanent(format!("the server's answer cannot be read: {told}"))
        }
        error => ToolFault::transient(told_http(&error)),
    }
}

/// Whether a server may be working on a request that could not be sent to its end. A status or any
/// other answer is the end of it.
pub(super) fn may_run(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(SendError::Outbound(error))) => !error.is_unsent(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use rmcp::transport::streamable_http_client::{AuthRequiredError, HttpStatusError};

    use super::*;
    use crate::tools::Delivery;
    use crate::tools::outbound::OutboundError;

    fn sent(error: HttpError) -> DynamicTransportError {
        DynamicTransportError::from_parts("tether::Type", TypeId::of::<()>(), Box::new(error))
    }

    fn refused(host: &str) -> HttpError {
        let source = std::io::ErrorKind::ConnectionRefused.into();
        HttpError::Client(SendError::Outbound(OutboundError::Connect { host: host.into(), source }))
    }

    #[test]
    fn only_a_status_says_that_a_call_is_not_authorized() {
        let challenge = AuthRequiredError::new("Bearer".to_owned());
        let found = fault(ServiceError::TransportSend(sent(HttpError::AuthRequired(challenge))));
        assert_eq!(found, ToolFault::permanent("not authorized by the server"));
        // A host's name says nothing.
        let found = fault(ServiceError::TransportSend(sent(refused("authorized.scope.example"))));
        assert!(found.transient && found.delivery == Delivery::Unsent, "{found:?}");
        let busy = HttpStatusError::new(503, Some("2".to_owned())).into();
        let found = fault(ServiceError::TransportSend(sent(busy)));
        assert_eq!((found.transient, found.delivery), (true, Delivery::Received));
        assert_eq!(found.retry_after.map(|wait| wait.as_secs()), Some(2));
    }

    #[test]
    fn a_server_may_run_a_request_whose_answer_broke_off() {
        let broken = OutboundError::Broken { host: "a".into(), reason: "reset".into() };
        assert!(may_run(&HttpError::Client(SendError::Outbound(broken))));
        let busy: HttpError = HttpStatusError::new(503, None).into();
        for answered in [busy, refused("a"), HttpError::SessionExpired] {
            assert!(!may_run(&answered), "{answered}");
        }
    }

    #[test]
    fn an_operator_reads_the_cause_and_no_names_of_types() {
        let error = sent(refused("mcp.example"));
        let context = "send initialize request".into();
        let told = told_handshake(&ClientInitializeError::TransportError { error, context });
        assert_eq!(told, "cannot connect to mcp.example: connection refused");
        assert!(!told_handshake(&ClientInitializeError::ExpectedInitResult(None)).contains("Init"));
    }
}
