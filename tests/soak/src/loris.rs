//! Clients that send a byte a second: heads and bodies that never end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::connection::{Connection, Read};
use crate::world::World;

/// How long the gateway waits for a head, and for a body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
/// How much later it may close the connection on a busy machine.
const SLACK: Duration = Duration::from_secs(10);
/// The pause between two bytes.
const PAUSE: Duration = Duration::from_secs(1);

const HEAD: &[u8] = b"POST /api/v1/chat/stream HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
const BODY: &[u8] = b"POST /api/v1/chat/stream HTTP/1.1\r\nHost: localhost\r\n\
    Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"prompt\":\"";

/// Sends requests slowly, one after another, until the phase is over.
pub(crate) async fn run(world: Arc<World>, number: u64) {
    let (start, timeout) =
        if number.is_multiple_of(2) { (HEAD, HEAD_TIMEOUT) } else { (BODY, BODY_TIMEOUT) };
    while Instant::now() < world.stops_at() {
        let began = Instant::now();
        let Ok(mut connection) = Connection::open(world.gateway, number, false).await else {
            world.tally.unconnected.one();
            sleep_until(began + PAUSE).await;
            continue;
        };
        world.tally.loris.one();
        if connection.send(start).await.is_ok() {
            send_slowly(&mut connection, &world).await;
        }
        if began.elapsed() > timeout + SLACK {
            world.tally.loris_kept.one();
        }
        // One that is closed at once must not come back in a loop.
        sleep_until(began + PAUSE).await;
    }
}

/// Sends a byte after another until the gateway has had enough, or the phase is over.
async fn send_slowly(connection: &mut Connection, world: &World) {
    let mut due = std::pin::pin!(sleep_until(Instant::now() + PAUSE));
    while Instant::now() < world.stops_at() {
        match connection.read(due.as_mut(), |_| ()).await {
            Read::Due if connection.send(b"x").await.is_ok() => {
                due.as_mut().reset(Instant::now() + PAUSE);
            }
            _ => return,
        }
    }
}
