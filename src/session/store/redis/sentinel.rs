//! The primary that Sentinels watch over: asked for each time a connection is made, so a failover is followed.
//!
//! Source: Redis, "Guidelines for Redis clients with support for Redis Sentinel".

use std::time::Duration;

use futures::future::select_ok;
use redis::{Client, cmd};
use tokio::time::timeout;

use super::super::StoreError;
use super::cause::failed_at_sentinel;
use super::node::Node;

/// Asks all Sentinels at once. The first that knows the primary is believed; whoever connects there finds out
/// whether it still is one.
pub(super) async fn primary(
    sentinels: Vec<Client>,
    name: &str,
    limit: Duration,
) -> Result<Node, StoreError> {
    let asked = sentinels.into_iter().map(|sentinel| Box::pin(told_by(sentinel, name, limit)));
    match select_ok(asked).await {
        Ok((node, _)) => Ok(node),
        Err(StoreError::Unavailable(cause)) => {
            Err(StoreError::Unavailable(format!("no Sentinel knows its primary: {cause}")))
        }
        Err(error) => Err(error),
    }
}

async fn told_by(sentinel: Client, name: &str, limit: Duration) -> Result<Node, StoreError> {
    let ask = async {
        let mut connection = sentinel.get_multiplexed_async_connection().await?;
        let mut command = cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        command.query_async::<Option<(String, u16)>>(&mut connection).await
    };
    let silent = |_| StoreError::Unavailable(format!("no answer within {limit:?}"));
    let told = timeout(limit, ask).await.map_err(silent)?;
    let told = told.map_err(|error| failed_at_sentinel(&error))?;
    let unknown = || StoreError::Unavailable(format!("there is none with the name {name}"));
    told.map(|(host, port)| Node { host, port }).ok_or_else(unknown)
}
