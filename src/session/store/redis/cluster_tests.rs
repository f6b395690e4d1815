//! What is different in a cluster. `store/tests.rs` has what every store must do.

#[path = "../../../../tests/support/redis_cluster.rs"]
pub(super) mod redis_cluster;

use std::sync::Weak;

use parking_lot::Mutex;

use super::tests::{RECORD, batch, documented_user, open_at, redis_server};
use super::*;
pub(crate) use redis_cluster::RedisCluster;

/// A cluster for all tests that run at the same time: starting one takes long.
pub(crate) fn shared() -> Arc<RedisCluster> {
    static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock();
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(RedisCluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// A store in it whose keys nobody else has.
pub(crate) fn open(cluster: &RedisCluster) -> RedisStore {
    open_with(cluster, |_| ())
}

pub(crate) fn open_with(
    cluster: &RedisCluster,
    change: impl FnOnce(&mut RedisOptions),
) -> RedisStore {
    open_at(&cluster.url(), |options| {
        options.prefix = format!("{}:", Uuid::new_v4().simple());
        change(options);
    })
}

/// A store that looks for the same keys.
fn another(store: &RedisStore, cluster: &RedisCluster) -> RedisStore {
    open_at(&cluster.url(), |options| options.prefix = store.keys.version().replace("version", ""))
}

fn artifact(id: &str) -> Artifact {
    let (owner, mime_type) = (String::new(), String::new());
    Artifact { owner, id: id.to_owned(), name: None, mime_type, bytes: RECORD }
}

#[tokio::test]
async fn sessions_are_on_all_servers_and_found_there() {
    let cluster = shared();
    let store = open(&cluster);
    store.check().await.unwrap();
    let ids: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
    let node = NodeId::random();
    let mut owners = Vec::new();
    for id in &ids {
        let lease = store.acquire(id, node).await.unwrap().unwrap();
        store.save(&lease, None, RECORD).await.unwrap();
        store
            .append(&lease, "t", LogNews { batches: vec![batch(1, 1)], journal: Some(RECORD) })
            .await
            .unwrap();
        store.keep_artifact(id, artifact(id)).await.unwrap();
        store.release(&lease).await.unwrap();
        owners.push(cluster.owner(&store.keys.of_session(id).session));
    }
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners, [0, 1, 2]);
    let listed: Vec<_> =
        store.list(None, 100).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(listed, ids);
    let mut left = store.interrupted(100).await.unwrap();
    left.sort_unstable();
    assert_eq!(left, ids);
    for id in &ids {
        assert!(store.artifact(id).await.unwrap().is_some());
        assert!(store.forget(id).await.unwrap());
        assert!(store.artifact(id).await.unwrap().is_none());
    }
    let report = store.examine().await.unwrap();
    assert_eq!((report.primaries, report.settings.len()), (Some(3), 3));
}

#[tokio::test]
async fn readers_wake_wherever_a_session_is() {
    let cluster = shared();
    let owner = open(&cluster);
    let other = another(&owner, &cluster);
    let node = NodeId::random();
    for id in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        let lease = owner.acquire(id, node).await.unwrap().unwrap();
        owner.save(&lease, None, RECORD).await.unwrap();
        let mut watch = other.watch(id, Watched::Log).await.unwrap();
        owner.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
        watch.changed().await;
        let mut watch = owner.watch(id, Watched::Owner).await.unwrap();
        assert_eq!(other.request_cancel(id, None).await, Ok(true));
        watch.changed().await;
    }
}

/// A session whose keys are on the move waits until they have arrived; its readers go with it.
#[tokio::test]
async fn a_session_moves_to_another_server_while_a_turn_runs() {
    let cluster = RedisCluster::start();
    let owner = open(&cluster);
    let other = another(&owner, &cluster);
    let lease = owner.acquire("s", NodeId::random()).await.unwrap().unwrap();
    owner.save(&lease, None, RECORD).await.unwrap();
    owner.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    let mut watch = other.watch("s", Watched::Log).await.unwrap();
    let session = owner.keys.of_session("s").session;
    let from = cluster.owner(&session);
    let to = (from + 1) % RedisCluster::PRIMARIES;

    let moving = cluster.begin_move(&session, to);
    // A session that begins in a moving slot begins there. Its id has the same tag.
    moving.keys(1);
    let append = owner.append(&lease, "t", vec![batch(2, 2)].into());
    let (appended, ()) = tokio::join!(append, async {
        // It is refused at least once before the rest arrives.
        let refused = |at: usize| cluster[at].command(&["INFO", "errorstats"]).contains("TRYAGAIN");
        while !refused(from) && !refused(to) {
            tokio::task::yield_now().await;
        }
        moving.finish();
    });
    appended.unwrap();
    assert_eq!(cluster.owner(&session), to);
    while other.read("s", None, 0).await.unwrap().unwrap().last < 2 {
        watch.changed().await;
    }
    owner.append(&lease, "t", vec![batch(3, 3)].into()).await.unwrap();
    while other.read("s", None, 0).await.unwrap().unwrap().last < 3 {
        watch.changed().await;
    }
    owner.renew(&lease).await.unwrap();
    let log = owner.read("s", Some("t"), 0).await.unwrap().unwrap();
    assert_eq!(log.batches, [batch(1, 1), batch(2, 2), batch(3, 3)]);
}

/// A slot whose keys have all moved, while the servers have not yet agreed that it is over.
#[tokio::test]
async fn a_server_sends_on_to_where_the_keys_are() {
    let cluster = RedisCluster::start();
    let store = open(&cluster);
    let id = "f00d";
    let key = store.keys.artifact(id);
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, RECORD).await.unwrap();
    store.keep_artifact("s", artifact(id)).await.unwrap();
    let moving = cluster.begin_move(&key, (cluster.owner(&key) + 1) % RedisCluster::PRIMARIES);
    moving.keys(10);
    assert!(store.artifact(id).await.unwrap().is_some());
    store.forget("s").await.unwrap();
    assert!(store.artifact(id).await.unwrap().is_none());
    moving.finish();
    store.acquire("s", NodeId::random()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cluster_that_lacks_a_server_says_so() {
    let mut cluster = RedisCluster::start();
    let wait = Duration::from_secs(1);
    let store = open_at(&cluster.url(), |options| options.wait = wait);
    store.check().await.unwrap();
    let session = |at: usize| {
        let mut ids = (0..).map(|number: u32| number.to_string());
        ids.find(|id| cluster.owner(&store.keys.of_session(id).session) == at).unwrap()
    };
    let (gone, left) = (session(1), session(0));
    cluster.kill(1);
    while cluster[0].command(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        tokio::task::yield_now().await;
    }
    for (id, expected) in [(&left, "its cluster is down"), (&gone, "nothing listens")] {
        let failed = store.load(id).await;
        let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
        assert!(cause.contains(expected), "{cause}");
    }
    cluster.run(1);
    while store.load(&gone).await.is_err() || store.load(&left).await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// Those that docs/configuration.md names.
#[tokio::test]
async fn a_user_with_the_documented_rights_can_use_a_cluster() {
    let cluster = RedisCluster::start();
    for at in 0..RedisCluster::PRIMARIES {
        cluster[at].command(&documented_user());
    }
    let address = RedisAddress::new(&cluster.url(), "tether", Some("PASSWORD")).unwrap();
    let store = open_at(&cluster.url(), |options| options.address = address);
    store.check().await.unwrap();
    store.examine().await.unwrap();
    store.list(None, 10).await.unwrap();
}

#[tokio::test]
async fn a_wrong_kind_of_address_is_explained() {
    let cluster = shared();
    let one = cluster.url().replace("+cluster", "");
    let server = redis_server::RedisServer::start_with(&["--port", &free_port()]);
    let Ok(port) =
        server.command(&["CONFIG", "GET", "port"]).lines().nth(4).unwrap().parse::<u16>()
    else {
        panic!("a port")
    };
    let no_cluster = format!("redis+cluster://127.0.0.1:{port}");
    for (url, expected) in [
        (one, "it is one server of a cluster; write `redis+cluster://`"),
        (no_cluster, "it is no cluster; write `redis://`"),
    ] {
        let failed = open_at(&url, |_| ()).check().await;
        let Err(StoreError::Unavailable(cause)) = failed else { panic!("{failed:?}") };
        assert!(cause.starts_with(expected), "{cause}");
    }
}

pub(super) fn free_port() -> String {
    redis_cluster::free_ports::<1>()[0].to_string()
}

#[tokio::test]
async fn keys_are_found_on_the_replica_of_a_server_that_died() {
    let mut cluster = RedisCluster::start();
    let owner = cluster.owner("{s}");
    cluster.replicate(owner);
    let store = open_with(&cluster, |options| {
        (options.lease, options.wait) = (Duration::from_secs(60), Duration::from_secs(40));
    });
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, RECORD).await.unwrap();
    store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
    let mut watch = store.watch("s", Watched::Log).await.unwrap();
    cluster.wait_for_replica(owner);
    cluster.kill(owner);
    store.append(&lease, "t", vec![batch(2, 2)].into()).await.unwrap();
    watch.changed().await;
    assert_eq!(store.read("s", None, 0).await.unwrap().unwrap().last, 2);
    store.save(&lease, Some(version), RECORD).await.unwrap();
    assert!(store.renew(&lease).await.is_ok());
}
