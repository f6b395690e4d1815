//! Requests with `OPTIONS`, which the CORS layer answers by itself, always with 200. They count like any other.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::Either;
use hyper::{Method, Request, StatusCode};
use tower::{Layer, Service};

use crate::server::App;
use crate::server::admission::ConnectionGuard;
use crate::server::reply::Reply;
use crate::server::route::Route;
use crate::telemetry::metrics;

/// Counts the preflights of a connection, and refuses those that are too many.
#[derive(Clone)]
pub(super) struct Preflights {
    pub(super) app: Arc<App>,
    pub(super) guard: Arc<ConnectionGuard>,
}

/// The CORS layer, with what counts before it.
#[derive(Clone)]
pub(super) struct Counting<C> {
    preflights: Preflights,
    cors: C,
}

impl<C> Layer<C> for Preflights {
    type Service = Counting<C>;

    fn layer(&self, cors: C) -> Counting<C> {
        Counting { preflights: self.clone(), cors }
    }
}

impl<B, C> Service<Request<B>> for Counting<C>
where
    C: Service<Request<B>, Response = Reply, Error = Infallible>,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Either<C::Future, Ready<Result<Reply, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.cors.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() != Method::OPTIONS {
            return Either::Left(self.cors.call(request));
        }
        let Preflights { app, guard } = &self.preflights;
        let (mut request, body) = request.into_parts();
        request.extensions.insert(Arc::clone(guard));
        let route = Route::of(request.uri.path());
        let Err(refusal) = app.admission.count_request(&request) else {
            metrics::request(route.name(), StatusCode::OK.as_u16());
            return Either::Left(self.cors.call(Request::from_parts(request, body)));
        };
        let reply = refusal.into_reply(route.dialect(&app.dialects));
        metrics::request(route.name(), reply.status().as_u16());
        Either::Right(ready(Ok(reply)))
    }
}
