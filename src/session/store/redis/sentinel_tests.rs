//! What happens when another server becomes the primary.

#[path = "../../../../tests/support/redis_sentinel.rs"]
mod redis_sentinel;

use super::cluster_tests::redis_cluster;
use super::tests::{RECORD, batch, open_at, redis_server};
use super::*;
use redis_sentinel::RedisSentinel;

/// Asks again for as long as a turn would, like its log.
async fn in_time<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap()
}

#[tokio::test]
async fn a_lease_outlives_a_failover() {
    let servers = RedisSentinel::start();
    let store = open_at(&servers.url(), |options| options.lease = Duration::from_secs(60));
    store.check().await.unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    let mut watch = store.watch("s", Watched::Log).await.unwrap();
    servers.wait_for_replica();
    servers.fail_over();
    servers.wait_for_failover();
    in_time(async || store.append(&lease, "t", vec![batch(2, 2)].into()).await).await;
    assert_eq!(in_time(async || store.read("s", None, 0).await).await.unwrap().last, 2);
    // Once for the connection that is back, at the latest after that for what is new.
    watch.changed().await;
    let report = in_time(async || store.examine().await).await;
    assert_eq!(report.primaries, None);
}

#[tokio::test]
async fn a_killed_primary_is_replaced() {
    let mut servers = RedisSentinel::start();
    let store = open_at(&servers.url(), |options| options.lease = Duration::from_secs(60));
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    servers.wait_for_replica();
    servers.kill_primary();
    let failed = store.load("s").await;
    let Err(StoreError::Unavailable(_)) = failed else { panic!("{failed:?}") };
    in_time(async || store.append(&lease, "t", vec![batch(1, 1)].into()).await).await;
    let mut watch = in_time(async || store.watch("s", Watched::Owner).await).await;
    assert!(in_time(async || store.request_cancel("s", None).await).await);
    watch.changed().await;
}

#[tokio::test]
async fn sentinels_have_a_login_of_their_own() {
    // The first is what `requirepass` does.
    for (user, name) in [("default", ""), ("tether", "tether")] {
        let servers = RedisSentinel::start();
        servers.require_login(user, "SECRET");
        let logged_in = |password| {
            let address = RedisAddress::new(&servers.url(), "", None).unwrap();
            let address = address.with_sentinel_login(name, password);
            open_at(&servers.url(), |options| options.address = address)
        };
        logged_in(Some("SECRET")).check().await.unwrap();
        for (password, cause) in
            [(None, "it wants a password"), (Some("x"), "the user or the password is wrong")]
        {
            let failed = logged_in(password).check().await;
            let Err(StoreError::Unavailable(failed)) = failed else { panic!("{failed:?}") };
            let cause = format!("no Sentinel knows its primary: {cause}");
            assert!(failed.starts_with(&cause), "{failed}");
            assert!(failed.ends_with("(`sessions.redis.sentinel_password`)"), "{failed}");
        }
    }
}

#[tokio::test]
async fn an_unknown_primary_is_explained() {
    let servers = RedisSentinel::start();
    let port = redis_cluster::free_ports::<1>()[0];
    for (url, expected) in [
        (servers.url().replace("/main", "/other"), "there is none with the name other"),
        (format!("redis+sentinel://127.0.0.1:{port}/main"), "nothing listens at its address"),
    ] {
        let failed = open_at(&url, |_| ()).check().await;
        let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
        let expected = format!("no Sentinel knows its primary: {expected}");
        assert!(cause.starts_with(&expected), "{cause}");
    }
}
